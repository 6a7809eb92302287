"""How patient a Gemini connection is: late pongs (R17), and a CLOSE without an answer (R21)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents.types import NotGivenOr
from livekit.agents.utils import is_given
from websockets.exceptions import ConnectionClosed

from ..core.limits import CLOSE_TIMEOUT_S
from .line import FirstFrame

if TYPE_CHECKING:
    from .line import LiveSession

__all__ = ["PING_EVERY_S", "patient_pings", "send_pings"]

PING_EVERY_S = 5.0
"""Seconds between two pings of ours: several must be due within the liveness time-out.
Source: our choice. Date: 2026-11."""


def patient_pings(
    options: NotGivenOr[types.HttpOptions], timeout_s: float
) -> NotGivenOr[types.HttpOptions]:
    """A copy of `options` under which a late pong ends nothing, and a CLOSE is soon over.

    The client's default gives a pong 20 s, while Gemini's were measured 8 to 30 s late
    (aicc2025/sip-to-ai PR#14), and a CLOSE 10 s. Pings are still sent; time-outs that the caller
    gave are kept.

    Args:
        options: The caller's; where none are given, upstream's default is made here.
        timeout_s: Seconds, for that default.
    """
    base = options if is_given(options) else types.HttpOptions(timeout=int(timeout_s * 1000))
    arguments = {
        "ping_timeout": None,
        "close_timeout": CLOSE_TIMEOUT_S,
        "create_connection": FirstFrame,
        **(base.async_client_args or {}),
    }
    return base.model_copy(update={"async_client_args": arguments})


async def send_pings(session: LiveSession, on_pong: Callable[[float], None]) -> None:
    """Ping until the connection ends or the task is cancelled.

    The client library pings too, but tells nobody of the answers.

    Args:
        session: On the connection.
        on_pong: Called for each answer, with the seconds that it took.
    """
    loop = asyncio.get_running_loop()
    sent: dict[asyncio.Future[float], float] = {}

    def answered(pong: asyncio.Future[float]) -> None:
        sent_at = sent.pop(pong)
        if not pong.cancelled() and pong.exception() is None:
            on_pong(loop.time() - sent_at)

    if session.websocket is None:
        return  # what never answers is not taken for dead
    with contextlib.suppress(ConnectionClosed):
        while True:
            pong = asyncio.ensure_future(await session.websocket.ping())
            sent[pong] = loop.time()
            pong.add_done_callback(answered)
            await asyncio.sleep(PING_EVERY_S)
