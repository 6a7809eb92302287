"""docs/architecture.md is what the code is: the page, the walks in it, and the rule they keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import architecture
import pytest
from code_index import Code, WalkError, first_sentence
from walks import DROP, FRAME, GAP, HANDLE, MOST_RESTS, Step, Walk, follow

from livekit.plugins.resilient.core import link
from livekit.plugins.resilient.core import link_facts as f
from livekit.plugins.resilient.core.budget import BudgetLimits
from livekit.plugins.resilient.core.handover import Rest

WALKS = (*HANDLE, *DROP, *FRAME, *GAP)


@pytest.fixture(scope="module")
def code() -> Code:
    return Code()


def test_the_page_is_what_the_code_gives(code: Code) -> None:
    assert architecture.PAGE.read_text(encoding="utf-8") == architecture.page(code), (
        "run scripts/docs.sh"
    )


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: f"{walk.name}-{walk.provider}")
def test_each_step_of_a_walk_shows_in_the_code(code: Code, walk: Walk) -> None:
    for hop in follow(code, walk):
        assert architecture.says(code, hop.functions[0])


def test_the_walks_are_bounded() -> None:
    assert {walk.most for walk in HANDLE} == {12}
    assert {walk.most for walk in DROP} == {15}


# -- the rule can fail


@pytest.mark.parametrize("walk", [*HANDLE, *DROP], ids=lambda walk: f"{walk.name}-{walk.provider}")
def test_no_hop_can_be_left_out(code: Code, walk: Walk) -> None:
    hops = follow(code, walk)
    begins = [sum(len(hop.functions) for hop in hops[:number]) for number in range(len(hops))]
    for number in range(1, len(hops) - 1):
        after = hops[number + 1]
        # Steps go by names: that of the next function, or that in which something rests, may be
        # one that the hop before knows too.
        same_name = hops[number].functions[-1].name == after.functions[0].name
        if same_name or after.how == "rest":
            continue
        steps = walk.steps[: begins[number]] + walk.steps[begins[number + 1] :]
        with pytest.raises(WalkError):
            follow(code, replace(walk, steps=steps))


def walk_of(*steps: Step, most: int | None = None) -> Walk:
    return Walk("test", "google", steps, "", most)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Step("Link.gone", "begin")], "nowhere"),
        ([Step("Connector.serve", "begin")], "google/connection.py"),
        ([Step("Link.due")], "begins"),
        ([Step("Link.due", "begin"), Step("Link.receive")], "does not name the second"),
        ([Step("Link.due", "begin"), Step("Link._lost", "back")], "does not name the first"),
        ([Step("Link.due", "begin"), Step("Runner.run", "message", "Dial")], "makes no Dial"),
        ([Step("Link._dial", "begin"), Step("Runner.run", "message", "Budget")], "no fact"),
        ([Step("Link._dial", "begin"), Step("Link.due", "message", "Dial")], "handles no Dial"),
        ([Step("Link._lost", "begin"), Step("Link.due", "rest", "_redial_at")], "explained"),
        ([Step("Link._lost", "begin"), Step("Link.due", "rest", "", "long")], "sends nothing"),
        ([Step("Link._lost", "begin"), Step("Link.due", "rest", "_rest", "so")], "keeps it"),
        ([Step("Link._lost", "begin"), Step("Link.due", "rest", "_redial_at", "so")], "reads"),
    ],
)
def test_a_walk_that_the_code_does_not_take_is_refused(
    code: Code, steps: list[Step], reason: str
) -> None:
    walk = walk_of(*steps)
    provider = "xai" if reason.endswith(".py") else walk.provider
    with pytest.raises(WalkError, match=reason):
        follow(code, replace(walk, provider=provider))


def test_too_many_hops_are_refused(code: Code) -> None:
    hops = len(follow(code, DROP[0]))
    assert follow(code, replace(DROP[0], most=hops))
    with pytest.raises(WalkError, match=f"{hops} hops"):
        follow(code, replace(DROP[0], most=hops - 1))


def test_too_many_rests_are_refused(code: Code) -> None:
    rest = [Step("Link.next_deadline", "rest", "_redial_at", "so"), Step("Link.due", "back")]
    rounds = [*rest, Step("Link._dial"), Step("Link.receive", "rest", "_state", "so")]
    walk = walk_of(Step("Link._lost", "begin"), *rounds, *rounds[-1:] * MOST_RESTS)
    with pytest.raises(WalkError, match="rests"):
        follow(code, walk)


def test_one_part_is_one_hop_whatever_it_does_inside(code: Code) -> None:
    walk = walk_of(
        Step("Link.due", "begin"), Step("Link._dial"), Step("Runner.run", "message", "Dial")
    )
    assert [(hop.part, len(hop.functions)) for hop in follow(code, walk)] == [
        ("Link", 2),
        ("Runner", 1),
    ]


# -- what the page adds to the tables


def test_the_moves_by_time_are_those_that_the_line_makes() -> None:
    limits = link.LinkLimits(
        budget=BudgetLimits(
            connect_timeout_s=10.0, deadline_s=60.0, base_s=0.25, cap_s=8.0, healthy_after_s=10.0
        ),
        margin_s=2.0,
    )
    made: dict[link.State, link.State] = {}
    facts: list[f.LinkFact] = [
        f.Opened(0.0),
        f.AttemptFailed(0.0, 1.0),
        f.DialAnswered(1.0),
        f.Restored(1.0),
        f.Suspected(1.0),
    ]
    line = link.Link(limits, lambda: Rest(None))
    for fact in facts:
        line.receive(fact)
        before, deadline = line.state, line.next_deadline()
        if deadline is not None and line.due(deadline):
            made[before] = line.state
    assert made == {state: after for state, (after, _) in architecture.BY_TIME.items()}


@pytest.mark.parametrize(
    ("doc", "first"),
    [
        (None, ""),
        ("Takes one.", "Takes one"),
        ("`Link`: of a line. Facts in.", "`Link`: of a line"),
        ("Goes on\nover a line, e.g. this. And\non.", "Goes on over a line, e.g. this"),
        ("Without an end\n\nMore.", "Without an end"),
    ],
)
def test_the_first_sentence_of_a_docstring(doc: str | None, first: str) -> None:
    assert first_sentence(doc) == first


def test_the_readme_names_the_page() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert "docs/architecture.md" in readme.partition("## Find it")[2]
