"""What the probes say of each patch: a patch is needed where its probe fails without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .check import (
    DRIFT,
    IMPORTS,
    INEFFECTIVE,
    INVALID,
    MISSING,
    NOT_APPLICABLE,
    OBSOLETE,
    OK,
    REDUNDANT,
    Finding,
)
from .matrix import Runs
from .patchfile import Patch
from .probes import Probed, TreeRun
from .versions import Version

_NOT_RUN = Probed("invalid", "it was not run")


def judge_all(findings: Sequence[Finding], patches: Sequence[Patch], runs: Runs) -> list[Finding]:
    """The findings after the probes.

    A probe that passes on bare upstream makes its patch obsolete only if it passes on every newer
    release that was checked too: else the fault came later.
    """
    by_id = {p.id: p for p in patches}
    judged = [
        judge(f, by_id[f.id], runs) if f.id in by_id and _was_probed(f, runs) else f
        for f in findings
    ]
    failing: dict[str, Version] = {}
    for finding in judged:
        run = runs.get((finding.version, "bare", ""))
        patch = by_id.get(finding.id)
        if run is not None and patch is not None and _of(run, patch).outcome == "failed":
            failing[finding.id] = max(finding.version, failing.get(finding.id, finding.version))
    result = []
    for before, after in zip(findings, judged, strict=True):
        last = failing.get(after.id)
        if after.status == OBSOLETE and last is not None and last > after.version:
            detail = f"its probe passes without it here, but not on {last}"
            after = replace(before, detail=detail if before.status == OK else before.detail)
        result.append(after)
    return result


def _was_probed(finding: Finding, runs: Runs) -> bool:
    excluded = finding.status == NOT_APPLICABLE
    return (finding.version, "bare", "") in runs and (excluded or finding.status in (OK, DRIFT))


def judge(finding: Finding, patch: Patch, runs: Runs) -> Finding:
    """The finding on one patch and release after the probes."""
    version = finding.version
    bare = runs[version, "bare", ""]
    if patch.probe not in bare.probes:
        return finding  # upstream has no such module
    before = _of(bare, patch)
    after = _of(runs[version, "patched", ""], patch)
    if not finding.applied:
        return _judge_excluded(finding, patch, before, after)
    for probed, where in ((before, "bare"), (after, "patched")):
        if probed.outcome == "invalid":
            detail = f"{patch.probe} is missing or could not be set up on {where} upstream"
            return replace(finding, status=INVALID, detail=detail, reason=probed.reason)
    if after.outcome == "failed":
        detail = f"{patch.probe} fails although the patch is in"
        return replace(finding, status=INEFFECTIVE, detail=detail, reason=after.reason)
    if before.outcome == "passed":
        return _obsolete(finding, patch)
    return finding


def _judge_excluded(finding: Finding, patch: Patch, before: Probed, after: Probed) -> Finding:
    """On a release that the patch is not for: is that right?"""
    if before.outcome == "passed":
        return _obsolete(finding, patch)
    if before.outcome == "failed" and after.outcome != "passed":
        detail = f"{patch.probe} fails, and applies-to {patch.applies_to} leaves this release out"
        return replace(finding, status=MISSING, detail=detail, reason=before.reason)
    return finding


def _obsolete(finding: Finding, patch: Patch) -> Finding:
    return replace(finding, status=OBSOLETE, detail=f"{patch.probe} passes without the patch")


def judge_necessity(findings: Sequence[Finding], runs: Runs) -> list[Finding]:
    """REDUNDANT where all probes pass on the series without the patch."""
    result = []
    for finding in findings:
        without = runs.get((finding.version, "without", finding.id))
        if without is not None and all(p.outcome == "passed" for p in without.probes.values()):
            detail = "its probe and all others pass without this patch, the other patches being in"
            finding = replace(finding, status=REDUNDANT, detail=detail)
        result.append(finding)
    return result


def judge_imports(version: Version, runs: Runs) -> list[Finding]:
    """Whether all of the package can be imported on a release, bare and patched."""
    findings = []
    for kind in ("bare", "patched"):
        run = runs.get((version, kind, ""))
        if run is None:
            return []
        for name, error in run.import_errors.items():
            detail = f"{name} cannot be imported, {kind}"
            findings.append(Finding(IMPORTS, version, INVALID, detail, reason=error))
    return findings[:1] or [Finding(IMPORTS, version, OK)]


def _of(run: TreeRun, patch: Patch) -> Probed:
    return run.probes.get(patch.probe, _NOT_RUN)
