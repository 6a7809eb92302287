"""The newer families say when they hear the caller begin and end: facts like any provider's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import RedriveDecided, ResilienceEvent
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    GeminiLiveServer,
    GoAway,
    HeadlessCall,
    NoReply,
    Reply,
    ScriptedMicrophone,
)

pytestmark = pytest.mark.virtual_time

ANSWER = Reply("We open at nine.")
FAMILIES = pytest.mark.parametrize("family", ["3.1", "3.8"])


def model_for(server: GeminiLiveServer, events: list[ResilienceEvent]) -> Any:
    """A model with no ears of its own, so that only the server can tell."""
    options = ResilienceOptions(speech_hint=False, on_event=events.append)
    return RealtimeModel(**server.model_kwargs(resilience=options))


@FAMILIES
async def test_a_move_waits_for_the_end_of_a_sentence(family: str) -> None:
    async with (
        GeminiLiveServer(default_reply=ANSWER, family=family) as server,
        HeadlessCall(model_for(server, []), mic=ScriptedMicrophone(frame_ms=60)) as call,
    ):
        await server.wait_for("setupComplete")
        said = call.mic.say(4.0)
        await server.wait_for("voiceActivity")
        await asyncio.sleep(1.0)
        await server.do(GoAway(30.0))
        await server.wait_for("dial", count=2, timeout_s=30)
        assert said.ended_at is not None
        await call.agent_done()
        (answer,) = call.heard.segments
        assert answer.position_s == pytest.approx(ANSWER.duration_s, abs=0.05)


@FAMILIES
async def test_a_noise_is_no_turn(family: str) -> None:
    events: list[ResilienceEvent] = []
    replies: list[Any] = [ANSWER, NoReply()]
    async with GeminiLiveServer(replies, default_reply=ANSWER, family=family) as server:
        mic = ScriptedMicrophone(frame_ms=60)
        async with HeadlessCall(model_for(server, events), mic=mic) as call:
            await call.generate_reply(instructions="Greet.")
            await call.agent_done()
            server.user_says("")
            await call.say(1.0)
            await server.wait_for("voiceActivity", count=2)
            await asyncio.sleep(2.0)
            await server.do(Abort())
            await server.wait_for("setupComplete", connection=2)
            await asyncio.sleep(10.0)
            assert [event for event in events if isinstance(event, RedriveDecided)] == []
            assert len(call.heard.segments) == 1
