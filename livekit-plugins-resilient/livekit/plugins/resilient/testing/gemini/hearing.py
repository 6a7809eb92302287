"""What the simulated Gemini hears of its caller, and says of it: activity and captions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing.audio import SpeechDetector, SpeechStarted
from livekit.plugins.resilient.testing.recording import Frame

from .codec import duration_text, input_rate
from .session import HistoryEntry

if TYPE_CHECKING:
    from .connection import GeminiConnection

_AUDIO_GRACE_S = (
    0.25  # microphone frames in flight when a tool is called are not the client's fault
)
NOT_IMPLEMENTED = "Operation is not implemented, or supported, or enabled."


class Hearing:
    """The caller's turns on one connection, by energy or, with detection off, by the client.

    Attributes:
        speaking: the caller is heard.
        manual: the client says when the caller speaks.
        interruptible: a caller who is heard cuts the model's turn.
    """

    def __init__(self, connection: GeminiConnection) -> None:
        self.connection = connection
        self.speaking = False
        self.manual = False
        self.interruptible = True
        self._detector: SpeechDetector | None = None
        self._from_s = 0.0

    async def hear(self, frame: Frame) -> None:
        """Take microphone audio."""
        connection = self.connection
        if connection.server.refuse_audio_during_call and self._call_is_old():
            connection.close(1008, NOT_IMPLEMENTED)
            return
        if self.manual:
            return
        rate = input_rate(frame.message)
        if self._detector is None or self._detector.rate != rate:
            threshold = connection.server.speech_threshold
            self._detector = SpeechDetector(rate, stop_s=self._silence_s(), threshold=threshold)
        for edge in self._detector.feed(frame.audio):
            if connection.closing:
                return
            if isinstance(edge, SpeechStarted):
                self._from_s = edge.at_s
                self._tell("ACTIVITY_START", edge.at_s)
                await self._starts()
            else:
                await self._stops(edge.at_s - self._from_s, at_s=edge.at_s)

    async def begin(self) -> None:
        """The client says that the caller begins to speak."""
        if self.connection.server.strict and not self.manual:
            self.connection.refuse()
        elif not self.speaking:
            await self._starts()

    async def end(self) -> None:
        """The client says that the caller is through."""
        if self.speaking and self.manual:
            await self._stops()
        elif self.connection.server.strict:
            self.connection.refuse("No turn to complete")

    async def stream_end(self) -> None:
        """The microphone is off: what was begun is over."""
        if self._detector is not None and self._detector.end() is not None:
            await self._stops()

    async def _starts(self) -> None:
        connection = self.connection
        self.speaking = True
        await connection.user_started()
        if not connection.closing and self.interruptible:
            connection.interrupt()
            connection.tools.cancel(blocking_only=True)

    async def _stops(self, seconds: float = 0.0, *, at_s: float | None = None) -> None:
        connection = self.connection
        self.speaking = False
        await connection.user_stopped()
        if connection.closing:
            return
        text = connection.server.script.next_user_text()
        connection.learn(HistoryEntry("user", "speech", text, connection.number, audio_s=seconds))
        self._caption(text)
        if at_s is not None:
            self._tell("ACTIVITY_END", at_s)
        connection.ask(connection.request("speech", text))

    def _tell(self, kind: str, at_s: float) -> None:
        """Say that the caller was heard to begin or end, in a family that does."""
        how = self.connection.server.dialect.voice_activity
        if how is None:
            return
        message = {"voiceActivity": {"type": kind, "audioOffset": duration_text(at_s)}}
        content: dict[str, Any] = {"serverContent": {}} if how == "with_content" else {}
        self.connection.emit("voiceActivity", content | message)

    def _caption(self, text: str) -> None:
        connection = self.connection
        words = [f" {word}" for word in text.split()]
        # A noise has no words.
        if not words or "inputAudioTranscription" not in connection.require_session().setup:
            return
        in_pieces = connection.server.dialect.caller_caption == "pieces"
        for piece in words if in_pieces else ["".join(words)]:
            caption = {"inputTranscription": {"text": piece}}
            connection.emit("inputTranscription", {"serverContent": caption})

    def _silence_s(self) -> float:
        """Quiet after which the user's turn is over: from set-up, else the server's default."""
        config = self.connection.require_session().setup.get("realtimeInputConfig") or {}
        detection = config.get("automaticActivityDetection") or {}
        milliseconds = detection.get("silenceDurationMs")
        default_s = self.connection.server.silence_s
        return default_s if milliseconds is None else float(milliseconds) / 1000

    def _call_is_old(self) -> bool:
        calls = self.connection.require_session().open_calls.values()
        now = self.connection.loop.time()
        return any(call.blocking and now - call.called_at > _AUDIO_GRACE_S for call in calls)
