"""Versions X.Y.Z, pre-releases of them, and comma-separated ranges: all that upstream needs."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import UnsupportedVersion

# Longest first, so that ">=" is not read as ">".
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}

# In the order in which they come before the release itself.
_STAGES = (".dev", "a", "b", "rc")
_FINAL = (len(_STAGES), 0)
_FORM = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:(\.dev|a|b|rc)(\d+))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Version:
    """A release number of three parts. `stage` orders pre-releases before their release."""

    major: int
    minor: int
    patch: int
    stage: tuple[int, int] = _FINAL

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read `1.8.9`, `1.9` (meaning 1.9.0) or a pre-release such as `1.9.0rc1`.

        Raises UnsupportedVersion for anything else.
        """
        form = _FORM.fullmatch(text.strip())
        if form is None:
            raise UnsupportedVersion(
                f"version {text!r} is not of the form X.Y.Z (or X.Y.ZrcN and the like)"
            )
        major, minor, patch, stage, number = form.groups()
        order = _FINAL if stage is None else (_STAGES.index(stage), int(number))
        return cls(int(major), int(minor), int(patch or 0), order)

    @property
    def is_pre(self) -> bool:
        """Whether it is a pre-release."""
        return self.stage != _FINAL

    def __str__(self) -> str:
        stage, number = self.stage
        suffix = f"{_STAGES[stage]}{number}" if self.is_pre else ""
        return f"{self.major}.{self.minor}.{self.patch}{suffix}"


@dataclass(frozen=True)
class VersionRange:
    """A conjunction such as `>=1.8.0,<1.9`."""

    text: str
    clauses: tuple[tuple[str, Version], ...]

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read a range. Raises UnsupportedVersion for an unknown comparison or version."""
        clauses = []
        for clause in text.split(","):
            clause = clause.strip()
            symbol = next((s for s in _COMPARISONS if clause.startswith(s)), None)
            if symbol is None:
                raise UnsupportedVersion(
                    f"version range {text!r}: {clause!r} must start with one of "
                    + ", ".join(_COMPARISONS)
                )
            clauses.append((symbol, Version.parse(clause[len(symbol) :])))
        return cls(text, tuple(clauses))

    def __contains__(self, version: Version) -> bool:
        return all(_COMPARISONS[symbol](version, bound) for symbol, bound in self.clauses)

    def __str__(self) -> str:
        return self.text
