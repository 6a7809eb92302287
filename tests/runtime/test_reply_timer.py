"""A time-out counts only the seconds of connection (R11)."""

from __future__ import annotations

import asyncio

import pytest

from livekit.plugins.resilient.runtime.reply_timer import ReplyTimer
from livekit.plugins.resilient.runtime.timer import Timer

pytestmark = pytest.mark.virtual_time


class Due:
    """When the timer was due, in seconds from the start of the test."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self.at: list[float] = []

    def __call__(self) -> None:
        self.at.append(round(self._loop.time() - self._started_at, 3))


async def test_it_waits_for_the_connection() -> None:
    due = Due()
    timer = ReplyTimer(5.0, due, Timer())
    await asyncio.sleep(60)
    assert due.at == []
    timer.resume()
    await asyncio.sleep(60)
    assert due.at == [65.0]


async def test_a_gap_does_not_count() -> None:
    due = Due()
    timer = ReplyTimer(5.0, due, Timer())
    timer.resume()
    await asyncio.sleep(3)
    timer.pause()
    await asyncio.sleep(20)
    timer.resume()
    timer.resume()
    await asyncio.sleep(60)
    assert due.at == [25.0]


@pytest.mark.parametrize(("at_least_s", "due_at"), [(1.0, 25.0), (4.0, 27.0)])
@pytest.mark.parametrize("paused", [True, False])
async def test_it_can_be_given_more_time(at_least_s: float, due_at: float, *, paused: bool) -> None:
    due = Due()
    timer = ReplyTimer(5.0, due, Timer())
    timer.resume()
    await asyncio.sleep(3)
    timer.pause()
    await asyncio.sleep(20)
    if not paused:
        timer.resume()
    timer.resume(at_least_s)
    await asyncio.sleep(60)
    assert due.at == [due_at]


async def test_it_is_due_once() -> None:
    due = Due()
    timer = ReplyTimer(5.0, due, Timer())
    timer.expire()
    timer.expire()
    timer.resume()
    await asyncio.sleep(60)
    assert due.at == [0.0]


@pytest.mark.parametrize("running", [True, False])
async def test_a_cancelled_one_is_never_due(running: bool) -> None:
    due = Due()
    timer = ReplyTimer(5.0, due, Timer())
    if running:
        timer.resume()
    timer.cancel()
    timer.resume()
    timer.resume(5.0)
    timer.expire()
    await asyncio.sleep(60)
    assert due.at == []


async def test_an_idle_one_can_be_told_everything() -> None:
    timer = ReplyTimer.idle(Timer())
    timer.resume()
    timer.pause()
    timer.expire()
    timer.cancel()
