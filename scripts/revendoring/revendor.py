"""Moving to another upstream release: all in a worktree, and a branch when it is done.

The checkout that a person works in is touched once, at the very end, by switching to the branch.
Until then, an error, a signal or the loss of the machine leaves it as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vendoring import tree
from vendoring.errors import NEEDS_A_PERSON, UnsupportedVersion, VendoringError
from vendoring.fetch import pristine
from vendoring.index import ensure_pins, offered
from vendoring.layout import Layout
from vendoring.locks import locked_version, pins_for
from vendoring.targets import TargetMap, load_targets
from vendoring.versions import Version

from . import places, trial, upstream
from .checkout import Checkout
from .errors import Misplaced
from .outcome import Need, Outcome
from .places import Release

Log = Callable[[str], None]

_DRIFT_HOW = (
    "read what changed: scripts/verify.sh --ack {id}; "
    'then: scripts/verify.sh --ack {id} --note "what you found"'
)
_WIDEN = (
    "widen `supported` in vendor/targets.toml (say where its modules lie), commit that, and run "
    "scripts/revendor.sh {version}"
)


@dataclass(frozen=True)
class Wish:
    """What is asked for. `version` None: the newest release in the supported range.

    With `keep` False everything is tried and nothing is kept. `tests` are paths for pytest
    (none: all), None leaves the tests out.
    """

    version: Version | None
    keep: bool = True
    tests: Sequence[str] | None = ()


def revendor(layout: Layout, wish: Wish, log: Log = lambda _: None) -> Outcome:
    """Move to another upstream release.

    Raises a VendoringError when it could not be tried; then nothing was changed.
    """
    checkout = Checkout(layout)
    checkout.require_clean()
    targets = load_targets(layout.targets)
    old = locked_version(layout)
    version, beyond = _chosen(targets, wish.version)
    release = Release(version, _next_number(checkout, version))
    if version == old:
        release = Release.parse(tree.project_name_and_version(layout)[1])
    outcome = Outcome(old, version, release)
    outcome.needs += [
        Need(
            f"upstream {v} is on the index, outside the supported range {targets.supported}",
            _WIDEN.format(version=v),
        )
        for v in beyond
    ]
    if version == old and wish.keep:
        outcome.checked.append(f"the package is built from upstream {old} already: nothing to do")
        return outcome
    branch = f"revendor-{version}"
    if wish.keep:
        checkout.require_committer()
        checkout.require_no_branch(branch)
    log(f"fetching upstream {version}")
    ensure_pins(layout, version)
    pins = pins_for(layout, version)
    folders = pristine(layout, old), pristine(layout, version)
    with checkout.worktree("revendor") as worktree:
        if version != old:
            places.move(worktree, pins, release)
        outcome.changes += upstream.requirement_changes(*folders)
        lost = upstream.lost_modules(*folders, targets, old, version)
        outcome.add_needs(lost, "write where it lies now as another origin", "modules")
        if not lost:
            _try(worktree, layout.cache / "revendor", outcome, wish.tests, log)
        if not wish.keep:
            return outcome
        places.write_changelog(worktree, release, outcome.changelog_entry())
        wrong = places.disagreements(worktree)
        if wrong:
            raise Misplaced(f"the move did not reach everything: {wrong[0]}")
        commit = checkout.commit(worktree, f"Build from livekit-agents {version}")
    checkout.switch(branch, commit)
    outcome.branch = branch
    return outcome


def _chosen(targets: TargetMap, wanted: Version | None) -> tuple[Version, list[Version]]:
    """The version to move to, and newer ones that are out of range."""
    if wanted is None:
        releases = offered()
        inside = [v for v in releases if v in targets.supported]
        if not inside:
            raise UnsupportedVersion(
                f"the package index has no release in the supported range {targets.supported}"
            )
        return inside[-1], [v for v in releases if v > inside[-1]]
    if wanted.is_pre:
        raise UnsupportedVersion(
            f"upstream {wanted} is a pre-release, which is not built from; "
            "scripts/verify.sh can check it"
        )
    if wanted not in targets.supported:
        raise UnsupportedVersion(
            f"upstream {wanted} is outside the supported range {targets.supported}: "
            + _WIDEN.format(version=wanted)
        )
    return wanted, []


def _next_number(checkout: Checkout, version: Version) -> int:
    """Our number: one more than the highest that is tagged for this upstream release."""
    taken = [0]
    for tag in checkout.tags():
        try:
            found = Release.parse(tag.removeprefix("v"))
        except (Misplaced, UnsupportedVersion):
            continue
        if tag == found.tag and found.upstream == version:
            taken.append(found.number)
    return max(taken) + 1


# -- the trial


def _try(
    worktree: Layout, cache: Path, outcome: Outcome, tests: Sequence[str] | None, log: Log
) -> None:
    """Build, verify, check types and run the tests; what fails is noted, not raised."""
    built = _build(worktree, outcome, log)
    environment = _environment(worktree, cache, outcome, log)
    here = trial.Environment(Path(sys.executable))
    if not built or environment is None:
        log("verifying the patches without their probes")
        _take(outcome, trial.verify(worktree, here, probes=False), worktree)
        outcome.checked.append("probes, types and tests: not run, see below")
        return
    log("verifying the patches, with probes")
    try:
        _take(outcome, trial.verify(worktree, environment, probes=True), worktree)
    except VendoringError as e:
        outcome.needs.append(Need(str(e), "scripts/verify.sh --locked"))
        _take(outcome, trial.verify(worktree, here, probes=False), worktree)
    log("checking types")
    errors = trial.type_errors(worktree, environment)
    outcome.checked.append(f"types: {len(errors) or 'no'} errors")
    outcome.add_needs(errors, "upstream's types changed, or mypy did: repair the line", "errors")
    if tests is None:
        outcome.checked.append("tests: not run")
        return
    log("running the tests")
    ran = trial.run_tests(worktree, environment, tests)
    where = f" of {' '.join(tests)}" if tests else ""
    outcome.checked.append(f"tests{where}: {ran.passed} passed, {len(ran.failed)} failed")
    outcome.add_needs(
        [f"test failed: {name}" for name in ran.failed],
        "scripts/test.sh -k NAME; is it the test that leans on the old upstream, or our code?",
        "failed tests",
    )


def _build(worktree: Layout, outcome: Outcome, log: Log) -> bool:
    log(f"building the vendored tree of {outcome.new}")
    try:
        tree.ensure(worktree)
    except VendoringError as e:
        if e.exit_code != NEEDS_A_PERSON:
            raise
        outcome.needs.append(
            Need(f"the vendored tree cannot be built: {e}", "repair or drop the patch, then go on")
        )
        return False
    return True


def _environment(
    worktree: Layout, cache: Path, outcome: Outcome, log: Log
) -> trial.Environment | None:
    try:
        return trial.make_environment(worktree, cache, log)
    except trial.DoesNotInstall as e:
        how = "bring livekit-plugins-resilient/pyproject.toml in line with what upstream requires"
        outcome.needs.append(Need(str(e), how))
        return None


def _take(outcome: Outcome, report: dict[str, Any], worktree: Layout) -> None:
    outcome.report = report
    new = str(outcome.new)
    for problem in report["problems"]:
        how = problem["to_do"]
        if problem["status"] == "DRIFT":
            how = _DRIFT_HOW.format(id=problem["id"])
        what = f"{problem['id']} on {new}: {problem['status']}: {problem['detail']}"
        outcome.needs.append(Need(what, how))
    if outcome.old != outcome.new:
        outcome.report_before = trial.verify_old(worktree, outcome.old)
