"""What an outage may cost, and how it ends (R2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import APIConnectOptions, llm

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import FAILOVER_AFTER_S
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Close,
    Fault,
    HangHandshake,
    HeadlessCall,
    NoSetupAnswer,
    OnConnection,
    OpenAIRealtimeServer,
    Refuse,
)

pytestmark = pytest.mark.virtual_time

DROP = Fault(AtTime(3.0, connection=1), Abort())


def gone(action: Any) -> Fault:
    """From the second dial on, the server is not to be had."""
    return Fault(OnConnection(None, nth=2), action, times="always")


@asynccontextmanager
async def calling(
    faults: list[Fault], **given: Any
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    async with (
        OpenAIRealtimeServer(faults=faults) as server,
        HeadlessCall(model(server, **given)) as call,
    ):
        yield server, call
    assert call.leftover_tasks() == []


def model(server: OpenAIRealtimeServer, **given: Any) -> RealtimeModel:
    return RealtimeModel(**server.model_kwargs(**given))


@pytest.mark.parametrize(
    ("failure", "most_dials"),
    [(Refuse(503), 100), (HangHandshake(), 9), (NoSetupAnswer(), 9), (Abort(), 100)],
    ids=["refused", "hangs", "never-answered", "accepts-and-drops"],
)
async def test_an_outage_ends_in_one_final_error_within_the_deadline(
    failure: Any, most_dials: int
) -> None:
    async with calling([DROP, gone(failure)]) as (server, call):
        await call.generate_reply(instructions="greet")
        error = await call.wait_error(recoverable=False, timeout_s=90)
        dropped_at = server.recording.faults[0].at
        assert 30 < error.at - dropped_at <= 70
        assert len(server.dials()) <= most_dials
        dials = len(server.dials())
        await call.until(lambda: call.closed, timeout_s=5, what="the session's end")
        assert sum(not e.recoverable for e in call.errors) == 1
        await call.aclose()
        assert len(server.dials()) == dials


async def test_a_dial_is_bounded_from_the_first_byte_to_the_first_answer() -> None:
    options = ResilienceOptions(connect_timeout_s=2.0)
    faults = [
        DROP,
        Fault(OnConnection(2), NoSetupAnswer()),
        Fault(OnConnection(3), HangHandshake()),
    ]
    async with calling(faults, resilience=options) as (server, call):
        await call.generate_reply(instructions="greet")
        await server.wait_for("session.update", connection=4)
        dialled = [dial.at for dial in server.dials()[1:]]
        first, second = dialled[1] - dialled[0], dialled[2] - dialled[1]
        assert 2.0 <= first < 2.3
        assert 2.0 <= second < 2.6


async def test_a_finished_turn_is_another_outage() -> None:
    options = ResilienceOptions(reconnect_deadline_s=12.0, healthy_after_s=600.0)
    drops = Fault(AtTime(5.0), Abort(), times="always")
    async with calling([drops], resilience=options) as (server, call):
        for _ in range(6):
            await call.say(1.0)
            await server.wait_for("response.done", timeout_s=20)
            await server.wait_for("open", count=len(server.dials()) + 1, timeout_s=20)
        assert all(error.recoverable for error in call.errors)


async def test_connections_without_a_turn_spend_the_budget() -> None:
    options = ResilienceOptions(reconnect_deadline_s=12.0, healthy_after_s=600.0)
    drops = Fault(AtTime(5.0), Abort(), times="always")
    async with calling([drops], resilience=options) as (server, call):
        await call.wait_error(recoverable=False, timeout_s=60)
        assert len(server.dials()) <= 5


async def test_the_applications_own_options_bound_the_redials() -> None:
    given = APIConnectOptions(max_retry=2, retry_interval=4.0, timeout=1.5)
    async with calling([DROP, gone(HangHandshake())], conn_options=given) as (server, call):
        await call.generate_reply(instructions="greet")
        await call.wait_error(recoverable=False, timeout_s=60)
        dialled = [dial.at for dial in server.dials()]
        assert len(dialled) == 3
        assert 1.5 <= dialled[2] - dialled[1] <= 1.6 + 4.0


async def test_an_application_that_allows_no_retry_gets_none() -> None:
    given = APIConnectOptions(max_retry=0)
    async with calling([DROP], conn_options=given) as (server, call):
        await call.generate_reply(instructions="greet")
        await call.wait_error(recoverable=False)
        assert len(server.dials()) == 1


async def test_the_fallback_adapter_takes_over_long_before_the_budget_is_spent() -> None:
    async with (
        OpenAIRealtimeServer(faults=[DROP, gone(Refuse(503))]) as first,
        OpenAIRealtimeServer(["I am the other one."]) as second,
    ):
        both = llm.RealtimeModelFallbackAdapter([model(first), model(second)])
        async with HeadlessCall(both) as call:
            await call.generate_reply(instructions="greet")
            await second.wait_for("session.update", timeout_s=90)
            waited_s = second.dials()[0].at - first.recording.faults[0].at
            assert waited_s <= FAILOVER_AFTER_S + 0.1
            said = await call.say(1.0)
            await call.reply(after=said.ended_at)
            assert second.session.texts("assistant")[-1] == "I am the other one."
            assert all(error.recoverable for error in call.errors)
        assert call.leftover_tasks() == []


async def test_a_dead_session_keeps_nobody_waiting() -> None:
    async with OpenAIRealtimeServer(faults=[Fault(OnConnection(None), Refuse(401))]) as server:
        dead = model(server)
        session = dead.session()
        final: list[llm.RealtimeModelError] = []
        session.on("error", final.append)
        early = session.generate_reply()
        with pytest.raises(llm.RealtimeError, match="over"):
            await early
        late = session.generate_reply()
        with pytest.raises(llm.RealtimeError, match="over"):
            await late
        assert [error.recoverable for error in final] == [False]
        await session.aclose()
        await dead.aclose()


@pytest.mark.parametrize("code", [1001])
async def test_a_server_that_ends_every_session_at_once_is_no_renewal(code: int) -> None:
    closes = Fault(AtTime(0.2), Close(code), times="always")
    async with calling([closes]) as (server, call):
        await call.wait_error(recoverable=False, timeout_s=90)
        assert len(server.dials()) < 60
