"""The Gemini model takes `resilience` and keeps it."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient import ResilienceOptions


def test_the_model_takes_and_keeps_resilience(google_model: Any) -> None:
    options = ResilienceOptions(speech_rate_cps=12)
    assert google_model(api_key="k", resilience=options)._resilience is options
    assert google_model(api_key="k")._resilience == ResilienceOptions()
