"""After a reply whose end never comes, the next turn is heard whole, whenever it begins (R13).

The server says `generationComplete`, and of no reply that it is over.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai import types

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import HedgeDecided, ResilienceEvent
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    After,
    Before,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    NoReply,
    Reply,
    ScriptedMicrophone,
    Send,
    Swallow,
    ToolCall,
    TurnRequest,
)
from livekit.plugins.resilient.testing.script import Turn

from ..pairs import pairwise

pytestmark = pytest.mark.virtual_time

GREETING = Reply("Welcome, what can I do for you?")
ANSWER = Reply("This answers what you have just asked.")
GO_ON = Reply("Here is the rest of what I wanted to say.")
TOLD = Reply("The tool tells me that it is sunny in Paris.")
LOOK = ToolCall("get_weather", {"city": "Paris"})
UNENDED = Fault(Before("turnComplete"), Swallow(), times="always")
RATE = 24_000
PATIENCE_S = 10.0
BOUND_S = 40.0  # beyond that on a complete reply

FAMILIES: list[dict[str, Any]] = [
    {"family": "2.5"},
    {"family": "3.1"},
    {"family": "3.8"},
    {"vertex": True},
]
MOMENTS = [0.05, 1.0, 5.0, BOUND_S]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=str)
each_moment = pytest.mark.parametrize("after_s", MOMENTS)


def answers(turn: Turn = ANSWER) -> Callable[[TurnRequest], Turn]:
    """A greeting when it is asked for, `turn` to what the caller says."""

    def reply(asked: TurnRequest) -> Turn:
        if asked.reason == "tool_result":
            return TOLD
        if asked.reason == "speech":
            return turn
        return GREETING if "Greet" in asked.user_text else GO_ON

    return reply


class Call:
    """A call whose greeting the server has completed, but not ended."""

    def __init__(self, server: GeminiLiveServer, call: HeadlessCall) -> None:
        self.server, self.call = server, call
        self.events: list[ResilienceEvent] = []

    async def rest(self, seconds: float) -> None:
        until = self.call.now + seconds
        while (left_s := until - self.call.now) > 0:
            await self.call.changes.wait(left_s)

    def times_heard(self, reply: Reply) -> int:
        """How often the caller heard all of it."""
        heard = self.call.heard.heard_pcm()
        turns = range(1, self.server.script.turns + 1)
        return sum(heard.count(reply.pcm(RATE, seed=number)) for number in turns)

    async def hears(self, reply: Reply, times: int = 1) -> None:
        await self.call.until(
            lambda: self.times_heard(reply) == times, timeout_s=PATIENCE_S, what=reply.text
        )


@asynccontextmanager
async def greeted(
    *faults: Fault,
    turn: Turn = ANSWER,
    model: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
    hint: bool = True,
) -> AsyncIterator[Call]:
    simulator = GeminiLiveServer(
        default_reply=answers(turn),
        faults=[UNENDED, *faults],
        assume_playback=False,
        **(server or {}),
    )
    async with simulator:
        events: list[ResilienceEvent] = []
        options = ResilienceOptions(speech_hint=hint, on_event=events.append)
        kwargs = simulator.model_kwargs(resilience=options, **(model or {}))
        mic = ScriptedMicrophone(frame_ms=60)
        async with HeadlessCall(RealtimeModel(**kwargs), mic=mic) as call:
            self = Call(simulator, call)
            self.events = events
            await call.generate_reply(instructions="Greet the caller.", wait=False)
            await simulator.wait_for("generationComplete")
            yield self


@pairwise(family=FAMILIES, after_s=MOMENTS, transcribed=[True, False])
async def test_a_question_is_answered(
    family: dict[str, Any], after_s: float, transcribed: bool
) -> None:
    model = {} if transcribed else {"input_audio_transcription": None}
    async with greeted(server=family, model=model) as call:
        await call.rest(after_s)
        await call.call.say(1.0)
        await call.hears(ANSWER)


@each_moment
async def test_it_is_where_nobody_hears_the_caller(after_s: float) -> None:
    async with greeted(model={"input_audio_transcription": None}, hint=False) as call:
        await call.rest(after_s)
        await call.call.say(1.0)
        await call.hears(ANSWER)


@each_family
async def test_several_in_a_row_are(family: dict[str, Any]) -> None:
    async with greeted(server=family) as call:
        for number in range(1, 5):
            await call.rest(3.0)
            await call.call.say(1.0)
            await call.hears(ANSWER, number)


@each_family
@each_moment
async def test_a_tool_is_called_and_its_result_told(family: dict[str, Any], after_s: float) -> None:
    async with greeted(server=family, turn=LOOK) as call:
        await call.rest(after_s)
        await call.call.say(1.0)
        await call.hears(TOLD)
        assert [run.status for run in call.call.tools] == ["done"]


async def test_what_is_said_into_a_reply_that_cannot_be_stopped_is_answered_after_it() -> None:
    handling = types.ActivityHandling.NO_INTERRUPTION
    model = {
        "realtime_input_config": types.RealtimeInputConfig(activity_handling=handling),
        "input_audio_transcription": None,
    }
    async with greeted(model=model, server={"pace": "realtime"}) as call:
        await call.rest(1.0)
        await call.call.say(1.0)
        await call.hears(ANSWER)


async def test_audio_that_trails_a_complete_reply_is_left_out() -> None:
    """As upstream does; it is no turn of its own."""
    part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA" * 400}}
    trailing = Send({"serverContent": {"modelTurn": {"parts": [part]}}})
    async with greeted(Fault(After("generationComplete"), (trailing, trailing))) as call:
        await call.hears(GREETING)
        await call.rest(3.0)
        assert len(call.call.heard.segments) == 1


async def test_words_that_get_no_answer_are_owed_one() -> None:
    async with greeted(turn=NoReply()) as call:
        await call.rest(5.0)
        await call.call.say(1.0)
        await call.rest(80.0)
        assert HedgeDecided in [type(event) for event in call.events]
        assert call.times_heard(GO_ON) == 1
