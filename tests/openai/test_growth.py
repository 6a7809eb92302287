"""Many handovers leave nothing behind (R22), and a call through all of it keeps its record."""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import aiohttp
import pytest
from livekit import rtc
from livekit.agents.utils import aio

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import HandedOver, ResilienceEvent
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ScriptedMicrophone,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

RENEW_AFTER_S = 4.0
SETTLED, ALL = 10, 60


def census() -> tuple[int, int]:
    """Tasks, and the client's sockets, channels and frames."""
    gc.collect()
    kinds = (aiohttp.ClientWebSocketResponse, aio.Chan, rtc.AudioFrame)
    return len(asyncio.all_tasks()), sum(type(thing) in kinds for thing in gc.get_objects())


async def test_handovers_leave_nothing_behind() -> None:
    events: list[ResilienceEvent] = []
    async with OpenAIRealtimeServer(["Good day."]) as server:
        kwargs = server.model_kwargs(
            max_session_duration=RENEW_AFTER_S,
            resilience=ResilienceOptions(on_event=events.append),
        )
        async with HeadlessCall(RealtimeModel(**kwargs)) as call:
            await call.generate_reply(instructions="greet")
            call.session.input.audio = None
            counts = []
            for count in (SETTLED, ALL):
                await server.wait_for("open", count=count, timeout_s=count * RENEW_AFTER_S * 2)
                await asyncio.sleep(RENEW_AFTER_S / 2)
                counts.append(census())
            assert counts[1][0] <= counts[0][0]
            assert counts[1][1] <= counts[0][1]
            assert all(isinstance(event, HandedOver) and event.overlapped for event in events)
            assert server.session.texts("assistant") == ["Good day."]
            assert call.errors == []


LONG_S = 600.0
EVERY_S = 57.0
SUNNY = "It is sunny in Paris, and so it will be tomorrow."


def answer(asked: TurnRequest) -> Any:
    """Names the question, so that every answer is of its own."""
    if asked.tool_results:
        return SUNNY
    if "weather" in asked.user_text:
        return ToolCall("get_weather", {"city": "Paris"})
    if asked.reason == "speech":
        return Reply(f"You asked about {asked.user_text}, and this is all I have to say about it.")
    return "Sorry, where was I?"


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_long_call_of_renewals_and_drops_keeps_its_record(seed: int) -> None:
    chance = random.Random(seed)
    async with OpenAIRealtimeServer(default_reply=answer, pace=1.5) as server:
        kwargs = server.model_kwargs(max_session_duration=EVERY_S)
        call = HeadlessCall(RealtimeModel(**kwargs), mic=ScriptedMicrophone(frame_ms=60))
        async with call:
            ends_at = call.now + LONG_S
            asked: list[str] = []
            while call.now < ends_at:
                question = f"{'weather' if chance.random() < 0.25 else 'parcel'} {len(asked)}"
                asked.append(question)
                server.user_says(question)
                dropping = chance.random() < 0.4
                when_s = chance.uniform(0.1, 6.0)
                saying = asyncio.ensure_future(call.say(1.0))
                if dropping:
                    await asyncio.sleep(when_s)
                    if server.connections:
                        await server.do(Abort())
                said = await saying
                await asyncio.sleep(3.0)
                await call.agent_done()
                assert said.ended_at is not None
                await asyncio.sleep(chance.uniform(0.0, 15.0))
            assert call.closed is None
            assert all(error.recoverable for error in call.errors)
            told = server.session
            questions = [text for text in told.texts("user") if text]
            assert len(questions) == len(set(questions))
            assert [q for q in asked if q in questions] == questions
            said_by_model = {
                item.text
                for session in server.sessions
                for item in session.items
                if item.pcm and item.role == "assistant"
            }
            for text in told.texts("assistant"):
                assert any(whole.startswith(text) for whole in said_by_model), text
        assert call.leftover_tasks() == []
