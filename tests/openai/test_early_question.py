"""What a caller says before the first connection stands, which no server can have heard yet."""

from __future__ import annotations

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    Abort,
    Delay,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    UserStarts,
    audio,
)

pytestmark = pytest.mark.virtual_time

ANSWER = Reply("Yes, I can hear you well.")
SLOW_DIAL = Fault(OnConnection(1), HangHandshake(2.0))


async def ask_early(*faults: Fault) -> OpenAIRealtimeServer:
    """Ask for 4 s from the first moment on and hear the answer; returns the server."""
    async with OpenAIRealtimeServer([ANSWER], faults=faults) as server:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            said = await call.say(4.0)
            reply = await call.reply(after=said.ended_at, timeout_s=20)
            assert reply.position_s == pytest.approx(ANSWER.duration_s, abs=0.01)
            heard = [item.pcm for item in server.session.items if item.role == "user"]
            assert len(heard) == 1
            assert said.pcm in heard[0]
            assert audio.duration_of(heard[0], call.mic.sample_rate) < said.duration_s + 1.0
    return server


async def test_a_question_that_began_before_the_first_connection_survives_its_drop() -> None:
    server = await ask_early(SLOW_DIAL, Fault(UserStarts(connection=1), (Delay(0.5), Abort())))
    assert len(server.dials()) == 2


async def test_without_a_drop_it_is_sent_once() -> None:
    server = await ask_early(SLOW_DIAL)
    assert len(server.dials()) == 1
