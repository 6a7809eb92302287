"""Verdicts from made-up probe runs: every rule without a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.vendoring.conftest import PatchMaker
from vendoring.check import DRIFT, IMPORTS, NOT_APPLICABLE, OK, Finding, Inventory
from vendoring.judge import judge_all, judge_imports, judge_necessity
from vendoring.matrix import Runs, Tree, trees_for, trees_without
from vendoring.patchfile import Patch
from vendoring.probes import Outcome, Probed, TreeRun, read_report
from vendoring.targets import Origin, Target, TargetMap
from vendoring.versions import Version, VersionRange

V0, V1, V2, V3 = (Version(1, 8, n) for n in range(4))
EDIT = {"op": "insert-first", "in": "f", "code": "pass"}


@pytest.fixture
def patch(make_patch: PatchMaker) -> Patch:
    return make_patch(EDIT)


def run(patch: Patch, outcome: Outcome, reason: str = "") -> TreeRun:
    return TreeRun({}, {patch.probe: Probed(outcome, reason)})


def runs_of(
    patch: Patch,
    bare: Mapping[Version, Outcome],
    patched: Mapping[Version, Outcome],
) -> Runs:
    runs: Runs = {(v, "bare", ""): run(patch, outcome, "why") for v, outcome in bare.items()}
    runs.update({(v, "patched", ""): run(patch, o, "why") for v, o in patched.items()})
    return runs


def verdicts(patch: Patch, findings: list[Finding], runs: Runs) -> dict[Version, str]:
    return {f.version: f.status for f in judge_all(findings, [patch], runs)}


@pytest.mark.parametrize(
    ("static", "bare", "patched", "verdict"),
    [
        (OK, "failed", "passed", "OK"),
        (DRIFT, "failed", "passed", "DRIFT"),
        (OK, "passed", "passed", "OBSOLETE"),
        (DRIFT, "passed", "passed", "OBSOLETE"),
        (OK, "failed", "failed", "INEFFECTIVE"),
        (OK, "passed", "failed", "INEFFECTIVE"),
        (OK, "invalid", "passed", "INVALID"),
        (OK, "failed", "invalid", "INVALID"),
        ("NOT-FOUND", "passed", "passed", "NOT-FOUND"),
    ],
)
def test_a_probe_must_fail_bare_and_pass_patched(
    patch: Patch, static: str, bare: Outcome, patched: Outcome, verdict: str
) -> None:
    runs = runs_of(patch, {V2: bare}, {V2: patched})
    assert verdicts(patch, [Finding(patch.id, V2, static)], runs) == {V2: verdict}


def test_a_failing_probe_says_why(patch: Patch) -> None:
    runs = runs_of(patch, {V2: "failed"}, {V2: "failed"})
    (finding,) = judge_all([Finding(patch.id, V2, OK)], [patch], runs)
    assert finding.reason == "why"


def test_a_patch_is_obsolete_from_the_first_release_on_that_passes(patch: Patch) -> None:
    bare: dict[Version, Outcome] = {V0: "failed", V1: "failed", V2: "passed", V3: "passed"}
    runs = runs_of(patch, bare, dict.fromkeys(bare, "passed"))
    findings = [Finding(patch.id, v, OK) for v in bare]
    assert verdicts(patch, findings, runs) == {V0: OK, V1: OK, V2: "OBSOLETE", V3: "OBSOLETE"}


def test_a_fault_that_came_later_makes_nothing_obsolete(patch: Patch) -> None:
    bare: dict[Version, Outcome] = {V0: "passed", V1: "passed", V2: "failed"}
    runs = runs_of(patch, bare, dict.fromkeys(bare, "passed"))
    findings = [Finding(patch.id, v, s) for v, s in ((V0, DRIFT), (V1, OK), (V2, OK))]
    judged = judge_all(findings, [patch], runs)
    assert [f.status for f in judged] == [DRIFT, OK, OK]
    assert judged[1].detail == "its probe passes without it here, but not on 1.8.2"


@pytest.mark.parametrize(
    ("bare", "patched", "verdict"),
    [
        ("passed", "invalid", "OBSOLETE"),
        ("failed", "passed", NOT_APPLICABLE),  # something else does its work there
        ("failed", "failed", "MISSING"),
        ("failed", "invalid", "MISSING"),
        ("invalid", "invalid", NOT_APPLICABLE),
    ],
)
def test_a_release_that_a_patch_leaves_out_should_not_have_its_fault(
    make_patch: PatchMaker, bare: Outcome, patched: Outcome, verdict: str
) -> None:
    patch = make_patch(EDIT, **{"applies-to": "<1.8.1"})
    runs = runs_of(patch, {V2: bare}, {V2: patched})
    findings = [Finding(patch.id, V2, NOT_APPLICABLE, applied=False)]
    assert verdicts(patch, findings, runs) == {V2: verdict}


def test_a_patch_is_redundant_where_every_probe_passes_without_it(make_patch: PatchMaker) -> None:
    patch, other = make_patch(EDIT), make_patch(EDIT, name="google/other")
    findings = [Finding(patch.id, V2, OK), Finding(other.id, V2, OK)]

    def verdict(own: Outcome, others: Outcome) -> str:
        both = {patch.probe: Probed(own), other.probe: Probed(others)}
        judged = judge_necessity(findings, {(V2, "without", patch.id): TreeRun({}, both)})
        assert judged[1] == findings[1]
        return judged[0].status

    assert verdict("passed", "passed") == "REDUNDANT"
    assert verdict("failed", "passed") == OK
    assert verdict("passed", "failed") == OK


def test_a_module_that_cannot_be_imported_is_told() -> None:
    good, bad = TreeRun({}, {}), TreeRun({"pkg.mod": "ImportError: no"}, {})
    key: Any = (V2, "bare", ""), (V2, "patched", "")
    assert judge_imports(V2, dict(zip(key, (good, good), strict=True))) == [
        Finding(IMPORTS, V2, OK)
    ]
    (finding,) = judge_imports(V2, dict(zip(key, (good, bad), strict=True)))
    assert (finding.status, finding.reason) == ("INVALID", "ImportError: no")
    assert finding.detail == "pkg.mod cannot be imported, patched"
    assert judge_imports(V1, {}) == []


# -- which trees


def inventory_of(*patches: Patch) -> Inventory:
    origin = Origin(VersionRange.parse(">=1.8.1"), "livekit-agents", "m")
    target = Target("google-realtime", "google/realtime_api.py", (origin,))
    return Inventory(TargetMap(VersionRange.parse(">=1.8.0"), (target,)), patches, (), ())


def ids(tree: Tree) -> tuple[str, list[str]]:
    return tree.kind, [p.id for p in tree.patches]


def test_the_trees_of_a_release(make_patch: PatchMaker) -> None:
    new = make_patch(EDIT, name="google/new")
    old = make_patch(EDIT, name="google/old", **{"applies-to": "<1.8.2"})
    newer = make_patch(EDIT, name="google/newer", **{"applies-to": ">=1.8.2"})
    broken = make_patch(EDIT, name="google/broken")
    inventory = inventory_of(new, old, newer, broken)
    statuses = {new.id: DRIFT, old.id: OK, broken.id: "NOT-FOUND"}
    trees = trees_for(inventory, V1, [Finding(i, V1, s) for i, s in statuses.items()])
    assert [ids(t) for t in trees] == [
        ("bare", []),
        ("patched", [new.id, old.id]),
    ]
    assert trees[0].probes == trees[1].probes == (new.probe, old.probe, newer.probe)


def test_a_release_without_the_module_has_nothing_to_probe(make_patch: PatchMaker) -> None:
    patch = make_patch(EDIT)
    findings = [Finding(patch.id, V0, NOT_APPLICABLE, applied=False)]
    assert trees_for(inventory_of(patch), V0, findings) == []


def test_each_good_patch_is_left_out_once_unless_another_requires_it(
    make_patch: PatchMaker,
) -> None:
    first, needed = make_patch(EDIT, name="google/first"), make_patch(EDIT, name="google/needed")
    after = make_patch(EDIT, name="google/after", requires=["google/needed"])
    bad = make_patch(EDIT, name="google/bad")
    inventory = inventory_of(first, needed, after, bad)
    findings = [Finding(p.id, V2, OK) for p in (first, needed, after)]
    trees = trees_without(inventory, V2, [*findings, Finding(bad.id, V2, "OBSOLETE")])
    assert [(t.about, ids(t)[1]) for t in trees] == [
        (first.id, [needed.id, after.id]),
        (after.id, [first.id, needed.id]),
    ]
    assert trees[0].probes == (first.probe,)
    assert trees[0].then == (needed.probe, after.probe)


# -- reports of pytest


def test_the_reason_of_a_failure_is_one_short_line() -> None:
    xml = """<testsuites><testsuite>
    <testcase classname="tests.probes.a" name="test_x" file="tests/probes/a.py">
      <failure message="AssertionError: no&#10;second">E   AssertionError: no</failure></testcase>
    <testcase classname="" name="tests.probes.b">
      <error message="collection failure">x
E   ModuleNotFoundError: No module named 'gone'</error></testcase>
    </testsuite></testsuites>"""
    report = read_report(xml, ["tests/probes/a.py", "tests/probes/b.py"])
    assert report["tests/probes/a.py"] == Probed("failed", "AssertionError: no")
    assert report["tests/probes/b.py"] == Probed(
        "invalid", "ModuleNotFoundError: No module named 'gone'"
    )
