"""The xAI classes derive from our copy of the OpenAI engine."""

from __future__ import annotations

from livekit.plugins.resilient._vendor.openai import realtime_model as engine
from livekit.plugins.resilient._vendor.xai import realtime_model as xai


def test_model_and_session_run_on_our_engine() -> None:
    assert issubclass(xai.RealtimeModel, engine.RealtimeModel)
    assert issubclass(xai.RealtimeSession, engine.RealtimeSession)


def test_what_is_discarded_is_known_to_our_engine() -> None:
    assert vars(xai)["_DiscardedGeneration"] is engine._DiscardedGeneration
