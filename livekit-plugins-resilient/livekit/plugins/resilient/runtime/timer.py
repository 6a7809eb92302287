"""The timer of a session: whatever waits there for a time waits by it. No policy.

The event loop has one handle of it, armed for the earliest deadline. A deadline that is withdrawn,
or put off, leaves the handle where it is: one that fires early only looks again, which is cheaper
than moving it with each message.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

__all__ = ["Deadline", "Timer", "Watch"]


class Deadline:
    """Something that is to be done once, at its time; `Timer.at` makes it.

    Args:
        timer: That it stands in.
        at: When, in monotonic seconds.
        call: What is to be done.
    """

    __slots__ = ("_call", "_context", "_timer", "at")

    def __init__(self, timer: Timer, at: float, call: Callable[[], object]) -> None:
        self._timer = timer
        self._call = call
        # As `call_at` has it: what is done belongs to whoever asked for it.
        self._context = contextvars.copy_context()
        self.at = at

    def cancel(self) -> None:
        """Have it not done. After its time this does nothing."""
        self._timer.withdraw(self)

    def met(self) -> None:
        """Do it; for the timer."""
        self._context.run(self._call)


class Timer:
    """Calls what is due, in order of its time and never before it.

    Must be made inside a running event loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # A handful at a time.
        self._deadlines: dict[Deadline, None] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._fires = False

    @property
    def now(self) -> float:
        """Monotonic seconds, the clock of every deadline."""
        return self._loop.time()

    def at(self, at: float, call: Callable[[], object]) -> Deadline:
        """Have `call` called at a time, in monotonic seconds; soon, where that is past."""
        deadline = Deadline(self, at, call)
        self._deadlines[deadline] = None
        self._arm(at)
        return deadline

    def after(self, seconds: float, call: Callable[[], object]) -> Deadline:
        """Have `call` called after so many seconds, those included in which the loop is blocked."""
        return self.at(self._loop.time() + seconds, call)

    def withdraw(self, deadline: Deadline) -> None:
        """See `Deadline.cancel`."""
        self._deadlines.pop(deadline, None)
        if not self._deadlines and self._handle is not None:
            self._handle.cancel()
            self._handle = None

    async def until(self, at: float, other: asyncio.Future[Any] | None = None) -> None:
        """Return at a time, in monotonic seconds, or as soon as `other` is done."""
        waiter = self._loop.create_future()
        done = partial(_wake, waiter)
        deadline = self.at(at, done)
        if other is not None:
            other.add_done_callback(done)
        try:
            await waiter
        finally:
            deadline.cancel()
            if other is not None:
                other.remove_done_callback(done)

    def _arm(self, at: float) -> None:
        if self._fires:
            return  # it is armed when that is through
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        assert self._handle is not None
        self._handle = None
        # A loop may fire early, by the resolution of its clock: then this only looks again. Met
        # early, who is due would look in vain, and wait for the same time again and again.
        now = self._loop.time()
        due = sorted((d for d in self._deadlines if d.at <= now), key=_time_of)
        self._fires = True
        try:
            for deadline in due:
                if deadline in self._deadlines:  # not withdrawn by one before it
                    del self._deadlines[deadline]
                    deadline.met()
        finally:
            # Where one failed, the others follow.
            self._fires = False
            if self._deadlines:
                self._arm(min(map(_time_of, self._deadlines)))


class Watch:
    """The deadline of something whose deadline changes: a machine.

    Call `look` whenever it may have come nearer.

    Args:
        timer: Of the session.
        next_deadline: When `wake` is to be called, in monotonic seconds; None for not as things
            stand. Changes nothing.
        wake: Called with the time for which it was set, at or after it. The deadline may have been
            put off meanwhile; look again.
    """

    def __init__(
        self,
        timer: Timer,
        next_deadline: Callable[[], float | None],
        wake: Callable[[float], object],
    ) -> None:
        self._timer = timer
        self._next_deadline = next_deadline
        self._wake = wake
        self._deadline: Deadline | None = None
        self.at: float | None = None
        """For when it is set; None for not at all."""

    def look(self) -> None:
        """Be set for the deadline; one that was put off leaves it as it is."""
        at = self._next_deadline()
        if at is None or (self.at is not None and self.at <= at):
            return
        self.cancel()
        self.at, self._deadline = at, self._timer.at(at, self._due)

    def cancel(self) -> None:
        """Be set no more, until the next look."""
        if self._deadline is not None:
            self._deadline.cancel()
            self.at = self._deadline = None

    def _due(self) -> None:
        at, self.at, self._deadline = self.at, None, None
        assert at is not None
        self._wake(at)


def _time_of(deadline: Deadline) -> float:
    return deadline.at


def _wake(waiter: asyncio.Future[None], _: object = None) -> None:
    if not waiter.done():
        waiter.set_result(None)
