"""Calls that lose their line at the same moment do not come back at the same moment (R2, R8)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    Abort,
    Close,
    GeminiLiveServer,
    GoAway,
    HeadlessCall,
    OpenAIRealtimeServer,
    ScriptedMicrophone,
)
from livekit.plugins.resilient.testing.faults import Action

pytestmark = pytest.mark.virtual_time

CALLS = 12
GEMINI = (GeminiLiveServer, resilient.google.realtime.RealtimeModel)
OPENAI = (OpenAIRealtimeServer, resilient.openai.realtime.RealtimeModel)


async def redials(kind: tuple[Any, Any], action: Action, within_s: float) -> list[float]:
    """Seconds from `action`, done to all calls at once, to the next dial of each."""
    server_of, model_of = kind
    async with AsyncExitStack() as opened:
        servers = [await opened.enter_async_context(server_of()) for _ in range(CALLS)]
        for server in servers:
            model = model_of(**server.model_kwargs())
            mic = ScriptedMicrophone(frame_ms=100)
            await opened.enter_async_context(HeadlessCall(model, mic=mic))
        for server in servers:
            await server.wait_for("open")
        await asyncio.sleep(3.0)
        began_at = asyncio.get_running_loop().time()
        for server in servers:
            await server.do(action)
        for server in servers:
            await server.wait_for("dial", count=2, timeout_s=within_s)
        return sorted(server.dials()[1].at - began_at for server in servers)


@pytest.mark.parametrize("kind", [GEMINI, OPENAI], ids=["gemini", "openai"])
@pytest.mark.parametrize("action", [Abort(), Close(1001)], ids=["abort", "close"])
async def test_a_server_that_restarts_is_not_met_by_all_its_callers_at_once(
    kind: tuple[Any, Any], action: Action
) -> None:
    times = await redials(kind, action, 5.0)
    assert times[-1] <= 0.3
    # By chance all of a dozen lie within a third of the quarter of a second in 1 run of 10,000.
    assert times[-1] - times[0] > 0.08


async def test_nor_is_one_that_sends_all_of_them_away() -> None:
    times = await redials(GEMINI, GoAway(50.0), 45.0)
    assert times[-1] <= 11.0
    assert times[-1] - times[0] > 3.0
