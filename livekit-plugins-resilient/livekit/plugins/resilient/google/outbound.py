"""What waits to be sent when a connection ends, and what an outage keeps (R11, R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

from .._vendor.google import realtime_api as _impl
from ..events import AudioDropped
from ..runtime.gap_audio import GapAudio
from ..runtime.queues import drain

if TYPE_CHECKING:
    from .._vendor.google.api_proto import ClientEvents
    from .realtime import RealtimeSession

__all__ = ["SendQueue"]


class SendQueue:
    """The queue of one session, seen from the edges of its connections."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._gap_audio: GapAudio[ClientEvents] = GapAudio(session._resilience.gap_audio_s)
        self.spoilt = False
        """Whether the kept audio may have been what a server refused with a 1007."""

    def sort_out(self) -> None:
        """Take out of the queue what must not follow a connection that ends.

        What is made of context items is made up for by the next connection's context, requests
        are issued again by the driver, and both would be sent twice. An answer to a call that was
        refused belongs to the session that made the call.
        """
        self._session._late_results.drop()
        queue = self._session._msg_ch
        for event in drain(queue):
            if isinstance(event, types.LiveClientRealtimeInput) and not self.keeps(event):
                queue.send_nowait(event)

    def keeps(self, event: ClientEvents) -> bool:
        """Whether an event is not for the queue now, because no connection can take it."""
        session = self._session
        if session._connected or not isinstance(event, types.LiveClientRealtimeInput):
            return False
        if not session._connection_log.was_connected:
            return False  # what a caller says while the first one is set up is all heard
        if event.audio is None:
            return True  # old pictures are of no use, an activity is begun anew on the next one
        if session._activity.ended_in_gap:
            return True  # not part of the turn
        samples = len(event.audio.data or b"") / 2
        self._gap_audio.keep(event, samples / _impl.INPUT_AUDIO_SAMPLE_RATE)
        return True

    def release(self, *, reconnected: bool) -> None:
        """A connection can take what was kept."""
        activity = self._session._activity
        ended, activity.ended_in_gap = activity.ended_in_gap, False
        if self.spoilt or (activity.released and not ended):
            self._gap_audio.discard()  # what was refused, or audio without its activity
        self.spoilt = False
        kept = self._gap_audio.release()
        ended = ended and bool(kept)
        if (activity.held and reconnected) or ended:
            self._send(types.LiveClientRealtimeInput(activity_start=types.ActivityStart()))
        for event in kept:
            self._send(event)
        if ended:
            self._send(types.LiveClientRealtimeInput(activity_end=types.ActivityEnd()))
        session = self._session
        dropped_s = self._gap_audio.take_dropped_s()
        if dropped_s:
            session._driver.tell(AudioDropped(session._driver.now, dropped_s))

    def _send(self, event: ClientEvents) -> None:
        # Past our own hook: what the caller did is no news to the driver.
        _impl.RealtimeSession._send_client_event(self._session, event)
