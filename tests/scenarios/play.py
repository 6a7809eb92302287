"""Running one scenario with upstream's model or ours, with its faults or without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from livekit.agents import inference, llm
from livekit.plugins import google, openai, resilient

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import (
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    ScriptedMicrophone,
)
from livekit.plugins.resilient.testing.errors import CallEndedError, ServerTimeoutError

from .registry import Flavour, ProviderName, Scenario
from .stage import ScenarioFailed, Stage, Which

RUN_LIMIT_S = 1800.0
"""Virtual seconds that a scenario may take: half an hour of a call."""

MIC_FRAME_MS = 60
"""Longer than the 20 ms of a telephone, because most of the work of a quiet call is its
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
}
_SERVERS: dict[ProviderName, type[GeminiLiveServer] | type[OpenAIRealtimeServer]] = {
    "gemini": GeminiLiveServer,
    "openai": OpenAIRealtimeServer,
}


async def play(scenario: Scenario, which: Which, *, faults: bool) -> float | None:
    """Run a scenario on the current loop; return the dead air that it measured, in seconds.

    Raises:
        ScenarioFailed: the caller did not experience what is promised.
        Exception: the scenario or the simulator is at fault.
    """
    server_class: Callable[..., Any] = _SERVERS[scenario.provider]
    server = server_class(faults=scenario.faults if faults else (), **scenario.server)
    models = _MODELS[scenario.provider, scenario.flavour]

    def make_model() -> llm.RealtimeModel:
        given: dict[str, Any] = {**models.keywords(server), **scenario.model}
        if which == "upstream":
            return models.upstream(**given)
        return models.ours(**given, resilience=scenario.resilience or ResilienceOptions())

    async with server:
        options = {"mic": ScriptedMicrophone(frame_ms=MIC_FRAME_MS), **scenario.call()}
        if scenario.agent is not None:
            options["agent"] = scenario.agent(faults)
        call = HeadlessCall(make_model(), **options)
        stage: Stage[Any] = Stage(
            scenario, server, call, which=which, faulty=faults, make_model=make_model
        )
        try:
            await asyncio.wait_for(_perform(scenario, stage), RUN_LIMIT_S)
        except asyncio.TimeoutError as exc:
            raise ScenarioFailed(f"no end within {RUN_LIMIT_S:g} s") from exc
        finally:
            await call.aclose()
    return stage.dead_air_s


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario with its faults.

    Attributes:
        survived: whether the caller experienced what is promised.
        why: what was not so; empty where it survived.
        dead_air_s: seconds in which neither side was audible; infinite where the agent was never
            heard again, None where the scenario does not measure it.
        open_ended: the wait was given up, so that the true dead air is longer.
    """

    survived: bool
    why: str = ""
    dead_air_s: float | None = None
    open_ended: bool = False


async def outcome_of(scenario: Scenario, which: Which) -> Outcome:
    """Run a scenario with its faults on the current loop.

    Raises:
        Exception: the scenario or the simulator is at fault.
    """
    try:
        return Outcome(True, dead_air_s=await play(scenario, which, faults=True))
    except ScenarioFailed as exc:
        silent_s = exc.silent_s
        return Outcome(False, str(exc), silent_s, open_ended=silent_s is not None)


async def _perform(scenario: Scenario, stage: Stage[Any]) -> None:
    async with stage.call:
        try:
            await scenario.run(stage)
        except (CallEndedError, ServerTimeoutError) as exc:
            raise _never_happened(stage, exc) from exc
    stage.require(stage.call.close_problem is None, "hanging up raises nothing and ends")
    left = stage.call.leftover_tasks()
    stage.require(not left, f"no task is left after the call: {left}")


def _never_happened(stage: Stage[Any], exc: Exception) -> ScenarioFailed:
    failed = ScenarioFailed(f"{str(exc).partition('; seen')[0]}; {_state_of(stage.call)}")
    if stage.faulty and stage.server.recording.faults and not stage.idle:
        failed.silent_s = stage.dead_air(until=stage.call.now)
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
