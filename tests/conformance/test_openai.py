"""The simulated OpenAI Realtime server keeps to what recorded sessions show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from .facts import Fact, Step, broken, load
from .openai import measures
from .openai_situations import play

FACTS = load(Path(__file__).parent / "openai.toml")

pytestmark = pytest.mark.virtual_time


@pytest.fixture(scope="module")
def played() -> dict[tuple[str, str], list[Step]]:
    """Sessions by situation and dialect, each played once."""
    return {}


async def session_of(fact: Fact, played: dict[tuple[str, str], list[Step]]) -> list[Step]:
    key = fact.situation, fact.dialect
    if key not in played:
        played[key] = await play(*key)
    return played[key]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.id)
async def test_a_fact(fact: Fact, played: dict[tuple[str, str], list[Step]]) -> None:
    session = await session_of(fact, played)
    assert broken(fact, session, measures(session)) == []


async def test_a_wrong_fact_is_found(played: dict[tuple[str, str], list[Step]]) -> None:
    fact = next(fact for fact in FACTS if fact.id == "gpt-realtime-typed-turn")
    session = await session_of(fact, played)
    wrong = [
        replace(fact, order="session.created session.updated"),
        replace(fact, never=("response.done",)),
        replace(fact, fields={"response.output_audio.done": ("event_id", "type")}),
        replace(fact, values={"response.created/response.status": ("completed",)}),
        replace(fact, times={"sound": (10.0, 20.0)}),
    ]
    for one in wrong:
        assert broken(one, session, measures(session)) != [], one
