"""When sessions are renewed, by provider and by what the application says (R16)."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.core import limits
from livekit.plugins.resilient.openai.caps import Host, renewal_limits

MINUTE = 60.0


@pytest.mark.parametrize(
    ("host", "after_s", "cap_s"),
    [
        (Host("gpt-realtime"), 55 * MINUTE, 60 * MINUTE),
        (Host("gpt-realtime", azure=True), 28 * MINUTE, 30 * MINUTE),
        (Host("openai/gpt-realtime", inference=True), 55 * MINUTE, 60 * MINUTE),
        (Host("openai/gpt-realtime", inference=True, azure=True), 28 * MINUTE, 30 * MINUTE),
        (Host("google/gemini-3.8-live", inference=True), 14 * MINUTE, 15 * MINUTE),
        (Host("xai/grok-voice", inference=True), 20 * MINUTE, 30 * MINUTE),
        (Host("grok-voice-latest", xai=True), 28 * MINUTE, 30 * MINUTE),
    ],
    ids=lambda value: getattr(value, "model", None),
)
def test_each_provider_has_its_age_and_is_left_before_its_cap(
    host: Host, after_s: float, cap_s: float
) -> None:
    found = renewal_limits(host)
    assert found.after_s == after_s
    # A dial fits in between.
    assert after_s + found.wait_s + limits.CONNECT_TIMEOUT_S < cap_s


INFERENCE: dict[str, Any] = {"api_key": "k", "api_secret": "s" * 32}
AZURE: dict[str, Any] = {
    "azure_deployment": "d",
    "azure_endpoint": "https://azure.invalid",
    "api_key": "k",
}


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("model", "after_s"),
    [
        (lambda **g: resilient.openai.realtime.RealtimeModel(api_key="k", **g), 55 * MINUTE),
        (lambda **g: resilient.openai.realtime.RealtimeModel.with_azure(**AZURE, **g), 28 * MINUTE),
        (lambda **g: resilient.inference.RealtimeModel("google/x", **INFERENCE, **g), 14 * MINUTE),
        (lambda **g: resilient.inference.RealtimeModel("openai/x", **INFERENCE, **g), 55 * MINUTE),
        (
            lambda **g: resilient.inference.RealtimeModel(
                "openai/x", provider="azure", **INFERENCE, **g
            ),
            28 * MINUTE,
        ),
        (lambda **g: resilient.xai.realtime.RealtimeModel(api_key="k", **g), 28 * MINUTE),
    ],
    ids=["openai", "azure", "inference-google", "inference-openai", "inference-azure", "xai"],
)
async def test_what_the_application_says_wins(model: Any, after_s: float) -> None:
    async def of(**given: Any) -> tuple[float | None, float]:
        made = model(**given)
        session = made.session()
        found = session._renewal_limits()
        await session.aclose()
        await made.aclose()
        return found.after_s, found.wait_s

    options = resilient.ResilienceOptions(renewal_wait_s=7.0)
    assert (await of())[0] == after_s
    assert await of(max_session_duration=20 * MINUTE) == (1200.0, limits.OTHER_RENEWAL_WAIT_S)
    assert (await of(max_session_duration=None))[0] is None
    assert await of(resilience=options) == (after_s, 7.0)
