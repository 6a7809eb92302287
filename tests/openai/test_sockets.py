"""Every socket that is opened is closed, however its connection came to its end (R21, R22)."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from livekit.plugins import openai

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Close,
    Fault,
    HangHandshake,
    HeadlessCall,
    NoSetupAnswer,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Reply,
)

pytestmark = pytest.mark.virtual_time

STORY = Reply("Once upon a time there was a caller who listened to a long story, all of it.")
CUT = Fault(AtAudio(1.0, connection=1), Abort())
ENDS = {
    "as-it-is-accepted": [CUT, Fault(OnConnection(None, nth=2), Abort(), times=3)],
    "as-it-is-set-up": [CUT, Fault(After("session.created", nth=2), Abort(), times=2)],
    "as-it-is-told-the-call": [CUT, Fault(Received("session.update", nth=4), Abort())],
    "as-it-serves": [CUT],
    "by-the-server": [Fault(AtAudio(1.0, connection=1), Close(1011))],
    "as-it-is-dialled": [CUT, Fault(OnConnection(2), HangHandshake())],
    "without-an-answer": [CUT, Fault(OnConnection(2), NoSetupAnswer())],
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[aiohttp.ClientWebSocketResponse]:
    """Every connection that the client library has made."""
    made: list[aiohttp.ClientWebSocketResponse] = []
    inner = aiohttp.ClientWebSocketResponse.__init__

    def outer(self: aiohttp.ClientWebSocketResponse, *args: Any, **kwargs: Any) -> None:
        inner(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "__init__", outer)
    return made


async def left_open(model: Any, opened: list[aiohttp.ClientWebSocketResponse]) -> int:
    """Have a call met by what its server does, and hung up; how many connections are not closed."""
    async with HeadlessCall(model) as call:
        await call.generate_reply(instructions="Tell a story.", wait=False)
        await call.until(lambda: call.errors or call.closed, timeout_s=30, what="the loss")
        await call.agent_done()
        await call.changes.wait(20.0)
    return sum(not ws.closed or not ws._response.closed for ws in opened)


@pytest.mark.parametrize("end", ENDS)
async def test_none_is_left_open(end: str, opened: list[aiohttp.ClientWebSocketResponse]) -> None:
    async with OpenAIRealtimeServer(default_reply=STORY, faults=ENDS[end]) as server:
        assert await left_open(RealtimeModel(**server.model_kwargs()), opened) == 0
        assert len(opened) >= len(server.dials()) - 1 > 0


async def test_upstream_leaves_some(opened: list[aiohttp.ClientWebSocketResponse]) -> None:
    async with OpenAIRealtimeServer(
        default_reply=STORY, faults=ENDS["as-it-is-accepted"]
    ) as server:
        assert await left_open(openai.realtime.RealtimeModel(**server.model_kwargs()), opened) > 0
