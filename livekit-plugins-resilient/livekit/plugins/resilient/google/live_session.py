"""What is said on one connection to Gemini: read with tolerance, counted, closed within a bound."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from google.genai import types
from google.genai.errors import APIError
from google.genai.live import AsyncSession
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Data

from ..core.limits import CLOSE_TIMEOUT_S
from ..runtime.log import logger
from .audio_message import audio_message

__all__ = ["FirstFrame", "LiveSession"]

# By which a server answers a set-up.
_SET_UP = "setupComplete"

# A server that says nothing else is of no use any more.
_UNREADABLE_IN_A_ROW = 50


class LiveSession(AsyncSession):
    """The client library's session, which skips what it cannot read (R19) and counts what it sends.

    It also takes what stands in for such a session, as a wrapper for tracing or a test does, and
    asks no more of it than upstream does: to send, to receive and to be closed.

    Args:
        live: The session, or what stands in for it.

    Attributes:
        sent: Client messages so far, the set-up not counted: the number of the last one.
        on_skipped: Called for each message that is skipped.
    """

    on_skipped: Callable[[], None]

    def __init__(self, live: Any) -> None:
        self._live = live
        self._is_real = isinstance(live, AsyncSession)
        # Who traces or changes what is sent is to see audio as well.
        self._writes_audio = self._is_real and _is_librarys(type(live).send_realtime_input)
        if self._is_real:
            super().__init__(
                api_client=live._api_client,
                websocket=live._ws,
                session_id=live.session_id,
                setup_complete=live.setup_complete,
            )
        self.sent = 0
        # Read already, and not received yet.
        self._ahead: deque[types.LiveServerMessage] = deque()
        # Pongs that are waited for: nobody else holds them.
        self._pongs: set[asyncio.Future[float]] = set()
        self.on_skipped = _nothing

    async def ping(self, on_pong: Callable[[float], None]) -> None:
        """Ping once, unless the connection has ended.

        The client library pings too, but tells nobody of the answers.

        Args:
            on_pong: Called for the answer, with the seconds that it took.
        """
        if self.websocket is None:
            return  # what never answers is not taken for dead
        sent_at = (loop := asyncio.get_running_loop()).time()

        def answered(pong: asyncio.Future[float]) -> None:
            self._pongs.discard(pong)
            if not pong.cancelled() and pong.exception() is None:
                on_pong(loop.time() - sent_at)

        with contextlib.suppress(ConnectionClosed):
            pong = asyncio.ensure_future(await self.websocket.ping())
            self._pongs.add(pong)
            pong.add_done_callback(answered)

    @property
    def websocket(self) -> ClientConnection | None:
        """The socket; None where something stands in for the session."""
        return self._ws if self._is_real else None

    async def receive(self) -> AsyncIterator[types.LiveServerMessage]:
        """The server's messages, until the connection ends, which raises."""
        while self._ahead:
            yield self._ahead.popleft()
        async for message in self._messages():
            yield message

    async def read_ahead(self) -> AsyncGenerator[types.LiveServerMessage, None]:
        """Read on; whoever calls `receive` later gets these messages first. Close it before."""
        async with aclosing(self._messages()) as messages:
            async for message in messages:
                self._ahead.append(message)
                yield message

    async def _messages(self) -> AsyncGenerator[types.LiveServerMessage, None]:
        if not self._is_real:
            async for message in self._live.receive():
                yield message
            return
        unreadable = 0
        while True:
            try:
                message = await self._receive()
            except Exception as error:
                # Whatever the library stumbles over, but for the connection itself, is a message.
                unreadable += 1
                if _is_of_connection(error) or unreadable > _UNREADABLE_IN_A_ROW:
                    raise
                logger.warning("message skipped", extra={"error": type(error).__name__})
                self.on_skipped()
                continue
            unreadable = 0
            yield message

    async def send_client_content(self, **content: Any) -> None:
        """Send turns, as the client library does, and count the message."""
        await self._live.send_client_content(**content)
        self.sent += 1

    async def send_tool_response(self, **response: Any) -> None:
        """Send answers to calls, likewise."""
        await self._live.send_tool_response(**response)
        self.sent += 1

    async def send_realtime_input(self, **given: Any) -> None:
        """Send audio, video, text or where an activity begins or ends, likewise."""
        audio = given.get("audio") if self._writes_audio else None
        text = audio_message(audio) if isinstance(audio, types.Blob) else None
        if text is None:
            await self._live.send_realtime_input(**given)
        else:
            await self._ws.send(text)
        self.sent += 1

    async def close(self) -> None:
        """Close within a bound; a server that does not answer is cut off."""
        # An answer behind frames that nobody reads would never be seen.
        draining = asyncio.create_task(self._drain(), name="resilient-gemini-drain")
        try:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._live.close(), CLOSE_TIMEOUT_S)
        finally:
            self.abort()
            draining.cancel()

    async def _drain(self) -> None:
        with contextlib.suppress(Exception):
            async for _ in self._ws:
                pass

    def abort(self) -> None:
        """Cut the socket, without a handshake that a dead peer never answers."""
        if self.websocket is not None:
            self.websocket.transport.abort()


def _nothing() -> None: ...


def _is_of_connection(error: Exception) -> bool:
    """Whether the connection ended, or cannot be read: the library tells a close as an error of the
    API, and takes an unknown message that names a code for one."""
    if isinstance(error, APIError):
        return isinstance(error.__context__, ConnectionClosed)
    return isinstance(error, WebSocketException | OSError)


def _is_librarys(method: Callable[..., object]) -> bool:
    """Whether a method is the client library's own, which nobody has wrapped or replaced."""
    own = getattr(method, "__module__", None) == AsyncSession.__module__
    return own and not hasattr(method, "__wrapped__")


class FirstFrame(ClientConnection):
    """A connection on which nothing comes ahead of the server's answer to the set-up; the client
    library would take that for the answer (R19), and what is told then would count as told before
    the server takes anything. Other messages come after it, malformed ones not at all."""

    _answered = False
    _early: Sequence[Data] = ()

    async def recv(self, decode: bool | None = None) -> Any:
        while not self._answered:
            data = await super().recv(decode)
            message = _message_in(data)
            if message is None:
                logger.warning("message skipped", extra={"error": "SetUpAnswer"})
            elif _SET_UP in message:
                self._answered = True
                return data
            else:
                self._early = (*self._early, data)
        if self._early:
            first, *self._early = self._early
            return first
        return await super().recv(decode)


def _message_in(data: Data) -> dict[str, Any] | None:
    """The message in a frame, which is an object of objects; None where it is none."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    is_message = all(value is None or isinstance(value, dict) for value in message.values())
    return message if is_message else None
