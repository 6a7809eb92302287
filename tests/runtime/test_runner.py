"""What the runner does where two things happen at once; the scenarios show the rest of it on real
connections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit.agents import APIConnectionError
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

from livekit.plugins.resilient.core import link_facts as f
from livekit.plugins.resilient.core.handover import Rest
from livekit.plugins.resilient.events import HedgeOutcome
from livekit.plugins.resilient.fallback import Fallback
from livekit.plugins.resilient.options import ResilienceOptions
from livekit.plugins.resilient.runtime.connector import Loss, UntoldError
from livekit.plugins.resilient.runtime.driver import HedgeRequest
from livekit.plugins.resilient.runtime.link_driver import link_limits
from livekit.plugins.resilient.runtime.runner import Runner
from livekit.plugins.resilient.runtime.timer import Timer

pytestmark = pytest.mark.virtual_time

NOTICE_S = 6.0
LIMITS = link_limits(ResilienceOptions(), DEFAULT_API_CONNECT_OPTIONS)


class Clock:
    """The part of a `Driver` that a runner needs."""

    owes_reply = is_stuck = False
    replies_heard = 0
    hedge_at: float | None = None
    awaits_hedge = False
    watch: Any = None

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.timer = Timer()

    def notice_stall(self) -> None: ...

    def begin_hedge(self) -> HedgeRequest:
        self.hedge_at, self.awaits_hedge = None, True
        return HedgeRequest("hedge-1", (), "Go on.")

    def tell(self, event: Any) -> None:
        self.events.append(event)


class Alone(Fallback):
    """No adapter around the session."""

    def __init__(self) -> None: ...

    def _holder(self) -> None:
        return None


class Line:
    """A connection that remembers what became of it."""

    def __init__(self, number: int, *, has_answered: bool = True) -> None:
        self.number = number
        self.has_answered = has_answered
        self.closed = self.aborted = False
        self.lost = asyncio.get_running_loop().create_future()

    def abort(self) -> None:
        self.aborted = True
        if not self.lost.done():
            self.lost.set_exception(ConnectionResetError())

    async def close(self) -> None:
        self.closed = True


class Provider:
    """Makes as many lines as are wanted; each hook can be replaced by a test."""

    label = "Provider"
    foreign = (OSError, asyncio.TimeoutError, APIConnectionError)
    informative = Exception
    ping_every_s = None
    greets = True
    knows_words = True

    def __init__(self, *, in_place: bool = False, answers: bool = True) -> None:
        self.switches_in_place = in_place
        self.answers = answers
        self.lines: list[Line] = []
        self.log: list[str] = []
        self.serving = asyncio.Event()
        self.dials = asyncio.Event()
        self.refuses = self.hangs = self.cannot_tell = False
        self.asked: list[HedgeRequest] = []
        self.hedge_answers = asyncio.get_running_loop().create_future()

    async def dial(self) -> Line:
        if self.refuses:
            raise ConnectionRefusedError
        self.dials.set()
        if self.hangs:
            await asyncio.Event().wait()
        self.lines.append(Line(len(self.lines) + 1, has_answered=self.answers))
        return self.lines[-1]

    async def dial_beside(self, timeout_s: float) -> Line:
        return await self.dial()

    async def bring_up_to_date(self, successor: Line, leave_by: float) -> None: ...

    async def dial_hedge(self, request: HedgeRequest, timeout_s: float) -> Line:
        self.asked.append(request)
        return await self.dial()

    async def answered(self, hedge: Line) -> None:
        await self.hedge_answers

    def refuses_for_quota(self, error: Exception) -> bool:
        return isinstance(error, ConnectionRefusedError)

    def beside_failed(self, successor: Line | None, error: Exception) -> f.SuccessorFailed:
        return f.SuccessorFailed(asyncio.get_running_loop().time())

    def switch(self, connection: Line, successor: Line) -> Line:
        self.log.append(f"switch {connection.number} to {successor.number}")
        return connection

    async def restore(self, connection: Line) -> None:
        if self.cannot_tell:
            raise KeyError("a bug of ours")

    def serves(self, connection: Line) -> None:
        self.log.append(f"serves {connection.number}")
        self.serving.set()

    async def serve(self, connection: Line) -> None:
        await connection.lost

    async def ping(self, connection: Line) -> None: ...

    def ended(self, connection: Line, error: Exception | None, *, left: bool) -> None:
        name = type(error).__name__ if error is not None else "no error"
        self.log.append(f"ended {connection.number}: {name}, left={left}")

    def lost(self, connection: Line | None, error: Exception) -> Loss:
        return Loss(error)

    def settle(self) -> None: ...

    def left(self) -> Any: ...

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        self.log.append(f"{'recoverable' if recoverable else 'final'} {type(error).__name__}")


class Stage:
    """A runner at work."""

    def __init__(self, provider: Provider) -> None:
        self.provider, self.clock = provider, Clock()
        driver: Any = self.clock
        self.runner: Runner[Line, Line] = Runner(
            provider, LIMITS, driver, lambda: Rest(None), Alone(), hedge_notice_s=NOTICE_S
        )
        self.running = asyncio.create_task(self.runner.run())

    async def until_serving(self) -> None:
        await self.provider.serving.wait()
        self.provider.serving.clear()
        await settle()

    async def hang_up(self) -> None:
        self.runner.close()
        self.running.cancel()
        await asyncio.wait({self.running})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_that_is_lost_while_its_successor_is_ready_is_followed_by_a_dial() -> None:
    on = Stage(Provider())
    await on.until_serving()
    first = on.provider.lines[0]
    bring = on.provider.bring_up_to_date

    async def lost_just_then(successor: Line, leave_by: float) -> None:
        first.lost.set_exception(ConnectionResetError())
        await bring(successor, leave_by)

    on.provider.bring_up_to_date = lost_just_then  # type: ignore[method-assign]
    on.runner.suspect("failing")
    await on.until_serving()
    successor, third = on.provider.lines[1:]
    assert successor.closed
    assert on.provider.log[-1] == f"serves {third.number}"
    assert "switch 1 to 2" not in on.provider.log
    await on.hang_up()


async def test_one_that_looks_dead_is_cut_and_another_serves() -> None:
    on = Stage(Provider())
    await on.until_serving()
    on.runner.suspect("silent")
    await on.until_serving()
    assert on.provider.lines[0].aborted
    assert on.provider.log == ["serves 1", "switch 1 to 2", "serves 2"]
    await on.hang_up()
    assert on.provider.lines[1].closed


async def test_a_sign_of_life_keeps_the_connection() -> None:
    on = Stage(Provider())
    await on.until_serving()
    bring = on.provider.bring_up_to_date

    async def alive_just_then(successor: Line, leave_by: float) -> None:
        on.runner.sign_came()
        await bring(successor, leave_by)

    on.provider.bring_up_to_date = alive_just_then  # type: ignore[method-assign]
    on.runner.suspect("silent")
    await settle()
    assert on.provider.lines[1].closed
    assert on.provider.log == ["serves 1"]
    await on.hang_up()


@pytest.mark.parametrize("pongs_prove", [False, True])
async def test_a_pong_shows_life_only_where_none_came(pongs_prove: bool) -> None:
    on = Stage(Provider())
    await on.until_serving()
    on.runner.suspect("silent", pongs_prove=pongs_prove)
    on.runner.sign_came(pong=True)
    assert (on.runner.suspicion is None) is pongs_prove
    await on.hang_up()


async def test_a_failing_connection_is_not_saved_by_a_message() -> None:
    on = Stage(Provider())
    await on.until_serving()
    on.runner.suspect("failing")
    on.runner.sign_came()
    assert on.runner.suspicion == "failing"
    await on.hang_up()


async def test_a_switch_in_place_ends_no_serving_task() -> None:
    on = Stage(Provider(in_place=True))
    await on.until_serving()
    on.runner.suspect("failing")
    await settle()
    assert on.provider.log == ["serves 1", "switch 1 to 2"]
    assert on.runner.suspicion is None
    await on.hang_up()


async def test_where_none_can_be_had_beside_the_connection_is_left_first() -> None:
    on = Stage(Provider())
    await on.until_serving()
    on.provider.refuses = True
    on.runner.suspect("failing")
    await settle()
    assert on.provider.log[1] == "ended 1: ConnectionSuspectedError, left=True"
    assert on.provider.lines[0].aborted
    on.provider.refuses = False
    await on.until_serving()
    await on.hang_up()


async def test_a_line_that_is_given_up_while_one_serves_ends_with_one_error() -> None:
    on = Stage(Provider())
    await on.until_serving()
    on.clock.owes_reply = True
    on.clock.watch()
    for _ in range(2):
        on.runner.suspect("failing")
        await on.until_serving()
        await asyncio.sleep(40.0)
    on.runner.suspect("failing")
    await asyncio.wait({on.running})
    assert isinstance(on.running.exception(), APIConnectionError)
    assert on.provider.log[-2:] == [
        "ended 3: ConnectionSuspectedError, left=False",
        "final APIConnectionError",
    ]
    assert all(line.closed for line in on.provider.lines)


async def test_a_server_that_says_nothing_is_given_up_within_the_time_of_a_dial() -> None:
    provider = Provider(answers=False)
    provider.greets = False
    on = Stage(provider)
    await on.until_serving()
    began_at = on.clock.now
    await on.until_serving()
    assert provider.lines[0].aborted
    assert on.clock.now - began_at == pytest.approx(
        LIMITS.budget.connect_timeout_s, abs=LIMITS.budget.base_s
    )
    assert "recoverable ConnectionResetError" in provider.log
    await on.hang_up()


async def test_what_we_cannot_tell_is_told_from_what_the_network_does() -> None:
    on = Stage(Provider())
    on.provider.cannot_tell = True
    seen: list[Exception] = []

    def lost(connection: Line | None, error: Exception) -> Loss:
        seen.append(error)
        return Loss(error, final=True)

    on.provider.lost = lost  # type: ignore[method-assign]
    await asyncio.wait({on.running})
    assert [type(error) for error in seen] == [UntoldError]
    assert on.provider.lines[0].closed


async def test_hanging_up_in_a_dial_ends_it() -> None:
    on = Stage(Provider())
    on.provider.hangs = True
    await on.provider.dials.wait()
    await on.hang_up()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


async def test_hanging_up_closes_the_one_that_serves_and_the_one_beside() -> None:
    on = Stage(Provider())
    await on.until_serving()
    waiting = asyncio.Event()

    async def for_ever(successor: Line, leave_by: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    on.provider.bring_up_to_date = for_ever  # type: ignore[method-assign]
    on.runner.suspect("failing")
    await waiting.wait()
    await on.hang_up()
    assert [line.closed for line in on.provider.lines] == [True, True]
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


class TestHedge:
    """One that is asked beside, while the first serves."""

    async def hedging(self, provider: Provider) -> Stage:
        on = Stage(provider)
        await on.until_serving()
        on.clock.hedge_at = on.clock.now + NOTICE_S
        await asyncio.sleep(NOTICE_S + 0.1)
        assert [request.hedge_id for request in provider.asked] == ["hedge-1"]
        return on

    def results(self, on: Stage) -> list[str]:
        return [event.result for event in on.clock.events if isinstance(event, HedgeOutcome)]

    @pytest.mark.parametrize("in_place", [False, True])
    async def test_it_serves_where_it_answers_first(self, in_place: bool) -> None:
        on = await self.hedging(Provider(in_place=in_place))
        on.provider.hedge_answers.set_result(None)
        await settle()
        assert on.provider.log[:2] == ["serves 1", "switch 1 to 2"]
        assert on.provider.lines[0].closed
        assert not on.provider.lines[1].closed
        assert self.results(on) == ["served"]
        await on.hang_up()

    async def test_it_is_closed_where_the_other_answers_first(self) -> None:
        on = await self.hedging(Provider())
        on.clock.awaits_hedge = False
        on.clock.watch()
        await settle()
        assert on.provider.log == ["serves 1"]
        assert on.provider.lines[1].closed
        assert self.results(on) == ["false_alarm"]
        await on.hang_up()

    async def test_it_is_closed_where_both_answer_at_once(self) -> None:
        on = await self.hedging(Provider())
        on.provider.hedge_answers.set_result(None)
        on.clock.awaits_hedge = False
        on.clock.watch()
        await settle()
        assert on.provider.log == ["serves 1"]
        assert on.provider.lines[1].closed
        assert self.results(on) == ["false_alarm"]
        await on.hang_up()

    async def test_one_that_fails_changes_nothing(self) -> None:
        on = await self.hedging(Provider())
        on.provider.hedge_answers.set_exception(ConnectionRefusedError())
        await settle()
        assert on.provider.log == ["serves 1"]
        assert on.provider.lines[1].closed
        assert self.results(on) == ["refused"]
        await on.hang_up()

    async def test_it_ends_with_the_line_beside_it(self) -> None:
        on = await self.hedging(Provider())
        on.provider.lines[0].lost.set_exception(ConnectionResetError())
        await on.until_serving()
        assert on.provider.lines[1].closed
        assert self.results(on) == ["superseded"]
        assert on.provider.log[-1] == "serves 3"
        await on.hang_up()

    async def test_a_suspicion_ends_it_and_another_is_made(self) -> None:
        on = await self.hedging(Provider())
        on.runner.suspect("failing")
        await on.until_serving()
        assert on.provider.lines[1].closed
        assert self.results(on) == ["superseded"]
        assert on.provider.log[-2:] == ["switch 1 to 3", "serves 3"]
        await on.hang_up()

    async def test_hanging_up_closes_it(self) -> None:
        on = await self.hedging(Provider())
        await on.hang_up()
        assert [line.closed for line in on.provider.lines] == [True, True]
        assert not asyncio.all_tasks() - {asyncio.current_task()}
