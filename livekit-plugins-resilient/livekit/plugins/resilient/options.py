"""`ResilienceOptions`: the one keyword that our models add to upstream's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .errors import OptionError
from .events import ResilienceEvent

__all__ = ["ResilienceOptions"]


@dataclass(frozen=True, kw_only=True)
class ResilienceOptions:
    """How a call is kept alive. Every field has a default; the defaults are the product.

    Attributes:
        on_event: Called with every event of `livekit.plugins.resilient.events`, on the event
            loop; an exception it raises is logged and ignored.
        speech_rate_cps: Characters per second by which an agent's transcript is matched to the
            audio that arrived, where the provider sends no times of its own. Above 0. The
            default of 15 is 150 words per minute at six characters a word, a slow speaker:
            erring low leaves out a heard word rather than recording an unheard one.

    Raises:
        OptionError: A field has a value outside its range.
    """

    on_event: Callable[[ResilienceEvent], None] | None = None
    speech_rate_cps: float = 15.0

    def __post_init__(self) -> None:
        if self.on_event is not None and not callable(self.on_event):
            raise OptionError("on_event", self.on_event, "a callable or None")
        if not self.speech_rate_cps > 0:
            raise OptionError("speech_rate_cps", self.speech_rate_cps, "a number above 0")
