"""The socket as upstream's loops see it: strange messages skipped, failed sends noted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import aiohttp

from ..log import logger

if TYPE_CHECKING:
    from openai.types.realtime import RealtimeClientEvent

__all__ = ["Wire", "brings_audio", "dies_with_connection", "end_within", "is_event"]

# Upstream's handler of a failed handler reads these, and would end the connection without.
_AUDIO_DELTAS = ("response.output_audio.delta", "response.audio.delta")

# For the server's answer to our CLOSE. R21 has one second for all of hanging up.
_CLOSE_ANSWER_S = 0.5


class Wire:
    """Stands in for one `aiohttp.ClientWebSocketResponse`; everything else is passed through.

    Args:
        socket: The connection.
        on_unsent: Called with every message that was not written to its end, because the
            connection failed or was given up while it was.
    """

    def __init__(self, socket: Any, on_unsent: Callable[[dict[str, Any]], None]) -> None:
        self._socket = socket
        self._on_unsent = on_unsent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def receive(self) -> aiohttp.WSMessage:
        """The next message that is an event, or the next that is no text."""
        while True:
            message: aiohttp.WSMessage = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.TEXT or is_event(message.data):
                return message
            logger.warning("a message that is no event is skipped")

    async def send_str(self, data: str) -> None:
        """Send a message.

        Raises:
            ConnectionError: The socket's own; the message was handed to `on_unsent` first.
        """
        try:
            await self._socket.send_str(data)
        except BaseException:  # a cancelled send is as lost as a failed one
            self._on_unsent(json.loads(data))
            raise

    async def close(self) -> None:
        """Close; a server that does not answer is not waited for."""
        try:
            await asyncio.wait_for(self._socket.close(), _CLOSE_ANSWER_S)
        except asyncio.TimeoutError:
            logger.debug("the server did not answer the close")


def is_event(text: str) -> bool:
    """Whether a text message has the shape that every event has."""
    try:
        event = json.loads(text)
    except ValueError:
        return False
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return False
    return event["type"] not in _AUDIO_DELTAS or isinstance(event.get("delta"), str)


async def end_within(
    timeout_s: float, closing: Coroutine[Any, Any, None], task: asyncio.Task[None], at_once: bool
) -> None:
    """Run `closing`, which waits for `task`, and do not let the task take longer than `timeout_s`.

    What the task raises was reported when it did; it is not raised here again.

    Args:
        at_once: The task has nothing to finish and is cancelled first.
    """
    ending = asyncio.ensure_future(closing)
    try:
        if at_once:
            # `closing` first sets what keeps the task from going on.
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait({ending}, timeout=timeout_s)
    finally:
        if not ending.done():
            task.cancel()
    await asyncio.wait({ending}, timeout=_CLOSE_ANSWER_S / 4)
    if ending.done() and not ending.cancelled() and ending.exception() is not None:
        logger.debug("the session had ended with an error")


def dies_with_connection(event: RealtimeClientEvent | dict[str, Any]) -> bool:
    """Whether an event is of no use on another connection: it is about a reply on its own."""
    kind = event["type"] if isinstance(event, dict) else event.type
    return kind in ("response.create", "response.cancel", "conversation.item.truncate")


def brings_audio(event: RealtimeClientEvent | dict[str, Any]) -> bool:
    """Whether an event carries microphone audio."""
    return (event["type"] if isinstance(event, dict) else event.type) == "input_audio_buffer.append"
