"""A half-open connection is found although nobody speaks, and a quiet one stays (R17)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livekit.plugins.resilient.testing import Blackhole, HeadlessCall, OpenAIRealtimeServer

QUIET_S = 60


@pytest.mark.virtual_time
async def test_a_connection_is_replaced_when_it_answers_no_pings_and_not_before(
    openai_model: Any,
) -> None:
    async with (
        OpenAIRealtimeServer() as server,
        HeadlessCall(openai_model(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="greet")
        await asyncio.sleep(QUIET_S)
        assert len(server.dials()) == 1
        await server.do(Blackhole())
        died_at = call.now
        await server.wait_for("dial", connection=2, timeout_s=60)
        assert call.now - died_at < 10
        await call.say(1.0)
        assert (await call.reply()).position_s > 1.0
