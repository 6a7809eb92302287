"""What the next connection must hear: an utterance that a drop cut, and the outage's end (R15).

An input buffer that was not committed dies with its connection. `Microphone` is for a server that
finds the turns by itself, `InputBuffer` for an application that commits them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

from ..core.limits import SPEECH_QUIET_S
from ..runtime.gap_audio import GapAudio

if TYPE_CHECKING:
    from livekit import rtc

__all__ = ["InputBuffer", "Microphone"]

# The protocol's input audio: 16-bit mono at 24 kHz. Four base64 characters carry three bytes.
_SECONDS_PER_CHARACTER = 3 / 4 / 2 / 24_000

# The server tells of speech after its onset: its own prefix of 0.3 s, its detection, the network.
_BEFORE_ONSET_S = 1.0

# A server that was sent so much since it began, and speaks of no speech, heard none: the newest of
# the outage, and as long as before an onset.
_TIME_TO_HEAR_S = 2.0

# A longer utterance than this is rare, and hearing it again costs the time of its transfer.
_UTTERANCE_S = 15.0


class Microphone:
    """Remembers microphone frames. No I/O, no clock.

    The audio of an utterance that was under way is sent again, with what the caller went on to say
    without a connection, before the newest of the outage.

    Args:
        gap_audio_s: Seconds of an outage that are kept; None keeps none.
        resends: Whether an utterance is sent again.
    """

    def __init__(self, gap_audio_s: float | None, *, resends: bool) -> None:
        self._gap: GapAudio[rtc.AudioFrame] = GapAudio(gap_audio_s)
        self._queued: GapAudio[rtc.AudioFrame] = GapAudio(_UTTERANCE_S if resends else None)
        self._recent: GapAudio[rtc.AudioFrame] = GapAudio(_BEFORE_ONSET_S if resends else None)
        self._utterance: GapAudio[rtc.AudioFrame] | None = None
        self._resends = resends
        self._only_hinted = False
        self._since_hint_s = self._quiet_s = 0.0
        self._connected = False
        self._sent_s = 0.0  # to the newest connection
        self._words_missed = False
        # The frames of an outage that went to the ring, and before how many of them the caller was
        # first heard.
        self._missed = 0
        self._missed_before_speech: int | None = None
        self.words_dropped = False
        """Whether some of what the caller said in the last outage was older than what is kept."""

    @property
    def words_missed(self) -> bool:
        """Whether the caller spoke without a connection, and none had time since to hear it."""
        return self._words_missed

    @property
    def holds_utterance(self) -> bool:
        """Whether the caller is saying something that no connection has committed."""
        return self._utterance is not None

    def takes(self, frame: rtc.AudioFrame, *, speaks: bool, serves: bool) -> bool:
        """Note a frame of the microphone.

        Args:
            frame: The newest.
            speaks: It sounds like speech.
            serves: There is a connection; without one, frames wait for the first.

        Returns:
            Whether it is to be sent; False in an outage, which keeps what the next one needs.
        """
        if not serves and self._connected:
            self.missed(frame, speaks=speaks)
            self._words_missed |= speaks
            return False
        if not serves:
            self._queued.keep(frame, frame.duration)
            return True
        self.sent(frame)
        if speaks:
            self.hinted()
        return True

    def sent(self, frame: rtc.AudioFrame) -> None:
        """Note a frame that a connection took."""
        self._sent_s += frame.duration
        if self._utterance is not None:
            self._since_hint_s += frame.duration
            self._quiet_s += frame.duration
            # The quiet after words that no server has heard would push them out.
            if not self._only_hinted or self._quiet_s <= SPEECH_QUIET_S:
                self._utterance.keep(frame, frame.duration)
            return
        self._recent.keep(frame, frame.duration)
        if self._recent.take_dropped_s():
            # The server has had time enough to hear speech in what it was sent first.
            self._queued.discard()

    def missed(self, frame: rtc.AudioFrame, *, speaks: bool = False) -> None:
        """Note a frame that no connection could take, and whether it sounds like speech."""
        said = self._utterance
        goes_on = said is not None and said.kept_s + frame.duration <= _UTTERANCE_S
        if said is not None and goes_on and not self._gap.kept_s:
            said.keep(frame, frame.duration)
        else:
            if speaks and self._missed_before_speech is None:
                self._missed_before_speech = self._missed
            self._missed += 1
            self._gap.keep(frame, frame.duration)

    def hinted(self) -> None:
        """The last frame sounded like speech, whether or not the server hears it."""
        if self._utterance is None:
            self._begin_utterance()
            self._only_hinted = True
            self._since_hint_s = 0.0
        self._quiet_s = 0.0  # what was kept before it is no quiet after it

    def server_alive(self) -> None:
        """The server sent something: if it hears no speech, then there is none.

        Unless it cannot have heard it yet, because that was only just sent.
        """
        if self._sent_s >= _TIME_TO_HEAR_S:
            self._words_missed = False
        if not self._only_hinted or self._utterance is None:
            return
        if self._since_hint_s >= _BEFORE_ONSET_S:
            self._only_hinted = False
            heard, self._utterance = self._utterance.release(), None
            for frame in heard:
                self.sent(frame)

    def speech_started(self) -> None:
        """The server hears the caller."""
        self._words_missed = False
        self._begin_utterance()

    def _begin_utterance(self) -> None:
        self._only_hinted = False
        if self._resends and self._utterance is None:
            self._utterance = GapAudio(_UTTERANCE_S)
            for frame in self._queued.release() + self._recent.release():
                self.sent(frame)

    def turn_committed(self) -> None:
        """The utterance is in the conversation."""
        self._utterance = None
        self._words_missed = False

    def for_new_connection(self) -> list[rtc.AudioFrame]:
        """What a new connection must hear first; each frame is then `sent` again.

        Of the first connection too: what waits for that one goes by itself.
        """
        said = [] if self._utterance is None else self._utterance.release()
        if self._connected:
            self._queued.release()
        before, dropped = self._missed_before_speech, self._missed - len(self._gap)
        self.words_dropped = before is not None and before < dropped
        self._missed, self._missed_before_speech = 0, None
        self._connected = True
        self._sent_s = 0.0
        self._recent.release()
        return said + self._gap.release()

    def for_handover(self) -> list[rtc.AudioFrame]:
        """What a connection must hear that takes over from one that serves, likewise: what that
        one may not have committed."""
        self.words_dropped = False
        return (self._utterance or self._recent).release()

    def take_dropped_s(self) -> float:
        """Seconds of outages that were dropped since the last call."""
        return self._gap.take_dropped_s()


class InputBuffer:
    """The events that filled the server's input buffer since the server last took or cleared it.

    No I/O, no clock. Audio of more than 15 s makes the oldest go.

    Args:
        resends: Whether they are sent again; else none are kept.
    """

    def __init__(self, *, resends: bool) -> None:
        self._resends = resends
        self._events: deque[dict[str, Any]] = deque()
        self._kept_s = 0.0

    def sent(self, event: dict[str, Any]) -> None:
        """Note an event that a connection was sent; others than of the input buffer are ignored."""
        if not self._resends or not event["type"].startswith("input_audio_buffer."):
            return
        self._events.append(event)
        self._kept_s += _seconds_of(event)
        while self._kept_s > _UTTERANCE_S:
            self._forget_oldest()

    def settled(self, what: Literal["commit", "clear"]) -> None:
        """The server took the buffer into the conversation, or cleared it."""
        kind = f"input_audio_buffer.{what}"
        if any(event["type"] == kind for event in self._events):
            while self._forget_oldest() != kind:
                pass

    def refused(self, what: Literal["commit", "clear"]) -> None:
        """The server did not do so; what it holds stays as it was."""
        kind = f"input_audio_buffer.{what}"
        for event in self._events:
            if event["type"] == kind:
                self._events.remove(event)
                return

    def for_new_connection(self) -> list[dict[str, Any]]:
        """What a new connection must be sent first, in order; each is then `sent` again."""
        events = list(self._events)
        self._events.clear()
        self._kept_s = 0.0
        return events

    def _forget_oldest(self) -> str:
        event = self._events.popleft()
        # Empty, it holds nothing, whatever the rounding says.
        self._kept_s = self._kept_s - _seconds_of(event) if self._events else 0.0
        kind: str = event["type"]
        return kind


def _seconds_of(event: dict[str, Any]) -> float:
    return len(event.get("audio", "")) * _SECONDS_PER_CHARACTER
