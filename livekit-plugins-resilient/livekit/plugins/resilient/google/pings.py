"""Keeps the WebSocket client's own ping time-out from ending a healthy Gemini session (R17)."""

from __future__ import annotations

from google.genai import types
from livekit.agents.types import NotGivenOr
from livekit.agents.utils import is_given

__all__ = ["patient_pings"]


def patient_pings(
    options: NotGivenOr[types.HttpOptions], timeout_s: float
) -> NotGivenOr[types.HttpOptions]:
    """A copy of `options` under which a late pong ends nothing.

    The client's default gives a pong 20 s, while Gemini's were measured 8 to 30 s late
    (aicc2025/sip-to-ai PR#14). Pings are still sent; a time-out that the caller gave is kept.

    Args:
        options: The caller's; where none are given, upstream's default is made here.
        timeout_s: Seconds, for that default.
    """
    base = options if is_given(options) else types.HttpOptions(timeout=int(timeout_s * 1000))
    arguments = {"ping_timeout": None, **(base.async_client_args or {})}
    return base.model_copy(update={"async_client_args": arguments})
