"""The reply to a tool's result is cut by a drop, and goes on by itself without a gap (R12)."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ToolCall,
)

FORECAST = Reply("It is sunny in Paris today, with a light wind, and it stays dry until Sunday.")
REST = Reply("It stays dry until the weekend.")
CUT_S = 3.0
"""Of which enough is still to be played while the next connection is set up."""

PROVIDERS: dict[str, tuple[Any, Any]] = {
    "gemini": (GeminiLiveServer, resilient.google.realtime.RealtimeModel),
    "openai": (OpenAIRealtimeServer, resilient.openai.realtime.RealtimeModel),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_agent_goes_on_behind_what_is_still_playing(provider: str) -> None:
    make_server, make_model = PROVIDERS[provider]
    turns = [ToolCall("get_weather", {"city": "Paris"}), FORECAST, REST]
    cut = Fault(AtAudio(CUT_S, connection=1), Abort())
    async with (
        make_server(turns, faults=[cut]) as server,
        HeadlessCall(make_model(**server.model_kwargs())) as call,
    ):
        asked_at = call.now
        await call.say(1.5)
        await call.wait_heard(CUT_S + REST.duration_s - 0.1, after=asked_at)
        assert call.dead_air() < 0.1
        assert [run.name for run in call.tools] == ["get_weather"]
        assert len(server.dials()) == 2
