"""A connection that is left on purpose keeps nobody waiting, though its server talks on (R8)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from livekit.agents import Agent, function_tool
from livekit.plugins import google

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    CallAgent,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    LateHandle,
    NoCloseAnswer,
    OnConnection,
    Reply,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

# Sent at once, so that it is under way when the connection is left.
TOLD = Reply("It is done, and here is at some length what came of it, in many frames of audio.")
WELCOME = Reply("Hello, I take over from here.", first_token_s=0.3)


@function_tool
async def book() -> str:
    """Book a table."""
    return "booked"


class Second(CallAgent):
    async def on_enter(self) -> None:
        self.session.generate_reply(instructions="Welcome the caller.")


class HandsOver(CallAgent):
    @function_tool
    async def act(self) -> tuple[Agent, str]:
        """Put the caller through."""
        return Second(instructions="You are the second."), "put through"


class GetsATool(CallAgent):
    @function_tool
    async def act(self) -> str:
        """Prepare a booking."""
        asyncio.get_running_loop().call_later(0.01, self._spawn)
        return "prepared"

    def _spawn(self) -> None:
        self.task = asyncio.create_task(self._restart())

    async def _restart(self) -> None:
        await self.update_tools([*self.tools, book])
        self.session.generate_reply(instructions="Welcome the caller.")


@dataclass(frozen=True)
class Gap:
    dialled_after_s: float
    welcomed_after_s: float
    microphone_s: float


def lines(request: TurnRequest) -> Reply:
    return WELCOME if "Welcome" in request.user_text else TOLD


async def gap_of(make: Any, agent: CallAgent, *faults: Fault) -> Gap:
    """How long the next connection and its welcome take, and what is heard of the caller.

    The welcome is never heard where it is asked for before the session is told the context, whose
    messages then cut the answer: upstream's model does so.
    """
    server = GeminiLiveServer([ToolCall("act")], default_reply=lines, faults=faults)
    async with server, HeadlessCall(make(**server.model_kwargs()), agent=agent) as call:
        await call.say(1.0)
        await server.wait_for("toolResponse")
        told_at = call.now
        await server.wait_for("clientContent", connection=2)
        await asyncio.sleep(5.0)
        spoken = server.recording.events("modelTurn", connection=2)
        began = spoken[0].at if spoken else math.inf
        heard = [frame for frame in server.recording.frames("audio") if frame.at >= told_at]
        seconds = sum(frame.audio_s for frame in heard if frame.at <= told_at + 5.0)
        assert len(server.dials()) == 2
    assert call.leftover_tasks() == []
    return Gap(server.dials()[1].at - told_at, began - told_at, seconds)


@pytest.mark.parametrize("agent", [HandsOver, GetsATool])
async def test_it_takes_no_longer_than_upstream(agent: Callable[[], CallAgent]) -> None:
    upstream = await gap_of(google.realtime.RealtimeModel, agent())
    ours = await gap_of(RealtimeModel, agent())
    assert ours.dialled_after_s <= upstream.dialled_after_s + 0.05
    assert ours.welcomed_after_s <= upstream.welcomed_after_s + 0.05
    assert ours.welcomed_after_s < 2.5
    assert ours.microphone_s >= upstream.microphone_s - 0.05


async def test_a_server_that_does_not_answer_the_close_keeps_no_restart_waiting() -> None:
    gap = await gap_of(RealtimeModel, GetsATool(), Fault(OnConnection(1), NoCloseAnswer()))
    assert gap.dialled_after_s < 0.1
    assert gap.microphone_s > 4.8


async def test_a_restart_after_a_turn_waits_for_its_handle_and_serves_on() -> None:
    """The handle comes a second late, and the caller speaks meanwhile."""
    late = Fault(OnConnection(1), LateHandle(1.0))
    async with (
        GeminiLiveServer([WELCOME], default_reply=TOLD, faults=[late]) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        ended_at = server.recording.events("turnComplete")[0].at
        await call.agent.update_tools([*call.agent.tools, book])
        await server.wait_for("setup", connection=2)
        assert 0.9 < call.now - ended_at < 1.1
        heard = list(server.recording.frames("audio", 1))
        heard_s = sum(frame.audio_s for frame in heard if frame.at > ended_at)
        assert heard_s > 0.85, "it is listened to until then"
        await server.wait_for("setupComplete", connection=2)
        assert server.session.resumed_from is not None
        assert server.session.knows(WELCOME.text) == 1


async def test_a_restart_waits_for_no_handle_while_something_is_under_way() -> None:
    late = Fault(OnConnection(1), LateHandle(1.0))
    async with (
        GeminiLiveServer([WELCOME], default_reply=TOLD, faults=[late]) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        await server.wait_for("turnComplete")
        await call.agent.update_tools([*call.agent.tools, book])
        await asyncio.sleep(0.2)
        await call.generate_reply(instructions="Go on.", wait=False)
        asked_at = call.now
        await server.wait_for("setup", connection=2)
        assert call.now - asked_at < 0.1
        await call.agent_done()
        assert call.agent_texts() == [WELCOME.text, TOLD.text]


async def test_a_provider_that_refuses_two_connections_has_the_first_closed_before() -> None:
    server = GeminiLiveServer([WELCOME], default_reply=TOLD, refuse_overlap=True)
    async with server, HeadlessCall(RealtimeModel(**server.model_kwargs())) as call:
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        await call.agent.update_tools([*call.agent.tools, book])
        await server.wait_for("setupComplete", count=2)
        assert len(server.dials()) == 2
        assert call.errors == []
