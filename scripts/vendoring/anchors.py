"""anchors.lock: what each edited scope, overridden method and private name was when reviewed.

An edit can still apply although the code around it has changed its meaning. So the fingerprint of
every scope is kept here; a scope with an unknown fingerprint is drift until a person has looked.
Several reviewed states of one scope may stand side by side, one an upstream version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from .errors import InvalidConfig
from .toml import quote, read_toml

_HEADER = "# Written by `python scripts/vendoring ack ID --note TEXT`; do not edit by hand.\n"


@dataclass(frozen=True, order=True)
class Anchor:
    """One reviewed state of one scope of one patch, override or private name."""

    id: str
    scope: str
    version: str
    fingerprint: str
    date: str
    note: str


_NAMES = tuple(f.name for f in fields(Anchor))


def read_anchors(path: Path) -> list[Anchor]:
    """All entries; none when there is no file. Raises InvalidConfig."""
    if not path.exists():
        return []
    table = read_toml(path)
    entries = table.pop("anchor", [])
    if table or not isinstance(entries, list):
        raise InvalidConfig(f"{path.name}: only [[anchor]] tables are allowed")
    anchors = []
    for i, entry in enumerate(entries, 1):
        if set(entry) != set(_NAMES) or not all(isinstance(v, str) for v in entry.values()):
            raise InvalidConfig(
                f"{path.name}: anchor {i} must have exactly the strings {', '.join(_NAMES)}"
            )
        anchors.append(Anchor(**entry))
    return anchors


def write_anchors(path: Path, anchors: Sequence[Anchor]) -> None:
    """Replace the file; entries are sorted, so that changes read well."""
    blocks = [_HEADER]
    for anchor in sorted(anchors):
        lines = [f"{name} = {quote(getattr(anchor, name))}\n" for name in _NAMES]
        blocks.append("[[anchor]]\n" + "".join(lines))
    path.write_text("\n".join(blocks), encoding="utf-8")


def is_reviewed(anchors: Sequence[Anchor], id_: str, scope: str, fingerprint: str) -> bool:
    """Whether somebody has looked at this state of this scope."""
    return any(a.id == id_ and a.scope == scope and a.fingerprint == fingerprint for a in anchors)


def record(anchors: Sequence[Anchor], new: Sequence[Anchor]) -> list[Anchor]:
    """The entries with `new` put in; an entry for the same scope and version is replaced."""
    replaced = {(a.id, a.scope, a.version) for a in new}
    kept = [a for a in anchors if (a.id, a.scope, a.version) not in replaced]
    return sorted([*kept, *new])


def orphans(anchors: Sequence[Anchor], known: set[tuple[str, str]]) -> list[Anchor]:
    """Entries whose patch or declaration, or whose scope in it, is gone."""
    return [a for a in anchors if (a.id, a.scope) not in known]
