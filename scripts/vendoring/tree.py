"""Generate the vendored tree: fetch, patch, rewrite imports, head, compile, record, swap in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import engine, provenance
from .errors import InvalidConfig
from .fetch import locked_directory, pristine
from .hashing import digest_of
from .imports import rewrite_imports
from .layout import Layout
from .locks import locked_pins, locked_version, pins_for
from .patchfile import DECLARATIONS, Patch, load_all
from .sbom import FILE_NAME as SBOM_FILE
from .sbom import render_sbom
from .source import check_compiles
from .targets import Origin, Target, load_targets
from .toml import read_toml
from .versions import Version

Log = Callable[[str], None]

_INIT = '"""Generated. PROVENANCE.json beside the topmost package says from what."""\n'


@dataclass(frozen=True)
class Generated:
    """A tree that `generate` wrote."""

    path: Path
    version: Version
    patches: tuple[Patch, ...]


def ensure(layout: Layout | None = None, log: Log = lambda _: None) -> Path:
    """Make the package's `_vendor` tree be what lock, map, patches and these scripts say.

    Does nothing, and uses no network, when it already is. Returns its path. Raises a
    VendoringError.
    """
    layout = layout or Layout.here()
    # A lock or map that is missing or malformed is told before it is hashed.
    version = locked_version(layout)
    load_targets(layout.targets).present(version)
    digest = inputs_digest(layout)
    with locked_directory(layout.cache / "vendoring"):
        record = provenance.read_record(layout.tree)
        same_inputs = record is not None and record.get("inputs") == digest
        if same_inputs and provenance.problem(layout.tree) is None:
            log(f"{layout.tree.name} is up to date")
            return layout.tree
        patches = load_all(layout.patches)
        stage = layout.tree.with_name(f"{layout.tree.name}.new")
        generated = generate(layout, version, patches, stage, inputs=digest)
        _swap(stage, layout.tree)
    log(f"{layout.tree.name}: upstream {generated.version}, {len(generated.patches)} patches")
    return layout.tree


def inputs_digest(layout: Layout) -> str:
    """One hash over everything the tree is made from, except upstream itself (the lock has it)."""
    files = [layout.lock, layout.targets, layout.project / "pyproject.toml"]
    files += sorted(layout.scripts.glob("*.py"))
    files += sorted(layout.patches.glob("*/series"))
    files += [p for p in sorted(layout.patches.glob("*/*.toml")) if p.name not in DECLARATIONS]
    return digest_of((f.relative_to(layout.root).as_posix(), f) for f in files)


def project_name_and_version(layout: Layout) -> tuple[str, str]:
    """Name and version of our distribution. Raises InvalidConfig when they do not fit the lock."""
    project = read_toml(layout.project / "pyproject.toml")["project"]
    name, version = str(project["name"]), str(project["version"])
    if not version.startswith(f"{locked_version(layout)}."):
        raise InvalidConfig(
            f"pyproject.toml: version {version} must be the locked upstream version "
            f"{locked_version(layout)} and our own release number after it"
        )
    return name, version


def generate(
    layout: Layout,
    version: Version,
    patches: Sequence[Patch],
    into: Path,
    *,
    inputs: str = "",
    apply: engine.Apply = engine.apply,
) -> Generated:
    """Write a tree of one upstream version with these patches (none: "bare") to a new folder.

    Patches whose range excludes the version, or whose target it lacks, are left out. Raises a
    VendoringError; then `into` does not exist.
    """
    targets = load_targets(layout.targets)
    for patch in patches:
        targets.get(patch.target)
    present = targets.present(version)
    upstream = pristine(layout, version)
    vendored = {origin.module: target.module for target, origin in present}
    if missing := targets.missing(version, upstream):
        raise InvalidConfig(
            f"upstream {version} has no {', '.join(missing)}: say in targets.toml where it lies now"
        )
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    used: list[Patch] = []
    try:
        for target, origin in present:
            mine = [p for p in patches if p.target == target.name and version in p.applies_to]
            data = (upstream / origin.file).read_bytes()
            for patch in mine:
                data = apply(data, patch, origin.file)
            path = into / target.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(finish(target, origin, version, data, vendored, mine))
            used += mine
        for folder in sorted({into, *(p.parent for p in into.rglob("*.py"))}):
            (folder / "__init__.py").write_text(_INIT, "utf-8")
        if version == locked_version(layout):
            name, own = project_name_and_version(layout)
            sbom = render_sbom(name, own, locked_pins(layout), used)
            (into / SBOM_FILE).write_text(sbom, "utf-8")
        provenance.write_record(into, _facts(layout, version, used, inputs))
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    return Generated(into, version, tuple(used))


def finish(
    target: Target,
    origin: Origin,
    version: Version,
    data: bytes,
    vendored: Mapping[str, str],
    patches: Sequence[Patch],
) -> bytes:
    """A patched upstream file as it stands in the tree. Raises Refused when it does not compile."""
    result = _header(target, origin, version, patches)
    result += rewrite_imports(data, origin.module, vendored)
    check_compiles(result, f"the generated {target.path}")
    return result


def _facts(
    layout: Layout, version: Version, used: Sequence[Patch], inputs: str
) -> dict[str, object]:
    return {
        "inputs": inputs,
        "version": str(version),
        "upstream": {p.dist: p.sha256 for p in pins_for(layout, version)},
        "patches": {p.id: p.sha256 for p in used},
    }


def _header(target: Target, origin: Origin, version: Version, patches: Sequence[Patch]) -> bytes:
    names = ", ".join(p.id for p in patches) or "none"
    lines = [
        f"MODIFIED by livekit-plugins-resilient from {origin.dist} {version}, {origin.file}.",
        "Upstream: Copyright 2023 LiveKit, Inc., Apache-2.0.",
        f"Changes: imports rewritten; patches: {names}.",
        "Generated, do not edit.",
    ]
    return "".join(f"# {line}\n" for line in lines).encode()


def _swap(stage: Path, tree: Path) -> None:
    """Put `stage` in the place of `tree`; if that fails, the old tree is back."""
    old = tree.with_name(f"{tree.name}.old-{os.getpid()}")
    if tree.exists():
        tree.rename(old)
    try:
        stage.rename(tree)
    except OSError:
        if old.exists():
            old.rename(tree)
        raise
    shutil.rmtree(old, ignore_errors=True)
