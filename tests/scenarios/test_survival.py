"""The survival benchmark's own parts; what it measures is tested by `test_scenarios.py`."""

from __future__ import annotations

import json
import math

import pytest
import survival
from benching import with_table

from .registry import catalogue

NAME = "gemini-bad-key"
FAILED = survival.Result("failed", "not so: it lives", 29.0, open_ended=True)
SURVIVED = survival.Result("survived", dead_air_s=0.31)


def row(upstream: survival.Result, ours: survival.Result, name: str = NAME) -> survival.Row:
    return survival.Row(catalogue()[name], upstream, ours)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (FAILED, "> 29.0"),
        (SURVIVED, "0.3"),
        (survival.Result("survived"), "-"),
        (survival.Result("failed", dead_air_s=math.inf), "for good"),
    ],
)
def test_dead_air_in_words(result: survival.Result, text: str) -> None:
    assert result.dead_air == text


def test_an_unknown_name_is_answered_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        survival.chosen(["gemini-bad-kei"], None)
    assert ended.value.code == 2
    assert NAME in capsys.readouterr().err


def test_a_provider_without_the_named_scenario_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        survival.chosen([NAME], "openai")
    assert ended.value.code == 2


def test_only_what_the_catalogue_does_not_expect_is_surprising() -> None:
    assert not row(FAILED, SURVIVED).surprising
    assert row(FAILED, FAILED).surprising
    assert row(survival.Result("error", "broken"), SURVIVED).surprising


def test_the_page_counts_and_promises() -> None:
    page = survival.markdown([row(FAILED, SURVIVED)])
    assert "gemini: upstream survives 0 of 1, ours 1." in page
    assert f"| {NAME} | K3 | R3 | no | yes | > 29.0 | 0.3 |" in page
    assert catalogue()[NAME].promise in page


def test_the_data_say_what_is_endless() -> None:
    endless = survival.Result("failed", dead_air_s=math.inf)
    (entry,) = json.loads(survival.as_json([row(endless, SURVIVED)]))
    assert entry["upstream"]["dead_air_s"] is None
    assert entry["upstream"]["open_ended"]
    assert entry["ours"]["dead_air_s"] == 0.31


async def test_a_worker_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = survival.Worker()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(survival, "LIMIT_S", 0.0)
            hung = await worker.run(NAME, "ours")
        assert hung.status == "failed"
        assert "no end" in hung.why
        assert (await worker.run(NAME, "ours")).status == "survived"
    finally:
        await worker.stop()


async def test_a_worker_tells_a_broken_scenario_from_a_failed_one() -> None:
    worker = survival.Worker()
    try:
        broken = await worker.run("no-such-scenario", "ours")
        assert (broken.status, broken.why) == ("error", "the worker process died")
    finally:
        await worker.stop()


def test_the_readme_has_a_table_by_kind() -> None:
    table = survival.kinds_table([row(FAILED, SURVIVED)])
    assert "| retries and error reporting | 1 | 0 | 1 |" in table
    assert table.endswith("| all | 1 | 0 | 1 |")
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


def test_every_kind_has_a_title() -> None:
    assert {entry.kind for entry in catalogue().values()} <= set(survival.KINDS)
