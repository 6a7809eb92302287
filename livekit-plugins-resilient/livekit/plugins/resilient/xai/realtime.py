"""xAI Grok Voice: the public model, driven by the OpenAI driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livekit.plugins.xai import realtime as _upstream

from .._vendor.xai import realtime_model as _impl
from ..openai.caps import Host
from ..openai.realtime import RealtimeModel as _OpenAIModel
from ..openai.realtime import RealtimeSession as _OpenAISession
from ..upstream_classes import hide_newer

if TYPE_CHECKING:
    from livekit.plugins.xai.realtime import (
        FileSearch,
        GrokVoices,
        TurnDetection,
        WebSearch,
        XSearch,
    )

    from ..options import ResilienceOptions

__all__ = [
    "FileSearch",
    "GrokVoices",
    "RealtimeModel",
    "RealtimeSession",
    "TurnDetection",
    "WebSearch",
    "XSearch",
]


def __getattr__(name: str) -> Any:
    # What is not replaced here is upstream's own.
    return getattr(_upstream, name)


@hide_newer
class RealtimeModel(_impl.RealtimeModel, _OpenAIModel, _upstream.RealtimeModel):  # type: ignore[misc]
    """xAI Grok Voice, as `livekit.plugins.xai.realtime.RealtimeModel`, kept alive over drops.

    Takes every keyword of upstream's model with the same meaning, and `resilience`, a
    `ResilienceOptions`. Pass it to `AgentSession(llm=...)` or to
    `llm.RealtimeModelFallbackAdapter`.

    Raises:
        OptionError: `resilience` is not a `ResilienceOptions`.
        ValueError: Upstream refuses a keyword, for example a missing API key.
    """

    _resilience: ResilienceOptions

    def session(self, *, turn_detection_disabled: bool = False) -> RealtimeSession:
        """Open a session; must be called inside a running event loop.

        Turn detection stays as it is, as with upstream's model.
        """
        session = RealtimeSession(self)
        self._sessions.add(session)
        return session


class _DetectsTurns(_impl.RealtimeSession):
    """Takes the keyword that the OpenAI driver passes on and xAI's session does not have."""

    def __init__(
        self, realtime_model: RealtimeModel, *, turn_detection_disabled: bool = False
    ) -> None:
        super().__init__(realtime_model)


@hide_newer
class RealtimeSession(_OpenAISession, _DetectsTurns, _upstream.RealtimeSession):  # type: ignore[misc]
    """One conversation with xAI Grok Voice over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, besides upstream's.
    """

    def _host(self) -> Host:
        return Host(self._opts.model, xai=True)
