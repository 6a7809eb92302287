"""LiveKit Inference with resilience: `inference.RealtimeModel`."""

from .realtime import RealtimeModel, RealtimeSession

__all__ = ["RealtimeModel", "RealtimeSession"]
