"""A sample of the healthy corpus, and what holds for the whole of it."""

from __future__ import annotations

import pytest

from .meant import MEANT, shown_by
from .run import judge
from .script import HealthyScript, corpus, sample

CORPUS = corpus()
LEAST = 100


@pytest.mark.parametrize("script", [pytest.param(s, id=s.name) for s in sample(CORPUS.values())])
def test_nobody_can_tell_our_model_from_upstreams(script: HealthyScript) -> None:
    verdict = judge(script)
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize("name", shown_by())
def test_a_meant_difference_is_met(name: str) -> None:
    met = judge(CORPUS[name]).meant
    assert not set(shown_by()[name]) - met


@pytest.mark.parametrize(
    "script", [pytest.param(s, id=s.name) for s in sample(CORPUS.values())[::4]]
)
def test_upstreams_model_is_equal_to_itself(script: HealthyScript) -> None:
    """What the harness finds is not its own doing."""
    verdict = judge(script, "upstream")
    assert verdict.equal, str(verdict)


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= LEAST


def test_the_names_of_meant_differences_are_unique() -> None:
    assert len({entry.name for entry in MEANT}) == len(MEANT)
