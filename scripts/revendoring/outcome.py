"""What a move to another upstream release came to: for the terminal, Markdown and the CHANGELOG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vendoring.errors import NEEDS_A_PERSON
from vendoring.versions import Version

from .places import Release

_ABSENT = "-"
_FINE = ("OK", _ABSENT)
# What a report of scripts/verify.sh lists.
KINDS = ("patches", "overrides", "relies_on")
# Long lists of what failed are cut here; whoever repairs them runs the command anyway.
SHOWN_AT_MOST = 20

BEFORE_A_RELEASE = (
    "say in CHANGELOG.md what users notice of the new upstream release",
    "measure again what calls survive: `scripts/bench.sh survival` (it writes docs/survival.md)",
    "`scripts/release.sh --rehearsal`",
)


@dataclass(frozen=True)
class Need:
    """One thing that a person has to look at, and what to do there."""

    what: str
    how: str


@dataclass
class Outcome:
    """What was found.

    `report` is that of scripts/verify.sh on the new release, `report_before` on the old one, each
    None where it was not made.
    """

    old: Version
    new: Version
    release: Release
    changes: list[str] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    report: Mapping[str, Any] | None = None
    report_before: Mapping[str, Any] | None = None
    branch: str | None = None

    @property
    def exit_code(self) -> int:
        return NEEDS_A_PERSON if self.needs else 0

    def add_needs(self, found: Sequence[str], how: str, kind: str) -> None:
        """One need for each, up to a bound, and one for the rest."""
        self.needs += [Need(what, how) for what in found[:SHOWN_AT_MOST]]
        if len(found) > SHOWN_AT_MOST:
            self.needs.append(Need(f"{len(found) - SHOWN_AT_MOST} more {kind}", how))

    # -- text

    def text(self) -> str:
        """For the terminal."""
        lines = [self._title(), ""]
        lines += _aligned(self._table())
        lines += ["", *self.checked, *self.changes]
        if self.needs:
            lines += ["", f"Needs a person ({len(self.needs)}):"]
            for number, need in enumerate(self.needs, 1):
                lines += [f"{number:3}. {need.what}", f"     {need.how}"]
        else:
            lines += ["", "Nothing needs a person."]
        if self.branch:
            lines += ["", "Before a release:", *(f"  - {item}" for item in BEFORE_A_RELEASE)]
            lines += [
                "",
                f"It is committed on branch {self.branch}, which is checked out now. To undo it: "
                f"git switch - && git branch -D {self.branch}",
            ]
        return "\n".join(lines)

    def markdown(self) -> str:
        """The same for an issue or a job's summary."""
        lines = [f"## {self._title()}", "", *_markdown_table(self._table()), ""]
        lines += [f"- {line}" for line in [*self.checked, *self.changes]]
        lines += ["", "### Needs a person", ""] if self.needs else ["", "Nothing needs a person."]
        lines += [f"{i}. {need.what}<br>{need.how}" for i, need in enumerate(self.needs, 1)]
        return "\n".join(lines) + "\n"

    def changelog_entry(self) -> str:
        """The body of the CHANGELOG's `### Upstream` part."""
        lines = [f"- Built from livekit-agents {self.new}; before, from {self.old}."]
        lines += ["", "How the patches fared when it was moved:", ""]
        return "\n".join([*lines, *_markdown_table(self._table())])

    def _title(self) -> str:
        if self.old == self.new:
            return f"upstream {self.new}, release {self.release}"
        return f"upstream {self.old} to {self.new}, release {self.release}"

    def _table(self) -> list[list[str]]:
        """Rows of cells: every patch, and of the rest what is not OK."""
        if self.report is None:
            return []
        reports = {str(self.old): self.report_before, str(self.new): self.report}
        columns = {v: _statuses(report) for v, report in reports.items()}
        rows, quiet = [], []
        for kind in KINDS:
            for id_ in (entry["id"] for entry in self.report[kind]):
                cells = [column.get(id_, {}).get(v, "") for v, column in columns.items()]
                if set(cells) == {_ABSENT}:
                    continue
                if kind == "patches" or cells[-1] not in _FINE:
                    rows.append([id_, *cells])
                else:
                    quiet.append(cells)
        if quiet:
            column = [_in_short(statuses) for statuses in zip(*quiet, strict=True)]
            rows.append([f"all others ({len(quiet)} overrides and private names)", *column])
        return [["", *columns], *rows]


def _statuses(report: Mapping[str, Any] | None) -> dict[str, dict[str, str]]:
    """Id, then version, to status."""
    entries = [entry for kind in KINDS for entry in report[kind]] if report else []
    return {
        entry["id"]: {version: _status(result) for version, result in entry["results"].items()}
        for entry in entries
    }


def _status(result: Mapping[str, Any]) -> str:
    """`-` for a patch that upstream does not need in a release that it does not apply to."""
    return _ABSENT if result["status"] == "OBSOLETE" and not result["counts"] else result["status"]


def _in_short(statuses: Sequence[str]) -> str:
    """`OK`, or how many are not; `-` stands where upstream has no such method."""
    wrong = sum(status not in _FINE for status in statuses)
    return f"{wrong} not OK" if wrong else "OK"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return ["(no table: the patches could not be checked)"]
    head, *body = rows
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]
