"""What a trial makes of pip's and pytest's words, and how it is told."""

from __future__ import annotations

import pytest

from revendoring import trial
from revendoring.errors import NoEnvironment
from revendoring.outcome import SHOWN_AT_MOST, Outcome
from revendoring.places import Release
from revendoring.process import Ended
from vendoring.errors import IndexUnreachable, VendoringError
from vendoring.layout import Layout
from vendoring.versions import Version

OLD, NEW = Version(1, 8, 1), Version(1, 8, 2)
CONFLICT = """\
ERROR: Cannot install livekit-agents==1.8.2 and openai<3 because they conflict.
ERROR: ResolutionImpossible: see the documentation
"""
UNREACHABLE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'
ERROR: No matching distribution found for livekit-agents==1.8.2
"""


@pytest.mark.parametrize(
    ("ended", "error", "words", "code"),
    [
        (Ended(1, CONFLICT), trial.DoesNotInstall, "Cannot install livekit-agents==1.8.2 and", 2),
        (Ended(1, UNREACHABLE), IndexUnreachable, "index could not be reached", 2),
        (Ended(-1, "", timed_out=True), NoEnvironment, "pip took longer than", 2),
    ],
)
def test_why_pip_failed_is_told_apart(
    ended: Ended, error: type[VendoringError], words: str, code: int
) -> None:
    failure = trial._install_failure(ended)
    assert type(failure) is error
    assert words in str(failure)
    assert failure.exit_code == code


def test_an_environment_gets_all_but_the_package() -> None:
    names = {line.split(">")[0].split(";")[0] for line in trial.requirements(Layout.here())}
    assert {"livekit-agents", "trustme", "mypy", "pip"} <= names
    assert "livekit-plugins-resilient" not in names


def test_a_report_of_tests_is_read() -> None:
    xml = """<testsuites><testsuite>
      <testcase classname="tests.a" name="good"/>
      <testcase classname="tests.a" name="bad"><failure message="assert 1&#10;more"/></testcase>
      <testcase classname="tests.a" name="not_set_up"><error/></testcase>
      <testcase classname="tests.a" name="left_out"><skipped/></testcase>
    </testsuite></testsuites>"""
    found = trial.read_tests(xml)
    assert found.passed == 1
    assert found.failed == ("tests.a.bad: assert 1", "tests.a.not_set_up")


def outcome() -> Outcome:
    return Outcome(OLD, NEW, Release(NEW, 1))


def test_a_long_list_is_cut_and_the_rest_counted() -> None:
    many = outcome()
    many.add_needs([f"test {n}" for n in range(SHOWN_AT_MOST + 3)], "look", "failed tests")
    assert len(many.needs) == SHOWN_AT_MOST + 1
    assert many.needs[-1].what == "3 more failed tests"
    assert many.exit_code == 1


def entry(id_: str, old: str, new: str) -> dict[str, object]:
    statuses = {"1.8.1": old, "1.8.2": new}
    # As a patch has it that applies to older releases only.
    counts = old != "-"
    return {"id": id_, "results": {v: {"status": s, "counts": counts} for v, s in statuses.items()}}


def test_the_table_has_every_patch_and_what_else_is_not_fine() -> None:
    told = outcome()
    told.report = {
        "patches": [
            entry("google/sample", "OK", "OK"),
            entry("google/gone", "OK", "OBSOLETE"),
            entry("google/old", "-", "OBSOLETE"),
        ],
        "overrides": [
            entry("google/A.run", "OK", "DRIFT"),
            entry("google/A.stop", "OK", "OK"),
            entry("google/A.new", "NOT-FOUND", "OK"),
        ],
        "relies_on": [
            entry("google-realtime:A._x", "OK", "NOT-FOUND"),
            entry("google-realtime:A._y", "OK", "OK"),
        ],
    }
    told.report_before = told.report
    assert told.changelog_entry().splitlines()[-7:] == [
        "|  | 1.8.1 | 1.8.2 |",
        "| --- | --- | --- |",
        "| google/sample | OK | OK |",
        "| google/gone | OK | OBSOLETE |",
        "| google/A.run | OK | DRIFT |",
        "| google-realtime:A._x | OK | NOT-FOUND |",
        "| all others (3 overrides and private names) | 1 not OK | OK |",
    ]
    assert "google/A.stop" not in told.text()
    assert "google/old" not in told.text()


def test_without_a_report_the_entry_says_so() -> None:
    assert "could not be checked" in outcome().changelog_entry()
