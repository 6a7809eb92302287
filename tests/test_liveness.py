"""What a suspicion costs (R17): nothing that a caller hears, if it was a false one."""

from __future__ import annotations

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.events import Disconnected, HandedOver, ResilienceEvent
from livekit.plugins.resilient.testing import (
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)

pytestmark = pytest.mark.virtual_time

# Long enough to be playing when the suspicion comes, some 8 s after the noise.
TALE = Reply("And so it went on, from one day to the next, until nobody could tell why. " * 4)
NOISE_S = 1.0


async def hear_through_noise(call: HeadlessCall) -> None:
    began_at = call.now
    await call.generate_reply(instructions="tell", wait=False)
    await call.wait_heard(2.0, after=began_at)
    await call.say(NOISE_S)
    await call.wait_heard(TALE.duration_s, after=began_at, timeout_s=60)
    await call.agent_done()


async def test_noise_during_a_gemini_reply_costs_nothing_audible() -> None:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(on_event=events.append)
    # A quiet time that never comes: the server takes the noise for no turn.
    async with GeminiLiveServer([TALE], silence_s=600) as server:
        kwargs = server.model_kwargs(resilience=options)
        kwargs["realtime_input_config"] = manual_activity()
        model = resilient.google.realtime.RealtimeModel(**kwargs)
        async with HeadlessCall(model) as call:
            await hear_through_noise(call)
            assert [s.interrupted for s in call.heard.segments] == [False]
            assert call.heard.segments[0].position_s == pytest.approx(TALE.duration_s, abs=0.05)
            assert call.dead_air() < 0.05
            assert call.errors == []
            assert len(server.dials()) == 2
    assert isinstance(events[0], HandedOver)
    assert events[0].overlapped
    assert not [event for event in events if isinstance(event, Disconnected)]


def manual_activity() -> object:
    from google.genai import types

    detection = types.AutomaticActivityDetection(disabled=True)
    return types.RealtimeInputConfig(automatic_activity_detection=detection)


async def test_noise_during_an_openai_reply_costs_nothing_audible() -> None:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(on_event=events.append)
    async with OpenAIRealtimeServer([TALE]) as server:
        kwargs = server.model_kwargs(resilience=options, turn_detection=None)
        model = resilient.openai.realtime.RealtimeModel(**kwargs)
        async with HeadlessCall(model) as call:
            await hear_through_noise(call)
            assert [s.interrupted for s in call.heard.segments] == [False]
            assert call.heard.segments[0].position_s == pytest.approx(TALE.duration_s, abs=0.05)
            assert call.errors == []
            assert len(server.dials()) == 2
    assert isinstance(events[0], HandedOver)
    assert events[0].overlapped


async def test_the_hint_can_be_switched_off() -> None:
    options = resilient.ResilienceOptions(speech_hint=False)
    async with OpenAIRealtimeServer([TALE]) as server:
        kwargs = server.model_kwargs(resilience=options, turn_detection=None)
        async with HeadlessCall(resilient.openai.realtime.RealtimeModel(**kwargs)) as call:
            await hear_through_noise(call)
            assert len(server.dials()) == 1
