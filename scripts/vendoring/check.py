"""Static checks of all that is declared on one upstream version: no code is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import engine, tree
from .anchors import Anchor, is_reviewed, orphans, read_anchors
from .errors import AlreadyApplied, NotFound, PatchProblem
from .fetch import pristine
from .layout import Layout
from .locks import DISTRIBUTIONS, locked_version
from .overrides import Override, check_override, load_all_overrides
from .patchfile import Patch, load_all
from .relies import Relied, installed_source, load_all_relied, module_files, relied_nodes
from .source import Source, fingerprint
from .targets import Target, TargetMap, load_targets
from .versions import Version

OK = "OK"
DRIFT = "DRIFT"
OBSOLETE = "OBSOLETE"
REDUNDANT = "REDUNDANT"
INEFFECTIVE = "INEFFECTIVE"
INVALID = "INVALID"
LEAK = "LEAK"
MISSING = "MISSING"
NOT_APPLICABLE = "-"

# Findings about the whole tree of a version.
MODULES = "(upstream's modules)"
IMPORTS = "(package imports)"


@dataclass(frozen=True)
class Finding:
    """The verdict on one patch, override or private name on one version.

    `applied` says whether the patch is meant for that version; `reason` is what a probe said, and
    may quote upstream.
    """

    id: str
    version: Version
    status: str
    detail: str = ""
    applied: bool = True
    reason: str = ""


@dataclass(frozen=True)
class Inventory:
    """Everything that is declared: what there is to check."""

    targets: TargetMap
    patches: tuple[Patch, ...]
    overrides: tuple[Override, ...]
    anchors: tuple[Anchor, ...]
    relied: tuple[Relied, ...] = ()

    @classmethod
    def load(cls, layout: Layout) -> Inventory:
        """Raises InvalidPatch or InvalidConfig; also for a target that does not exist."""
        targets = load_targets(layout.targets)
        patches = tuple(load_all(layout.patches))
        overrides = tuple(load_all_overrides(layout.patches))
        relied = tuple(load_all_relied(layout.patches))
        declared = [*(o.target for o in overrides), *(r.target for r in relied if r.target)]
        for name in (*(p.target for p in patches), *declared):
            targets.get(name)
        return cls(targets, patches, overrides, tuple(read_anchors(layout.anchors)), relied)

    def scopes(self) -> set[tuple[str, str]]:
        """Every (id, scope) that a review may be recorded for."""
        edited = {(p.id, s) for p in self.patches for s in engine.edited_scopes(p)}
        overridden = {(o.id, o.scope) for o in self.overrides}
        return edited | overridden | {(r.id, r.scope) for r in self.relied}


class Upstream:
    """The pristine files of one version, parsed once each."""

    @classmethod
    def of(cls, layout: Layout, version: Version) -> Upstream:
        """One version, fetched when needed."""
        return cls(pristine(layout, version), version)

    def __init__(self, folder: Path, version: Version) -> None:
        self._folder = folder
        self._version = version
        self._parsed: dict[str, Source] = {}

    def source(self, target: Target) -> Source | None:
        """None where the map says that upstream has no such module in this version.

        Raises NotFound where the map is wrong.
        """
        origin = target.origin(self._version)
        if origin is None:
            return None
        if not (self._folder / origin.file).is_file():
            raise NotFound(missing_text([origin.file]), anchor=target.name)
        return self._parse(origin.file)

    def module(self, name: str) -> Source:
        """A module of one of the distributions that we vendor from. Raises NotFound."""
        for file in module_files(name):
            if (self._folder / file).is_file():
                return self._parse(file)
        raise NotFound(f"upstream {self._version} has no such module", anchor=name)

    def _parse(self, file: str) -> Source:
        if file not in self._parsed:
            self._parsed[file] = Source((self._folder / file).read_bytes(), file)
        return self._parsed[file]


def check_version(layout: Layout, inventory: Inventory, version: Version) -> list[Finding]:
    """One finding for each patch, override and private name.

    A patch is applied on top of those before it; one that fails is left out, so that the others
    are still judged. Raises a VendoringError when upstream cannot be had.
    """
    upstream = Upstream.of(layout, version)
    findings = _check_patches(inventory, upstream, version)
    findings += [_check_override(inventory, upstream, version, o) for o in inventory.overrides]
    here = [r for r in inventory.relied if is_upstreams(r) or version == locked_version(layout)]
    findings += [_check_relied(inventory, upstream, version, r) for r in here]
    return findings


def check_modules(layout: Layout, inventory: Inventory, version: Version) -> list[Finding]:
    """Whether upstream's modules lie where the map says; without them no tree can be made."""
    missing = inventory.targets.missing(version, pristine(layout, version))
    return [Finding(MODULES, version, NotFound.status, missing_text(missing))] if missing else []


