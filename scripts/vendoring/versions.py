"""Plain X.Y.Z versions and comma-separated ranges of them: all that upstream's releases need."""

from __future__ import annotations

import operator
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


@dataclass(frozen=True, order=True)
class Version:
    """A release number of three parts."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read `1.8.9` (or `1.9`, meaning 1.9.0). Raises UnsupportedVersion for anything else."""
        parts = text.strip().split(".")
        if len(parts) not in (2, 3) or not all(p.isascii() and p.isdigit() for p in parts):
            raise UnsupportedVersion(
                f"version {text!r} is not of the form X.Y.Z (digits and dots only)"
            )
        major, minor, patch = [int(p) for p in parts] + [0] * (3 - len(parts))
        return cls(major, minor, patch)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


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
