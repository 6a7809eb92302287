"""A connection whose socket can be swapped while upstream's loops run on it, and which skips what
is no event."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
from livekit.agents import APIConnectionError

from ..core import facts as f
from ..runtime.log import logger
from .event_shapes import kind_of, read_event
from .pings import Pings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "ENDS",
    "ReplacedSocket",
    "Successor",
    "SwappableSocket",
    "abort_socket",
    "close_socket",
    "end_within",
    "read",
]

ENDS = frozenset({aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED})
"""Messages after which no other comes."""

_DATA = frozenset({aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY})

# For the server's answer to our CLOSE. R21 has one second for all of hanging up.
_CLOSE_ANSWER_S = 0.5


class Successor(Protocol):
    """A connection that can take the place of one that serves."""

    @property
    def socket(self) -> Any:
        """The WebSocket itself."""

    async def stop(self) -> list[aiohttp.WSMessage]:
        """Read no more; returns what was read and upstream is to see."""


class SwappableSocket:
    """Stands in for one `aiohttp.ClientWebSocketResponse`; everything else is passed through.

    Args:
        connected: The connection.
        feed: Takes the facts of which upstream is told nothing.
        on_sign: Called for each message, and with True for each pong.
    """

    def __init__(
        self, connected: Any, feed: Callable[[f.Fact], None], on_sign: Callable[[bool], None]
    ) -> None:
        self._socket = connected
        self._feed = feed
        self._on_sign = on_sign
        self._pings = Pings(self._ponged)
        self._successor: Successor | None = None
        self._waiting: deque[aiohttp.WSMessage] = deque()
        self.received = 0
        """Messages that came."""
        self.sign_at = asyncio.get_running_loop().time()
        """When anything came last, in monotonic seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def receive(self) -> aiohttp.WSMessage:
        """The next message that is an event, or the next that is no text."""
        while True:
            message = await self._next()
            if message.type not in _DATA:
                return message
            self.received += 1
            self.sign_at = asyncio.get_running_loop().time()
            self._on_sign(False)
            event = read(message)
            if event is not None:
                return event
            self._feed(f.MessageArrived(self.sign_at))

    async def _next(self) -> aiohttp.WSMessage:
        while True:
            if self._successor is not None:
                successor, self._successor = self._successor, None
                self._waiting.extend(await successor.stop())
            if self._waiting:
                return self._waiting.popleft()
            receiving = self._socket
            message: aiohttp.WSMessage = await receiving.receive()
            # What comes of a socket that was replaced meanwhile belongs to another conversation.
            if receiving is not self._socket or await self._pings.take(receiving, message):
                continue
            return message

    def _ponged(self, after_s: float) -> None:
        self.sign_at = asyncio.get_running_loop().time()
        self._on_sign(True)
        self._feed(f.PongArrived(self.sign_at, after_s))

    async def send_ping(self) -> None:
        """Ping once."""
        await self._pings.send(self._socket)

    @property
    def has_answered(self) -> bool:
        """Whether the server has said anything."""
        return self.received > 0

    async def first_answer(self) -> None:
        """Wait until the server has sent anything; nothing is lost by that.

        Raises:
            APIConnectionError: The connection ended first.
        """
        if self.received:
            return
        message = await self.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise APIConnectionError("the connection was closed before the server said anything")
        self._waiting.append(message)

    async def last_words(self) -> None:
        """Read what came before the connection was lost, so that `close_code` says why."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._to_the_end(), _CLOSE_ANSWER_S)

    async def _to_the_end(self) -> None:
        while (await self._socket.receive()).type not in ENDS:
            pass

    def switch(self, successor: Successor) -> ReplacedSocket:
        """Go on with another socket; returns the old one, which the caller closes."""
        old, self._socket = self._socket, successor.socket
        self._waiting.clear()
        self._successor = successor
        return ReplacedSocket(old)

    def abort(self) -> None:
        """End the connection without waiting for the server, which may not answer any more."""
        abort_socket(self._socket)

    async def close(self) -> None:
        """Close; a server that does not answer is not waited for."""
        await close_socket(self._socket)


class ReplacedSocket:
    """A socket that another took the place of, to be closed."""

    has_answered = True

    def __init__(self, connected: Any) -> None:
        self._socket = connected

    def abort(self) -> None:
        """As `SwappableSocket.abort`."""
        abort_socket(self._socket)

    async def close(self) -> None:
        """As `SwappableSocket.close`."""
        await close_socket(self._socket)


def abort_socket(connected: Any) -> None:
    """End a WebSocket's connection without a handshake."""
    raw = connected.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):  # it is gone already
            raw.shutdown(socket.SHUT_RDWR)


async def close_socket(connected: Any) -> None:
    """Close a WebSocket; a server that does not answer is not waited for."""
    try:
        await asyncio.wait_for(connected.close(), _CLOSE_ANSWER_S)
    except asyncio.TimeoutError:
        logger.debug("the server did not answer the close")


def read(message: aiohttp.WSMessage) -> aiohttp.WSMessage | None:
    """A message as it can be handled; None for one to skip, which is logged (R19).

    Events come as text; upstream takes no notice of anything else.
    """
    if message.type is not aiohttp.WSMsgType.TEXT:
        logger.warning("a message is skipped", extra={"kind": "binary"})
        return None
    event, changed = read_event(message.data)
    if event is None:
        logger.warning("a message is skipped", extra={"kind": kind_of(message.data)})
        return None
    if not changed:
        return message
    logger.warning("a message is not as its type promises", extra={"kind": event["type"]})
    return message._replace(data=json.dumps(event))


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
