"""Calls on the real clock, several at a time: they mostly wait.

Each call has an event loop of its own, of the ordinary kind, in a thread of its own. A test waits
for the result of its call, so that each call is one reported test:

    @pytest.mark.parametrize("play", [Play("a-name", some_coroutine_function)], ids=str)
    def test_something(play: Play, runner: Runner) -> None:
        runner.result(play)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.logged_errors import LoggedErrors

Run: TypeAlias = Callable[[], Coroutine[Any, Any, object]]

AT_ONCE = 6
"""Calls that run at the same time. One takes some 5 % of a core, and mostly waits."""

LIMIT_S = 120.0
"""For one call; the longest takes 35 s."""

BLOCKED_S, LOAD_EVERY_S = 0.03, 0.1
"""A loaded loop does nothing else for so long, so often."""


@dataclass(frozen=True)
class Play:
    """One call.

    Attributes:
        name: unique among the plays of a session.
        run: plays it on the running loop, and raises where it is not as promised.
        loaded: whether something else keeps that loop busy.
    """

    name: str
    run: Run
    loaded: bool = False

    def __str__(self) -> str:
        return self.name


def plays(pairs: Iterable[tuple[str, Run]], *, loaded: bool = False) -> list[Play]:
    """Plays of (name, coroutine function) pairs."""
    suffix = "-loaded" if loaded else ""
    return [Play(f"{name}{suffix}", run, loaded) for name, run in pairs]


class Runner:
    """Starts the given calls in order, `AT_ONCE` at a time; a context manager.

    Leaving it cancels what still runs.
    """

    def __init__(self, chosen: Iterable[Play]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="real-clock")
        self._running: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._results: dict[str, Future[None]] = {}
        self._closed = False
        for play in chosen:
            if play.name in self._results:
                raise ValueError(f"two plays are named {play.name}")
            self._results[play.name] = self._pool.submit(self._play, play)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for task, loop in list(self._running.items()):
            loop.call_soon_threadsafe(task.cancel)
        self._pool.shutdown()

    def result(self, play: Play) -> None:
        """Wait for a call's end.

        Raises:
            AssertionError: the package logged an error.
            Exception: what the call raised.
        """
        self._results[play.name].result()

    def _play(self, play: Play) -> None:
        with LoggedErrors() as errors:
            asyncio.run(self._perform(play))
        assert not errors.lines, errors.lines

    async def _perform(self, play: Play) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = asyncio.get_running_loop()
        load = asyncio.create_task(_load()) if play.loaded else None
        try:
            if not self._closed:
                await asyncio.wait_for(play.run(), LIMIT_S)
        finally:
            del self._running[task]
            if load is not None:
                load.cancel()


async def _load() -> None:
    while True:
        # Blocks the loop, as work would, and leaves the processor to the calls beside it.
        time.sleep(BLOCKED_S)  # noqa: ASYNC251
        await asyncio.sleep(LOAD_EVERY_S - BLOCKED_S)
