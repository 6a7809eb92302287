"""Every place that says which upstream release the package is built from; all move together.

The version scheme: the vendored upstream release, then our own number, counted from 1 for each
upstream release (`1.8.9.1`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vendoring.errors import InvalidConfig
from vendoring.layout import Layout
from vendoring.locks import EXTRAS, Pin, locked_pins, read_lock
from vendoring.toml import read_toml
from vendoring.versions import Version

from . import changelog
from .errors import Misplaced

RANGE_HEADER = (
    "# Every other release in the supported range, for verification only. "
    "Same form as upstream.lock.\n"
)
LOCK_HEADER = (
    "# The upstream release that the package is built from: pip requirements with hashes.\n"
)
TABLE_START = "<!-- versions: written by scripts/revendor.sh -->"
TABLE_END = "<!-- /versions -->"
_TABLE_HEAD = [
    "| release | built from livekit-agents | runs with livekit-agents, -google, -openai, -xai "
    "| Python |",
    "|---|---|---|---|",
]


@dataclass(frozen=True)
class Release:
    """One release of ours."""

    upstream: Version
    number: int

    def __str__(self) -> str:
        return f"{self.upstream}.{self.number}"

    @property
    def tag(self) -> str:
        """Name of its git tag."""
        return f"v{self}"

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read `1.8.9.1`. Raises Misplaced."""
        upstream, _, number = text.rpartition(".")
        if upstream.count(".") != 2 or not (number.isascii() and number.isdigit() and int(number)):
            raise Misplaced(
                f"{text!r} is no version of ours: it must be an upstream version and our own "
                "number, such as 1.8.9.1"
            )
        return cls(Version.parse(upstream), int(number))


def bound_above(upstream: Version) -> str:
    """The first upstream release that the package does not promise to run with."""
    return f"{upstream.major}.{upstream.minor + 1}"


def requirement(dist: str, upstream: Version) -> str:
    """What the package requires of a distribution of upstream."""
    return f"{dist}>={upstream},<{bound_above(upstream)}"


def supported_pythons(requires: str) -> list[str]:
    """`>=3.10,<3.14` as a list from 3.10 to 3.13. Raises InvalidConfig for another form."""
    match = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", requires)
    if match is None:
        raise InvalidConfig(f"pyproject.toml: requires-python {requires!r} must be >=3.A,<3.B")
    return [f"3.{minor}" for minor in range(int(match[1]), int(match[2]))]


# -- reading


def disagreements(layout: Layout) -> list[str]:
    """What does not say what upstream.lock and the package's pyproject.toml say; one line each."""
    upstream = locked_pins(layout)[0].version
    project = read_toml(layout.project / "pyproject.toml")["project"]
    release = str(project["version"])
    found = []
    if not release.startswith(f"{upstream}."):
        found.append(f"pyproject.toml: version {release} does not begin with the locked {upstream}")
    optional = project.get("optional-dependencies", {})
    for pin in locked_pins(layout):
        wanted, extra = requirement(pin.dist, upstream), EXTRAS.get(pin.dist)
        if wanted not in (project["dependencies"] if extra is None else optional.get(extra, [])):
            where = "dependencies" if extra is None else f"the extra {extra}"
            found.append(f"pyproject.toml: {where} lack {wanted!r}")
    if f'__version__ = "{release}"' not in (layout.package / "version.py").read_text("utf-8"):
        found.append(f"version.py: __version__ is not {release}")
    readme = (layout.root / "README.md").read_text("utf-8")
    rows = _rows(readme)
    row = _row(Release.parse(release), str(project["requires-python"]))
    if not rows or rows[0] != row:
        found.append(f"README.md: the first row of the table of versions is not {row!r}")
    top = changelog.newest(layout.root / "CHANGELOG.md")
    if (top.release, top.upstream) != (release, str(upstream)):
        found.append(
            f"CHANGELOG.md: the newest section is of {top.release}, built from {top.upstream}, "
            f"not of {release}, built from {upstream}"
        )
    return found


# -- writing


