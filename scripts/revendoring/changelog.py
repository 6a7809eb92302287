"""CHANGELOG.md: the newest section, and what a move to another upstream release writes into it.

A section's heading is `## [Unreleased] - 1.8.9.1, built from livekit-agents 1.8.9`, or
`## [1.8.9.1] - 2026-12-01, built from livekit-agents 1.8.9` once it is released.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .errors import Misplaced

UPSTREAM_HEADING = "### Upstream"
_HEADING = re.compile(
    r"^## \[(?P<name>[^\]]+)\] - (?P<rest>\S+), built from livekit-agents (?P<upstream>\S+)$"
)
_UNRELEASED = "Unreleased"
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True)
class Section:
    """The heading of one section. `date` is None while it is not released."""

    line: int
    release: str
    upstream: str
    date: str | None


def sections(text: str) -> list[Section]:
    """All sections, newest first. Raises Misplaced for a heading of another form."""
    found = []
    for number, line in enumerate(text.splitlines()):
        if not line.startswith("## "):
            continue
        match = _HEADING.match(line)
        unreleased = match is not None and match["name"] == _UNRELEASED
        if match is None or not (unreleased or _DATE.match(match["rest"])):
            raise Misplaced(
                f"CHANGELOG.md line {number + 1}: expected `## [Unreleased] - RELEASE, built from "
                "livekit-agents X.Y.Z` or `## [RELEASE] - YYYY-MM-DD, built from ...`"
            )
        release, date = (match["rest"], None) if unreleased else (match["name"], match["rest"])
        found.append(Section(number, release, match["upstream"], date))
    return found


def newest(path: Path) -> Section:
    """The section at the top. Raises Misplaced when there is none."""
    found = sections(path.read_text("utf-8"))
    if not found:
        raise Misplaced("CHANGELOG.md has no section")
    return found[0]


def moved(text: str, release: str, upstream: str, body: str) -> str:
    """The text after a move: the unreleased section names the new release and says what changed.

    An unreleased section is kept and renamed, because what it lists will come out with the new
    release; its old `### Upstream` part is replaced. A released one gets a new section above it.
    """
    lines = text.splitlines()
    found = sections(text)
    if not found:
        raise Misplaced("CHANGELOG.md has no section")
    heading = f"## [{_UNRELEASED}] - {release}, built from livekit-agents {upstream}"
    entry = [UPSTREAM_HEADING, "", *body.strip().splitlines(), ""]
    top = found[0]
    if top.date is not None:
        return _joined([*lines[: top.line], heading, "", *entry, *lines[top.line :]])
    end = found[1].line if len(found) > 1 else len(lines)
    kept = _without_part(lines[top.line + 1 : end], UPSTREAM_HEADING)
    while kept and not kept[0]:
        del kept[0]
    return _joined([*lines[: top.line], heading, "", *entry, *kept, *lines[end:]])


def _without_part(lines: list[str], heading: str) -> list[str]:
    if heading not in lines:
        return lines
    start = lines.index(heading)
    rest = lines[start + 1 :]
    length = next((i for i, line in enumerate(rest) if line.startswith("### ")), len(rest))
    return lines[:start] + rest[length:]


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
