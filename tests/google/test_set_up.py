"""The context is compressed by default; what the application chose wins, None too (R20)."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from livekit.agents import llm
from livekit.plugins import google

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import CallAgent, GeminiLiveServer, HeadlessCall

OWN = types.ContextWindowCompressionConfig(trigger_tokens=9000)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ({}, {"sliding_window": {}}),  # the server's own trigger and target
        ({"context_window_compression": OWN}, {"trigger_tokens": 9000}),
        ({"context_window_compression": None}, None),
    ],
    ids=["default", "own", "None"],
)
async def test_compression(chosen: dict[str, Any], sent: dict[str, Any] | None) -> None:
    async with GeminiLiveServer() as server:
        async with HeadlessCall(RealtimeModel(**server.model_kwargs(**chosen))):
            await server.wait_for("setupComplete")
        (frame,) = server.recording.frames("setup")
        setup = frame.message["setup"]
    assert "sessionResumption" in setup
    assert setup.get("contextWindowCompression") == normalised(sent)


@pytest.mark.virtual_time
@pytest.mark.parametrize("make", [google.realtime.RealtimeModel, RealtimeModel])
async def test_a_long_text_is_known_to_its_end_as_upstream_has_it(make: Any) -> None:
    """100,000 tokens fit the window of every native audio model."""
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="my name is Ada")
    for number in range(200):
        role: Any = ("assistant", "user")[number % 2]
        context.add_message(role=role, content=f"line {number} " + "words " * 300)
    async with GeminiLiveServer() as server:
        agent = CallAgent()
        agent._chat_ctx = context
        async with HeadlessCall(make(**server.model_kwargs()), agent=agent) as call:
            await call.say(1.0)
            await call.agent_done()
            assert 90_000 < server.session.context_tokens < 102_400
            assert server.session.knows("my name is Ada") == 1


def normalised(value: Any) -> Any:
    """With the keys of a recording: in camel case, numbers as the SDK writes them."""
    if not isinstance(value, dict):
        return value
    return {camel(key): normalised(inner) for key, inner in value.items()}


def camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part.title() for part in rest)
