"""Hashes of bytes and files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(files: Iterable[tuple[str, Path]]) -> str:
    """One hash over (name, content) pairs, in the order given."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name}\0{sha256(path.read_bytes())}\n".encode())
    return total.hexdigest()
