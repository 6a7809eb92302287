"""xAI Grok Voice: the public model, driven by the OpenAI driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livekit.plugins.xai import realtime as _upstream

from .._vendor.xai import realtime_model as _impl
from ..openai.caps import Host
from ..openai.outbound import says_line
from ..openai.realtime import RealtimeModel as _OpenAIModel
from ..openai.realtime import RealtimeSession as _OpenAISession
from ..upstream_classes import hide_newer
from .engine import SayEngine
from .say import SayRequests, rest_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from livekit.plugins.xai.realtime import (
        FileSearch,
        GrokVoices,
        TurnDetection,
        WebSearch,
        XSearch,
    )

    from ..openai.engine import ReplyFuture
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

    _provider = "xai"
    _requests: SayRequests

    def __init__(
        self, realtime_model: RealtimeModel, *, turn_detection_disabled: bool = False
    ) -> None:
        self._left_to_say = ""
        super().__init__(realtime_model)

    async def aclose(self) -> None:
        """As OpenAI's; lines that were not begun are withdrawn, as upstream does."""
        await self._requests.withdraw_lines()
        await super().aclose()

    def say(self, text: str | AsyncIterable[str]) -> ReplyFuture:
        """As upstream's; a line that a drop catches is said on the next connection, with the same
        future, and of one that a drop cuts, the rest."""
        return self._requests.say(text)

    def _host(self) -> Host:
        return Host(self._opts.model, xai=True)

    def _make_requests(self) -> SayRequests:
        return SayRequests(engine=SayEngine(self), driver=self._driver, serving=self._serving)

    def _client_event(self, event: dict[str, Any]) -> None:
        super()._client_event(event)
        if says_line(event):
            self._requests.sent(event)

    def _server_event(self, event: dict[str, Any]) -> None:
        created = event.get("type") == "response.created"
        super()._server_event(self._requests.named(event) if created else event)

    # -- what the driver decides

    def words_of(self, generation_id: str, audio_s: float) -> str:
        heard = super().words_of(generation_id, audio_s)
        line = self._requests.words_of(generation_id)
        self._left_to_say = rest_of(line, heard) if line else ""
        return heard

    def redrive(self, redrive_id: str, instructions: str) -> None:
        """As OpenAI's; the rest of a line is said as it was given, and not left to the model."""
        left, self._left_to_say = self._left_to_say, ""
        if left:
            self.send_event(self._requests.saying_on(redrive_id, left))
        else:
            super().redrive(redrive_id, instructions)
