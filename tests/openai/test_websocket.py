"""The socket as upstream's loops see it: what is skipped, how it ends."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import WSMessage, WSMsgType

from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.openai.event_shapes import read_event
from livekit.plugins.resilient.openai.websocket import SwappableSocket, end_within


class Socket:
    """A socket that receives what it is given."""

    def __init__(self, *received: WSMessage) -> None:
        self._received = list(received)
        self.close_code = 1001
        self.sent: list[tuple[str, bytes]] = []
        self.writable = True

    async def receive(self) -> WSMessage:
        return self._received.pop(0)

    async def close(self) -> None:
        await asyncio.Event().wait()

    async def ping(self, payload: bytes) -> None:
        self._send("ping", payload)

    async def pong(self, payload: bytes) -> None:
        self._send("pong", payload)

    def _send(self, kind: str, payload: bytes) -> None:
        if not self.writable:
            raise ConnectionResetError
        self.sent.append((kind, payload))


def wire_of(socket: Socket, facts: list[f.Fact] | None = None) -> SwappableSocket:
    return SwappableSocket(socket, (facts if facts is not None else []).append, lambda pong: None)


def control(kind: WSMsgType, payload: bytes) -> WSMessage:
    return WSMessage(kind, payload, None)


def text(data: str) -> WSMessage:
    return WSMessage(WSMsgType.TEXT, data, None)


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "{}",
        '{"type": 1}',
        '{"type": "response.output_audio.delta"}',
        '{"type": "response.audio.delta", "delta": 1}',
    ],
)
def test_what_has_no_events_shape_is_none(data: str) -> None:
    assert not read_event(data)[0]


def test_events_of_any_type_are_events() -> None:
    assert read_event('{"type": "session.brand_new"}')[0]
    delta = '{"type": "response.output_audio.delta", "item_id": "item_1", "delta": "AAAA"}'
    assert read_event(delta) == (json.loads(delta), False)


@pytest.mark.asyncio
async def test_receive_skips_what_is_no_event_and_passes_the_close() -> None:
    event, closed = text('{"type": "session.updated"}'), WSMessage(WSMsgType.CLOSED, None, None)
    facts: list[f.Fact] = []
    wire = wire_of(Socket(text("{"), event, text("[]"), closed), facts)
    assert await wire.receive() is event
    assert [type(fact) for fact in facts] == [f.MessageArrived]  # the server is alive
    assert await wire.receive() is closed
    assert wire.close_code == 1001


@pytest.mark.asyncio
@pytest.mark.parametrize("writable", [True, False])
async def test_a_ping_is_answered_and_shows_life_and_upstream_sees_none(writable: bool) -> None:
    event = text('{"type": "session.updated"}')
    socket = Socket(control(WSMsgType.PING, b"abc"), event)
    socket.writable = writable
    facts: list[f.Fact] = []
    assert await wire_of(socket, facts).receive() is event
    assert socket.sent == ([("pong", b"abc")] if writable else [])
    assert [type(fact) for fact in facts] == [f.PongArrived]


@pytest.mark.virtual_time
async def test_a_pong_tells_how_long_it_took() -> None:
    socket, facts = Socket(), list[f.Fact]()
    wire = wire_of(socket, facts)
    for wait_s in (1.5, 1.5, 1.0):
        await wire.send_ping()
        await asyncio.sleep(wait_s)
    pings = [payload for kind, payload in socket.sent if kind == "ping"]
    assert len(pings) == len(set(pings)) == 3
    event = text('{"type": "session.updated"}')
    socket._received = [control(WSMsgType.PONG, pings[1]), control(WSMsgType.PONG, b"?"), event]
    assert await wire.receive() is event
    known, unasked = facts
    assert isinstance(known, f.PongArrived)
    assert known.after_s == pytest.approx(2.5)
    assert isinstance(unasked, f.PongArrived)


async def test_a_ping_that_cannot_be_sent_raises_nothing() -> None:
    socket = Socket()
    wire = wire_of(socket)
    socket.writable = False
    await wire.send_ping()
    assert not socket.sent
    socket.writable = True
    await wire.send_ping()
    assert [kind for kind, _ in socket.sent] == ["ping"]


@pytest.mark.virtual_time
async def test_a_close_that_nobody_answers_is_not_waited_for() -> None:
    since = asyncio.get_running_loop().time()
    await wire_of(Socket()).close()
    assert asyncio.get_running_loop().time() - since < 1.0


async def failing() -> None:
    raise RuntimeError


@pytest.mark.virtual_time
async def test_ending_does_not_raise_what_the_task_had_raised() -> None:
    task = asyncio.ensure_future(failing())

    async def closing() -> None:
        await task

    await end_within(1.0, closing(), task, at_once=False)
    assert isinstance(task.exception(), RuntimeError)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("at_once", "takes_s"), [(True, 0.0), (False, 0.8)])
async def test_ending_cancels_a_task_that_hangs(at_once: bool, takes_s: float) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(hang())

    async def closing() -> None:
        await task

    since = asyncio.get_running_loop().time()
    await end_within(0.8, closing(), task, at_once)
    assert task.cancelled()
    assert asyncio.get_running_loop().time() - since == pytest.approx(takes_s, abs=0.05)
