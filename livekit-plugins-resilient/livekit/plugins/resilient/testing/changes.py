"""Waiting for a condition without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from .errors import ServerTimeoutError

_T = TypeVar("_T")

END_GRACE_S = 1.0
"""Loop time after `end` in which last records may still come: a speech that was cut, a tool."""


class Changes:
    """Wakes whoever waits for a condition each time that something is recorded."""

    def __init__(self) -> None:
        # In the order in which they came: that of a set is another one in each run.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._over_at: float | None = None
        self._why: Callable[[], Exception] | None = None

    def end(self, why: Callable[[], Exception]) -> None:
        """Say that nothing more will come: after `END_GRACE_S` every wait raises `why()`."""
        if self._why is None:
            self._over_at = asyncio.get_running_loop().time() + END_GRACE_S
            self._why = why
            self.notify()

    def notify(self) -> None:
        """Let every waiter look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return at the next `notify`, or after `timeout_s` seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await asyncio.wait({waiter}, timeout=timeout_s)
        finally:
            del self._waiters[waiter]

    async def until(self, check: Callable[[], _T | None], *, timeout_s: float, what: str) -> _T:
        """Return the first true value of `check`, which is asked now and after each change.

        Raises:
            ServerTimeoutError: `what` did not happen within `timeout_s` seconds.
            Exception: what `end` was given, if `what` did not happen before the end.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not (found := check()):
            left_s = self.left_s(deadline)
            if left_s <= 0:
                raise ServerTimeoutError(f"{what} did not happen within {timeout_s:g} s")
            await self.wait(left_s)
        return found

    def left_s(self, deadline: float) -> float:
        """Seconds that a wait until `deadline` may still take; not positive when it is late.

        Raises:
            Exception: what `end` was given, once its grace is over.
        """
        now = asyncio.get_running_loop().time()
        if self._over_at is None or self._why is None:
            return deadline - now
        if now >= self._over_at:
            raise self._why()
        return min(deadline, self._over_at) - now
