"""The benchmark's own parts; what it measures is tested by `test_healthy.py`."""

from __future__ import annotations

import healthy
import pytest

from .meant import MEANT
from .script import corpus

NAME = "openai-greeting"
SAME = healthy.Result(True, meant=[entry.name for entry in MEANT])
OTHER = healthy.Result(False, decisions=2, text="openai-greeting: it differs")


def rows(*results: healthy.Result) -> list[healthy.Row]:
    return [healthy.Row(corpus()[NAME], result) for result in results]


def test_the_table_counts_by_kind_of_call() -> None:
    assert healthy.table(rows(SAME, OTHER)) == [
        healthy.HEADINGS,
        ("greeting", "2", "1", "2"),
        ("all", "2", "1", "2"),
    ]


def test_a_meant_difference_that_is_met_nowhere_is_named() -> None:
    assert healthy.unmet(rows(SAME)) == []
    assert healthy.unmet(rows(OTHER)) == [entry.name for entry in MEANT]


def test_scripts_are_chosen_by_name_or_a_part_of_names() -> None:
    assert [script.name for script in healthy.chosen([NAME], None)] == [NAME]
    named = {script.name for script in healthy.chosen(["television"], "gemini")}
    assert named == {"gemini-television", "gemini-television-in-bursts"}
    assert len(healthy.chosen([], None)) == len(corpus())


@pytest.mark.parametrize(("name", "provider"), [("openai-greating", None), (NAME, "gemini")])
def test_what_leaves_nothing_to_run_is_refused(
    name: str, provider: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        healthy.chosen([name], provider)
    assert ended.value.code == 2
    assert NAME in capsys.readouterr().err or provider is not None


async def test_a_worker_runs_a_script_and_survives_a_broken_one() -> None:
    worker = healthy.Worker()
    try:
        assert (await worker.run("no-such-script")).text.endswith("the worker process died")
        result = await worker.run(NAME)
        assert result.equal, result.text
    finally:
        await worker.stop()
