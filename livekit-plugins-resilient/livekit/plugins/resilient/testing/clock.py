"""The clock that the providers' limits run on: 10, 15, 60 minutes and 2 hours.

Everything that a client can hear or feel (audio, turn ends, faults in seconds) runs on the event
loop's own time. Only the long limits use this clock, so that a test can pass an hour in no time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable


class ClockTimer:
    """A pending call of `Clock.call_later`; `cancel()` may be called any number of times."""

    __slots__ = ("callback", "cancelled", "due_s")

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Make sure that the callback never runs, unless it already has."""
        self.cancelled = True


class Clock:
    """Seconds since the first look, `speed` times as fast as the event loop, plus every `advance`.

    Args:
        speed: clock seconds per second of loop time; above 0. 60 makes an hour pass in a minute.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be above 0: {speed}")
        self.speed = speed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._origin = 0.0
        self._skipped_s = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, ClockTimer]] = []
        self._armed: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """Seconds on this clock. Must be called inside a running event loop."""
        return (self._running().time() - self._origin) * self.speed + self._skipped_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once; what has fallen due runs in order before this returns."""
        if seconds < 0:
            raise ValueError(f"a clock does not run backwards: {seconds}")
        self._running()
        self._skipped_s += seconds
        self._run_due()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ClockTimer:
        """Run `callback` when `delay_s` seconds have passed on this clock."""
        timer = ClockTimer(self.now() + max(0.0, delay_s), callback)
        heapq.heappush(self._timers, (timer.due_s, next(self._order), timer))
        self._arm()
        return timer

    def stop(self) -> None:
        """Drop every pending timer."""
        self._timers.clear()
        self._disarm()

    def _running(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._timers:
                raise RuntimeError("a Clock with pending timers belongs to one event loop")
            self._loop = loop
            self._origin = loop.time()
        return loop

    def _run_due(self) -> None:
        now = self.now()
        # A loop timer may fire a hair early; without the slack it would be armed again and again.
        slack = 1e-6 * self.speed
        while self._timers and self._timers[0][0] <= now + slack:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.callback()
        self._arm()

    def _arm(self) -> None:
        self._disarm()
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            delay = max(0.0, self._timers[0][0] - self.now()) / self.speed
            self._armed = self._running().call_later(delay, self._run_due)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
