"""A tool's result is answered by one response, as upstream has it, also over a drop (R9, R11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import Agent, RunContext, function_tool
from livekit.plugins import openai, resilient

from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    ToolCall,
)
from livekit.plugins.resilient.testing.script import TurnSource

pytestmark = pytest.mark.virtual_time

LOOKUP = ToolCall("get_weather", {"city": "Rome"})
SUNNY = Reply("It is sunny in Rome.")
MORE = Reply("Is there anything else?")
TOOL_S = 6.0

OURS = resilient.openai.realtime.RealtimeModel
UPSTREAM = openai.realtime.RealtimeModel


class Assistant(Agent):
    """An agent whose tool is slow, and may ask for a reply of its own before it returns."""

    def __init__(self, *, asks: bool = False) -> None:
        super().__init__(instructions="Be brief.")
        self.began = asyncio.Event()
        self.asks = asks

    @function_tool
    async def get_weather(self, context: RunContext[Any], city: str) -> str:
        """Tell the weather in a city."""
        self.began.set()
        await asyncio.sleep(TOOL_S)
        if self.asks:
            context.session.generate_reply(instructions="say that it is sunny")
        return "sunny"


@asynccontextmanager
async def calling(
    agent: Assistant, *faults: Fault, model: Any = OURS
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    replies: list[TurnSource] = [LOOKUP, SUNNY]
    async with (
        OpenAIRealtimeServer(replies, default_reply=MORE, faults=faults) as server,
        HeadlessCall(model(**server.model_kwargs()), agent=agent) as call,
    ):
        await call.say(1.0)
        await agent.began.wait()
        yield server, call


async def responses(server: OpenAIRealtimeServer, call: HeadlessCall) -> int:
    """How many responses were begun, once nothing more comes."""
    await call.reply(timeout_s=60)
    await call.agent_done()
    await asyncio.sleep(40)
    return server.recording.count("response.create")


@pytest.mark.parametrize("asks", [False, True])
async def test_without_a_drop_as_many_as_upstream(asks: bool) -> None:
    counts = []
    for model in (UPSTREAM, OURS):
        async with calling(Assistant(asks=asks), model=model) as (server, call):
            counts.append(await responses(server, call))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("down_s", [0.0, 3.0, 9.0])
async def test_over_a_drop_no_more_than_without_one(down_s: float, asks: bool) -> None:
    async with calling(Assistant(asks=asks)) as (server, call):
        usual = await responses(server, call)
    down = [Fault(OnConnection(2), HangHandshake(down_s))] if down_s else []
    async with calling(Assistant(asks=asks), *down) as (server, call):
        await server.do(Abort())
        assert await responses(server, call) == usual
        assert len(call.tools) == 1
        assert server.session.texts("assistant")[0] == SUNNY.text


async def test_a_request_at_the_moment_of_the_result_is_one_more_and_no_other() -> None:
    async with calling(Assistant()) as (server, call):
        await asyncio.sleep(TOOL_S)
        await call.generate_reply(instructions="go on", wait=False)
        assert await responses(server, call) == 2
