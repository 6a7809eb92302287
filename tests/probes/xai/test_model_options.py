"""The xAI model takes `resilience` and keeps it, and with it the duration that was given."""

from __future__ import annotations

from typing import Any

from livekit.agents import NOT_GIVEN

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.hooks import duration_of

OPTIONS = ResilienceOptions(speech_rate_cps=12)


def test_the_model_takes_and_keeps_resilience(xai_model: Any) -> None:
    assert xai_model(api_key="k", resilience=OPTIONS)._resilience is OPTIONS
    assert xai_model(api_key="k")._resilience == ResilienceOptions()


def test_a_duration_that_was_not_given_is_not_taken_for_none(xai_model: Any) -> None:
    assert duration_of(xai_model(api_key="k")) is NOT_GIVEN
    assert duration_of(xai_model(api_key="k", max_session_duration=None)) is None
    assert duration_of(xai_model(api_key="k", max_session_duration=60.0)) == 60.0
