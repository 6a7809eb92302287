"""A barge-in after which the server neither ends the reply nor begins another (R13)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    LateReply,
    NoHandle,
    OnConnection,
    RefuseOverlap,
    Reply,
    ScriptedMicrophone,
    TurnRequest,
    UserStarts,
    UserStops,
    Wedge,
)

pytestmark = pytest.mark.virtual_time

TALE = Reply("Once upon a time there was a caller who wanted to hear all of a long story.")
ANSWER = Reply("This answers what you have just asked.")
GO_ON = Reply("Sorry for the pause, I am back.")
RATE = 24_000
HEARD_WITHIN_S = 8.0
WEDGED = Fault(UserStarts(connection=1), Wedge())
UNTOLD = {"input_audio_transcription": None}


def by_reason(asked: TurnRequest) -> Reply:
    if asked.reason == "speech":
        return ANSWER
    return TALE if "Tell" in asked.user_text else GO_ON


async def waits_for(
    *faults: Fault, model: dict[str, Any], server: dict[str, Any]
) -> tuple[float, int]:
    """Seconds from the end of the caller's words to the agent's next, and how often was dialled."""
    simulator = GeminiLiveServer(default_reply=by_reason, faults=faults, pace="realtime", **server)
    async with simulator:
        mic = ScriptedMicrophone(frame_ms=60)
        ours = RealtimeModel(**simulator.model_kwargs(**model))
        async with HeadlessCall(ours, mic=mic) as call:
            await call.generate_reply(instructions="Tell a story.", wait=False)
            await call.wait_heard(1.0)
            said = await call.say(1.0)
            assert said.ended_at is not None
            await call.reply(after=said.ended_at, timeout_s=30.0)
            heard_at = call.heard.first_audio_after(said.ended_at)
            assert heard_at is not None
            return heard_at - said.ended_at, len(simulator.dials())


@pytest.mark.parametrize(
    ("faults", "model", "server"),
    [
        pytest.param([], {}, {}, id="2.5"),
        pytest.param([], {}, {"family": "3.1"}, id="3.1"),
        pytest.param([], {}, {"family": "3.8"}, id="3.8"),
        pytest.param([], {}, {"vertex": True}, id="vertex"),
        pytest.param([], UNTOLD, {}, id="without captions"),
        pytest.param([Fault(OnConnection(1), NoHandle())], {}, {}, id="without a handle"),
        pytest.param([Fault(OnConnection(1), RefuseOverlap())], {}, {}, id="one at a time"),
    ],
)
async def test_the_caller_is_heard_by_another_connection(
    faults: list[Fault], model: dict[str, Any], server: dict[str, Any]
) -> None:
    waited_s, dials = await waits_for(*faults, WEDGED, model=model, server=server)
    assert waited_s < HEARD_WITHIN_S
    assert dials >= 2


@pytest.mark.parametrize("server", [{}, {"family": "3.8"}, {"vertex": True}])
async def test_a_slow_answer_after_an_interruption_that_ended_is_waited_for(
    server: dict[str, Any],
) -> None:
    slow = Fault(UserStops(connection=1), LateReply(15.0))
    as_slow_beside = Fault(OnConnection(2), LateReply(15.0))
    waited_s, dials = await waits_for(slow, as_slow_beside, model={}, server=server)
    assert 15.0 < waited_s < 20.0
    assert dials == 2, "it is asked of another connection, which is not heard"
