"""The target map: which upstream module each file of the vendored tree comes from, by version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .errors import InvalidConfig, UnsupportedVersion
from .layout import VENDOR_PACKAGE
from .locks import DISTRIBUTIONS
from .toml import read_toml
from .versions import Version, VersionRange


@dataclass(frozen=True)
class Origin:
    """Where a target lies upstream in a range of versions."""

    versions: VersionRange
    dist: str
    module: str

    @property
    def file(self) -> str:
        """Path inside the wheel."""
        return self.module.replace(".", "/") + ".py"


@dataclass(frozen=True)
class Target:
    """A logical file: its name for patches, its stable place below `_vendor`, its origins."""

    name: str
    path: str
    origins: tuple[Origin, ...]

    @property
    def module(self) -> str:
        """Dotted name of the vendored module."""
        return f"{VENDOR_PACKAGE}." + self.path.removesuffix(".py").replace("/", ".")

    def origin(self, version: Version) -> Origin | None:
        """The origin in this version; None where upstream has no such module."""
        found = [o for o in self.origins if version in o.versions]
        if len(found) > 1:
            raise InvalidConfig(f"targets.toml: {self.name} has two origins for {version}")
        return found[0] if found else None


@dataclass(frozen=True)
class TargetMap:
    """All targets and the supported range."""

    supported: VersionRange
    targets: tuple[Target, ...]

    def get(self, name: str) -> Target:
        """Raises InvalidConfig with the known names."""
        for target in self.targets:
            if target.name == name:
                return target
        known = ", ".join(t.name for t in self.targets)
        raise InvalidConfig(f"target {name!r} is not in targets.toml (known: {known})")

    def present(self, version: Version) -> list[tuple[Target, Origin]]:
        """The targets that exist in a version. Raises UnsupportedVersion outside the range."""
        if version not in self.supported:
            raise UnsupportedVersion(
                f"upstream {version} is outside the supported range {self.supported}"
            )
        return [(t, o) for t in self.targets if (o := t.origin(version)) is not None]

    def missing(self, version: Version, upstream: Path) -> list[str]:
        """The files that the map names for a version, and its sources do not have."""
        return [o.file for _, o in self.present(version) if not (upstream / o.file).is_file()]


def _fields(table: object, names: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(table, dict) or set(table) != set(names):
        raise InvalidConfig(f"targets.toml: {where} must have exactly {', '.join(names)}")
    return table


def load_targets(path: Path) -> TargetMap:
    """Read targets.toml. Raises InvalidConfig naming the table and what is allowed."""
    top = _fields(read_toml(path), ("supported", "target"), "the file")
    targets = []
    for i, item in enumerate(top["target"], 1):
        table = _fields(item, ("name", "path", "origin"), f"target {i}")
        origins = []
        for entry in table["origin"]:
            origin = _fields(entry, ("versions", "dist", "module"), f"an origin of {table['name']}")
            if origin["dist"] not in DISTRIBUTIONS:
                allowed = ", ".join(DISTRIBUTIONS)
                raise InvalidConfig(f"targets.toml: dist {origin['dist']!r} (allowed: {allowed})")
            versions = VersionRange.parse(origin["versions"])
            origins.append(Origin(versions, origin["dist"], origin["module"]))
        pure = PurePosixPath(table["path"])
        if len(pure.parts) != 2 or pure.suffix != ".py":
            raise InvalidConfig(f"targets.toml: path {table['path']!r} must be FOLDER/FILE.py")
        targets.append(Target(table["name"], table["path"], tuple(origins)))
    for attribute in ("name", "path"):
        values = [getattr(t, attribute) for t in targets]
        if len(values) != len(set(values)):
            raise InvalidConfig(f"targets.toml: two targets have the same {attribute}")
    return TargetMap(VersionRange.parse(top["supported"]), tuple(targets))
