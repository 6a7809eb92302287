"""Gemini Live with resilience: `google.realtime.RealtimeModel`."""

from . import realtime as realtime

__all__ = ["realtime"]
