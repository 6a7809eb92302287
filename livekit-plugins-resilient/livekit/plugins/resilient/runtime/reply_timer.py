"""A time-out that runs only while a reply can be expected: while the session is connected (R11)."""

from __future__ import annotations

from collections.abc import Callable

from .awake import Countdown
from .timer import Deadline, Timer

__all__ = ["ReplyTimer"]


class ReplyTimer:
    """Calls `on_due` once, after `timeout_s` seconds of connection.

    Must be made inside a running event loop; it is paused until `resume`. Time in which the loop is
    blocked does not count.

    Args:
        timeout_s: Seconds above 0.
        on_due: Called on the event loop, unless `cancel` comes first.
        timer: Of the session.
    """

    def __init__(self, timeout_s: float, on_due: Callable[[], None], timer: Timer) -> None:
        self._timer = timer
        self._countdown = Countdown(timeout_s)
        self._on_due: Callable[[], None] | None = on_due
        self._deadline: Deadline | None = None

    @classmethod
    def idle(cls, timer: Timer) -> ReplyTimer:
        """One that is never due, for a session without an open request."""
        made = cls(0.0, lambda: None, timer)
        made.cancel()
        return made

    def resume(self, at_least_s: float = 0.0) -> None:
        """The session is connected.

        Args:
            at_least_s: Seconds that are to be left from now on.
        """
        if at_least_s:
            self.pause()
            self._countdown.left_s = max(self._countdown.left_s, at_least_s)
        if self._deadline is None and self._on_due is not None:
            self._deadline = self._timer.after(self._countdown.piece_s, self._count)

    def pause(self) -> None:
        """The connection is gone; a running time-out keeps what is left of it."""
        if self._deadline is not None:
            waited_s = self._countdown.piece_s - (self._deadline.at - self._timer.now)
            self._countdown.left_s -= min(max(waited_s, 0.0), self._countdown.piece_s)
            self._deadline.cancel()
            self._deadline = None

    def expire(self) -> None:
        """Be due now."""
        on_due = self._on_due
        self.cancel()
        if on_due is not None:
            on_due()

    def cancel(self) -> None:
        """Never be due."""
        self._on_due = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count(self) -> None:
        assert self._deadline is not None
        late_s = self._timer.now - self._deadline.at
        self._deadline = None
        self._countdown.counted(late_s)
        if self._countdown.is_over:
            self.expire()
        else:
            self.resume()
