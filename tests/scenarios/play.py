"""Running one scenario with upstream's model or ours, with its faults or without."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from livekit.agents import inference, llm
from livekit.plugins import google, openai, resilient, xai

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import (
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    ScriptedMicrophone,
)
from livekit.plugins.resilient.testing.errors import CallEndedError, ServerTimeoutError

from .call_script import CallScript, Flavour, ProviderName
from .outcome import Outcome, judged, seen_of
from .registry import Scenario
from .stage import ScenarioFailed, Stage, Which

RUN_LIMIT_S = 2100.0
"""Virtual seconds that a scenario may take: half an hour of a call, and what comes after it."""

MIC_FRAME_MS = 60
"""Longer than the 50 ms of a room, because most of the work of a quiet call is its
microphone; both plugins gather frames anyway before they send them."""

_Factory = Callable[..., llm.RealtimeModel]


@dataclass(frozen=True)
class _Models:
    """How both models of one flavour are made, and the simulator's method that gives keywords."""

    upstream: _Factory
    ours: _Factory
    keywords: Callable[[Any], Mapping[str, Any]]


_MODELS: dict[tuple[ProviderName, Flavour], _Models] = {
    ("gemini", "plain"): _Models(
        google.realtime.RealtimeModel,
        resilient.google.realtime.RealtimeModel,
        GeminiLiveServer.model_kwargs,
    ),
    ("openai", "plain"): _Models(
        openai.realtime.RealtimeModel,
        resilient.openai.realtime.RealtimeModel,
        OpenAIRealtimeServer.model_kwargs,
    ),
    ("openai", "azure"): _Models(
        openai.realtime.RealtimeModel.with_azure,
        resilient.openai.realtime.RealtimeModel.with_azure,
        OpenAIRealtimeServer.azure_kwargs,
    ),
    ("openai", "azure-legacy"): _Models(
        openai.realtime.RealtimeModel.with_azure,
        resilient.openai.realtime.RealtimeModel.with_azure,
        lambda server: server.azure_kwargs(legacy=True),
    ),
    ("openai", "inference"): _Models(
        inference.RealtimeModel,
        resilient.inference.RealtimeModel,
        OpenAIRealtimeServer.inference_kwargs,
    ),
    ("openai", "xai"): _Models(
        xai.realtime.RealtimeModel,
        resilient.xai.realtime.RealtimeModel,
        OpenAIRealtimeServer.model_kwargs,
    ),
}
_SERVERS: dict[ProviderName, type[GeminiLiveServer] | type[OpenAIRealtimeServer]] = {
    "gemini": GeminiLiveServer,
    "openai": OpenAIRealtimeServer,
}


@contextlib.asynccontextmanager
async def staged(
    script: CallScript, which: Which, *, faults: bool, resilience: ResilienceOptions | None = None
) -> AsyncIterator[Stage[Any]]:
    """Start the simulator of a script and make its call, which is still to be entered.

    The call is closed at the end. `resilience` is for our model, over that of the script.
    """
    server_class: Callable[..., Any] = _SERVERS[script.provider]
    server = server_class(faults=script.faults if faults else (), **script.server)
    models = _MODELS[script.provider, script.flavour]

    def make_model() -> llm.RealtimeModel:
        given: dict[str, Any] = {**models.keywords(server), **script.model}
        if which == "upstream":
            return models.upstream(**given)
        options = resilience or script.resilience or ResilienceOptions()
        return models.ours(**given, resilience=options)

    async with server:
        mic = ScriptedMicrophone(sample_rate=script.mic_rate, frame_ms=MIC_FRAME_MS)
        options = {"mic": mic, **script.call()}
        if script.agent is not None:
            options["agent"] = script.agent(faults)
        call = HeadlessCall(make_model(), **options)
        try:
            yield Stage(script, server, call, which=which, faulty=faults, make_model=make_model)
        finally:
            await call.aclose()


async def play(scenario: Scenario, which: Which, *, faults: bool) -> float | None:
    """Run a scenario on the current loop; return the dead air that it measured, in seconds.

    Raises:
        ScenarioFailed: the caller did not experience what is promised.
        Exception: the scenario or the simulator is at fault.
    """
    async with staged(scenario, which, faults=faults) as stage:
        try:
            await asyncio.wait_for(_perform(scenario, stage), RUN_LIMIT_S)
        except asyncio.TimeoutError as exc:
            failed = ScenarioFailed(f"no end within {RUN_LIMIT_S:g} s")
            failed.outcome = Outcome("hung", str(failed))
            raise failed from exc
    return stage.dead_air_s


async def outcome_of(scenario: Scenario, which: Which) -> Outcome:
    """Run a scenario with its faults on the current loop.

    Raises:
        Exception: the scenario or the simulator is at fault.
    """
    try:
        return Outcome("kept", seconds=await play(scenario, which, faults=True))
    except ScenarioFailed as exc:
        return exc.outcome or Outcome("state wrong", str(exc))


async def _perform(scenario: Scenario, stage: Stage[Any]) -> None:
    async with stage.call:
        try:
            await scenario.run(stage)
        except ScenarioFailed as exc:
            # Looked at here, because leaving hangs up.
            exc.outcome = judged(seen_of(stage, exc.about), str(exc))
            raise
        except (CallEndedError, ServerTimeoutError) as exc:
            raise _never_happened(stage, exc) from exc
    stage.require(stage.call.close_problem is None, "hanging up raises nothing and ends")
    left = stage.call.leftover_tasks()
    stage.require(not left, f"no task is left after the call: {left}")


def _never_happened(stage: Stage[Any], exc: Exception) -> ScenarioFailed:
    why = str(exc).partition("; seen")[0]
    failed = ScenarioFailed(f"{why}; {_state_of(stage.call)}")
    failed.about = "wait"
    failed.outcome = judged(seen_of(stage, failed.about), why)
    return failed


def _state_of(call: HeadlessCall) -> str:
    """What is known about a call that got stuck."""
    closed = call.closed
    if closed is not None:
        return f"the session had closed: {closed.reason}"
    errors = [error for error in call.errors if not error.recoverable]
    if errors:
        return f"the model had given up: {type(errors[-1].error).__name__}"
    return "the session was still open"
