"""The application is warned of what Gemini cannot do, on the occasions on which upstream warns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from livekit.agents import function_tool, llm
from livekit.plugins import google

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    CallAgent,
    GeminiLiveServer,
    HeadlessCall,
    NoReply,
    Reply,
    ToolCall,
)
from livekit.plugins.resilient.testing.script import TurnSource

pytestmark = pytest.mark.virtual_time

Warned = Callable[[], int]
MODELS = pytest.mark.parametrize("make", [google.realtime.RealtimeModel, RealtimeModel])
ANSWER = Reply("This answers what you have just asked.")


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """How often either plugin warned of what an application asked for."""
    caplog.set_level(logging.WARNING)
    plugins = ("livekit.plugins.google", "livekit.plugins.resilient")
    told = ("remov", "taken out", "no reply", "none is asked")

    def count() -> int:
        found = [
            record
            for record in caplog.records
            if record.name in plugins and any(part in record.getMessage() for part in told)
        ]
        return len(found)

    return count


@function_tool
async def note() -> llm.ToolResult:
    """Take a note."""
    return llm.ToolResult("noted", reply_required=False)


@MODELS
@pytest.mark.parametrize("behavior", [types.Behavior.BLOCKING, types.Behavior.NON_BLOCKING])
async def test_a_result_that_wants_no_reply(
    make: Any, behavior: types.Behavior, warned: Warned
) -> None:
    replies: list[TurnSource] = [ToolCall("note"), NoReply()]
    async with GeminiLiveServer(replies, default_reply=ANSWER) as server:
        model = make(**server.model_kwargs(tool_behavior=behavior))
        async with HeadlessCall(model, tools=[note]) as call:
            await call.say(1.0)
            await server.wait_for("toolResponse")
            assert warned() == (behavior is types.Behavior.BLOCKING)


@MODELS
async def test_a_message_that_is_removed(make: Any, warned: Warned) -> None:
    async with (
        GeminiLiveServer(default_reply=ANSWER) as server,
        HeadlessCall(make(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="Greet the caller.")
        await call.say(1.0)
        await call.agent_done()
        record = call.agent.chat_ctx.copy()
        record.add_message(role="user", content="my name is Ada")
        await call.agent.update_chat_ctx(record)
        assert warned() == 0
        record.items.remove(record.messages()[-2])
        await call.agent.update_chat_ctx(record)
        assert warned() == 1
        await call.agent.update_chat_ctx(record)
        assert warned() == 1, "once"


@MODELS
async def test_an_ordinary_call(make: Any, warned: Warned) -> None:
    replies: list[TurnSource] = [ANSWER, ToolCall("get_weather", {"city": "Paris"})]
    async with (
        GeminiLiveServer(replies, default_reply=ANSWER, pace=1.5) as server,
        HeadlessCall(make(**server.model_kwargs()), agent=CallAgent(tool_delay_s=0.5)) as call,
    ):
        await call.say(1.0)
        await call.reply()
        await call.say(1.0)
        await server.wait_for("toolResponse")
        await call.wait_heard(1.0)
        await call.say(1.0)  # cuts in
        await call.agent_done()
        await call.agent.update_chat_ctx(call.agent.chat_ctx.copy())
        assert warned() == 0


async def test_a_removal_during_an_outage(warned: Warned) -> None:
    async with (
        GeminiLiveServer(default_reply=ANSWER) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.say(1.0)
        await call.reply()
        await call.agent_done()
        await server.do(Abort())
        await server.wait_for("setupComplete", count=2)
        assert warned() == 0
        record = call.agent.chat_ctx.copy()
        record.items.remove(record.messages()[-1])
        await server.do(Abort())
        await call.until(lambda: len(call.errors) == 2, what="the loss of the connection")
        await call.agent.update_chat_ctx(record)
        await server.wait_for("audio", connection=3)
        assert warned() == 1
