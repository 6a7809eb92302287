"""The LiveKit Inference model takes `resilience` and keeps it."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient import ResilienceOptions


def test_the_model_takes_and_keeps_resilience(inference_model: Any) -> None:
    options = ResilienceOptions(speech_rate_cps=12)
    model = inference_model(
        "openai/gpt-realtime", api_key="k", api_secret="s" * 32, resilience=options
    )
    assert model._resilience is options
