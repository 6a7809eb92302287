"""A half-open connection is found although nobody speaks, and the call goes on (R17)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import (
    After,
    Blackhole,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
)


@pytest.mark.virtual_time
async def test_a_connection_on_which_nothing_arrives_is_replaced(openai_model: Any) -> None:
    dead = Fault(After("response.done", connection=1), Blackhole())
    async with (
        OpenAIRealtimeServer(faults=[dead]) as server,
        HeadlessCall(openai_model(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="greet")
        died_at = call.now
        await server.wait_for("dial", connection=2, timeout_s=60)
        assert call.now - died_at < 10
        await call.say(1.0)
        assert (await call.reply()).position_s > 1.0
