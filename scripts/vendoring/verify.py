"""Verification: all that is declared on every version, and every probe bare and patched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .check import LEAK, Finding, Inventory, check_modules, check_version, orphaned_anchors
from .index import ensure_pins, offered
from .judge import judge_all, judge_imports, judge_necessity
from .layout import Layout
from .leak import UpstreamText, load_allowed
from .locks import known_versions, locked_version
from .matrix import Log, Tree, run_all, trees_for, trees_without
from .patchfile import OVERRIDES_FILE
from .report import Report
from .versions import Version


def versions_to_check(
    layout: Layout, *, ask_index: bool, pre: bool = False
) -> tuple[list[Version], list[Version]]:
    """Every release from the oldest supported one to the newest, and those outside of the range.

    With `ask_index` the index is asked for releases that no lock file has yet. Of what lies outside
    only releases newer than the range are named. Raises IndexUnreachable or DownloadFailed.
    """
    targets = Inventory.load(layout).targets
    found = set(known_versions(layout))
    if ask_index:
        found.update(offered(pre=pre))
    inside = sorted(v for v in found if v in targets.supported)
    return inside, sorted(v for v in found - set(inside) if v > inside[-1])


def verify(
    layout: Layout,
    versions: Sequence[Version] | None = None,
    *,
    probes: bool = True,
    unsupported: Sequence[Version] = (),
    log: Log = lambda _: None,
) -> Report:
    """Check these versions (default: all in the lock files) and always the locked one.

    Raises a VendoringError when something could not be done at all.
    """
    inventory = Inventory.load(layout)
    locked = locked_version(layout)
    wanted = known_versions(layout) if versions is None else versions
    ordered = tuple(sorted({locked, *wanted}))
    for version in ordered:
        # An unknown version ends the run before anything is done.
        inventory.targets.present(version)
        ensure_pins(layout, version)
    findings: list[Finding] = []
    trees: list[Tree] = []
    for version in ordered:
        log(f"checking upstream {version}")
        found = check_version(layout, inventory, version)
        moved = check_modules(layout, inventory, version)
        trees += [] if moved else trees_for(inventory, version, found)
        findings += moved
        findings += _with_leaks(layout, inventory, found) if version == locked else found
    if probes and trees:
        runs = run_all(layout, trees, locked, log)
        findings = judge_all(findings, inventory.patches, runs)
        extra = trees_without(inventory, locked, findings)
        findings = judge_necessity(findings, run_all(layout, extra, locked, log))
        for version in ordered:
            findings += judge_imports(version, runs)
    findings += orphaned_anchors(inventory, locked)
    return Report(locked, ordered, tuple(findings), inventory, probes, tuple(unsupported))


def _with_leaks(layout: Layout, inventory: Inventory, findings: Sequence[Finding]) -> list[Finding]:
    """LEAK for patches and declarations whose file shares a run of tokens with upstream."""
    upstream = UpstreamText.of_locked(layout)
    allowed = {entry.path for entry in load_allowed(layout.allowed_overlaps)}
    files = {p.id: f"{layout.patches.name}/{p.id}.toml" for p in inventory.patches}
    for override in inventory.overrides:
        files[override.id] = f"{layout.patches.name}/{override.folder}/{OVERRIDES_FILE}"
    files.update({r.id: f"{layout.patches.name}/{r.file}" for r in inventory.relied})
    overlaps = {
        name: upstream.overlaps(name, (layout.root / name).read_text("utf-8"))
        for name in {files[f.id] for f in findings} - allowed
    }
    result = []
    for finding in findings:
        if found := overlaps.get(files[finding.id]):
            finding = replace(finding, status=LEAK, detail=str(found[0]))
        result.append(finding)
    return result
