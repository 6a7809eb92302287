"""A reply that begins seven seconds after it was asked for is spoken, and nothing fails (R11)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import (
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    LateReply,
    Received,
    Reply,
)

GREETING = Reply("Good morning, how can I help you?")


@pytest.mark.virtual_time
async def test_a_reply_that_begins_late_is_the_one_asked_for(google_model: Any) -> None:
    faults = [Fault(Received("clientContent"), LateReply(7.0))]
    async with GeminiLiveServer([GREETING], faults=faults) as server:
        model = google_model(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            request = await call.generate_reply(instructions="greet")
            await call.reply()
            await call.agent_done()
            assert request.exception() is None
            (heard,) = call.heard.segments
        assert heard.position_s == pytest.approx(GREETING.duration_s, abs=0.1)
