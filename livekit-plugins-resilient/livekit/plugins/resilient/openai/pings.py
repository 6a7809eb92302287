"""Pings of our own on an OpenAI connection, and what came of them (R17).

The WebSocket client's own heartbeat ends a connection when a timer of its own fires before a pong
was read: also a healthy one, whose pong waits in the socket while the event loop is blocked (R23).
So the client pings nobody and hands pings and pongs to us; what silence means is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from aiohttp import WSMessage, WSMsgType

__all__ = ["PING_EVERY_S", "Pings", "ping_interval_s"]

PING_EVERY_S = 1.5
"""Seconds between two pings: one that is answered 6 s late, after others that were answered at
once, must not look like silence within the liveness time-out of 8 s.
Source: our choice. Date: 2026-11."""

# Pings within one time-out where an application gave a short one.
_PINGS_PER_TIMEOUT = 4

# Pings whose answers are still told apart; a peer that answers none is left long before.
_REMEMBERED = 64

_CONTROL = frozenset({WSMsgType.PING, WSMsgType.PONG})


def ping_interval_s(liveness_timeout_s: float) -> float:
    """Seconds between two pings, several of which must be due within the time-out."""
    return min(PING_EVERY_S, liveness_timeout_s / _PINGS_PER_TIMEOUT)


class Pings:
    """The pings of one connection, also over another socket put in its place.

    Args:
        on_sign: Called for each ping of the peer and each answer to one of ours, with the seconds
            that the answer took; 0 where that is not known.
    """

    def __init__(self, on_sign: Callable[[float], None]) -> None:
        self._on_sign = on_sign
        self._sent: dict[bytes, float] = {}
        self._count = 0

    async def take(self, connected: Any, message: WSMessage) -> bool:
        """Take a message if it is a ping, which is answered, or a pong; False for any other."""
        if message.type not in _CONTROL:
            return False
        after_s = 0.0
        if message.type is WSMsgType.PING:
            # A connection that cannot be written to any more says so when it is read.
            with contextlib.suppress(ConnectionError):
                await connected.pong(message.data)
        elif (sent_at := self._sent.pop(bytes(message.data), None)) is not None:
            after_s = asyncio.get_running_loop().time() - sent_at
        self._on_sign(after_s)
        return True

    async def send(self, connected: Any) -> None:
        """Ping once, unless the connection cannot be written to any more."""
        self._count += 1
        payload = str(self._count).encode()
        self._sent[payload] = asyncio.get_running_loop().time()
        if len(self._sent) > _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        with contextlib.suppress(ConnectionError):
            await connected.ping(payload)
