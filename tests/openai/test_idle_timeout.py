"""`idle_timeout_ms`: what the server adds by itself when nobody speaks is nobody's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import llm
from livekit.plugins import resilient
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

from livekit.plugins.resilient.events import RedriveDecided, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)
from livekit.plugins.resilient.testing.openai.idle import EXPLANATION

pytestmark = pytest.mark.virtual_time

IDLE_S = 5.0
GREETING = Reply("Good morning, how can I help you?")
STILL_THERE = Reply("Are you still there?")
ANSWER = Reply("Yes, I can hear you well.")
TIMED_OUT = "input_audio_buffer.timeout_triggered"


class Call:
    def __init__(self, server: OpenAIRealtimeServer, call: HeadlessCall) -> None:
        self.server = server
        self.call = call
        self.events: list[ResilienceEvent] = []

    def redrives(self) -> list[str]:
        return [event.reason for event in self.events if isinstance(event, RedriveDecided)]

    async def greeted(self) -> None:
        await self.call.generate_reply(instructions="greet")
        await self.call.agent_done()


@asynccontextmanager
async def calling(*faults: Fault) -> AsyncIterator[Call]:
    replies = [GREETING, STILL_THERE]
    async with OpenAIRealtimeServer(replies, default_reply=ANSWER, faults=faults) as server:
        events: list[ResilienceEvent] = []
        kwargs: dict[str, Any] = server.model_kwargs(
            resilience=resilient.ResilienceOptions(on_event=events.append),
            turn_detection=ServerVad(type="server_vad", idle_timeout_ms=round(IDLE_S * 1000)),
        )
        async with HeadlessCall(resilient.openai.realtime.RealtimeModel(**kwargs)) as headless:
            call = Call(server, headless)
            call.events = events
            yield call


async def test_the_model_speaks_up_and_its_reason_is_told_to_no_later_session() -> None:
    async with calling() as on:
        await on.greeted()
        heard_at = on.call.now
        await on.call.until(lambda: len(on.call.heard.segments) == 2, what="the question")
        asked_at = on.call.heard.segments[1].started_at
        assert asked_at is not None
        assert asked_at - heard_at == pytest.approx(IDLE_S, abs=0.2)
        assert on.server.session.knows(EXPLANATION) == 1
        await on.call.agent_done()
        await on.server.do(Abort())
        await on.server.wait_for("session.updated", connection=2)
        await asyncio.sleep(1)
        assert on.server.session.number == 2
        assert on.server.session.texts() == [GREETING.text, STILL_THERE.text]
        said = await on.call.say(1.0)
        await on.call.reply(after=said.ended_at)
        assert on.redrives() == []


async def test_what_the_application_adds_of_its_own_is_told() -> None:
    async with calling() as on:
        await on.greeted()
        session = on.call.realtime_session
        context = session.chat_ctx.copy()
        context.add_message(role="system", content="The caller is called Ada.")
        await session.update_chat_ctx(context)
        await on.server.wait_for(TIMED_OUT)
        await on.call.until(lambda: len(on.call.heard.segments) == 2, what="the question")
        await on.call.agent_done()
        # An item of the server's in the middle is no place for what follows it to be put after.
        context = session.chat_ctx.copy()
        context.add_message(role="user", content="My name is Ada.")
        await session.update_chat_ctx(context)
        await on.server.do(Abort())
        await on.server.wait_for("session.updated", connection=2)
        await asyncio.sleep(1)
        assert on.server.session.texts() == [
            GREETING.text,
            "The caller is called Ada.",
            STILL_THERE.text,
            "My name is Ada.",
        ]
        await session.update_chat_ctx(session.chat_ctx.copy())
        assert EXPLANATION in [
            item.text_content
            for item in session.chat_ctx.items
            if isinstance(item, llm.ChatMessage)
        ]


@pytest.mark.parametrize("at", ["input_audio_buffer.committed", TIMED_OUT])
async def test_a_drop_in_between_has_nobody_asked_to_repeat_what_was_not_said(at: str) -> None:
    async with calling(Fault(After(at, connection=1), Abort())) as on:
        await on.greeted()
        await on.server.wait_for("session.updated", connection=2)
        await asyncio.sleep(IDLE_S)
        assert on.redrives() == []
        assert on.server.recording.count("response.create", connection=2) == 0


async def test_words_after_it_that_a_drop_takes_are_asked_for() -> None:
    drop = Fault(After("input_audio_buffer.committed", nth=2), Abort())
    async with calling(drop) as on:
        await on.greeted()
        await on.call.until(lambda: len(on.call.heard.segments) == 2, what="the question")
        said = await on.call.say(1.0)
        await on.call.reply(after=said.ended_at)
        assert on.redrives() == ["user_words_lost"]


async def test_a_caller_who_speaks_up_in_time_is_answered() -> None:
    async with calling() as on:
        await on.greeted()
        await asyncio.sleep(IDLE_S - 2)
        said = await on.call.say(1.0)
        await on.call.reply(after=said.ended_at)
        assert on.server.recording.events(TIMED_OUT) == []
