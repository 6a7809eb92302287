"""What the next connection must hear: an utterance that a drop cut, and the outage's end (R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..gap_audio import GapAudio

if TYPE_CHECKING:
    from livekit import rtc

__all__ = ["Microphone"]

# The server tells of speech after its onset: its own prefix of 0.3 s, its detection, the network.
_BEFORE_ONSET_S = 1.0

# A longer utterance than this is rare, and hearing it again costs the time of its transfer.
_UTTERANCE_S = 15.0


class Microphone:
    """Remembers microphone frames. No I/O, no clock.

    An input buffer that was not committed dies with its connection, so the audio of an utterance
    that was under way is sent again, before that of the outage.

    Args:
        gap_audio_s: Seconds of an outage that are kept; None keeps none.
        resends: Whether an utterance is sent again.
    """

    def __init__(self, gap_audio_s: float | None, *, resends: bool) -> None:
        self._gap: GapAudio[rtc.AudioFrame] = GapAudio(gap_audio_s)
        self._recent: GapAudio[rtc.AudioFrame] = GapAudio(_BEFORE_ONSET_S if resends else None)
        self._utterance: GapAudio[rtc.AudioFrame] | None = None
        self._resends = resends

    @property
    def holds_utterance(self) -> bool:
        """Whether the caller is saying something that no connection has committed."""
        return self._utterance is not None

    def sent(self, frame: rtc.AudioFrame) -> None:
        """Note a frame that a connection took."""
        (self._utterance or self._recent).keep(frame, frame.duration)

    def missed(self, frame: rtc.AudioFrame) -> None:
        """Note a frame that no connection could take."""
        self._gap.keep(frame, frame.duration)

    def speech_started(self) -> None:
        """The server hears the caller."""
        if self._resends and self._utterance is None:
            self._utterance = GapAudio(_UTTERANCE_S)
            for frame in self._recent.release():
                self.sent(frame)

    def turn_committed(self) -> None:
        """The utterance is in the conversation."""
        self._utterance = None

    def for_new_connection(self) -> list[rtc.AudioFrame]:
        """What a new connection must hear first; each frame is then `sent` again."""
        said = [] if self._utterance is None else self._utterance.release()
        self._recent.release()
        return said + self._gap.release()

    def for_handover(self) -> list[rtc.AudioFrame]:
        """What a connection must hear that takes over from one that serves, likewise: what that
        one may not have committed."""
        return (self._utterance or self._recent).release()

    def take_dropped_s(self) -> float:
        """Seconds of outages that were dropped since the last call."""
        return self._gap.take_dropped_s()
