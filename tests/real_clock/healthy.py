"""Healthy calls on the real clock: the same on both models, as far as a running clock lets one say.

`tests/healthy` compares times and samples as well, which two real runs never share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import ResilienceEvent
from tests.healthy.script import HealthyScript
from tests.healthy.test_healthy import CORPUS
from tests.real_clock.runner import Run
from tests.scenarios.play import staged
from tests.scenarios.stage import Which

NAMES = (
    "gemini-greeting-mid-reply-5s",
    "gemini-tool-before-the-call-6s",
    "gemini-captions-stray-dot",
    "gemini-captions-heard-again",
    "gemini-say-after-a-reply",
    "gemini-handoff",
    "openai-greeting-mid-reply-5s",
    "openai-tool-before-the-call-6s",
    "openai-second-message-late-6s",
    "openai-rate-limit-6s",
    "openai-say-after-a-reply",
    "openai-push-to-talk",
)
"""One of each kind that was harmed once, none of them long."""

LOADED = ("gemini-tool-before-the-call-6s", "openai-tool-before-the-call-6s")

SETTLE_S = 5.0
"""Real seconds that each call is listened to at its end, for what comes of it late."""


def sample(names: Iterable[str] = NAMES) -> list[tuple[str, Run]]:
    """The chosen calls, each played with upstream's model and then with ours."""
    return [(name, partial(_left_alone, CORPUS[name])) for name in names]


async def _left_alone(script: HealthyScript) -> None:
    decided: list[ResilienceEvent] = []
    options = replace(script.resilience or ResilienceOptions(), on_event=decided.append)
    upstream = await _observed(script, "upstream", options)
    ours = await _observed(script, "ours", options)
    assert [event for event in decided if type(event).__name__ not in script.permits] == []
    assert ours == upstream


async def _observed(
    script: HealthyScript, which: Which, options: ResilienceOptions
) -> dict[str, Any]:
    faults = which == "ours" or not script.spare_upstream
    async with (
        staged(script, which, faults=faults, resilience=options) as stage,
        stage.call as call,
    ):
        await script.run(stage)
        await call.agent_done()
        await stage.rest(SETTLE_S)
        frames = [f for f in stage.server.recording.frames() if not f.audio]
        return {
            "sent": [(frame.connection, frame.kinds, frame.texts) for frame in frames],
            "heard": [segment.position_s for segment in call.heard.segments],
            "record": [(item.role, item.text) for item in call.history],
        }
