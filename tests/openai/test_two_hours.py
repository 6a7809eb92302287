"""A call of two hours with drops, barge-ins and renewals: what the records say was heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.events import HandedOver, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    CallAgent,
    Close,
    HangHandshake,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ScriptedMicrophone,
    ToolCall,
    TurnRequest,
)
from livekit.plugins.resilient.testing.faults import Fault, OnConnection
from livekit.plugins.resilient.testing.openai.conversation import Item
from livekit.plugins.resilient.testing.script import Turn

pytestmark = pytest.mark.virtual_time

PACE = 1.3
"""Audio comes somewhat faster than it plays, so that a drop cuts it short."""

TWO_HOURS_S = 7200.0
RATE = 24_000
WEATHER, STORY = "what is the weather", "tell me a story"


@dataclass
class Model:
    """What the simulated model says: every reply is another one."""

    replies: list[Reply] = field(default_factory=list)

    def __call__(self, asked: TurnRequest) -> Turn:
        if WEATHER in asked.user_text and not asked.tool_results:
            return ToolCall("get_weather", {"city": f"City {len(self.replies)}"})
        length = 6 if STORY in asked.user_text else 1
        number = len(self.replies)
        reply = Reply(
            f"Number {number} is what I say now, and nothing else than that, as you asked me to."
            + f" There is more of {number} than you may care to hear." * length
        )
        self.replies.append(reply)
        return reply

    def said(self, text: str) -> Reply | None:
        """The reply that begins with `text`, or whose beginning it is told by its number."""
        start = " ".join(text.split()[:2])
        return next((r for r in self.replies if r.text.startswith(f"{start} ")), None)


@dataclass
class Call:
    server: OpenAIRealtimeServer
    call: HeadlessCall
    model: Model
    events: list[ResilienceEvent] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def ask(self, question: str, *, seconds: float = 1.5, answered: bool = True) -> None:
        """Let the caller ask something that was not asked before, and hear the answer."""
        question = f"{question}, number {len(self.questions)}"
        self.questions.append(question)
        self.server.user_says(question)
        said = await self.call.say(seconds)
        if answered:
            await self.call.reply(after=said.ended_at, timeout_s=60)
            await self.call.agent_done()

    async def settle(self) -> None:
        """Let the product do what it may still owe, and finish speaking."""
        await asyncio.sleep(5.0)
        await self.call.agent_done()

    async def rest(self, seconds: float) -> None:
        """Let time pass with the microphone away, which would be most of the work."""
        microphone = self.call.session.input.audio
        self.call.session.input.audio = None
        await asyncio.sleep(seconds)
        self.call.session.input.audio = microphone

    # -- the truth

    def heard(self, reply: Reply) -> str:
        """The words of a reply that the caller heard; the first one as soon as it began."""
        seconds = max((self._heard_s(i) for i in self._items(reply)), default=0.0)
        if seconds <= 0:
            return ""
        return reply.words_until(seconds) or reply.words[0].text

    def _items(self, reply: Reply) -> list[Item]:
        sessions = self.server.sessions
        items = [item for session in sessions for item in session.items if item.pcm]
        return [i for i in items if i.role == "assistant" and reply.text.startswith(i.text)]

    def _heard_s(self, item: Item) -> float:
        best = 0
        for segment in self.call.heard.segments:
            size = min(len(segment.pcm), len(item.pcm))
            if size > best and segment.pcm[:size] == item.pcm[:size]:
                best = size
        return best / 2 / RATE


Episode = Callable[[Call], Awaitable[None]]


async def plain(call: Call) -> None:
    await call.ask("how are you")


async def drop_in_a_reply(call: Call) -> None:
    await call.ask(STORY, answered=False)
    await call.call.wait_heard(4.0)
    await call.server.do(Abort())
    await call.call.agent_done()


async def slow_redial(call: Call) -> None:
    newest = len(call.server.dials())
    # The caller's next words must still be under way when it is through: what was said whole in an
    # outage is not kept for longer than a second, and asked for again.
    call.server.inject(Fault(OnConnection(newest + 1), HangHandshake(2.0)))
    await call.ask(STORY, answered=False)
    await call.call.wait_heard(3.0)
    await call.server.do(Close(1011))
    await call.call.agent_done()


async def drop_while_a_tool_runs(call: Call) -> None:
    tools = len(call.call.tools)
    await call.ask(WEATHER, answered=False)
    await call.call.until(lambda: len(call.call.tools) > tools, what="a tool that runs")
    # The question is transcribed while the tool runs.
    await asyncio.sleep(call.server.transcription_delay_s)
    await call.server.do(Abort())
    await call.call.reply(timeout_s=60)
    await call.call.agent_done()


async def drop_while_the_caller_speaks(call: Call) -> None:
    asking = asyncio.create_task(call.ask("can you hear me", seconds=3.0))
    await asyncio.sleep(1.5)
    await call.server.do(Close(1001))
    await asking


async def barge_in(call: Call) -> None:
    await call.ask(STORY, answered=False)
    await call.call.wait_heard(3.0)
    await call.ask("stop that")


async def barge_in_after_a_drop(call: Call) -> None:
    await call.ask(STORY, answered=False)
    await call.call.wait_heard(6.0)
    await call.server.do(Abort())
    await asyncio.sleep(0.3)
    await call.ask("one moment please")


async def barge_in_during_an_outage(call: Call) -> None:
    newest = len(call.server.dials())
    call.server.inject(Fault(OnConnection(newest + 1), HangHandshake(4.0)))
    await call.ask(STORY, answered=False)
    await call.call.wait_heard(6.0)
    await call.server.do(Abort())
    await asyncio.sleep(0.2)
    call.call.session.interrupt()
    await call.call.agent_done()
    await asyncio.sleep(5.0)


EPISODES: tuple[Episode, ...] = (
    plain,
    drop_in_a_reply,
    slow_redial,
    drop_while_a_tool_runs,
    barge_in,
    drop_while_the_caller_speaks,
    barge_in_after_a_drop,
    barge_in_during_an_outage,
)


@asynccontextmanager
async def begin(**options: Any) -> AsyncIterator[Call]:
    said = Model()
    async with OpenAIRealtimeServer(default_reply=said, pace=PACE, strict=True) as server:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs(**options))
        agent = CallAgent(tool_delay_s=2.0)
        async with HeadlessCall(model, agent=agent, mic=ScriptedMicrophone(frame_ms=60)) as call:
            stage = Call(server, call, said)
            call.realtime_session.on("resilience", stage.events.append)
            yield stage


def check(call: Call) -> None:
    """Neither record has a word of the agent that was not heard, and both have all that were."""
    session = call.server.session
    recorded = [text for text in call.call.agent_texts() if text]
    known = session.texts("assistant")
    for texts in (recorded, known):
        for text in texts:
            reply = call.model.said(text)
            assert reply is not None, text
            assert call.heard(reply).startswith(text), (text, call.heard(reply))
    heard = [text for reply in call.model.replies if (text := call.heard(reply))]
    # The last word of one that was cut may be missing, by the rounding of where it was cut.
    assert [text.split()[:2] for text in recorded] == [text.split()[:2] for text in heard]
    for text, whole in zip(recorded, heard, strict=True):
        assert len(whole.split()) - len(text.split()) <= 1
    assert sorted(known) == sorted(recorded)
    # Nor is anything else lost, or there twice.
    assert sorted(session.texts("user")) == sorted(call.questions)
    for run in call.call.tools:
        assert len(session.responses_to(run.call_id)) == 1
    assert call.call.closed is None
    assert [error for error in call.call.errors if not error.recoverable] == []


@pytest.mark.parametrize("episode", EPISODES)
async def test_after_each_kind_of_trouble_the_records_are_true(episode: Episode) -> None:
    async with begin() as call:
        await plain(call)
        await episode(call)
        await plain(call)
        check(call)


async def test_two_hours() -> None:
    """With the providers' own limits: the session is renewed every 55 minutes."""
    async with begin() as call:
        began_at = call.call.now
        for _ in range(2):
            for episode in EPISODES:
                await episode(call)
                await call.settle()
                await call.rest(10.0)
            await call.rest(57 * 60.0)
            await plain(call)
        await call.rest(max(0.0, TWO_HOURS_S - (call.call.now - began_at)))
        await plain(call)
        assert call.call.now - began_at >= TWO_HOURS_S
        assert sum(isinstance(event, HandedOver) for event in call.events) >= 2
        check(call)


@pytest.mark.parametrize("first", range(2))
async def test_limits_of_half_a_minute(first: int) -> None:
    """The same with a renewal after every other episode."""
    async with begin(max_session_duration=30.0) as call:
        for episode in islice(cycle(EPISODES), first, first + 24):
            await episode(call)
            await call.settle()
        await plain(call)
        await asyncio.sleep(1.0)  # not while a new session is being told
        assert sum(isinstance(event, HandedOver) for event in call.events) >= 3
        check(call)
