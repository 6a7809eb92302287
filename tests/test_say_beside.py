"""`AgentSession.say` beside a realtime model: a playback report belongs to the speech that played.

What the application says itself goes through the same output as the model's replies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from livekit import rtc
from livekit.agents import Agent, RunContext, function_tool, llm
from livekit.agents.voice.speech_handle import SpeechHandle
from livekit.plugins import resilient

from livekit.plugins.resilient.events import Disconnected, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Close,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ToolCall,
)
from livekit.plugins.resilient.testing.server import SimulatedServer

pytestmark = pytest.mark.virtual_time

HOURS = Reply("We are open from Monday to Friday, in the morning between nine and twelve.")
ANSWER = Reply("Yes, the shop in the old town as well.")
RATE = 24_000


@pytest.fixture(params=["gemini", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def served(provider: str, *replies: Any) -> SimulatedServer:
    kind = GeminiLiveServer if provider == "gemini" else OpenAIRealtimeServer
    return kind(list(replies))


def model_of(provider: str, server: Any, **options: Any) -> llm.RealtimeModel:
    kwargs = server.model_kwargs(resilience=resilient.ResilienceOptions(**options))
    if provider == "gemini":
        return resilient.google.realtime.RealtimeModel(**kwargs)
    return resilient.openai.realtime.RealtimeModel(**kwargs)


async def tone(seconds: float) -> AsyncIterator[rtc.AudioFrame]:
    size = RATE // 50
    for _ in range(round(seconds * 50)):
        yield rtc.AudioFrame(b"\x10\x10" * size, RATE, 1, size)


def say(call: HeadlessCall, text: str, seconds: float, **options: Any) -> SpeechHandle:
    return call._inside(call.session.say, text=text, audio=tone(seconds), **options)


def spoken(call: HeadlessCall) -> dict[str, bool]:
    """The assistant's messages of the session's history, and whether each was interrupted."""
    return {
        item.text_content or "": item.interrupted
        for item in call.session.history.items
        if isinstance(item, llm.ChatMessage) and item.role == "assistant"
    }


def context(call: HeadlessCall) -> list[str]:
    """The texts of the model's own context: what a later connection is told."""
    return [
        item.text_content or ""
        for item in call.realtime_session.chat_ctx.items
        if isinstance(item, llm.ChatMessage) and item.role == "assistant"
    ]


def whole(call: HeadlessCall, *texts: str) -> bool:
    heard = spoken(call)
    return all(heard.get(text) is False and text in context(call) for text in texts)


async def test_a_reply_stays_whole_when_the_application_speaks_after_it(provider: str) -> None:
    async with (
        served(provider, HOURS) as server,
        HeadlessCall(model_of(provider, server)) as call,
    ):
        await call.generate_reply(instructions="tell")
        await call.agent_done()
        assert whole(call, HOURS.text)
        await say(call, "One moment please.", 2.8)
        await call.agent_done()
        assert whole(call, HOURS.text)


async def test_a_reply_that_waits_behind_it_is_none_of_its_business(provider: str) -> None:
    async with (
        served(provider, HOURS, ANSWER) as server,
        HeadlessCall(model_of(provider, server)) as call,
    ):
        await call.generate_reply(instructions="tell")
        first = say(call, "One moment please.", 1.0)
        await call.generate_reply(instructions="go on", wait=False)
        last = say(call, "Thank you for waiting.", 0.6)
        await first
        await last
        await call.agent_done()
        assert whole(call, HOURS.text, ANSWER.text)
        assert len(call.heard.segments) == 4


async def test_the_caller_cuts_in_on_it_and_not_on_the_reply_before(provider: str) -> None:
    async with (
        served(provider, HOURS, ANSWER) as server,
        HeadlessCall(model_of(provider, server)) as call,
    ):
        await call.generate_reply(instructions="tell")
        began_at = call.now
        handle = say(call, "There is much more to tell of that.", 9.0)
        await call.wait_heard(1.0, after=began_at)
        await call.say(1.0)
        await call.agent_done()
        assert handle.interrupted
        assert whole(call, HOURS.text)


async def test_a_filler_while_a_tool_runs_leaves_the_words_before_the_call(provider: str) -> None:
    class Assistant(Agent):
        @function_tool
        async def get_weather(self, context: RunContext[Any], city: str) -> str:
            """Tell the weather in a city."""
            await context.session.say("Still looking.", audio=tone(0.5), add_to_chat_ctx=False)
            return "sunny"

    lookup = ToolCall("get_weather", {"city": "Rome"}, say_first="Let me look that up for you now.")
    async with (
        served(provider, lookup, ANSWER) as server,
        HeadlessCall(model_of(provider, server), agent=Assistant(instructions="x")) as call,
    ):
        await call.generate_reply(instructions="weather")
        await call.agent_done()
        assert len(call.heard.segments) == 3
        assert whole(call, lookup.say_first, ANSWER.text)


async def test_a_drop_under_it_stops_neither_it_nor_the_reply_before(provider: str) -> None:
    events: list[ResilienceEvent] = []
    async with (
        served(provider, HOURS, ANSWER) as server,
        HeadlessCall(
            model_of(provider, server, playout_on_drop="flush", on_event=events.append)
        ) as call,
    ):
        await call.generate_reply(instructions="tell")
        began_at = call.now
        handle = say(call, "One moment please.", 4.0)
        await call.wait_heard(1.0, after=began_at)
        await server.do(Close(1011))
        await call.until(
            lambda: any(isinstance(event, Disconnected) for event in events), what="the drop"
        )
        await handle
        await call.agent_done()
        assert not call.heard.segments[-1].interrupted
        assert whole(call, HOURS.text)


async def test_a_reply_that_the_caller_cuts_ends_where_they_did_also_behind_it(
    provider: str,
) -> None:
    async with (
        served(provider, HOURS, ANSWER) as server,
        HeadlessCall(model_of(provider, server)) as call,
    ):
        await say(call, "Welcome to the shop.", 2.8)
        began_at = call.now
        await call.generate_reply(instructions="tell", wait=False)
        await call.wait_heard(2.0, after=began_at)
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        await call.agent_done()
        (cut,) = [text for text, was_cut in spoken(call).items() if was_cut]
        assert 0 < len(cut) < len(HOURS.text)
        assert HOURS.text.startswith(cut)
        assert cut in context(call)
        say(call, "Anything else?", 0.4)
        await call.agent_done()
        assert cut in context(call)
