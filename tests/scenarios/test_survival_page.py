"""The survival table: what a row says, and that the written one is that of the catalogue."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import pytest
import survival
import survival_page
from survival_page import COMMAND, PromiseRow, Result, Row, in_words

from .legend import KINDS, RULES
from .registry import Promise, promises

ROOT = Path(__file__).parents[2]
KEPT = Result("kept", seconds=0.31)
ENDED = Result("call ended", "'setupComplete' x1 on connection 7 did not happen within 30 s", 0.04)
SILENT = Result("left in silence", "the end of the reply did not happen within 30 s", 29.0)
WRONG = Result("state wrong", "not so: the tool runs once")


def row_of(name: str, *upstream: Result, ours: Result = KEPT) -> PromiseRow:
    promise = promises()[name]
    pairs = zip(promise.variants, upstream, strict=True)
    return PromiseRow(promise, tuple(Row(entry, theirs, ours) for entry, theirs in pairs))


# Words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([KEPT], "1 of 1: dead air 0.3 s"),
        ([Result("kept")], "1 of 1"),
        ([Result("kept", seconds=math.inf)], "1 of 1: dead air for good"),
        ([KEPT, Result("kept", seconds=2.0), Result("kept")], "3 of 3: dead air 0.3 to 2.0 s"),
        ([ENDED], "0 of 1: call ended at once"),
        (
            [Result("call ended", "not so: it is tried for a minute, not 0 s", 1.0)],
            "0 of 1: call ended after 1.0 s, not so: it is tried for a minute, not 0 s",
        ),
        (
            [Result("call ended", "an event did not happen within 5 s", 1.0, told=False)],
            "0 of 1: call ended after 1.0 s, without a close event",
        ),
        ([SILENT], "0 of 1: left in silence, given up after 29.0 s"),
        (
            [Result("never answered", "not so: the request does not fail", 0.1)],
            "0 of 1: never answered, given up after 0.1 s, not so: the request does not fail",
        ),
        (
            [Result("answered", "not so: it is told once", 7.0)],
            "0 of 1: answered after 7.0 s, but not so: it is told once",
        ),
        ([Result("answered", "not so: it is whole")], "0 of 1: heard, but not so: it is whole"),
        ([WRONG], "0 of 1: late or wrong, not so: the tool runs once"),
        ([Result("hung", "no end")], "0 of 1: hung: no end"),
        ([Result("error", "a slip")], "0 of 1: error: a slip"),
        (
            [KEPT, SILENT, ENDED, SILENT],
            "1 of 4: call ended at once (1 call); "
            "left in silence, given up after 29.0 s (2 calls); kept, dead air 0.3 s (1 call)",
        ),
        (
            [Result("kept"), SILENT],
            "1 of 2: left in silence, given up after 29.0 s (1 call); kept (1 call)",
        ),
    ],
)
def test_what_callers_met_in_words(results: list[Result], text: str) -> None:
    assert in_words(results) == text


def test_a_reason_is_told_once_although_its_numbers_differ() -> None:
    late = [Result("state wrong", f"not so: over at once, not {n}.1 s later") for n in (3, 4, 4)]
    assert in_words([*late, WRONG]) == (
        "0 of 4: late or wrong, not so: over at once, not 3.1 s later; not so: the tool runs once"
    )
    many = [Result("state wrong", f"not so: {letter}") for letter in "abcde"]
    assert in_words(many).endswith("not so: a; not so: b; not so: c; 2 more")


@pytest.mark.parametrize(
    ("why", "text"),
    [
        (
            "'session.created' x1 on connection 3 did not happen within 15 s",
            "no session.created within 15 s",
        ),
        ("not so: nothing waits: ['Task-37', 'Task-38']", "not so: nothing waits"),
        ("not so: [2100] is within 2000", "not so: [2100] is within 2000"),
    ],
)
def test_a_reason_leaves_out_what_differs_from_run_to_run(why: str, text: str) -> None:
    assert survival_page.reason(why) == text


def test_a_long_reason_is_shortened() -> None:
    assert len(survival_page.reason("not so: " + "pigs fly " * 40)) <= survival_page.REASON_WIDTH


# Counts ------------------------------------------------------------------------------------

ONE = "gemini-does-not-insist-on-a-bad-key"
FOUR = "gemini-answers-after-a-drop"


def test_a_promise_is_kept_if_it_is_kept_in_every_call() -> None:
    table = [row_of(FOUR, KEPT, KEPT, KEPT, SILENT), row_of(ONE, KEPT)]
    assert survival_page.summary(table) == [
        "gemini: of 2 (5) promises upstream keeps 1 (4), ours 2 (5)"
    ]
    part = survival_page.readme_part(table)
    assert part.startswith("Of 2 promises upstream's models keep 1, and ours 2.")
    assert "5 in all" in part
    assert f"| {KINDS['K1']} | 1 (4) | 0 (3) | 1 (4) |" in part
    assert f"| {KINDS['K3']} | 1 (1) | 1 (1) | 1 (1) |" in part
    assert part.endswith("| all | 2 (5) | 1 (4) | 2 (5) |")
    assert KINDS["K13"] not in part


def test_a_row_holds_what_was_played_of_a_promise() -> None:
    promise = promises()[FOUR]
    played = [Row(promise.variants[2], SILENT, KEPT)]
    (row,) = survival_page.by_promise(played, promises().values())
    assert row.promise == promise
    assert row.rows == tuple(played)


# The page ----------------------------------------------------------------------------------


def test_the_page_has_a_row_per_promise_and_explains_its_codes() -> None:
    page = survival_page.page([row_of(FOUR, KEPT, KEPT, ENDED, SILENT), row_of(ONE, KEPT)])
    (line,) = [line for line in page.splitlines() if f"`{COMMAND} {FOUR}`" in line]
    assert line.startswith(f"| gemini: {promises()[FOUR].sentence} [`answers_after_a_drop`](../")
    assert "| R1 | 2 of 4: call ended at once (1 call);" in line
    assert "| 4 of 4: dead air 0.3 s |" in line
    assert page.index("## K1: ") < page.index(line) < page.index("## K3: ") < page.index("## Rules")
    assert f"- **R1**: {RULES['R1']}" in page
    assert "**R22**" not in page


def test_a_bar_in_a_reason_does_not_end_its_cell() -> None:
    page = survival_page.page([row_of(ONE, Result("state wrong", "not so: this | that"))])
    assert "this \\| that" in page


def test_every_word_is_explained() -> None:
    met = set(survival_page.WORST_FIRST) - {"error", "state wrong"}
    assert set(survival_page.WORDS) == met | {"heard", "late or wrong"}


def bare(promise: Promise) -> PromiseRow:
    return PromiseRow(promise, ())


# What is written ---------------------------------------------------------------------------

ROW = re.compile(
    r"^\| (?P<provider>\w+): (?P<sentence>.*) \[`(?P<function>\w+)`\]\((?P<link>[^)]+)\) "
    r"\| (?P<rules>[R\d, ]+) \| .* \| `(?P<command>[^`]+)` \|$"
)


def written() -> dict[str, tuple[str, re.Match[str]]]:
    """The rows of docs/survival.md, by the promise that their command plays, with their kind."""
    rows: dict[str, tuple[str, re.Match[str]]] = {}
    kind = ""
    for line in survival.MARKDOWN.read_text().splitlines():
        if line.startswith("## "):
            kind = line[3:].partition(":")[0]
        elif line.startswith("| ") and not line.startswith(("| promise |", "| --- |")):
            found = ROW.match(line)
            assert found, line
            name = found["command"].removeprefix(f"{COMMAND} ")
            assert name not in rows
            rows[name] = kind, found
    return rows


def test_the_written_table_lists_the_promises_of_the_catalogue() -> None:
    """Where it does not: `scripts/bench.sh survival` writes it again."""
    found = {
        name: (row["provider"], row["sentence"], kind, row["rules"])
        for name, (kind, row) in written().items()
    }
    expected = {
        promise.name: (promise.provider, promise.sentence, promise.kind, bare(promise).rules)
        for promise in promises().values()
    }
    assert found == expected


def test_the_written_table_counts_the_variants_of_the_catalogue() -> None:
    for name, (_, row) in written().items():
        counts = re.findall(r"\| \d+ of (\d+)", row[0])
        assert counts == [str(len(promises()[name].variants))] * 2, name


def test_each_link_leads_to_the_function_of_its_promise() -> None:
    for name, (_, row) in written().items():
        source = (survival.MARKDOWN.parent / row["link"]).resolve()
        assert source == ROOT / promises()[name].source, name
        functions = [
            node.name
            for node in ast.parse(source.read_text()).body
            if isinstance(node, ast.AsyncFunctionDef)
        ]
        assert row["function"] in functions, name
        assert row["function"] == promises()[name].function


def test_the_readme_counts_the_promises_of_the_catalogue() -> None:
    text = survival.README.read_text()
    _, _, rest = text.partition(survival.MARKS[0])
    part, _, _ = rest.partition(survival.MARKS[1])
    every = promises()
    calls = sum(len(promise.variants) for promise in every.values())
    assert f"Of {len(every)} promises " in part
    assert f"| all | {len(every)} ({calls}) | " in part
    for kind, title in KINDS.items():
        own = [promise for promise in every.values() if promise.kind == kind]
        count = sum(len(promise.variants) for promise in own)
        assert not own or f"| {title} | {len(own)} ({count}) | " in part, kind
