"""Reading TOML on every supported Python, and writing the few strings we write."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from .errors import InvalidConfig, VendoringError


def read_toml(path: Path, error: type[VendoringError] = InvalidConfig) -> dict[str, Any]:
    """Parse a file. Raises `error`, naming the file and the place of the fault."""
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        parser = importlib.import_module(name)
    except ModuleNotFoundError as e:
        raise VendoringError("Python 3.10 needs the package tomli to read TOML files") from e
    try:
        table: dict[str, Any] = parser.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, parser.TOMLDecodeError) as e:
        raise error(f"{path.parent.name}/{path.name} cannot be read as TOML: {e}") from e
    return table


def quote(text: str) -> str:
    """A TOML basic string: the escapes of JSON are a subset of TOML's."""
    return json.dumps(text, ensure_ascii=False)
