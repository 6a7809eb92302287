"""The frame of the scenarios: what it measures, what it refuses, how it fails."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from livekit.plugins.resilient.testing import Abort, AtAudio, CallAgent, Fault, HangHandshake
from livekit.plugins.resilient.testing.faults import OnConnection

from .lines import ANSWER, GO_ON, STORY, by_reason
from .play import outcome_of, play
from .registry import Scenario, catalogue, scenario
from .stage import GeminiStage, ScenarioFailed

CUT_S = 3.0
CUT = Fault(AtAudio(CUT_S, connection=1), Abort())
Run = Callable[[GeminiStage], Awaitable[None]]


def scene(run: Run, **changes: Any) -> Scenario:
    entry = Scenario(
        name="a-scene",
        kind="K1",
        rule="R1",
        provider="gemini",
        run=run,
        promise="Nothing in particular.",
        server={"replies": [STORY], "default_reply": by_reason},
    )
    return dataclasses.replace(entry, **changes)


@pytest.mark.virtual_time
async def test_dead_air_is_the_longest_time_in_which_neither_side_is_audible() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        over_at = stage.call.heard.segments[0].ended_at
        await stage.rest(2.0)
        await stage.ask(1.5)
        # 2 s of quiet, the caller's 1.5 s, then what the server takes to hear that it is over, and
        # to think.
        assert stage.dead_air(over_at) == pytest.approx(2.0, abs=0.1)
        assert stage.dead_air(stage.call.mic.utterances[0].ended_at) < 1.3
        assert math.isinf(stage.dead_air(stage.call.now + 1.0))

    assert await play(scene(run), "upstream", faults=False) is None


@pytest.mark.virtual_time
async def test_what_was_heard_is_told_by_its_samples() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.until_fault()
        await stage.call.until(lambda: stage.call.heard.segments)
        await stage.ask()
        assert stage.heard_whole(ANSWER)
        assert not stage.heard_whole(STORY)
        assert stage.times_heard(STORY) == stage.times_heard(STORY, 1) == 1
        assert stage.times_heard(STORY, 2) == stage.times_heard(GO_ON) == 0
        assert stage.times_heard(STORY, first_s=CUT_S) == 1
        assert stage.times_heard(STORY, first_s=CUT_S + 0.1) == 0

    await play(scene(run, faults=(CUT,)), "upstream", faults=True)


@pytest.mark.virtual_time
async def test_a_control_has_no_faults_and_measures_no_dead_air() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        assert await stage.until_fault() == stage.call.now
        stage.dead_air(0.0)
        assert stage.heard_whole(STORY)

    assert await play(scene(run, faults=(CUT,)), "ours", faults=False) is None


@pytest.mark.virtual_time
async def test_what_is_not_so_fails_with_its_sentence() -> None:
    async def run(stage: GeminiStage) -> None:
        stage.require(False, "pigs fly")

    outcome = await outcome_of(scene(run), "upstream")
    assert not outcome.survived
    assert outcome.why == "not so: pigs fly"
    assert outcome.seconds is None


@pytest.mark.virtual_time
async def test_what_never_happens_fails_with_the_silence_until_then() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.server.wait_for("setupComplete", count=2, timeout_s=8)

    hang = Fault(OnConnection(2), HangHandshake())
    outcome = await outcome_of(scene(run, faults=(CUT, hang)), "upstream")
    assert not outcome.survived
    assert outcome.met == "left in silence"
    # 8 s from the beginning, of which the server takes 1.6 to be set up and to think, and the
    # caller hears what came before the cut.
    assert outcome.seconds == pytest.approx(8.0 - 1.6 - CUT_S, abs=0.1)


@pytest.mark.virtual_time
async def test_an_error_of_the_scenario_is_not_taken_for_a_failure_of_the_model() -> None:
    async def run(stage: GeminiStage) -> None:
        raise LookupError("a slip of the pen")

    with pytest.raises(LookupError, match="slip"):
        await outcome_of(scene(run), "ours")


@pytest.mark.virtual_time
async def test_a_task_that_outlives_the_call_fails() -> None:
    class Litterer(CallAgent):
        async def on_enter(self) -> None:
            tasks.append(asyncio.create_task(asyncio.Event().wait(), name="litter"))

    async def run(stage: GeminiStage) -> None:
        await stage.ask()

    tasks: list[asyncio.Task[bool]] = []
    with pytest.raises(ScenarioFailed, match="litter"):
        await play(scene(run, agent=lambda faulty: Litterer()), "ours", faults=False)
    tasks[0].cancel()


async def answers(stage: GeminiStage) -> None:
    """The caller is answered."""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": "Not_Kebab"}, "kebab-case"),
        ({"kind": "K14"}, "K13"),
        ({"rule": "R23"}, "R22"),
        ({"provider": "grok"}, "openai"),
        ({"waits_for": ["soon"]}, "R22"),
    ],
)
def test_a_malformed_scenario_is_refused(changes: dict[str, Any], named: str) -> None:
    fields = {"name": "a-name", "kind": "K1", "rule": "R1", "provider": "gemini", **changes}
    with pytest.raises(ValueError, match=named):
        scenario(fields.pop("name"), **fields)(answers)


def test_a_name_is_taken_once() -> None:
    taken = next(iter(catalogue()))
    with pytest.raises(ValueError, match="unique"):
        scenario(taken, kind="K1", rule="R1", provider="gemini")(answers)


def test_a_scenario_says_what_it_promises() -> None:
    async def silent(stage: GeminiStage) -> None: ...

    with pytest.raises(ValueError, match="docstring"):
        scenario("says-nothing", kind="K1", rule="R1", provider="gemini")(silent)
