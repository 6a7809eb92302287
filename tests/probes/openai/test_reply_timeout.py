"""A reply that was asked for in an outage of 12 s is spoken after it and does not fail (R11)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
)

GREETING = Reply("Good morning, how can I help you?")


@pytest.mark.virtual_time
async def test_a_request_does_not_time_out_while_nobody_could_answer_it(openai_model: Any) -> None:
    down = [Fault(OnConnection(number), HangHandshake(6.0)) for number in (2, 3)]
    async with (
        OpenAIRealtimeServer(default_reply=GREETING, faults=down) as server,
        HeadlessCall(openai_model(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="greet")
        await server.do(Abort())
        await server.wait_for("dial", connection=2)
        request = await call.generate_reply(instructions="greet again", timeout_s=60)
        assert request.exception() is None
