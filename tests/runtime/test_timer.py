"""The timer of a session: one handle of the loop for all of its deadlines."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from livekit.plugins.resilient.runtime.timer import Timer, Watch
from livekit.plugins.resilient.testing import VirtualTimeLoop

from .busy import keep_busy

pytestmark = pytest.mark.virtual_time


class Met:
    """Notes what was called, and when, in seconds from the start of the test."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._began_at = timer.now
        self.calls: list[tuple[float, str]] = []

    def note(self, name: str) -> Callable[..., None]:
        return lambda *_: self.calls.append((round(self._timer.now - self._began_at, 3), name))


def handles() -> list[asyncio.TimerHandle]:
    scheduled: list[asyncio.TimerHandle] = getattr(asyncio.get_running_loop(), "_scheduled")  # noqa: B009
    return [t for t in scheduled if not t.cancelled() and "Timer._fire" in repr(t)]


def block(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(seconds)


async def test_each_is_met_at_its_time_by_one_handle() -> None:
    timer = Timer()
    met = Met(timer)
    for seconds in (3.0, 1.0, 2.0):
        timer.after(seconds, met.note(f"{seconds}"))
        assert len(handles()) == 1
    await asyncio.sleep(10)
    assert met.calls == [(1.0, "1.0"), (2.0, "2.0"), (3.0, "3.0")]
    assert handles() == []


async def test_those_that_a_block_made_late_are_met_in_order() -> None:
    timer = Timer()
    met = Met(timer)
    for seconds in (3.0, 1.0, 2.0):
        timer.after(seconds, met.note(f"{seconds}"))
    await asyncio.sleep(0)
    block(5.0)
    await asyncio.sleep(1)
    assert met.calls == [(5.0, "1.0"), (5.0, "2.0"), (5.0, "3.0")]


async def test_a_withdrawn_one_is_not_met_and_leaves_no_handle() -> None:
    timer = Timer()
    met = Met(timer)
    first, second = (timer.after(1.0, met.note(name)) for name in ("first", "second"))
    first.cancel()
    first.cancel()
    await asyncio.sleep(2)
    assert met.calls == [(1.0, "second")]
    second.cancel()
    timer.after(1.0, met.note("third")).cancel()
    assert handles() == []


async def test_one_can_withdraw_another_of_the_same_time() -> None:
    timer = Timer()
    met = Met(timer)
    timer.after(1.0, lambda: second.cancel())
    second = timer.after(1.0, met.note("second"))
    await asyncio.sleep(2)
    assert met.calls == []


async def test_a_past_one_is_met_in_a_later_round() -> None:
    timer = Timer()
    rounds: list[int] = []

    def again() -> None:
        rounds.append(len(rounds))
        if len(rounds) < 3:
            timer.after(-1.0, again)
            assert len(rounds) <= 3

    timer.after(0.0, again)
    assert rounds == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rounds == [0]
    await asyncio.sleep(1)
    assert rounds == [0, 1, 2]


async def test_one_that_fails_holds_up_no_other() -> None:
    timer = Timer()
    met = Met(timer)
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what))

    def fail() -> None:
        raise RuntimeError

    timer.after(1.0, fail)
    timer.after(1.0, met.note("second"))
    timer.after(2.0, met.note("third"))
    await asyncio.sleep(3)
    assert [type(what["exception"]) for what in failed] == [RuntimeError]
    assert met.calls == [(1.0, "second"), (2.0, "third")]


async def test_what_is_done_runs_in_the_context_of_who_asked_for_it() -> None:
    timer = Timer()
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    def ask(name: str) -> None:
        who.set(name)
        timer.after(1.0, lambda: seen.append(who.get()))

    for name in ("first", "second"):
        contextvars.copy_context().run(ask, name)
    await asyncio.sleep(2)
    assert seen == ["first", "second"]


async def test_it_waits_for_a_time_or_for_something_else() -> None:
    timer = Timer()
    began_at = timer.now
    await timer.until(began_at + 2.0)
    assert timer.now == began_at + 2.0
    other = asyncio.get_running_loop().create_future()
    timer.after(1.0, lambda: other.set_result(None))
    await timer.until(began_at + 60.0, other)
    assert timer.now == began_at + 3.0
    assert handles() == []
    pending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await timer.until(began_at + 4.0, pending)
    assert timer.now == began_at + 4.0
    assert not getattr(pending, "_callbacks")  # noqa: B009


async def test_who_waits_for_a_time_can_be_cancelled() -> None:
    timer = Timer()
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(timer.until(timer.now + 60.0, other))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert not other.cancelled()
    assert handles() == []


class TestWatch:
    """A machine whose deadline moves."""

    deadline: float | None = None

    def watch(self, timer: Timer, wake: Callable[[float], object]) -> Watch:
        return Watch(timer, lambda: self.deadline, wake)

    async def test_it_is_woken_at_the_deadline(self) -> None:
        timer = Timer()
        woken: list[float] = []
        watch = self.watch(timer, woken.append)
        watch.look()
        assert watch.at is None
        self.deadline = timer.now + 2.0
        watch.look()
        assert watch.at == self.deadline
        await asyncio.sleep(1.9)
        assert woken == []
        await asyncio.sleep(0.2)
        assert woken == [self.deadline]
        assert watch.at is None

    async def test_a_deadline_that_comes_nearer_is_kept(self) -> None:
        timer = Timer()
        woken: list[float] = []
        watch = self.watch(timer, woken.append)
        began_at = timer.now
        for seconds in (5.0, 2.0):
            self.deadline = began_at + seconds
            watch.look()
        await asyncio.sleep(10)
        assert woken == [began_at + 2.0]

    async def test_one_that_is_put_off_moves_nothing(self) -> None:
        timer = Timer()
        woken: list[float] = []
        watch = self.watch(timer, woken.append)
        began_at = timer.now
        self.deadline = began_at + 2.0
        watch.look()
        (before,) = handles()
        for seconds in range(3, 300):
            self.deadline = began_at + seconds
            watch.look()
        assert handles() == [before]
        await asyncio.sleep(3)
        assert woken == [began_at + 2.0]  # too early, to look again

    async def test_it_is_told_for_when_it_was_set(self) -> None:
        timer = Timer()
        woken: list[float] = []
        watch = self.watch(timer, woken.append)
        self.deadline = timer.now + 2.0
        watch.look()
        block(30.0)
        await asyncio.sleep(0.1)
        assert woken == [self.deadline]

    async def test_it_can_be_told_to_let_it_be(self) -> None:
        timer = Timer()
        woken: list[float] = []
        watch = self.watch(timer, woken.append)
        self.deadline = timer.now + 2.0
        watch.look()
        watch.cancel()
        watch.cancel()
        await asyncio.sleep(3)
        assert woken == []
        assert handles() == []


async def test_it_is_not_met_early_by_the_resolution_of_the_clock() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    timer, due_at, met = Timer(), loop.time() + 30.0, asyncio.Event()
    met_at: list[float] = []

    def meet() -> None:
        met_at.append(loop.time())
        met.set()

    timer.at(due_at, meet)
    loop.stall(30.0 - 1e-10)
    assert 0 < due_at - loop.time() < 1e-9
    keep_busy(100)
    await met.wait()
    assert met_at == [pytest.approx(due_at, abs=1e-12)]
    assert met_at[0] >= due_at
