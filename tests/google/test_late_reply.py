"""A reply whose request has failed is not spoken; the call goes on after it (R18)."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    LateReply,
    Received,
    Reply,
)

NEWS = Reply("Here is the news of today, and there is little of it.")
ANSWER = Reply("We open at nine.")


@pytest.mark.virtual_time
async def test_a_request_never_both_fails_and_is_spoken() -> None:
    faults = [Fault(Received("clientContent"), LateReply(7.0))]
    async with GeminiLiveServer([NEWS, ANSWER], faults=faults) as server:
        options = ResilienceOptions(reply_timeout_s=4.0)
        async with HeadlessCall(RealtimeModel(**server.model_kwargs(resilience=options))) as call:
            request = await call.generate_reply(instructions="Tell the news.", wait=False)
            await server.wait_for("turnComplete", timeout_s=30)
            assert not call.heard.segments
            await call.say(1.0)
            answer = await call.reply()
            assert request.exception() is not None
    assert answer.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)
