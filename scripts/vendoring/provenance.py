"""The record inside the generated tree: what it was made from, and a hash of every file.

Stands alone (standard library, no sibling imports): the source distribution ships this file, so
that a build from it can check the tree it brought along without fetching anything.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

RECORD = "PROVENANCE.json"


def write_record(tree: Path, facts: dict[str, Any]) -> None:
    """Write the record over all files in `tree`, together with `facts`."""
    record = {**facts, "files": _hashes(tree)}
    (tree / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", "utf-8")


def read_record(tree: Path) -> dict[str, Any] | None:
    """The record, or None when there is none that can be read."""
    try:
        record = json.loads((tree / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def problem(tree: Path) -> str | None:
    """What is wrong with a tree, in one sentence; None when every file is as it was generated."""
    record = read_record(tree)
    if record is None:
        return f"{tree.name} has no readable {RECORD}"
    recorded, found = record.get("files"), _hashes(tree)
    if not isinstance(recorded, dict):
        return f"{tree.name}/{RECORD} lists no files"
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found:
            return f"{tree.name}/{name} is missing"
        if recorded.get(name) != found[name]:
            return f"{tree.name}/{name} is not as it was generated"
    return None


def _hashes(tree: Path) -> dict[str, str]:
    return {
        path.relative_to(tree).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and path.name != RECORD and "__pycache__" not in path.parts
    }
