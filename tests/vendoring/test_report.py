"""What a report says, and to whom."""

from __future__ import annotations

import json

import pytest

from tests.vendoring.conftest import PatchMaker
from vendoring.check import Finding, Inventory
from vendoring.report import TO_DO, Report
from vendoring.targets import TargetMap
from vendoring.versions import Version, VersionRange

OLD, LOCKED, NEW = Version(1, 8, 0), Version(1, 8, 1), Version(1, 8, 2)
EDIT = {"op": "insert-first", "in": "f", "code": "pass"}
ID = "google/sample"


@pytest.fixture
def inventory(make_patch: PatchMaker) -> Inventory:
    targets = TargetMap(VersionRange.parse(">=1.8.0,<1.9"), ())
    return Inventory(targets, (make_patch(EDIT),), (), ())


def report(inventory: Inventory, *findings: Finding, outside: tuple[Version, ...] = ()) -> Report:
    return Report(LOCKED, (OLD, LOCKED, NEW), findings, inventory, True, outside)


def found(version: Version, status: str, *, applied: bool = True, reason: str = "") -> Finding:
    return Finding(ID, version, status, "detail", applied, reason)


@pytest.mark.parametrize("status", sorted(TO_DO))
def test_what_is_wrong_on_the_locked_release_or_a_newer_one_fails(
    inventory: Inventory, status: str
) -> None:
    assert report(inventory, found(OLD, status)).exit_code == 0
    assert report(inventory, found(LOCKED, status)).exit_code == 1
    assert report(inventory, found(NEW, status)).exit_code == 1


@pytest.mark.parametrize("status", ["OK", "-"])
def test_what_is_right_does_not_fail(inventory: Inventory, status: str) -> None:
    assert report(inventory, found(LOCKED, status)).exit_code == 0


def test_a_patch_that_leaves_the_release_out_already_does_not_fail_for_being_obsolete(
    inventory: Inventory,
) -> None:
    history = [found(OLD, "OK"), *(found(v, "OBSOLETE", applied=False) for v in (LOCKED, NEW))]
    told = report(inventory, *history)
    assert told.exit_code == 0
    assert told.obsolete_from(ID) == LOCKED
    assert told.details() == [
        f"{ID}: of the releases checked, upstream passes its probe without it from 1.8.1 on "
        "(it applies to >=1.8.0)"
    ]
    assert report(inventory, found(LOCKED, "MISSING", applied=False)).exit_code == 1


def test_the_json_form_is_the_one_that_is_documented(inventory: Inventory) -> None:
    told = report(
        inventory,
        found(OLD, "DRIFT"),
        found(LOCKED, "INEFFECTIVE", reason="said"),
        outside=(Version(1, 9, 0),),
    )
    data = json.loads(told.json())
    assert {k: data[k] for k in ("schema", "locked", "versions", "unsupported", "exit")} == {
        "schema": 1,
        "locked": "1.8.1",
        "versions": ["1.8.0", "1.8.1", "1.8.2"],
        "unsupported": ["1.9.0"],
        "exit": 1,
    }
    (patch,) = data["patches"]
    assert (patch["id"], patch["target"], patch["obsolete_from"]) == (ID, "google-realtime", None)
    assert patch["results"]["1.8.1"] == {
        "status": "INEFFECTIVE",
        "detail": "detail",
        "reason": "said",
        "counts": True,
    }
    assert patch["results"]["1.8.0"]["counts"] is False
    assert [(p["id"], p["version"], p["status"]) for p in data["problems"]] == [
        (ID, "1.8.1", "INEFFECTIVE")
    ]


def test_markdown_never_quotes_what_a_probe_said(inventory: Inventory) -> None:
    """It may end up in the change log, and the error may be upstream's own."""
    text = report(inventory, found(LOCKED, "INEFFECTIVE", reason="upstream's words")).markdown()
    assert "upstream's words" not in text
    assert text.splitlines()[0] == "|  | 1.8.0 | 1.8.1\\* | 1.8.2 |"
    assert f"| `{ID}` |  | INEFFECTIVE |  |" in text
    assert f"- `{ID}` on 1.8.1: INEFFECTIVE. " in text


def test_the_terminal_says_what_to_do(inventory: Inventory) -> None:
    told = report(inventory, found(LOCKED, "DRIFT"), outside=(Version(1, 9, 0),)).details()
    assert told[0] == f"{ID} on 1.8.1: DRIFT: detail"
    assert TO_DO["DRIFT"] in told[1]
    assert told[2].startswith("upstream 1.9.0 is on the index, but outside the supported range")
