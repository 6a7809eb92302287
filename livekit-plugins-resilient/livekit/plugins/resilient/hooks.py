"""What patched upstream lines call. Nothing here decides; each hook asks the session's driver.

Imported by the vendored modules, so it must not import them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from livekit.agents.types import NOT_GIVEN, NotGivenOr

from .errors import OptionError
from .options import ResilienceOptions

__all__ = [
    "ResilienceOptions",
    "adopt_options",
    "duration_of",
    "options_of",
    "received",
    "reply_timeout",
    "sent",
]


class _Timeout(Protocol):
    def cancel(self) -> None: ...


class _Model(Protocol):
    _resilience: ResilienceOptions
    _given_duration: NotGivenOr[float | None]


class _GoogleDriver(Protocol):
    def _received(self, message: object) -> None: ...
    def _sent(self, message: object) -> None: ...


class _Driver(Protocol):
    def _reply_timeout(self, on_due: Callable[[], None]) -> _Timeout: ...


def adopt_options(
    model: _Model,
    resilience: ResilienceOptions | None,
    max_session_duration: NotGivenOr[float | None] = NOT_GIVEN,
) -> None:
    """Keep the caller's options on the model; called first thing in its constructor.

    Upstream forgets whether a duration was given or is its own default.
    """
    if resilience is not None and not isinstance(resilience, ResilienceOptions):
        raise OptionError("resilience", resilience, "a ResilienceOptions or None")
    model._resilience = resilience or ResilienceOptions()
    model._given_duration = max_session_duration


def options_of(model: object) -> ResilienceOptions:
    """The options that `adopt_options` kept on a model."""
    return cast("_Model", model)._resilience


def duration_of(model: object) -> NotGivenOr[float | None]:
    """The caller's `max_session_duration`, if any, that `adopt_options` kept on a model."""
    return cast("_Model", model)._given_duration


def received(session: _GoogleDriver, message: object) -> None:
    """Called with every server message before upstream handles what is left in it."""
    session._received(message)


def sent(session: _GoogleDriver, message: object) -> None:
    """Called with every client message once it was sent."""
    session._sent(message)


def reply_timeout(session: _Driver, on_due: Callable[[], None]) -> _Timeout:
    """Starts the time-out of a requested reply; upstream cancels it when the reply begins."""
    return session._reply_timeout(on_due)