def move(layout: Layout, pins: Sequence[Pin], release: Release) -> None:
    """Write the new lock and every place that names the version, except the CHANGELOG.

    Raises Misplaced when a place does not have the form that it should; the caller throws the
    checkout away then.
    """
    old = locked_pins(layout)
    _write_locks(layout, old, pins)
    _edit(layout, "livekit-plugins-resilient/pyproject.toml", _package_edits(old, release))
    package = layout.package.relative_to(layout.root)
    _edit(
        layout, f"{package}/version.py", [(r'^__version__ = ".*"$', f'__version__ = "{release}"')]
    )
    readme = layout.root / "README.md"
    text = readme.read_text("utf-8")
    text = text.replace(
        f"built from livekit-agents {old[0].version}",
        f"built from livekit-agents {release.upstream}",
    )
    project = read_toml(layout.project / "pyproject.toml")["project"]
    released = {s.release for s in _sections(layout) if s.date is not None}
    readme.write_text(_with_row(text, release, str(project["requires-python"]), released), "utf-8")


def write_changelog(layout: Layout, release: Release, body: str) -> None:
    """Say in the CHANGELOG what the move brought."""
    path = layout.root / "CHANGELOG.md"
    text = changelog.moved(path.read_text("utf-8"), str(release), str(release.upstream), body)
    path.write_text(text, "utf-8")


def _sections(layout: Layout) -> list[changelog.Section]:
    return changelog.sections((layout.root / "CHANGELOG.md").read_text("utf-8"))


def _write_locks(layout: Layout, old: Sequence[Pin], new: Sequence[Pin]) -> None:
    others = {*read_lock(layout.range_lock), *old} - set(new)
    others = {p for p in others if p.version != new[0].version}
    ordered = sorted(others, key=lambda p: (p.version, p.dist))
    lines = [f"{p.requirement()}\n" for p in ordered]
    layout.range_lock.write_text("".join([RANGE_HEADER, *lines]), "utf-8")
    lines = [f"{p.requirement()}\n" for p in sorted(new)]
    layout.lock.write_text("".join([LOCK_HEADER, *lines]), "utf-8")


def _package_edits(old: Sequence[Pin], release: Release) -> list[tuple[str, str]]:
    edits = [(r'^version = ".*"$', f'version = "{release}"')]
    for pin in old:
        found = rf'^( *)"{re.escape(pin.dist)}[^"]*",$'
        edits.append((found, rf'\g<1>"{requirement(pin.dist, release.upstream)}",'))
    return edits


def _edit(layout: Layout, name: str, edits: Sequence[tuple[str, str]]) -> None:
    path = layout.root / name
    text = path.read_text("utf-8")
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        if count != 1:
            raise Misplaced(f"{name}: {count} lines match {pattern}, there must be exactly one")
    path.write_text(text, "utf-8")


def _row(release: Release, python: str) -> str:
    up, pythons = release.upstream, supported_pythons(python)
    runs_with = f"{up} and later, before {bound_above(up)}"
    return f"| {release} | {up} | {runs_with} | {pythons[0]} to {pythons[-1]} |"


def _table(text: str) -> tuple[int, int]:
    lines = text.splitlines()
    if lines.count(TABLE_START) != 1 or lines.count(TABLE_END) != 1:
        raise Misplaced(f"README.md must have the lines {TABLE_START} and {TABLE_END}, each once")
    return lines.index(TABLE_START), lines.index(TABLE_END)


def _rows(text: str) -> list[str]:
    start, end = _table(text)
    return [line for line in text.splitlines()[start:end] if re.match(r"\| \d", line)]


def _with_row(text: str, release: Release, python: str, released: set[str]) -> str:
    """The README with a first row for this release above those of releases that came out."""
    start, end = _table(text)
    lines = text.splitlines()
    kept = [r for r in _rows(text) if r.split("|")[1].strip() in released - {str(release)}]
    rows = ["", *_TABLE_HEAD, _row(release, python), *kept, ""]
    return "\n".join([*lines[: start + 1], *rows, *lines[end:]]) + "\n"
