"""The lock files: pip requirements with hashes, for the vendored version and the whole range."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import InvalidConfig, UnsupportedVersion
from .layout import Layout
from .versions import Version

DISTRIBUTIONS = (
    "livekit-agents",
    "livekit-plugins-google",
    "livekit-plugins-openai",
    "livekit-plugins-xai",
)
EXTRAS = {"livekit-plugins-xai": "xai"}
"""Those that our package requires only with an extra, and the extra's name."""

_HASH = "--hash=sha256:"


@dataclass(frozen=True, order=True)
class Pin:
    """One release of one distribution and the hash of its wheel."""

    dist: str
    version: Version
    sha256: str

    def requirement(self) -> str:
        """The line for pip."""
        return f"{self.dist}=={self.version} {_HASH}{self.sha256}"


def read_lock(path: Path) -> list[Pin]:
    """All pins of a lock file. Raises InvalidConfig naming the line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidConfig(f"{path.parent.name}/{path.name} cannot be read: {e}") from e
    pins = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].strip()
        if not line:
            continue
        requirement, _, digest = line.partition(_HASH)
        dist, _, version = requirement.strip().partition("==")
        if dist not in DISTRIBUTIONS or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise InvalidConfig(
                f"{path.name} line {number}: expected one of {', '.join(DISTRIBUTIONS)} as "
                f"NAME==X.Y.Z {_HASH}<64 hex digits>"
            )
        pins.append(Pin(dist, Version.parse(version), digest))
    return pins


def _one_release(pins: list[Pin], name: str) -> tuple[Pin, ...]:
    if sorted(p.dist for p in pins) != sorted(DISTRIBUTIONS):
        raise InvalidConfig(
            f"{name}: each of {', '.join(DISTRIBUTIONS)} must be pinned exactly once a version"
        )
    return tuple(sorted(pins))


def locked_pins(layout: Layout) -> tuple[Pin, ...]:
    """The pins of the vendored version."""
    pins = _one_release(read_lock(layout.lock), layout.lock.name)
    if len({p.version for p in pins}) != 1:
        raise InvalidConfig(f"{layout.lock.name}: all pins must have the same version")
    return pins


def locked_version(layout: Layout) -> Version:
    """The upstream version that the package is built from."""
    return locked_pins(layout)[0].version


def known_versions(layout: Layout) -> list[Version]:
    """Every version that a lock file has hashes of, ascending."""
    pins = [*read_lock(layout.lock), *read_lock(layout.range_lock)]
    return sorted({p.version for p in pins})


def pins_for(layout: Layout, version: Version) -> tuple[Pin, ...]:
    """The pins of one version.

    Raises UnsupportedVersion when no lock file has them, nor were they seen on the index.
    """
    if version == locked_version(layout):
        return locked_pins(layout)
    pins = [p for p in read_lock(layout.range_lock) if p.version == version]
    if not pins and layout.seen_lock.exists():
        pins = [p for p in read_lock(layout.seen_lock) if p.version == version]
    if not pins:
        known = known_versions(layout)
        raise UnsupportedVersion(
            f"upstream {version} is in no lock file (known: {known[0]} to {known[-1]})"
        )
    return _one_release(pins, layout.range_lock.name)
