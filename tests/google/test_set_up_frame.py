"""What reaches the server in the Gemini set-up frame, seen on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.agents import function_tool
from livekit.plugins import google, resilient

from livekit.plugins.resilient.testing import GeminiLiveServer, HeadlessCall


@function_tool
async def order(item: str, count: int = 1, gift: bool = False, size: str = "m") -> str:
    """Place an order."""
    return item


async def declared(make_model: Any) -> dict[str, Any]:
    """The properties of `order` as declared to the server."""
    async with (
        GeminiLiveServer() as server,
        HeadlessCall(make_model(**server.model_kwargs()), tools=[order]) as call,
    ):
        await call.generate_reply(instructions="greet")
        setup = server.recording.frames("setup")[-1].message["setup"]
    functions = [f for tool in setup["tools"] for f in tool["functionDeclarations"]]
    (found,) = [f for f in functions if f["name"] == "order"]
    properties: dict[str, Any] = found["parameters"]["properties"]
    return properties


@pytest.mark.virtual_time
async def test_the_defaults_of_tool_parameters_are_declared() -> None:
    ours = await declared(resilient.google.realtime.RealtimeModel)
    assert {name: p.get("default") for name, p in ours.items()} == {
        "item": None,
        "count": 1,
        "gift": False,
        "size": "m",
    }


@pytest.mark.virtual_time
async def test_upstream_declares_none() -> None:
    upstream = await declared(google.realtime.RealtimeModel)
    assert not any("default" in p for p in upstream.values())
