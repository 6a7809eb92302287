"""Verification: every patch and override on every version, and every probe bare and patched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .check import (
    DRIFT,
    INEFFECTIVE,
    INVALID,
    LEAK,
    OBSOLETE,
    OK,
    Finding,
    Inventory,
    check_version,
    orphaned_anchors,
)
from .index import ensure_pins, offered
from .layout import Layout
from .leak import UpstreamText, load_allowed
from .locks import known_versions, locked_version
from .patchfile import OVERRIDES_FILE, Patch
from .probes import Outcome, build_overlay, run_probes
from .report import Report
from .versions import Version

Log = Callable[[str], None]


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
    for version in ordered:
        log(f"checking upstream {version}")
        found = check_version(layout, inventory, version)
        if version == locked:
            found = _with_leaks(layout, inventory, found)
            if probes:
                found = _with_probes(layout, inventory, found, log)
            found += orphaned_anchors(inventory, locked)
        findings += found
    return Report(locked, ordered, tuple(findings), inventory, probes, tuple(unsupported))


def _with_leaks(layout: Layout, inventory: Inventory, findings: Sequence[Finding]) -> list[Finding]:
    """LEAK for patches and overrides whose file shares a run of tokens with upstream."""
    upstream = UpstreamText.of_locked(layout)
    allowed = {entry.path for entry in load_allowed(layout.allowed_overlaps)}
    files = {p.id: f"{layout.patches.name}/{p.id}.toml" for p in inventory.patches}
    for override in inventory.overrides:
        files[override.id] = f"{layout.patches.name}/{override.folder}/{OVERRIDES_FILE}"
    result = []
    for finding in findings:
        name = files[finding.id]
        text = (layout.root / name).read_text("utf-8")
        overlaps = [] if name in allowed else upstream.overlaps(name, text)
        if overlaps:
            finding = replace(finding, status=LEAK, detail=str(overlaps[0]))
        result.append(finding)
    return result


def _with_probes(
    layout: Layout, inventory: Inventory, findings: Sequence[Finding], log: Log
) -> list[Finding]:
    """Run the probes of all patches that apply, on bare and on patched upstream."""
    version = locked_version(layout)
    usable = {f.id for f in findings if f.status in (OK, DRIFT)}
    patches = [p for p in inventory.patches if p.id in usable]
    if not patches:
        return list(findings)
    names = [p.probe for p in patches]
    outcomes: dict[str, Mapping[str, Outcome]] = {}
    for kind, series in (("bare", []), ("patched", patches)):
        log(f"probing upstream {version}, {kind}")
        overlay = build_overlay(layout, version, series, layout.cache / "verify" / kind)
        outcomes[kind] = run_probes(layout, overlay, names)
    by_id = {p.id: p for p in patches}
    return [
        judge(f, by_id[f.id], outcomes["bare"], outcomes["patched"]) if f.id in by_id else f
        for f in findings
    ]


def judge(
    finding: Finding,
    patch: Patch,
    bare: Mapping[str, Outcome],
    patched: Mapping[str, Outcome],
) -> Finding:
    """The finding after the probes: a probe must fail on bare upstream and pass patched."""
    before, after = bare[patch.probe], patched[patch.probe]
    if "invalid" in (before, after):
        where = "bare" if before == "invalid" else "patched"
        detail = f"{patch.probe} is missing or could not be set up on {where} upstream"
        return replace(finding, status=INVALID, detail=detail)
    if after == "failed":
        detail = f"{patch.probe} fails although the patch is in"
        return replace(finding, status=INEFFECTIVE, detail=detail)
    if before == "passed":
        detail = f"{patch.probe} passes without the patch"
        return replace(finding, status=OBSOLETE, detail=detail)
    return finding
