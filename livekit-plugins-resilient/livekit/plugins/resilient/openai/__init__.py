"""OpenAI Realtime and Azure OpenAI with resilience: `openai.realtime.RealtimeModel`."""

from . import realtime as realtime

__all__ = ["realtime"]
