"""The Gemini simulator keeps to what recorded sessions show."""

from __future__ import annotations

from pathlib import Path

import pytest

from .facts import Fact, Step, broken, load
from .gemini import measures
from .gemini_situations import SITUATIONS, play

FACTS = load(Path(__file__).with_name("gemini.toml"))
_PLAYED: dict[tuple[str, str], list[Step]] = {}


async def session_of(fact: Fact) -> list[Step]:
    """The session of a fact's situation; several facts share one."""
    key = (fact.situation, fact.dialect)
    if key not in _PLAYED:
        _PLAYED[key] = await play(*key)
    return _PLAYED[key]


@pytest.mark.virtual_time
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.id)
async def test_the_simulator_keeps_to_it(fact: Fact) -> None:
    session = await session_of(fact)
    assert broken(fact, session, measures(session)) == []


def test_every_situation_is_that_of_a_fact() -> None:
    assert {fact.situation for fact in FACTS} == set(SITUATIONS)
