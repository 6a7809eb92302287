"""The socket as upstream's loops see it: what is skipped, how it ends."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import WSMessage, WSMsgType

from livekit.plugins.resilient.openai.wire import Wire, end_within, is_event


class Socket:
    """A socket that receives what it is given."""

    def __init__(self, *received: WSMessage) -> None:
        self._received = list(received)
        self.close_code = 1001

    async def receive(self) -> WSMessage:
        return self._received.pop(0)

    async def close(self) -> None:
        await asyncio.Event().wait()


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
    assert not is_event(data)


def test_events_of_any_type_are_events() -> None:
    assert is_event('{"type": "session.brand_new"}')
    assert is_event('{"type": "response.output_audio.delta", "delta": "AAAA"}')


@pytest.mark.asyncio
async def test_receive_skips_what_is_no_event_and_passes_the_close() -> None:
    event, closed = text('{"type": "error"}'), WSMessage(WSMsgType.CLOSED, None, None)
    wire = Wire(Socket(text("{"), event, text("[]"), closed))
    assert await wire.receive() is event
    assert await wire.receive() is closed
    assert wire.close_code == 1001


@pytest.mark.virtual_time
async def test_a_close_that_nobody_answers_is_not_waited_for() -> None:
    since = asyncio.get_running_loop().time()
    await Wire(Socket()).close()
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
