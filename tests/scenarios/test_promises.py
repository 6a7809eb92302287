"""Promises: what several scenarios have in common, and what the codes of both stand for."""

from __future__ import annotations

from collections import Counter

import pytest

from . import legend, registry
from .registry import promises, scenario
from .stage import GeminiStage


def test_every_code_is_explained() -> None:
    assert tuple(legend.KINDS) == registry.KINDS
    assert tuple(legend.RULES) == registry.RULES


def test_no_two_promises_say_the_same() -> None:
    sentences = Counter(promise.sentence for promise in promises().values())
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def test_a_promise_is_of_one_kind() -> None:
    async def of_two_kinds(stage: GeminiStage) -> None:
        """Nothing in particular."""

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "_SCENARIOS", dict(registry._SCENARIOS))
        scenario("gemini-one-kind", kind="K1", rule="R1", provider="gemini")(of_two_kinds)
        assert promises()["gemini-of-two-kinds"].rules == ("R1",)
        scenario("gemini-other-rule", kind="K1", rule="R12", provider="gemini")(of_two_kinds)
        assert promises()["gemini-of-two-kinds"].rules == ("R1", "R12")
        scenario("gemini-another-kind", kind="K2", rule="R1", provider="gemini")(of_two_kinds)
        with pytest.raises(ValueError, match="kind"):
            promises()


def test_a_promise_has_a_name_of_its_own() -> None:
    async def answers_after_a_drop(stage: GeminiStage) -> None:
        """Nothing in particular."""

    async def bad_key(stage: GeminiStage) -> None:
        """Nothing in particular."""

    for run, named in ((answers_after_a_drop, "one function"), (bad_key, "no scenario")):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(registry, "_SCENARIOS", dict(registry._SCENARIOS))
            scenario("gemini-one-more", kind="K1", rule="R1", provider="gemini")(run)
            with pytest.raises(ValueError, match=named):
                promises()
