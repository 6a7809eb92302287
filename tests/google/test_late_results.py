"""A result whose call the session does not know of is told in words, and begins one turn (R9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from livekit.agents import llm
from livekit.plugins import google

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    CallAgent,
    Fault,
    GeminiLiveServer,
    HangHandshake,
    HeadlessCall,
    NoHandle,
    OnConnection,
    Reply,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

RESULT = "cloudless"
TOOL_S = 5.0
ANSWER = Reply("This answers what you have just asked.", first_token_s=0.4)
TOLD = Reply("The tool tells me that it is cloudless in Paris.", first_token_s=0.4)
STORY = Reply("Once upon a time there was a caller who listened to a long story to its very end.")


def lines(request: TurnRequest) -> Reply:
    known = any(RESULT in text for text in request.knows)
    told = any(text == TOLD.text for text in request.knows)
    return TOLD if known and not told else ANSWER


@dataclass
class Stage:
    server: GeminiLiveServer
    call: HeadlessCall

    async def tool_ends(self) -> None:
        await self.call.until(lambda: self.call.tools[0].ended_at is not None, what="its end")

    def turns(self, connection: int = 2) -> int:
        """How many turns the client had the server begin, by content that completes one."""
        contents = self.server.recording.frames("clientContent", connection)
        return sum(bool(f.message["clientContent"].get("turnComplete")) for f in contents)


@asynccontextmanager
async def a_call(
    *faults: Fault, family: str = "2.5", make: Any = RealtimeModel
) -> AsyncIterator[Stage]:
    drop = Fault(After("toolCall", connection=1), Abort())
    server = GeminiLiveServer(
        [ToolCall("get_weather", {"city": "Paris"})],
        default_reply=lines,
        faults=[Fault(OnConnection(1), NoHandle()), drop, *faults],
        family=family,
        pace=1.5,
    )
    agent = CallAgent(weather=RESULT, tool_delay_s=TOOL_S)
    async with server, HeadlessCall(make(**server.model_kwargs()), agent=agent) as call:
        await call.say(1.0)
        await server.wait_for("setupComplete", connection=2)
        yield Stage(server, call)
        assert len(call.tools) == 1
    assert call.leftover_tasks() == []


FAMILIES = pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])


async def text_of(generation: llm.GenerationCreatedEvent) -> str:
    return "".join(
        [text async for message in generation.message_stream async for text in message.text_stream]
    )


@dataclass
class Session:
    """A realtime session on a fresh connection, for which a result is late."""

    server: GeminiLiveServer
    rt: Any
    call: llm.FunctionCall
    replies: list[asyncio.Task[str]]

    async def result_comes(self) -> None:
        record = self.rt.chat_ctx.copy()
        record.insert([self.call, llm.FunctionCallOutput(**ended(self.call))])
        await self.rt.update_chat_ctx(record)

    def turns(self) -> list[str]:
        """The content by which the client had the server begin a turn."""
        contents = self.server.recording.frames("clientContent", 2)
        done = [f for f in contents if f.message["clientContent"].get("turnComplete")]
        return [" ".join(frame.texts) for frame in done]


@asynccontextmanager
async def a_session(family: str, make: Any = RealtimeModel) -> AsyncIterator[Session]:
    server = GeminiLiveServer(
        [ToolCall("get_weather", {"city": "Paris"})],
        default_reply=lines,
        faults=[Fault(OnConnection(1), NoHandle())],
        family=family,
        pace=1.5,
    )
    async with server:
        model = make(**server.model_kwargs())
        rt = model.session()
        replies: list[asyncio.Task[str]] = []
        rt.on(
            "generation_created",
            lambda event: replies.append(asyncio.create_task(text_of(event))),
        )
        called = await rt.generate_reply(instructions="Tell the weather.")
        (call,) = [call async for call in called.function_stream]
        replies.clear()
        await server.do(Abort())
        await server.wait_for("setupComplete", connection=2)
        await asyncio.sleep(1.0)
        yield Session(server, rt, call, replies)
        await rt.aclose()
        await model.aclose()


@FAMILIES
@pytest.mark.parametrize("make", [google.realtime.RealtimeModel, RealtimeModel])
@pytest.mark.parametrize("later_s", [0.0, 0.02])
async def test_with_a_request_it_begins_one_turn(family: str, make: Any, later_s: float) -> None:
    """Upstream answers a call that the session does not know of, which the server ignores."""
    async with a_session(family, make) as session:
        await session.result_comes()
        await asyncio.sleep(later_s)
        session.rt.generate_reply(instructions="Say what came of it.")
        await asyncio.sleep(15.0)
        (turn,) = session.turns()
        (reply,) = session.replies
        if make is RealtimeModel:
            assert await reply == TOLD.text
            assert "Say what came of it." in turn


@FAMILIES
@pytest.mark.parametrize("later_s", [0.0, 1.0])
async def test_it_cuts_no_reply_that_was_asked_for_before(family: str, later_s: float) -> None:
    async with a_session(family) as session:
        session.rt.generate_reply(instructions="Pass the time.")
        await asyncio.sleep(later_s)
        await session.result_comes()
        await asyncio.sleep(15.0)
        assert len(session.turns()) == 2
        assert [await reply for reply in session.replies] == [ANSWER.text, TOLD.text]
        assert session.server.recording.count("interrupted") == 0


def ended(call: llm.FunctionCall) -> dict[str, Any]:
    return {"call_id": call.call_id, "name": call.name, "output": RESULT, "is_error": False}


@FAMILIES
async def test_alone_it_is_told_at_once(family: str) -> None:
    async with a_call(family=family) as stage:
        await stage.tool_ends()
        ended_at = stage.call.now
        await stage.call.reply(after=ended_at)
        await stage.call.agent_done()
        assert stage.turns() == 1
        assert stage.call.dead_air(after=ended_at) < 0.8
        assert stage.call.agent_texts() == [TOLD.text]


async def test_a_drop_before_it_is_told_tells_it_once() -> None:
    away = Fault(OnConnection(3), HangHandshake(1.0))
    async with a_call(away, family="3.1") as stage:
        await stage.tool_ends()
        await asyncio.sleep(0.05)
        await stage.server.do(Abort())
        await stage.server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(15.0)
        await stage.call.agent_done()
        told = stage.server.recording.texts_sent(3)
        assert sum(RESULT in text for text in told) == 1
        assert stage.call.agent_texts() == [TOLD.text]
