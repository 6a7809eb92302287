"""What a verification found: as a table, as details, as JSON and as Markdown."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .check import (
    DRIFT,
    IMPORTS,
    INVALID,
    MISSING,
    NOT_APPLICABLE,
    OBSOLETE,
    OK,
    REDUNDANT,
    Finding,
    Inventory,
)
from .errors import NEEDS_A_PERSON
from .versions import Version

SCHEMA = 1

# The same where a private name of others is concerned.
TO_DO_RELIED = {
    "NOT-FOUND": "read the new source: mend what uses the name, then declare what it uses now",
    DRIFT: "read what it is now and what uses it, then record the review with --note",
}

# What a person has to do about a status; the long form is in patches/README.md.
TO_DO = {
    "NOT-FOUND": "read the new source; is the fault still there? Then a new anchor, else drop it",
    "AMBIGUOUS": "add facts to the selector until one place is left",
    "REFUSED": "the edit cannot be made safely there; the detail says why",
    DRIFT: "look at the change with --ack ID, then record the review with --note",
    OBSOLETE: "drop the patch and its probe; where only a newer release is so, narrow applies-to",
    MISSING: "widen applies-to: the fault is there, and the patch is not",
    "INEFFECTIVE": "the patch is in the wrong place now, or the probe found something else",
    REDUNDANT: "drop the patch: the others do its work",
    INVALID: "repair the probe or what it stands on; nothing is known about the patch",
    "LEAK": "name fewer facts of upstream's text; move code into hooks.py",
}


@dataclass(frozen=True)
class Report:
    """All findings. The locked version and newer ones decide; older ones are history."""

    locked: Version
    versions: tuple[Version, ...]
    findings: tuple[Finding, ...]
    inventory: Inventory
    probed: bool = False
    # On the index, but outside of the supported range.
    unsupported: tuple[Version, ...] = ()

    def needs_a_person(self, finding: Finding) -> bool:
        """Whether a finding makes the verification fail."""
        if finding.version < self.locked or finding.status in (OK, NOT_APPLICABLE):
            return False
        return not (finding.status == OBSOLETE and not finding.applied)

    @property
    def problems(self) -> list[Finding]:
        """The findings that need a person."""
        return [f for f in self.findings if self.needs_a_person(f)]

    @property
    def passed(self) -> bool:
        """Whether everything on the locked version and on newer ones is OK."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        return 0 if self.passed else NEEDS_A_PERSON

    def obsolete_from(self, id_: str) -> Version | None:
        """The first of the checked versions from which on upstream needs the patch no more."""
        mine = [f.version for f in self.findings if f.id == id_ and f.status == OBSOLETE]
        return min(mine, default=None)

    def to_do(self, finding: Finding) -> str:
        """What a person has to do about a finding."""
        if finding.id in self._places:
            return TO_DO_RELIED.get(finding.status, TO_DO[finding.status])
        return TO_DO[finding.status]

    @cached_property
    def _places(self) -> dict[str, str]:
        """The id of each private name, and the target or module that it is of."""
        return {r.id: r.where for r in self.inventory.relied}

    # -- text

    def table(self) -> str:
        """Patch by version, as text; the private names of one module share a row."""
        header = ["", *self._columns()]
        rows = [header, *self._rows()]
        widths = [max(len(row[c]) for row in rows) for c in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, "", f"* locked version. {self.summary()}"])

    def summary(self) -> str:
        """One sentence on the locked version."""
        mine = [f for f in self.findings if f.version == self.locked]
        bad = sum(map(self.needs_a_person, mine))
        return f"{len(mine) - bad} of {len(mine)} OK on {self.locked}."

    def details(self) -> list[str]:
        """What needs a person, then what has become unnecessary, then history in short."""
        lines = []
        for f in self.problems:
            lines.append(f"{f.id} on {f.version}: {f.status}: {f.detail}")
            lines += [f"    {f.reason}"] if f.reason else []
            lines.append(f"    to do: {self.to_do(f)}")
        for patch in self.inventory.patches:
            first = self.obsolete_from(patch.id)
            if first is not None:
                lines.append(
                    f"{patch.id}: of the releases checked, upstream passes its probe without it "
                    f"from {first} on (it applies to {patch.applies_to})"
                )
        lines += self._history()
        lines += [
            f"upstream {v} is on the index, but outside the supported range "
            f"{self.inventory.targets.supported}: it was not checked"
            for v in self.unsupported
        ]
        return lines

    def _history(self) -> list[str]:
        """One line for each status on each older release. Drift there is no news."""
        found: dict[tuple[Version, str], list[str]] = {}
        for f in self.findings:
            if f.version < self.locked and f.status not in (OK, NOT_APPLICABLE, DRIFT, OBSOLETE):
                found.setdefault((f.version, f.status), []).append(f.id)
        lines = [f"    {v}: {s}: {', '.join(ids)}" for (v, s), ids in found.items()]
        return ["Releases older than the locked one, for information:", *lines] if lines else []

    # -- for machines and for the change log

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data; `schema` goes up when a key changes its meaning."""
        by_id = self._by_id()
        return {
            "schema": SCHEMA,
            "locked": str(self.locked),
            "python": ".".join(map(str, sys.version_info[:3])),
            "versions": [str(v) for v in self.versions],
            "unsupported": [str(v) for v in self.unsupported],
            "probed": self.probed,
            "patches": [
                {
                    "id": p.id,
                    "target": p.target,
                    "description": p.description,
                    "reason": p.reason,
                    "applies_to": str(p.applies_to),
                    "obsolete_from": _text_or_none(self.obsolete_from(p.id)),
                    "results": self._results(by_id.get(p.id, [])),
                }
                for p in self.inventory.patches
            ],
            "overrides": [
                {"id": o.id, "target": o.target, "results": self._results(by_id.get(o.id, []))}
                for o in self.inventory.overrides
            ],
            "relies_on": [
                {"id": r.id, "where": r.where, "results": self._results(by_id.get(r.id, []))}
                for r in self.inventory.relied
            ],
            "imports": self._results(by_id.get(IMPORTS, [])),
            "problems": [
                {
                    "id": f.id,
                    "version": str(f.version),
                    "status": f.status,
                    "detail": f.detail,
                    "to_do": self.to_do(f),
                }
                for f in self.problems
            ],
            "exit": self.exit_code,
        }

    def json(self) -> str:
        return json.dumps(self.as_dict(), indent=1) + "\n"

    def markdown(self) -> str:
        """The table, and below it what needs a person; holds nothing of upstream's text."""
        header = ["", *(c.replace("*", "\\*") for c in self._columns())]
        lines = [_row(header), _row(["---"] * len(header))]
        lines += [_row([f"`{id_}`", *cells]) for id_, *cells in self._rows()]
        lines += ["", f"\\* locked version. {self.summary()}"]
        if self.problems:
            lines += ["", "Needs a person:", ""]
            lines += [
                f"- `{f.id}` on {f.version}: {f.status}. {_sentence(self.to_do(f))}"
                for f in self.problems
            ]
        gone = [
            (p.id, first) for p in self.inventory.patches if (first := self.obsolete_from(p.id))
        ]
        if gone:
            lines += ["", "Upstream needs no more, of the releases checked:", ""]
            lines += [f"- `{id_}` from {first} on" for id_, first in gone]
        if self.unsupported:
            names = ", ".join(map(str, self.unsupported))
            lines += ["", f"On the index, outside the supported range, not checked: {names}."]
        return "\n".join(lines) + "\n"

    def _columns(self) -> list[str]:
        return [f"{v}{'*' if v == self.locked else ''}" for v in self.versions]

    def _rows(self) -> list[list[str]]:
        rows: list[list[str]] = []
        shared: dict[str, list[list[Finding]]] = {}
        for id_, found in self._by_id().items():
            if id_ in self._places:
                shared.setdefault(self._places[id_], []).append(found)
            else:
                by_version = {f.version: f.status for f in found}
                rows.append([id_, *(by_version.get(v, "") for v in self.versions)])
        for where, names in shared.items():
            cells = [
                _in_one_cell([f.status for found in names for f in found if f.version == v])
                for v in self.versions
            ]
            rows.append([f"{where}: private names ({len(names)})", *cells])
        return rows

    def _by_id(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.id, []).append(finding)
        return found

    def _results(self, findings: Sequence[Finding]) -> dict[str, dict[str, Any]]:
        return {
            str(f.version): {
                "status": f.status,
                "detail": f.detail,
                "reason": f.reason,
                "counts": self.needs_a_person(f),
            }
            for f in sorted(findings, key=lambda f: f.version)
        }


def _in_one_cell(statuses: Sequence[str]) -> str:
    """`OK`, or what is not, and how often."""
    wrong = Counter(s for s in statuses if s not in (OK, NOT_APPLICABLE))
    if wrong:
        return ", ".join(f"{number} {status}" for status, number in sorted(wrong.items()))
    return OK if OK in statuses else "".join(statuses[:1])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
