"""What arrived of each reply, and what the model can know of the turn, as facts for the driver."""

from __future__ import annotations

import re

from google.genai import types

from .._vendor.google import realtime_api as _impl
from ..core import facts as f
from ..core.limits import GEMINI_DEAF_AFTER_S, STOPS_WITHIN_S, TRAILS_FOR_S
from ..core.playout import ReplyProgress, TranscriptDelta
from ..core.resumption import Handle
from ..runtime.driver import Driver
from .pings import PING_EVERY_S

__all__ = ["InboundEvents"]

# Replies whose words a re-drive may still need: the one that was cut, and those still playing.
_REMEMBERED_REPLIES = 8

# How a transcript tells of a sound that is no word.
_SOUND = re.compile(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)")


_NEEDS_MORE = types.TurnCompleteReason.NEED_MORE_INPUT


class InboundEvents:
    """Follows the replies of one session; feeds its driver.

    Call `opened` for each generation before `received`, and `asked` when the model was sent
    something to answer.

    Args:
        driver: Of the session.
        may_pass_over: Whether the model is free not to answer what it hears (proactive audio).
        speaks: Whether replies are spoken, so that their text is a caption.
        interruptible: Whether the model's reply stops when the caller speaks.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        may_pass_over: bool = False,
        speaks: bool = True,
        interruptible: bool = True,
    ) -> None:
        self._driver = driver
        self._may_pass_over = may_pass_over
        self._speaks = speaks
        self._interruptible = interruptible
        # When the server itself last heard the caller.
        self._voice_at = float("-inf")
        # What was said before this was answered, or was no turn to the server.
        self._turn_from = float("-inf")
        self._progress: dict[str, ReplyProgress] = {}
        # When what is to be answered reached the model.
        self._asked_at = float("-inf")
        self._pong_at = float("-inf")
        self.understood_at = float("-inf")
        """When the server last showed that it had taken what it was told: by words or audio."""
        self._transcribed: tuple[str, float] | None = None
        # When the first output of the open reply came, and the last of those that are complete.
        self._began_at: dict[str, float] = {}
        self._completed_at: dict[str, float] = {}
        # When audio of the reply last came though it was complete.
        self._trailed_at = float("-inf")
        self._complete: str | None = None
        self._played_s: dict[str, float] = {}
        self._stopped_unbegun = False
        self.interrupted: str | None = None
        """The reply that was interrupted last."""
        self.ended_at: float | None = None
        """When the last turn was over."""

    def asked(self) -> None:
        """The model was sent something to answer."""
        self._asked_at = self._driver.now

    def pong_came(self, after_s: float) -> None:
        """The server answered a ping that was sent `after_s` seconds ago."""
        self._pong_at = now = self._driver.now
        self._driver.feed(f.PongArrived(now, after_s))

    def voice_heard(self, activity: types.VoiceActivity) -> None:
        """The server says that it hears the caller begin or end; the newer families do."""
        self._voice_at = now = self._driver.now
        if activity.voice_activity_type is types.VoiceActivityType.ACTIVITY_START:
            self._driver.feed(f.UserSpeechStarted(now))
        elif activity.voice_activity_type is types.VoiceActivityType.ACTIVITY_END:
            # The words, if it was any, were told before, or will be.
            self._driver.feed(f.UserSpeechStopped(now, in_turn=False))

    def connected(self, handle: Handle | None, *, suspected: bool, answers: bool) -> f.Connected:
        """A connection serves the session: what it can know of the turn.

        Args:
            handle: It was resumed from this one; None for a fresh session.
            answers: It was given something that it answers by itself.
            suspected: The connection before it was given up because it looked dead. One that
                answered pings after the caller spoke did take the words.
        """
        return f.Connected(
            self._driver.now,
            knows_turn=answers or (handle is not None and handle.knows_of_sent(self._asked_at)),
            words_lost=self.words_lost(suspected=suspected),
        )

    def words_lost(self, *, suspected: bool) -> bool:
        """Whether the caller audibly spoke, and nothing told since that the model has the words;
        `suspected` as for `connected`."""
        spoke_at = self._driver.heard_speech_at
        if spoke_at is None:
            return False
        taken_at = max(self.understood_at, self._pong_at) if suspected else self.understood_at
        # A server that was alive so long and said nothing of it did not take it for speech.
        alive_at = max(self.understood_at, self._pong_at) + PING_EVERY_S  # by the next ping
        is_noise = alive_at - (self._driver.speech_since or spoke_at) >= GEMINI_DEAF_AFTER_S
        return spoke_at > taken_at and not is_noise

    def opened(
        self, reply: str, request_id: str | None, *, by_caption: bool, works_unseen: bool
    ) -> None:
        """A generation began.

        Args:
            reply: Its id.
            request_id: The request it answers, if it does.
            by_caption: The message that began it holds nothing but transcripts.
            works_unseen: The provider may be at work for long within it without a sign.
        """
        self._progress[reply] = ReplyProgress()
        if len(self._progress) > _REMEMBERED_REPLIES:
            oldest = next(iter(self._progress))
            del self._progress[oldest]
            self._played_s.pop(oldest, None)
            self._completed_at.pop(oldest, None)
        now = self._driver.now
        self._driver.feed(f.GenerationOpened(now, reply, request_id, by_caption=by_caption))
        if works_unseen:
            self._driver.feed(f.PauseExpected(now, reply))

    def received(self, reply: str, content: types.LiveServerContent, *, takes_audio: bool) -> None:
        """Content arrived for a reply; `takes_audio` says whether its audio can still be heard."""
        now = self._driver.now
        progress = self._progress[reply]
        heard = content.input_transcription
        if heard is not None and heard.text:
            self.understood_at = now
            self._transcribed = (reply, now)
            if not progress.has_output and _has_words(heard.text):
                self._asked_at = now
                self._driver.feed(f.UserTurnEnded(now, certain=self._is_turn))
        for part in (content.model_turn.parts or []) if content.model_turn else []:
            if part.text and not part.thought and not self._speaks:
                self.understood_at = now
                progress.transcribed(TranscriptDelta(part.text))
                self._driver.feed(f.TextReceived(now, reply))
            data = part.inline_data.data if part.inline_data else None
            if data and not takes_audio and reply in self._completed_at:
                self._trailed_at = now
            if data and takes_audio:
                seconds = len(data) / 2 / _impl.OUTPUT_AUDIO_SAMPLE_RATE
                # While a reply goes on, the server may still be about to stop for the caller.
                goes_on = reply in self._began_at
                heard_by = now - STOPS_WITHIN_S if goes_on else now
                self.understood_at = max(self.understood_at, heard_by)
                progress.received(seconds)
                self._driver.feed(f.AudioReceived(now, reply, seconds))
        said = content.output_transcription
        if said is not None and said.text:
            progress.transcribed(TranscriptDelta(said.text))
            self._driver.feed(f.TextReceived(now, reply, is_caption=self._speaks))
        if heard is not None and heard.text and _has_words(heard.text) and self.is_overtaken(reply):
            # A turn of the caller's that the server took without ending the model's.
            self._asked_at = now
            is_turn = not self._may_pass_over and self._driver.has_been_heard
            self._driver.feed(f.UserTurnEnded(now, certain=is_turn))
        if progress.has_output:
            self._began_at.setdefault(reply, now)
        if content.generation_complete or (content.turn_complete and self.interrupted != reply):
            self.completed(reply)
        if content.generation_complete:
            self._completed_at[reply] = now
            self._driver.feed(f.OutputCompleted(now, reply))
        if content.interrupted:
            self.interrupted = reply
            self._driver.feed(f.Interrupted(now, reply))
        if content.waiting_for_input or content.turn_complete_reason is _NEEDS_MORE:
            self._turn_from = now  # captions of what it waits to be gone on with may still come
            self._driver.feed(f.InputAwaited(now))

    def stopped_unbegun(self) -> None:
        """The server stopped a turn of which nothing had come."""
        self._stopped_unbegun = True

    def take_stop(self) -> bool:
        """Whether the turn that is now over was such a one."""
        stopped, self._stopped_unbegun = self._stopped_unbegun, False
        return stopped

    def ended(self, reply: str) -> None:
        """A reply is over."""
        self.ended_at = now = self._driver.now
        began_at = self._began_at.pop(reply, None)
        if began_at is not None:
            # What was said into it, and did not stop it, was no turn to the server.
            stops = self._interruptible and self.interrupted != reply
            self._turn_from = now if stops else began_at

    def left_unended(self, reply: str) -> None:
        """A reply is over that the server has not ended: what was said since all of it had come
        may well be a turn."""
        completed_at = self._completed_at.get(reply)
        if completed_at is not None:
            self._turn_from = min(self._turn_from, completed_at)

    def called(self) -> None:
        """The model called a tool, which is an answer."""
        self._turn_from = self._driver.now

    @property
    def _is_turn(self) -> bool:
        """Whether words that have just come are surely of a turn that is to be answered.

        Captions have no order against the turns, so those of one that was answered can still come;
        then the caller has not been heard since.
        """
        return not self._may_pass_over and self.spoke_at > self._turn_from

    @property
    def spoke_at(self) -> float:
        """When the caller was last heard, by the server or by us."""
        return max(self._voice_at, self._driver.heard_speech_at or float("-inf"))

    def is_overtaken(self, reply: str) -> bool:
        """Whether the model was given something new since all of a reply had come: what it says
        now belongs to its next turn, though this one was never ended."""
        completed_at = self._completed_at.get(reply)
        if completed_at is None:
            return False
        # Where the caller cannot stop a reply, what they say into it is answered after it.
        since = completed_at if self._interruptible else self._began_at.get(reply, completed_at)
        return max(self.spoke_at, self._asked_at) > since

    def is_long_complete(self, reply: str) -> bool:
        """Whether what the model says now comes too late to trail a reply of which it had said
        that it is complete: whatever it was given, this is the next turn."""
        completed_at = self._completed_at.get(reply)
        if completed_at is None:
            return False
        return self._driver.now - max(completed_at, self._trailed_at) >= TRAILS_FOR_S

    def transcribed_at(self, reply: str) -> float | None:
        """When the last of the caller's words came that a reply answers; None for no words."""
        return self._transcribed[1] if self._transcribed and self._transcribed[0] == reply else None

    def has_begun(self, reply: str) -> bool:
        """Whether anything of a reply came, while it is open."""
        return reply in self._began_at

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


def _has_words(text: str) -> bool:
    """Whether a transcript tells of anything but sounds, such as "<noise>" or " ."."""
    return any(character.isalnum() for character in _SOUND.sub("", text))
