"""The context is compressed by default; what the application chose wins, None too (R20)."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import GeminiLiveServer, HeadlessCall

OWN = types.ContextWindowCompressionConfig(trigger_tokens=9000)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("chosen", "sent"),
    [
        ({}, {"trigger_tokens": 25600, "sliding_window": {"target_tokens": 12800}}),
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


def normalised(value: Any) -> Any:
    """With the keys of a recording: in camel case, numbers as the SDK writes them."""
    if not isinstance(value, dict):
        return value
    return {camel(key): normalised(inner) for key, inner in value.items()}


def camel(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part.title() for part in rest)
