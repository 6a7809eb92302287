"""Time limits that a blocked event loop does not use up (R23).

A limit counts in short pieces, and a piece whose timer fired late counts as no longer than it was
meant to be: what came in meanwhile has not been read yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..core.limits import LATE_AFTER_S, LOOK_EVERY_S, READ_WITHIN_S
from .timer import Timer

__all__ = ["Countdown", "Meter", "sleep", "within"]

_T = TypeVar("_T")


class Countdown:
    """Seconds that are left, counted in pieces.

    Wait for `piece_s`, then call `counted` with how late that was.

    Args:
        seconds: Of a loop that runs.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    @property
    def is_over(self) -> bool:
        """Whether none are left."""
        return self.left_s <= 0

    @property
    def piece_s(self) -> float:
        """How long to wait next, in seconds."""
        return min(self.left_s, LOOK_EVERY_S)

    def counted(self, late_s: float) -> None:
        """The piece is over, and its timer fired so many seconds late."""
        self.left_s -= self.piece_s
        if late_s >= LATE_AFTER_S:
            self.left_s = max(self.left_s, READ_WITHIN_S)


class Meter:
    """Notices how long the loop is blocked, from its making until `stop`.

    Args:
        timer: Of the session.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._slept_s = 0.0
        self._next_look = timer.after(LOOK_EVERY_S, self._look)

    @property
    def slept_s(self) -> float:
        """Seconds so far, those included of a block that has just ended."""
        late_s = self._timer.now - self._next_look.at
        return self._slept_s + (late_s if late_s >= LATE_AFTER_S else 0.0)

    def stop(self) -> None:
        """Look no more."""
        self._next_look.cancel()

    def _look(self) -> None:
        self._slept_s = self.slept_s
        self._next_look = self._timer.after(LOOK_EVERY_S, self._look)


async def within(
    awaitable: Awaitable[_T],
    seconds: float,
    unused: Callable[[_T], Awaitable[object]] | None = None,
    *,
    timer: Timer,
) -> _T:
    """The result of `awaitable`, which is cancelled where it takes longer.

    Other than with `asyncio.wait_for` before Python 3.12, no cancellation is swallowed.

    Args:
        awaitable: What is waited for.
        seconds: Of a loop that runs.
        unused: Gets what it resulted in as it was given up, or we were, so that it can be closed.
        timer: Of the session.

    Raises:
        asyncio.TimeoutError: It took longer.
    """
    is_taken, task = False, asyncio.ensure_future(awaitable)
    countdown = Countdown(seconds)
    try:
        while not task.done() and not countdown.is_over:
            due_at = timer.now + countdown.piece_s
            await timer.until(due_at, task)
            countdown.counted(timer.now - due_at)
        if is_taken := task.done():
            return task.result()
    finally:
        if not task.done():
            # Once: it may have to close what it had opened.
            task.cancel()
            await asyncio.wait({task})
        if not (is_taken or task.cancelled() or task.exception()) and unused is not None:
            await unused(task.result())
    raise asyncio.TimeoutError


async def sleep(seconds: float, timer: Timer) -> None:
    """Return after so many seconds of a loop that runs."""
    countdown = Countdown(seconds)
    while not countdown.is_over:
        due_at = timer.now + countdown.piece_s
        await timer.until(due_at)
        countdown.counted(timer.now - due_at)
