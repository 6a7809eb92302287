"""Replies that the application asks for while there is no line (R11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from google.genai import types
from livekit.agents import function_tool
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    GeminiLiveServer,
    HangHandshake,
    HeadlessCall,
    NoSetupAnswer,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Refuse,
    Reply,
    TurnRequest,
)

from .pairs import pairwise

UNDETECTED = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
)

pytestmark = pytest.mark.virtual_time

Provider = Literal["gemini", "openai"]
Dials = Literal["hang", "are-refused", "are-dropped"]

GREETING = Reply("Welcome, what can I do for you?")
NEWS = Reply("Here is the news of today, and there is little of it.")
JOKE = Reply("A joke is what you get when you ask for one.")
ANSWER = Reply("This answers what you have just asked.")
OTHER = Reply("Sorry about that, let me go on with what I was saying.")
LINES = {"Greet": GREETING, "Tell the news": NEWS, "Tell a joke": JOKE}


def lines(request: TurnRequest) -> Reply:
    for instructions, reply in LINES.items():
        if instructions in request.user_text:
            return reply
    return ANSWER if request.reason == "speech" else OTHER


def outage(seconds: float, dials: Dials, *, first: int = 2) -> list[Fault]:
    """Dials that fail for about so long, the `first` and those after it."""
    faults: list[Fault] = []
    number = first
    if dials == "hang":
        while seconds >= 10.0:
            faults.append(Fault(OnConnection(number), HangHandshake()))
            number, seconds = number + 1, seconds - 10.0
        if seconds:
            faults.append(Fault(OnConnection(number), HangHandshake(seconds)))
        return faults
    passed_s, wait_s = 0.0, 0.25
    while passed_s < seconds:
        action = Refuse(503) if dials == "are-refused" else Abort()
        faults.append(Fault(OnConnection(number), action))
        number, passed_s, wait_s = number + 1, passed_s + wait_s, min(8.0, wait_s * 2)
    return faults


@function_tool
async def look() -> str:
    """Look something up."""
    return "found"


@pytest.fixture(autouse=True)
def longest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 1.0)


@dataclass
class Stage:
    server: Any
    call: HeadlessCall

    def times_heard(self, reply: Reply) -> int:
        heard = self.call.heard.heard_pcm()
        turns = range(1, self.server.script.turns + 1)
        return sum(heard.count(reply.pcm(24_000, seed=number)[:9600]) for number in turns)


@asynccontextmanager
async def a_call(provider: Provider, *faults: Fault, detects: bool = True) -> AsyncIterator[Stage]:
    server: Any
    options: dict[str, Any] = {}
    keywords: dict[str, Any] = {}
    if not detects:
        options["session_options"] = {"turn_handling": {"turn_detection": "manual"}}
        openai = provider == "openai"
        keywords = {"turn_detection": None} if openai else {"realtime_input_config": UNDETECTED}
    if provider == "gemini":
        server = GeminiLiveServer(default_reply=lines, faults=faults, pace=4.0)
        make: Any = resilient.google.realtime.RealtimeModel
    else:
        server = OpenAIRealtimeServer(default_reply=lines, faults=faults)
        make = resilient.openai.realtime.RealtimeModel
    async with server, HeadlessCall(make(**server.model_kwargs(**keywords)), **options) as call:
        yield Stage(server, call)
    assert call.leftover_tasks() == []


async def settle(stage: Stage, seconds: float = 12.0) -> None:
    await asyncio.sleep(seconds)
    await stage.call.agent_done()


PROVIDERS = ["gemini", "openai"]


@pairwise(
    provider=PROVIDERS,
    when=["before", "at", "after"],
    seconds=[3, 14, 40],
    dials=["hang", "are-refused", "are-dropped"],
)
async def test_a_request_is_answered_once_however_long_the_outage(
    provider: Provider, when: str, seconds: int, dials: Dials
) -> None:
    asked = "clientContent" if provider == "gemini" else "response.create"
    faults = outage(seconds, dials)
    if when == "before":
        faults.append(Fault(Received(asked, nth=2, connection=1), Abort()))
    async with a_call(provider, *faults) as stage:
        call = stage.call
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        if when != "before":
            await stage.server.do(Abort())
        if when == "after":
            await asyncio.sleep(1.0)
        asked_at = call.now
        request = await call.generate_reply(instructions="Tell the news.", timeout_s=90)
        assert request.exception() is None
        assert call.now - asked_at > seconds - 2, "the outage"
        await settle(stage)
        assert stage.times_heard(NEWS) == 1
        assert stage.times_heard(GREETING) == 1
        assert stage.times_heard(OTHER) == 0
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        assert stage.times_heard(ANSWER) == 1


@pytest.mark.parametrize("seconds", [5.0, 9.0, 10.0, 15.0, 35.0])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_greeting_while_the_first_dial_hangs(provider: Provider, seconds: float) -> None:
    faults = outage(seconds, "hang", first=1)
    async with a_call(provider, *faults) as stage:
        request = await stage.call.generate_reply(instructions="Greet the caller.", timeout_s=90)
        assert request.exception() is None
        await settle(stage)
        assert stage.times_heard(GREETING) == 1
        assert stage.times_heard(OTHER) == 0
        said = await stage.call.say(1.0)
        await stage.call.reply(after=said.ended_at)
        assert stage.times_heard(ANSWER) == 1


@pytest.mark.parametrize("action", [Refuse(503), Abort()], ids=["refused", "dropped"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_greeting_while_the_first_dials_fail(provider: Provider, action: Any) -> None:
    faults = [Fault(OnConnection(n), action) for n in range(1, 8)]
    async with a_call(provider, *faults) as stage:
        request = await stage.call.generate_reply(instructions="Greet the caller.", timeout_s=90)
        assert request.exception() is None
        await settle(stage)
        assert stage.times_heard(GREETING) == 1
        assert stage.times_heard(OTHER) == 0


@pairwise(provider=PROVIDERS, first=[1, 2], number=[1, 2, 3])
async def test_a_request_while_connections_are_not_answered(
    provider: Provider, first: int, number: int
) -> None:
    faults = [Fault(OnConnection(first + n), NoSetupAnswer()) for n in range(number)]
    async with a_call(provider, *faults) as stage:
        if first == 2:
            await stage.call.generate_reply(instructions="Greet the caller.")
            await stage.server.do(Abort())
        request = await stage.call.generate_reply(instructions="Tell the news.", timeout_s=90)
        assert request.exception() is None
        await settle(stage)
        assert stage.times_heard(NEWS) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_two_requests_in_an_outage_are_answered_in_order(provider: Provider) -> None:
    async with a_call(provider, *outage(14, "hang")) as stage:
        call = stage.call
        await call.generate_reply(instructions="Greet the caller.")
        await stage.server.do(Abort())
        await asyncio.sleep(1.0)
        news = await call.generate_reply(instructions="Tell the news.", wait=False)
        joke = await call.generate_reply(instructions="Tell a joke.", timeout_s=90)
        await settle(stage)
        assert news.exception() is joke.exception() is None
        assert call.agent_texts() == [GREETING.text, NEWS.text, JOKE.text]
        assert stage.times_heard(NEWS) == stage.times_heard(JOKE) == 1


@pairwise(provider=PROVIDERS, when=["before", "after"], how=["its handle", "the session"])
async def test_a_request_that_is_taken_back_in_an_outage_is_not_answered(
    provider: Provider, when: str, how: str
) -> None:
    asked = "clientContent" if provider == "gemini" else "response.create"
    faults = outage(14, "hang")
    if when == "before":
        faults.append(Fault(Received(asked, nth=2, connection=1), Abort()))
    async with a_call(provider, *faults) as stage:
        call = stage.call
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        if when == "after":
            await stage.server.do(Abort())
        request = await call.generate_reply(instructions="Tell the news.", wait=False)
        await asyncio.sleep(1.0)
        if how == "its handle":
            await request.interrupt()
        else:
            await call._inside(call.session.interrupt)
        await settle(stage, 20.0)
        assert stage.times_heard(NEWS) == stage.times_heard(OTHER) == 0
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        assert stage.times_heard(ANSWER) == 1


async def test_a_request_s_own_tools_and_choice_go_with_it() -> None:
    async with a_call("openai", *outage(14, "hang")) as stage:
        await stage.call.generate_reply(instructions="Greet the caller.")
        await stage.server.do(Abort())
        await asyncio.sleep(1.0)
        session: Any = stage.call.realtime_session
        future = session.generate_reply(
            instructions="Tell the news.", tools=[look], tool_choice="required"
        )
        assert (await future).user_initiated
        (asked,) = stage.server.recording.frames("response.create", len(stage.server.dials()))
        response = asked.message["response"]
        assert [tool["name"] for tool in response["tools"]] == ["look"]
        assert response["tool_choice"] == "required"
        assert response["instructions"].endswith("Tell the news.")


@pytest.mark.parametrize("seconds", [14, 20])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_turn_that_is_committed_in_an_outage_is_answered_at_once_after_it(
    provider: Provider, seconds: int
) -> None:
    async with a_call(provider, *outage(seconds, "hang"), detects=False) as stage:
        call = stage.call
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        stage.server.user_says("the question")
        await stage.server.do(Abort())
        await asyncio.sleep(1.0)
        call._inside(call.session.interrupt)
        said = await call.say(0.6)
        call._inside(call.session.commit_user_turn)
        answer = await call.reply(after=said.ended_at)
        served_at = max(dial.at for dial in stage.server.dials()) + seconds % 10
        assert answer.started_at is not None
        assert answer.started_at - served_at < 2.5
        await settle(stage)
        assert call.user_texts() == ["the question"]
        assert len(call.heard.segments) == 2


@pytest.mark.parametrize("quiet_s", [0.3, 0.8])
async def test_words_of_an_outage_do_not_pass_for_a_barge_in_on_the_request(quiet_s: float) -> None:
    """Gemini's word that our request cut what it made of them is none of the caller's (R18)."""
    async with a_call("gemini", *outage(3, "hang")) as stage:
        call = stage.call
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        await stage.server.do(Abort())
        request = await call.generate_reply(instructions="Tell the news.", wait=False)
        await asyncio.sleep(2.8 - quiet_s)
        await call.say(1.0)
        await settle(stage)
        assert stage.times_heard(NEWS) == 1
        assert not request.interrupted
        assert request.exception() is None
