"""Tasks that a session starts and does not wait for, until it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Background"]


class Background:
    """Owns such tasks, so that none is lost and none outlives its session."""

    def __init__(self) -> None:
        # Ordered, so that two runs end them in the same order.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which must not raise."""
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def finished(self) -> None:
        """Wait for the end of what runs, without cutting it short."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
