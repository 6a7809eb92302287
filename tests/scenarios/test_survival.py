"""The survival benchmark's own parts; what it measures is tested by `test_scenarios.py`."""

from __future__ import annotations

import json
import math

import pytest
import survival
from benching import with_table
from survival_page import PromiseRow, Result, Row

from .registry import catalogue, promises

NAME = "gemini-bad-key"
PROMISE = "gemini-does-not-insist-on-a-bad-key"
FAILED = Result("never answered", "a reply did not happen", 29.0)
SURVIVED = Result("kept", seconds=0.31)


def row(upstream: Result, ours: Result, name: str = NAME) -> Row:
    return Row(catalogue()[name], upstream, ours)


def test_an_unknown_name_is_answered_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        survival.chosen(["gemini-bad-kei"], None)
    assert ended.value.code == 2
    assert NAME in capsys.readouterr().err


def test_a_provider_without_the_named_scenario_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        survival.chosen([NAME], "openai")
    assert ended.value.code == 2


def test_a_promise_is_played_in_all_its_variants_and_a_variant_alone() -> None:
    promise = promises()["gemini-answers-after-a-drop"]
    one = promise.variants[1]
    assert len(promise.variants) > 1
    assert survival.chosen([promise.name], None) == list(promise.variants)
    assert survival.chosen([one.name], None) == [one]
    both = survival.chosen([one.name, promise.name], None)
    assert sorted(entry.name for entry in both) == sorted(e.name for e in promise.variants)
    assert survival.chosen([], None) == list(catalogue().values())


def test_only_what_the_catalogue_does_not_expect_is_surprising() -> None:
    assert not row(FAILED, SURVIVED).surprising
    assert row(FAILED, FAILED).surprising
    assert row(Result("error", "broken"), SURVIVED).surprising
    assert row(SURVIVED, Result("error", "broken")).surprising


def test_the_data_say_what_is_endless() -> None:
    endless = Result("kept", seconds=math.inf)
    table = [PromiseRow(promises()[PROMISE], (row(FAILED, endless),))]
    (entry,) = json.loads(survival.as_json(table))
    assert entry["name"] == NAME
    assert entry["promise"] == PROMISE
    assert entry["ours"]["seconds"] is None
    assert entry["upstream"]["seconds"] == 29.0
    assert entry["upstream"]["met"] == "never answered"


async def test_a_worker_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = survival.Worker()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(survival, "LIMIT_S", 0.0)
            hung = await worker.run(NAME, "ours")
        assert hung.met == "hung"
        assert "no end" in hung.why
        assert (await worker.run(NAME, "ours")).survived
    finally:
        await worker.stop()


async def test_a_worker_tells_a_broken_scenario_from_a_failed_one() -> None:
    worker = survival.Worker()
    try:
        broken = await worker.run("no-such-scenario", "ours")
        assert (broken.met, broken.why) == ("error", "the worker process died")
    finally:
        await worker.stop()


def test_a_table_takes_the_place_between_its_marks() -> None:
    text = f"above\n{survival.MARKS[0]}\nold\n{survival.MARKS[1]}\nbelow\n"
    assert with_table(text, survival.MARKS, "new").split("\n") == [
        "above",
        survival.MARKS[0],
        "",
        "new",
        "",
        survival.MARKS[1],
        "below",
        "",
    ]
    with pytest.raises(ValueError, match="marks"):
        with_table("no marks", survival.MARKS, "new")
