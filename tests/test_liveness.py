"""What a suspicion costs (R17): nothing that a caller hears, if it was a false one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pytest
from google.genai import types
from livekit.plugins import resilient

from livekit.plugins.resilient.events import (
    GoAwayReceived,
    HandedOver,
    ResilienceEvent,
)
from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Fault,
    GeminiLiveServer,
    GoAway,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    ScriptedMicrophone,
    SlowPong,
)

pytestmark = pytest.mark.virtual_time

# Long enough to be playing when a suspicion comes, some 22 s after the noise.
TALE = Reply("And so it went on, from one day to the next, until nobody could tell why. " * 8)
NOISE_S = 1.0
# Above every voice: what the microphone brings is noise to the server.
DEAF = 30_000.0

Provider: TypeAlias = Literal["gemini", "openai"]
PROVIDERS: tuple[Provider, ...] = ("gemini", "openai")


@dataclass
class Stage:
    server: GeminiLiveServer | OpenAIRealtimeServer
    call: HeadlessCall
    events: list[ResilienceEvent] = field(default_factory=list)

    async def hear_through_noise(self) -> None:
        began_at = self.call.now
        await self.call.generate_reply(instructions="tell", wait=False)
        await self.call.wait_heard(2.0, after=began_at)
        await self.call.say(NOISE_S)
        await self.call.wait_heard(TALE.duration_s, after=began_at, timeout_s=60)
        await self.call.agent_done()

    async def rest(self, seconds: float) -> None:
        until = self.call.now + seconds
        while (left_s := until - self.call.now) > 0:
            await self.call.changes.wait(left_s)


@asynccontextmanager
async def a_call(
    provider: Provider, *faults: Fault, manual: bool = False, **options: Any
) -> AsyncIterator[Stage]:
    events: list[ResilienceEvent] = []
    resilience = resilient.ResilienceOptions(on_event=events.append, **options)
    make: Callable[..., GeminiLiveServer | OpenAIRealtimeServer]
    make = GeminiLiveServer if provider == "gemini" else OpenAIRealtimeServer
    async with make([TALE], faults=faults, speech_threshold=DEAF) as server:
        kwargs = server.model_kwargs(resilience=resilience)
        model: Any
        if provider == "gemini":
            if manual:
                kwargs["realtime_input_config"] = types.RealtimeInputConfig(
                    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
                )
            model = resilient.google.realtime.RealtimeModel(**kwargs)
        else:
            if manual:
                kwargs["turn_detection"] = None
            model = resilient.openai.realtime.RealtimeModel(**kwargs)
        # Most of the work of a quiet call is its microphone.
        mic = ScriptedMicrophone(frame_ms=60)
        async with HeadlessCall(model, mic=mic) as call:
            yield Stage(server, call, events)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_noise_during_a_reply_costs_nothing(provider: Provider) -> None:
    async with a_call(provider) as on:
        await on.hear_through_noise()
        assert [s.interrupted for s in on.call.heard.segments] == [False]
        assert on.call.heard.segments[0].position_s == pytest.approx(TALE.duration_s, abs=0.05)
        assert len(on.server.dials()) == 1
        assert on.events == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_hint_can_be_switched_off(provider: Provider) -> None:
    async with a_call(provider, speech_hint=False) as on:
        await on.hear_through_noise()
        assert len(on.server.dials()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_sound_proves_nothing_where_the_application_finds_the_turns(
    provider: Provider,
) -> None:
    async with a_call(provider, manual=True) as on:
        for _ in range(2):
            await on.call.say(NOISE_S)
            await on.rest(30.0)
        assert len(on.server.dials()) == 1
        assert on.events == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("pause_s", [5.0, 9.0])
async def test_a_television_costs_nothing(provider: Provider, pause_s: float) -> None:
    async with a_call(provider) as on:
        until = on.call.now + 60.0
        while on.call.now < until:
            await on.call.say(3.0)
            await on.rest(pause_s)
        assert len(on.server.dials()) == 1
        assert on.events == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_of_false_alarms_there_are_fewer_and_fewer(provider: Provider) -> None:
    async with a_call(provider) as on:
        alarms: list[float] = []
        for _ in range(5):
            said = await on.call.say(NOISE_S)
            await on.rest(30.0)
            assert said.ended_at is not None
            alarms += [event.at - said.ended_at for event in on.events[len(alarms) :]]
        assert [type(event) for event in on.events] == [HandedOver] * len(alarms)
        assert 1 <= len(alarms) <= 2
        assert alarms == sorted(alarms)


async def test_pongs_that_are_always_late_make_no_alarm_of_a_noise() -> None:
    slow = Fault(OnConnection(None), SlowPong(12.0), times="always")
    async with a_call("gemini", slow) as on:
        await on.call.say(NOISE_S)
        await on.rest(15.0)
        assert len(on.server.dials()) == 1


@pytest.mark.parametrize("pause_s", [1.0, 25.0])
async def test_a_television_does_not_have_the_caller_asked_again_at_a_move(pause_s: float) -> None:
    async with a_call("gemini", liveness_speech_after_s=None) as on:
        assert isinstance(on.server, GeminiLiveServer)
        await on.call.say(NOISE_S)
        await on.rest(pause_s)
        await on.server.do(GoAway(50.0))
        await on.rest(60.0)
        assert len(on.server.dials()) == 2
        assert on.server.recording.count("clientContent") == 0
        assert [type(event) for event in on.events] == [GoAwayReceived, HandedOver]


async def test_nor_at_a_move_while_it_goes_on() -> None:
    async with a_call("gemini", liveness_speech_after_s=None) as on:
        assert isinstance(on.server, GeminiLiveServer)
        on.call.mic.say(60.0)
        await on.rest(10.0)
        await on.server.do(GoAway(25.0))
        await on.rest(60.0)
        assert len(on.server.dials()) == 2
        assert on.server.recording.count("clientContent") == 0


async def test_nor_at_a_drop_long_after_it() -> None:
    late = Fault(AtTime(40.0, connection=1), Abort())
    async with a_call("gemini", late, liveness_speech_after_s=None) as on:
        await on.call.say(NOISE_S)
        await on.rest(60.0)
        assert len(on.server.dials()) == 2
        assert on.server.recording.count("clientContent") == 0
