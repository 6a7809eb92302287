"""A caller who cuts in around a drop is listened to; the old reply is never gone on with (R12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    GeminiLiveServer,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    TurnRequest,
)
from tests.google.test_activity import UNDETECTED, EnergyVad

from .pairs import pairwise

pytestmark = pytest.mark.virtual_time

Provider = Literal["gemini", "openai"]
Detection = Literal["server", "vad", "manual"]

STORY = Reply(
    "Once upon a time there was a caller who listened to a long story and wanted to hear all of it "
    "to the very end, and so the story went on and on, with many a word that nobody would miss."
)
ANSWER = Reply("This answers what you have just asked.")
REST = Reply("And so it went on, as I was about to say when I was cut off.")
AGAIN = Reply("Sorry, I missed that, what did you say?")


@dataclass
class Stage:
    detection: Detection
    server: Any = None
    call: Any = None
    asked: list[str] = field(default_factory=list)

    def answer(self, request: TurnRequest) -> Reply:
        text = request.user_text
        if "Tell a story" in text:
            return STORY
        self.asked.append(text)
        if "cut your reply off" in text:
            return REST
        return AGAIN if "swallowed" in text else ANSWER

    async def say(self, seconds: float) -> Any:
        call = self.call
        if self.detection == "manual":
            call._inside(call.session.interrupt)
        said = await call.say(seconds)
        if self.detection == "manual":
            call._inside(call.session.commit_user_turn)
        return said

    def times_heard(self, reply: Reply) -> int:
        heard = self.call.heard.heard_pcm()
        turns = range(1, self.server.script.turns + 1)
        return sum(heard.count(reply.pcm(24_000, seed=number)[:9600]) for number in turns)

    async def drop_in_mid_story(self) -> None:
        """With seconds of it still to be played."""
        await self.call.generate_reply(instructions="Tell a story.", wait=False)
        await self.call.wait_heard(2.0)
        await self.server.do(Abort())

    async def settle(self) -> None:
        await asyncio.sleep(20.0)
        await self.call.agent_done()


@asynccontextmanager
async def a_call(
    provider: Provider, detection: Detection, *faults: Fault, **options: Any
) -> AsyncIterator[Stage]:
    stage = Stage(detection)
    model: Any
    session: dict[str, Any] = {}
    if detection != "server":
        session["turn_handling"] = {"turn_detection": detection}
    if detection == "vad":
        session["vad"] = EnergyVad()
    if provider == "gemini":
        stage.server = GeminiLiveServer(default_reply=stage.answer, faults=faults, pace=2.0)
        model = resilient.google.realtime.RealtimeModel
        if detection != "server":
            options["realtime_input_config"] = UNDETECTED
    else:
        stage.server = OpenAIRealtimeServer(default_reply=stage.answer, faults=faults)
        model = resilient.openai.realtime.RealtimeModel
        if detection != "server":
            options["turn_detection"] = None
    async with stage.server:
        made = model(**stage.server.model_kwargs(**options))
        async with HeadlessCall(made, session_options=session) as stage.call:
            yield stage


PROVIDERS = ["gemini", "openai"]


@pairwise(
    provider=PROVIDERS,
    detection=["server", "vad", "manual"],
    after_s=[-0.6, -0.1, 0.0, 0.4, 1.0],
    seconds=[0.6, 1.5],
)
async def test_a_caller_who_cuts_in_at_a_drop_is_listened_to(
    provider: Provider, detection: Detection, after_s: float, seconds: float
) -> None:
    """Heard by the server before the drop, by us alone, or while there is no line."""
    away = Fault(OnConnection(2), HangHandshake(3.0))
    async with a_call(provider, detection, away) as stage:
        call = stage.call
        await call.generate_reply(instructions="Tell a story.", wait=False)
        await call.wait_heard(2.0)

        async def drop() -> None:
            await asyncio.sleep(max(0.0, -after_s))
            await stage.server.do(Abort())

        async def speak() -> None:
            await asyncio.sleep(max(0.0, after_s))
            await stage.say(seconds)

        await asyncio.gather(drop(), speak())
        await stage.settle()
        assert stage.times_heard(REST) == 0
        assert not any("cut your reply off" in asked for asked in stage.asked)
        assert stage.times_heard(ANSWER) + stage.times_heard(AGAIN) == 1


@pairwise(provider=PROVIDERS, after_s=[0.4, 1.0], detection=["vad", "manual"])
async def test_a_caller_who_cuts_in_on_the_old_rest_does_not_hear_the_new_one(
    provider: Provider, detection: Detection, after_s: float
) -> None:
    """It was asked for, or waits to be played, when the caller cuts in on what is left of the old
    reply."""
    async with a_call(provider, detection, Fault(OnConnection(2), HangHandshake(0.3))) as stage:
        await stage.drop_in_mid_story()
        await asyncio.sleep(after_s)
        said = await stage.say(0.6)
        answer = await stage.call.reply(after=said.ended_at)
        await stage.settle()
        assert answer.started_at - said.ended_at < 2.5
        assert stage.times_heard(REST) == 0
        assert stage.times_heard(ANSWER) == 1
        texts = stage.call.agent_texts()
        assert texts[-1] == ANSWER.text
        assert REST.text not in texts


@pytest.mark.parametrize("after_s", [0.5, 1.2])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reply_that_the_application_stops_is_not_gone_on_with(
    provider: Provider, after_s: float
) -> None:
    async with a_call(provider, "server", Fault(OnConnection(2), HangHandshake(3.0))) as stage:
        await stage.drop_in_mid_story()
        await asyncio.sleep(after_s)
        await stage.call._inside(stage.call.session.interrupt)
        await stage.settle()
        assert stage.asked == []
        said = await stage.call.say(1.0)
        await stage.call.reply(after=said.ended_at)
        assert stage.times_heard(ANSWER) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_we_stop_at_a_drop_is_gone_on_with(provider: Provider) -> None:
    flush = resilient.ResilienceOptions(playout_on_drop="flush")
    away = Fault(OnConnection(2), HangHandshake(3.0))
    async with a_call(provider, "server", away, resilience=flush) as stage:
        await stage.drop_in_mid_story()
        await stage.settle()
        assert stage.times_heard(REST) == 1
