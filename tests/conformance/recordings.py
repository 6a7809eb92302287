"""Reads the skeletons of recorded sessions: one JSON line each, as their README describes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read(path: Path) -> dict[str, Sequence[Sequence[Any]]]:
    """The steps of every recording in a file, by its name.

    Raises:
        ValueError: a line is no recording.
    """
    found: dict[str, Sequence[Sequence[Any]]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            entry = json.loads(line)
            found[entry["recording"]] = entry["steps"]
        except (KeyError, TypeError, ValueError) as exc:
            raise ValueError(f"{path.name}, line {number}: no recording: {exc!r}") from exc
    return found