def missing_text(files: Sequence[str]) -> str:
    """What to do when the map names files that upstream does not have."""
    return f"upstream has no {', '.join(files)}: say in targets.toml where it lies since then"


def orphaned_anchors(inventory: Inventory, version: Version) -> list[Finding]:
    """Reviews of scopes that nothing edits any more."""
    return [
        Finding(a.id, version, DRIFT, f"anchors.lock has {a.scope}, which is declared no more")
        for a in orphans(inventory.anchors, inventory.scopes())
    ]


def _check_patches(inventory: Inventory, upstream: Upstream, version: Version) -> list[Finding]:
    present = inventory.targets.present(version)
    vendored = {origin.module: target.module for target, origin in present}
    stacked: dict[str, bytes] = {}
    applied: list[Patch] = []
    findings = []
    for patch in inventory.patches:
        target = inventory.targets.get(patch.target)
        origin = target.origin(version)
        if origin is None or version not in patch.applies_to:
            findings.append(Finding(patch.id, version, NOT_APPLICABLE, applied=False))
            continue
        try:
            source = upstream.source(target)
            assert source is not None
            data = _apply_checked(stacked.get(target.name, source.data), patch, applied, source)
            mine = [*(p for p in applied if p.target == patch.target), patch]
            tree.finish(target, origin, version, data, vendored, mine)
            drifted = [
                scope
                for scope in engine.edited_scopes(patch)
                if not is_reviewed(
                    inventory.anchors,
                    patch.id,
                    scope,
                    engine.scope_fingerprint(source, patch, scope),
                )
            ]
        except PatchProblem as e:
            e.locate(patch=patch.id)
            findings.append(Finding(patch.id, version, e.status, str(e)))
            continue
        stacked[target.name] = data
        applied.append(patch)
        findings.append(_verdict(patch.id, version, drifted))
    return findings


def _apply_checked(data: bytes, patch: Patch, applied: Sequence[Patch], source: Source) -> bytes:
    missing = sorted(set(patch.requires) - {p.id for p in applied})
    if missing:
        raise PatchProblem(f"requires {', '.join(missing)}, which is not applied here")
    result = engine.apply(data, patch, source.name)
    try:
        engine.apply(result, patch, source.name)
    except AlreadyApplied:
        return result
    raise PatchProblem("a second application was not refused")


def _check_override(
    inventory: Inventory, upstream: Upstream, version: Version, override: Override
) -> Finding:
    try:
        source = upstream.source(inventory.targets.get(override.target))
        if source is None:
            return Finding(override.id, version, NOT_APPLICABLE, applied=False)
        found = check_override(source, override)
    except PatchProblem as e:
        return Finding(override.id, version, e.status, str(e))
    seen = is_reviewed(inventory.anchors, override.id, override.scope, found)
    return _verdict(override.id, version, [] if seen else [override.scope])


def is_upstreams(relied: Relied) -> bool:
    """Whether each upstream release has a source of it; else there is what is installed."""
    return bool(relied.target) or relied.dist in DISTRIBUTIONS


def relied_source(
    inventory: Inventory, upstream: Upstream, relied: Relied
) -> tuple[Source, str] | None:
    """The file of a private name, and its version where that is not upstream's (else "").

    None where the map says that upstream has no such module. Raises NotFound or NotInstalled.
    """
    if relied.target:
        source = upstream.source(inventory.targets.get(relied.target))
        return None if source is None else (source, "")
    if is_upstreams(relied):
        return upstream.module(relied.module), ""
    path, version = installed_source(relied)
    return Source(path.read_bytes(), str(path)), version


def _check_relied(
    inventory: Inventory, upstream: Upstream, version: Version, relied: Relied
) -> Finding:
    try:
        found = relied_source(inventory, upstream, relied)
        if found is None:
            return Finding(relied.id, version, NOT_APPLICABLE, applied=False)
        shape = fingerprint(*relied_nodes(found[0], relied.name))
    except PatchProblem as e:
        detail = f"{e}; used by {', '.join(relied.read_by)}"
        return Finding(relied.id, version, e.status, detail)
    seen = is_reviewed(inventory.anchors, relied.id, relied.scope, shape)
    if seen:
        return Finding(relied.id, version, OK)
    detail = f"not as last reviewed: look, then `ack {relied.id}`; used by "
    return Finding(relied.id, version, DRIFT, detail + ", ".join(relied.read_by))


def _verdict(id_: str, version: Version, drifted: Sequence[str]) -> Finding:
    if not drifted:
        return Finding(id_, version, OK)
    scopes = ", ".join(drifted)
    return Finding(id_, version, DRIFT, f"{scopes} is not as last reviewed: look, then `ack {id_}`")
