"""What waits to be sent when a connection ends, and what an outage keeps (R11, R15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

from .._vendor.google import realtime_api as _impl
from ..events import AudioDropped
from ..runtime.gap_audio import GapAudio

if TYPE_CHECKING:
    from .._vendor.google.api_proto import ClientEvents
    from ..runtime.driver import Driver
    from .activity import Activity
    from .engine import Engine
    from .late_results import LateResults
    from .serving import Serving

__all__ = ["SendQueue"]


class SendQueue:
    """What one session sends, where connections begin and end.

    Args:
        engine: Whose queue it is.
        driver: Tells the application of audio that was dropped.
        serving: Tells whether a connection serves.
        activity: The caller's turns, where the application marks them.
        late_results: What waits to be told, and dies with its connection too.
        gap_audio_s: See `ResilienceOptions`.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        activity: Activity,
        late_results: LateResults,
        gap_audio_s: float | None,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._activity = activity
        self._late_results = late_results
        self._gap_audio: GapAudio[ClientEvents] = GapAudio(gap_audio_s)
        self.spoilt = False
        """Whether the kept audio may have been what a server refused with a 1007."""

    def sort_out(self) -> None:
        """Take out of the queue what must not follow a connection that ends.

        What is made of context items is made up for by the next connection's context, requests
        are issued again by the driver, and both would be sent twice. An answer to a call that was
        refused belongs to the session that made the call.
        """
        self._late_results.drop()
        for event in self._engine.take_queued():
            if isinstance(event, types.LiveClientRealtimeInput) and not self.keeps(event):
                self._engine.put_back(event)

    def keeps(self, event: ClientEvents) -> bool:
        """Whether an event is not for the queue now, because no connection can take it."""
        # What a caller says while the first one is set up is all heard.
        if not self._serving.in_gap or not isinstance(event, types.LiveClientRealtimeInput):
            return False
        if event.audio is None:
            return True  # old pictures are of no use, an activity is begun anew on the next one
        if self._activity.ended_in_gap:
            return True  # not part of the turn
        samples = len(event.audio.data or b"") / 2
        self._gap_audio.keep(event, samples / _impl.INPUT_AUDIO_SAMPLE_RATE)
        return True

    def release(self, *, reconnected: bool) -> None:
        """A connection can take what was kept. The driver was told then what the caller did."""
        activity = self._activity
        ended, activity.ended_in_gap = activity.ended_in_gap, False
        if self.spoilt or (activity.released and not ended):
            self._gap_audio.discard()  # what was refused, or audio without its activity
        self.spoilt = False
        kept = self._gap_audio.release()
        ended = ended and bool(kept)
        if (activity.held and reconnected) or ended:
            start = types.LiveClientRealtimeInput(activity_start=types.ActivityStart())
            self._engine.enqueue(start)
        for event in kept:
            self._engine.enqueue(event)
        if ended:
            end = types.LiveClientRealtimeInput(activity_end=types.ActivityEnd())
            self._engine.enqueue(end)
        dropped_s = self._gap_audio.take_dropped_s()
        if dropped_s:
            self._driver.tell(AudioDropped(self._driver.now, dropped_s))
