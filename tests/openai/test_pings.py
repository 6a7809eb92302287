"""Pings of our own find a half-open connection, and end none that is only slow or blocked (R17)."""

from __future__ import annotations

import asyncio
import time

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.events import HandedOver, ResilienceEvent
from livekit.plugins.resilient.testing import (
    AtTime,
    Blackhole,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    SlowPong,
)
from livekit.plugins.resilient.testing.server import SimulatedServer

TALE = Reply("And so it went on, from one day to the next, until nobody could tell why. " * 4)


def model_of(
    server: OpenAIRealtimeServer, events: list[ResilienceEvent] | None = None, **options: float
) -> resilient.openai.realtime.RealtimeModel:
    on_event = None if events is None else events.append
    resilience = resilient.ResilienceOptions(on_event=on_event, **options)  # type: ignore[arg-type]
    return resilient.openai.realtime.RealtimeModel(**server.model_kwargs(resilience=resilience))


def block(seconds: float) -> None:
    """What a tool does that waits without giving the event loop back."""
    time.sleep(seconds)


def dials(server: SimulatedServer) -> int:
    return len(server.dials())


@pytest.mark.virtual_time
@pytest.mark.parametrize("delay_s", [2.0, 4.0, 6.0])
async def test_pongs_a_little_late_are_no_sign_of_anything(delay_s: float) -> None:
    events: list[ResilienceEvent] = []
    async with (
        OpenAIRealtimeServer() as server,
        HeadlessCall(model_of(server, events)) as call,
    ):
        await call.generate_reply(instructions="greet")
        await asyncio.sleep(10)
        await server.do(SlowPong(delay_s))  # from one moment to the next
        await asyncio.sleep(60)
        assert dials(server) == 1
        assert events == []
        assert call.errors == []


@pytest.mark.virtual_time
async def test_messages_show_life_where_pongs_are_too_late() -> None:
    events: list[ResilienceEvent] = []
    late = Fault(OnConnection(1), SlowPong(600.0))
    async with (
        OpenAIRealtimeServer([TALE], faults=[late], pace=1.0) as server,
        HeadlessCall(model_of(server, events)) as call,
    ):
        await call.generate_reply(instructions="tell")
        assert call.heard.segments[0].position_s == pytest.approx(TALE.duration_s, abs=0.05)
        assert TALE.duration_s > 16
        assert dials(server) == 1
        assert events == []


@pytest.mark.virtual_time
async def test_a_connection_that_answers_at_last_is_kept() -> None:
    events: list[ResilienceEvent] = []
    slow = Fault(AtTime(5.0, connection=1), SlowPong(12.0))  # it was quick before
    faults = [slow, Fault(OnConnection(2), HangHandshake(6.0))]
    async with (
        OpenAIRealtimeServer(faults=faults) as server,
        HeadlessCall(model_of(server, events)) as call,
    ):
        await call.generate_reply(instructions="greet")
        await server.wait_for("dial", connection=2, timeout_s=30)
        await asyncio.sleep(60)
        assert dials(server) == 2
        assert events == []
        assert call.errors == []
        await call.say(1.0)
        await call.reply()
        assert 1 in server.connections


@pytest.mark.virtual_time
async def test_a_dead_connection_is_replaced_again_and_again() -> None:
    events: list[ResilienceEvent] = []
    async with (
        OpenAIRealtimeServer() as server,
        HeadlessCall(model_of(server, events)) as call,
    ):
        await call.generate_reply(instructions="greet")
        for number in (2, 3):
            await server.do(Blackhole())
            died_at = call.now
            await server.wait_for("session.updated", connection=number, timeout_s=30)
            assert 6 < call.now - died_at < 10
        await call.say(1.0)
        await call.reply()
        assert [type(event) for event in events if isinstance(event, HandedOver)] == [
            HandedOver,
            HandedOver,
        ]
        assert call.errors == []


@pytest.mark.virtual_time
async def test_no_pings_without_a_time_out() -> None:
    async with OpenAIRealtimeServer() as server:
        options = resilient.ResilienceOptions(liveness_timeout_s=None)
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs(resilience=options))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet")
            await server.do(Blackhole())
            await asyncio.sleep(60)
            assert dials(server) == 1


@pytest.mark.virtual_time
async def test_nothing_is_left_of_the_pings_of_a_call_that_is_over() -> None:
    async with OpenAIRealtimeServer() as server:
        call = HeadlessCall(model_of(server))
        async with call:
            await call.generate_reply(instructions="greet")
            pinging = [task for task in asyncio.all_tasks() if task.get_name() == "resilient-ping"]
            assert len(pinging) == 1
        assert all(task.done() for task in pinging)
        assert call.leftover_tasks() == []


@pytest.mark.asyncio
async def test_a_pong_that_waits_in_the_socket_of_a_blocked_loop_counts() -> None:
    # On the real clock, since a virtual one does not run while the loop is blocked.
    events: list[ResilienceEvent] = []
    late = Fault(OnConnection(1), SlowPong(0.1))  # so that it comes while the loop is blocked
    async with (
        OpenAIRealtimeServer(faults=[late]) as server,
        HeadlessCall(model_of(server, events, liveness_timeout_s=2.4)) as call,
    ):
        await call.generate_reply(instructions="greet", wait=False)
        await call.wait_heard(0.1)
        quiet_at = call.now + 4.0
        while call.now < quiet_at:
            await asyncio.sleep(0.05)
            block(0.9)
        assert dials(server) == 1
        assert events == []
