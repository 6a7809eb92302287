"""An `http_session` that does no more than upstream asks of one carries a session over a drop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.core.limits import OPENAI_LIVENESS_TIMEOUT_S

pytestmark = pytest.mark.virtual_time


class Socket:
    """Sends, receives and closes, and says by itself only that a session is there."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[SimpleNamespace] = asyncio.Queue()
        self.closed = False
        self.says({"type": "session.created", "event_id": "e", "session": {"id": "s"}})

    def says(self, event: dict[str, Any]) -> None:
        message = SimpleNamespace(type=aiohttp.WSMsgType.TEXT, data=json.dumps(event), extra="")
        self._incoming.put_nowait(message)

    def drops(self) -> None:
        self._incoming.put_nowait(SimpleNamespace(type=aiohttp.WSMsgType.CLOSED, data=None))

    def types(self) -> list[str]:
        return [event["type"] for event in self.sent]

    async def send_str(self, data: str) -> None:
        self.sent.append(json.loads(data))

    async def receive(self) -> SimpleNamespace:
        return await self._incoming.get()

    async def close(self) -> None:
        self.closed = True
        self.drops()


class Http:
    def __init__(self) -> None:
        self.sockets: list[Socket] = []

    async def ws_connect(self, *, url: str, headers: dict[str, str]) -> Socket:
        assert headers["Authorization"].startswith("Bearer ")
        self.sockets.append(Socket())
        return self.sockets[-1]


class Lenient(Http):
    """Takes whatever aiohttp does."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[dict[str, Any]] = []

    async def ws_connect(self, *, url: str, headers: dict[str, str], **more: Any) -> Socket:
        self.given.append(more)
        return await super().ws_connect(url=url, headers=headers)


def item(number: int, text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    message = {"id": f"item_{number}", "type": "message", "role": "user", "content": content}
    return {"type": "conversation.item.added", "event_id": f"event_{number}", "item": message}


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - a fake tells nobody
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 20)


MODELS: dict[str, Callable[[Any], llm.RealtimeModel]] = {
    "openai": lambda http: resilient.openai.realtime.RealtimeModel(api_key="k", http_session=http),
    "azure": lambda http: resilient.openai.realtime.RealtimeModel.with_azure(
        azure_deployment="d", base_url="https://a.invalid", entra_token="t", http_session=http
    ),
    "inference": lambda http: resilient.inference.RealtimeModel(
        "openai/gpt-realtime", api_key="k", api_secret="s" * 32, http_session=http
    ),
}


@pytest.mark.parametrize("make_http", [Http, Lenient])
@pytest.mark.parametrize("flavour", MODELS)
async def test_a_stand_in_carries_a_session(flavour: str, make_http: type[Http]) -> None:
    http = make_http()
    session: Any = MODELS[flavour](http).session()
    errors: list[llm.RealtimeModelError] = []
    session.on("error", errors.append)
    await until(lambda: http.sockets and http.sockets[0].sent)
    await session.update_instructions("Be brief.")
    http.sockets[0].says(item(1, "where are you"))
    await until(lambda: session.chat_ctx.get_by_id("item_1"))
    http.sockets[0].drops()
    await until(lambda: len(http.sockets) == 2 and len(http.sockets[1].sent) >= 2)
    first, second = http.sockets
    assert first.types() == ["session.update", "session.update"]
    assert second.types()[:2] == ["session.update", "conversation.item.create"]
    assert second.sent[0]["session"]["instructions"] == "Be brief."
    assert second.sent[1]["item"]["id"] == "item_1"
    assert [error.recoverable for error in errors] == [True]
    # It cannot be pinged, so its silence says nothing.
    await asyncio.sleep(4 * OPENAI_LIVENESS_TIMEOUT_S)
    assert len(http.sockets) == 2
    await session.aclose()
    assert second.closed
    if isinstance(http, Lenient):
        assert all(http.given)  # what aiohttp is given beyond upstream's call
