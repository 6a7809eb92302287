"""What arrived of each reply, and what the model can know of the turn, as facts for the driver."""

from __future__ import annotations

from google.genai import types

from .._vendor.google import realtime_api as _impl
from ..core import facts as f
from ..core.limits import COVERAGE_GRACE_S
from ..core.playout import ReplyProgress, TranscriptDelta
from ..driver import Driver

__all__ = ["TurnLog"]

# Replies whose words a re-drive may still need: the one that was cut, and those still playing.
_REMEMBERED_REPLIES = 8


class TurnLog:
    """Follows the replies of one session; feeds its driver.

    Call `opened` for each generation before `received`, `asked` when the model was sent something
    to answer, and `handle_came` for each resumption handle.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._progress: dict[str, ReplyProgress] = {}
        # When what is to be answered reached the model.
        self._asked_at = float("-inf")
        self._pong_at = float("-inf")
        self.understood_at = float("-inf")
        """When the server last showed that it had taken what it was told: by words or audio."""
        self._transcribed: tuple[str, float] | None = None
        self._complete: str | None = None
        self._played_s: dict[str, float] = {}
        self.interrupted: str | None = None
        """The reply that was interrupted last."""
        self.handle_at: float | None = None
        """When the newest handle came."""
        self.ended_at: float | None = None
        """When the last turn was over."""

    def asked(self) -> None:
        """The model was sent something to answer."""
        self._asked_at = self._driver.now

    def handle_came(self) -> None:
        """The server issued a handle that can be resumed."""
        self.handle_at = self._driver.now

    def handle_lost(self) -> None:
        """There is no handle any more."""
        self.handle_at = None

    def pong_came(self) -> None:
        """The server answered a ping."""
        self._pong_at = self._driver.now
        self._driver.feed(f.PongArrived(self._pong_at))

    def connected(self, *, suspected: bool, answers: bool) -> f.Connected:
        """A connection serves the session: what it can know of the turn.

        Args:
            answers: It was given something that it answers by itself.
            suspected: The connection before it was given up because it looked dead. One that
                answered pings after the caller spoke did take the words.
        """
        spoke_at = self._driver.heard_speech_at
        taken_at = max(self.understood_at, self._pong_at) if suspected else self.understood_at
        return f.Connected(
            self._driver.now,
            knows_turn=answers
            or (self.handle_at is not None and self.handle_at >= self._asked_at + COVERAGE_GRACE_S),
            # The caller audibly spoke, and nothing told since that the model has the words.
            words_lost=spoke_at is not None and spoke_at > taken_at,
        )

    def opened(self, reply: str, request_id: str | None) -> None:
        """A generation began; `request_id` is the request it answers, if it does."""
        self._progress[reply] = ReplyProgress()
        if len(self._progress) > _REMEMBERED_REPLIES:
            oldest = next(iter(self._progress))
            del self._progress[oldest]
            self._played_s.pop(oldest, None)
        self._driver.feed(f.GenerationOpened(self._driver.now, reply, request_id))

    def received(self, reply: str, content: types.LiveServerContent, *, takes_audio: bool) -> None:
        """Content arrived for a reply; `takes_audio` says whether its audio can still be heard."""
        now = self._driver.now
        progress = self._progress[reply]
        heard = content.input_transcription
        if heard is not None and heard.text:
            self.understood_at = now
            self._transcribed = (reply, now)
            if not progress.has_output:
                self._asked_at = now
                self._driver.feed(f.UserTurnEnded(now))
        for part in (content.model_turn.parts or []) if content.model_turn else []:
            data = part.inline_data.data if part.inline_data else None
            if data and takes_audio:
                seconds = len(data) / 2 / _impl.OUTPUT_AUDIO_SAMPLE_RATE
                self.understood_at = now
                progress.received(seconds)
                self._driver.feed(f.AudioReceived(now, reply, seconds))
        said = content.output_transcription
        if said is not None and said.text:
            progress.transcribed(TranscriptDelta(said.text))
            self._driver.feed(f.TextReceived(now, reply))
        if content.generation_complete or (content.turn_complete and self.interrupted != reply):
            self.completed(reply)
        if content.generation_complete:
            self._driver.feed(f.OutputCompleted(now, reply))
        if content.interrupted:
            self.interrupted = reply
            self._driver.feed(f.Interrupted(now, reply))

    def transcribed_at(self, reply: str) -> float | None:
        """When the last of the caller's words came that a reply answers; None for no words."""
        return self._transcribed[1] if self._transcribed and self._transcribed[0] == reply else None

    def completed(self, reply: str) -> None:
        """All of a reply arrived: it ended in order, or went on to a tool."""
        if reply in self._progress:
            self._progress[reply].completed()
            self._complete = reply

    def is_complete(self, reply: str) -> bool:
        """Whether all of a reply arrived, and the caller did not cut in on it."""
        return reply == self._complete and reply != self.interrupted

    def played(self, reply: str, heard_s: float) -> None:
        """The speaker is done with a reply, of which the caller heard so many seconds."""
        if reply in self._progress:
            self._played_s[reply] = heard_s

    def unheard_s(self, reply: str) -> float:
        """Seconds of a reply that arrived and were never played; 0 while it may still play."""
        progress, played_s = self._progress.get(reply), self._played_s.get(reply)
        return 0.0 if progress is None or played_s is None else progress.audio_s - played_s

    def heard(self, reply: str, rate_cps: float) -> str:
        """A reply for the record: what was played of it, or else what arrived and will be."""
        progress = self._progress.get(reply)
        return "" if progress is None else progress.heard(rate_cps, self._played_s.get(reply))

    def spoken(self, reply: str, rate_cps: float, audio_s: float) -> str:
        """The words of a reply within its first `audio_s` seconds; "" for an unknown one."""
        progress = self._progress.get(reply)
        return progress.spoken(rate_cps, audio_s) if progress is not None else ""
