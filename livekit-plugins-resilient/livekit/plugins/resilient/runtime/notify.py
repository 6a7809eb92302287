"""Hands events to the application: to its `on_event` and to the session's listeners."""

from __future__ import annotations

from typing import Any

from livekit import rtc

from ..events import ResilienceEvent
from ..options import ResilienceOptions
from .log import logger

__all__ = ["EVENT_NAME", "notify"]

EVENT_NAME = "resilience"
"""Name under which a realtime session emits our events."""


def notify(
    session: rtc.EventEmitter[Any], options: ResilienceOptions, event: ResilienceEvent
) -> None:
    """Deliver `event`. A callback that raises is logged, never propagated."""
    if options.on_event is not None:
        try:
            options.on_event(event)
        except Exception:
            logger.exception("on_event raised", extra={"event": type(event).__name__})
    session.emit(EVENT_NAME, event)
