"""Waiting for a condition without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from .errors import ServerTimeoutError

_T = TypeVar("_T")


class Changes:
    """Wakes whoever waits for a condition each time that something is recorded."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Let every waiter look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return at the next `notify`, or after `timeout_s` seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=timeout_s)
        finally:
            self._waiters.discard(waiter)

    async def until(self, check: Callable[[], _T | None], *, timeout_s: float, what: str) -> _T:
        """Return the first true value of `check`, which is asked now and after each change.

        Raises:
            ServerTimeoutError: `what` did not happen within `timeout_s` seconds.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not (found := check()):
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise ServerTimeoutError(f"{what} did not happen within {timeout_s:g} s")
            await self.wait(left_s)
        return found
