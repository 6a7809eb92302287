"""The OpenAI model and its Azure form take `resilience` and keep it."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient import ResilienceOptions

OPTIONS = ResilienceOptions(speech_rate_cps=12)


def test_the_model_takes_and_keeps_resilience(openai_model: Any) -> None:
    assert openai_model(api_key="k", resilience=OPTIONS)._resilience is OPTIONS
    assert openai_model(api_key="k")._resilience == ResilienceOptions()


def test_with_azure_takes_and_keeps_resilience(openai_model: Any) -> None:
    azure = openai_model.with_azure(
        azure_deployment="d",
        azure_endpoint="https://azure.invalid",
        api_key="k",
        resilience=OPTIONS,
    )
    assert azure._resilience is OPTIONS
