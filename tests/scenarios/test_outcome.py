"""What a caller met is told from the call: each outcome by its facts, and in a real call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from livekit.plugins.resilient.testing import After, Blackhole, Fault, Refuse, Silence
from livekit.plugins.resilient.testing.faults import OnConnection, UserStarts

from .lines import ANSWER, GREETING, PACE, STORY, by_reason
from .outcome import LONG_S, Met, Outcome, Seen, judged
from .play import outcome_of
from .stage import GeminiStage
from .test_stage import CUT, CUT_S, scene

CUT_AND_GONE = (CUT, Fault(OnConnection(None, nth=2), Refuse(503), times="always"))
TALK = {"replies": [GREETING], "default_reply": by_reason, "pace": PACE}


def outcome(seen: Seen) -> Outcome:
    return judged(seen, "not so: pigs fly")


# By its facts ------------------------------------------------------------------------------

HEARD = Seen(about="heard")
STATE = Seen(about="state")
WAIT = Seen(about="wait", silent_s=20.0)


@pytest.mark.parametrize(
    ("seen", "met", "seconds"),
    [
        (STATE, "state wrong", None),
        (replace(STATE, silent_s=20.0, nothing_new=True), "state wrong", None),
        (replace(STATE, answered_after_s=LONG_S - 0.1), "state wrong", None),
        (replace(STATE, answered_after_s=LONG_S), "answered", LONG_S),
        (replace(STATE, unanswered=True, silent_s=0.1), "never answered", 0.1),
        (replace(STATE, unanswered=True, idle=True), "state wrong", None),
        (HEARD, "answered", None),
        (replace(HEARD, answered_after_s=0.5), "answered", 0.5),
        (replace(HEARD, idle=True), "answered", None),
        (replace(HEARD, silent_s=8.0), "answered", None),
        (replace(HEARD, silent_s=8.0, nothing_new=True), "left in silence", 8.0),
        (replace(HEARD, silent_s=1.0, nothing_new=True), "answered", None),
        (WAIT, "left in silence", 20.0),
        (replace(WAIT, unanswered=True), "never answered", 20.0),
        (replace(WAIT, idle=True), "state wrong", None),
        (replace(WAIT, silent_s=1.0, answered_after_s=4.0), "answered", 4.0),
        (replace(WAIT, unanswered=True, ended_after_s=1.5), "call ended", 1.5),
        (replace(STATE, idle=True, ended_after_s=1.5), "call ended", 1.5),
    ],
)
def test_what_was_met(seen: Seen, met: Met, seconds: float | None) -> None:
    found = outcome(seen)
    assert (found.met, found.seconds) == (met, seconds)
    assert found.why == "not so: pigs fly"
    assert not found.survived


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (replace(WAIT, ended_after_s=1.0), False),
        (replace(WAIT, ended_after_s=1.0, closed=True), True),
        # Looked at in the moment of the error: the close event may be on its way.
        (replace(STATE, ended_after_s=1.0), True),
        (WAIT, True),
    ],
)
def test_an_end_without_a_close_event_is_noted(seen: Seen, told: bool) -> None:
    assert outcome(seen).told is told


# In real calls -----------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_promise_that_is_kept_has_its_dead_air() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.ask()
        stage.dead_air(stage.call.mic.utterances[0].ended_at)

    kept = await outcome_of(scene(run, server=TALK), "upstream")
    assert kept.survived
    # What the server takes to hear that the caller is through, and the model to think.
    assert kept.seconds == pytest.approx(1.2, abs=0.2)


@pytest.mark.virtual_time
async def test_a_question_into_a_dead_connection_is_never_answered() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.ask(timeout_s=15)

    fault = Fault(UserStarts(connection=1), Blackhole())
    met = await outcome_of(scene(run, server=TALK, faults=(fault,)), "upstream")
    assert met.met == "never answered"
    assert met.seconds == pytest.approx(15.0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_reply_that_does_not_go_on_leaves_silence() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.call.until(lambda: stage.call.heard.busy, what="the story's beginning")
        await stage.rest(CUT_S + 8.0)
        stage.require_heard(stage.heard_whole(STORY), "the story is heard to its end")

    met = await outcome_of(scene(run, faults=(CUT,)), "upstream")
    assert met.met == "left in silence"
    assert met.seconds == pytest.approx(8.0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_model_that_gives_up_ends_the_call() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.server.wait_for("setupComplete", count=2, timeout_s=30)

    met = await outcome_of(scene(run, faults=CUT_AND_GONE), "upstream")
    assert met.met == "call ended"
    assert met.told
    # Upstream's model tries the dial once more, at once.
    assert met.seconds == pytest.approx(0.1, abs=0.1)


@pytest.mark.virtual_time
async def test_the_end_of_a_call_by_the_scenario_is_none_of_the_models() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.hang_up()
        stage.require(False, "pigs fly")

    met = await outcome_of(scene(run, server=TALK), "upstream")
    assert met.met == "state wrong"


@pytest.mark.virtual_time
@pytest.mark.parametrize("late_s", [0.0, 5.0])
async def test_what_is_heard_otherwise_than_promised_is_answered(late_s: float) -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.ask()
        stage.require_heard(stage.times_heard(ANSWER) == 2, "the answer is heard twice")

    answer = replace(ANSWER, first_token_s=late_s)
    server = {"replies": [GREETING, answer], "pace": PACE}
    met = await outcome_of(scene(run, server=server), "upstream")
    assert met.met == "answered"
    assert met.why == "not so: the answer is heard twice"
    assert met.seconds == pytest.approx(late_s, abs=0.6)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("late_s", "expected"), [(0.0, "state wrong"), (5.0, "answered")])
async def test_a_wrong_state_is_no_more_than_that_unless_the_answer_was_late(
    late_s: float, expected: Met
) -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.ask()
        stage.require(False, "pigs fly")

    answer = replace(ANSWER, first_token_s=late_s)
    server = {"replies": [GREETING, answer], "pace": PACE}
    met = await outcome_of(scene(run, server=server), "upstream")
    assert met.met == expected


@pytest.mark.virtual_time
async def test_a_wait_while_nobody_owes_a_word_is_a_matter_of_state() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        stage.idle = True
        await stage.server.wait_for("setupComplete", count=3, timeout_s=20)

    met = await outcome_of(scene(run, server=TALK), "upstream")
    assert met.met == "state wrong"


@pytest.mark.virtual_time
async def test_a_request_that_fails_unheard_is_never_answered() -> None:
    async def run(stage: GeminiStage) -> None:
        await stage.greet()
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.rest(2.0)
        stage.require(False, "the request does not fail")

    fault = Fault(After("turnComplete", connection=1), Silence())
    met = await outcome_of(scene(run, server=TALK, faults=(fault,)), "upstream")
    assert met.met == "never answered"
    assert met.seconds == pytest.approx(2.0, abs=0.1)


# In the catalogue --------------------------------------------------------------------------

EARS = {"heard_whole", "times_heard", "whole", "heard"}


def requirements(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="require" | "require_heard" as name)):
                yield name, node


def listens(condition: ast.expr) -> bool:
    nodes = list(ast.walk(condition))
    called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return bool(EARS & (called | {n.attr for n in nodes if isinstance(n, ast.Attribute)}))


def test_what_the_caller_hears_is_required_as_such() -> None:
    """Else a reply that is cut short would pass for a record that is wrong."""
    here = Path(__file__).parent
    seen = {True: 0, False: 0}
    wrong = []
    for path in sorted([*here.glob("gemini/*.py"), *here.glob("openai/*.py")]):
        for name, call in requirements(path):
            heard = name == "require_heard"
            seen[heard] += 1
            if listens(call.args[0]) and not heard:
                wrong.append(f"{path.parent.name}/{path.name}:{call.lineno}")
    assert wrong == []
    assert min(seen.values()) > 50
