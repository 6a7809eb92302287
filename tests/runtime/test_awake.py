"""Time limits that a blocked event loop does not use up (R23)."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from livekit.plugins.resilient.runtime import awake
from livekit.plugins.resilient.runtime.reply_timer import ReplyTimer
from livekit.plugins.resilient.runtime.timer import Timer
from livekit.plugins.resilient.testing import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


def block(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(seconds)


def later(seconds: float, what: object) -> asyncio.Future[object]:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(seconds, future.set_result, what)
    return future


async def test_what_comes_in_time_is_returned() -> None:
    assert await awake.within(later(2.5, "answer"), 3.0, timer=Timer()) == "answer"


async def test_what_does_not_is_cancelled_at_its_time() -> None:
    loop = asyncio.get_running_loop()
    answer, began_at = later(3.5, "answer"), loop.time()
    with pytest.raises(asyncio.TimeoutError):
        await awake.within(answer, 3.0, timer=Timer())
    assert loop.time() - began_at == pytest.approx(3.0)
    assert answer.cancelled()


async def test_an_error_comes_through() -> None:
    async def fails() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await awake.within(fails(), 3.0, timer=Timer())


async def test_what_arrived_while_the_loop_was_blocked_is_in_time() -> None:
    loop = asyncio.get_running_loop()
    # The answer is read a few rounds after the block, as from a socket.
    answer = later(9.0, "answer")
    loop.call_later(0.5, block, 8.6)
    assert await awake.within(answer, 3.0, timer=Timer()) == "answer"


async def test_a_cancellation_together_with_the_result_is_not_swallowed() -> None:
    answer = later(1.0, "answer")
    waiting = asyncio.create_task(awake.within(answer, 3.0, timer=Timer()))
    answer.add_done_callback(lambda _: waiting.cancel())
    await asyncio.wait({waiting})
    assert waiting.cancelled()


async def test_who_waits_can_be_cancelled_and_leaves_nothing_behind() -> None:
    answer = later(9.0, "answer")
    waiting = asyncio.create_task(awake.within(answer, 30.0, timer=Timer()))
    await asyncio.sleep(1.0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert answer.cancelled()


@pytest.mark.parametrize("blocked_s", [0.0, 2.0, 60.0])
async def test_a_sleep_lasts_as_long_as_the_loop_runs(blocked_s: float) -> None:
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    if blocked_s:
        loop.call_later(1.5, block, blocked_s)
    await awake.sleep(5.0, Timer())
    took_s = loop.time() - began_at
    assert max(5.0, 4.0 + blocked_s) <= took_s <= 5.0 + blocked_s + 0.5


async def test_a_reply_is_not_given_up_for_a_blocked_loop() -> None:
    due: list[float] = []
    loop = asyncio.get_running_loop()
    timer = ReplyTimer(10.0, lambda: due.append(loop.time() - began_at), Timer())
    began_at = loop.time()
    timer.resume()
    await asyncio.sleep(2.5)
    block(30.0)
    await asyncio.sleep(6.0)
    assert due == []
    await asyncio.sleep(3.0)
    assert len(due) == 1


async def test_what_came_in_spite_of_a_cancellation_is_handed_on() -> None:
    """`asyncio.wait_for` before Python 3.12 returns a result that came just then."""
    came: list[str] = []

    async def keep(result: str) -> None:
        came.append(result)

    async def connects_all_the_same() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "a connection"

    dialling = asyncio.create_task(awake.within(connects_all_the_same(), 60.0, keep, timer=Timer()))
    await asyncio.sleep(0.1)
    dialling.cancel()
    await asyncio.wait({dialling})
    assert dialling.cancelled()
    assert came == ["a connection"]
    with pytest.raises(asyncio.TimeoutError):
        await awake.within(connects_all_the_same(), 0.1, keep, timer=Timer())
    assert came == ["a connection"] * 2


async def test_what_came_in_the_moment_in_which_nobody_waits_any_more_is_handed_on() -> None:
    came: list[str] = []

    async def keep(result: str) -> None:
        came.append(result)

    connecting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    dialling = asyncio.create_task(awake.within(connecting, 60.0, keep, timer=Timer()))
    await asyncio.sleep(0.1)
    connecting.set_result("a connection")
    dialling.cancel()
    await asyncio.wait({dialling})
    assert dialling.cancelled()
    assert came == ["a connection"]
