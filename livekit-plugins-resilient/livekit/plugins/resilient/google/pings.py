"""How patient a Gemini connection is: late pongs (R17), and a CLOSE without an answer (R21)."""

from __future__ import annotations

from google.genai import types
from livekit.agents.types import NotGivenOr
from livekit.agents.utils import is_given

from ..core.limits import CLOSE_TIMEOUT_S
from .live_session import FirstFrame

__all__ = ["PING_EVERY_S", "patient_pings"]

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
