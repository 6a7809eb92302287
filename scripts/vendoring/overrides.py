"""Declared overrides: upstream methods that our subclasses replace, checked like patches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidPatch, Refused
from .patchfile import OVERRIDES_FILE, check_keys, date_field, text_field
from .source import Source, fingerprint
from .toml import read_toml

_FIELDS: dict[str, tuple[str, Callable[[object, str], Any]]] = {
    "target": ("target", text_field),
    "class": ("class_name", text_field),
    "method": ("method", text_field),
    "signature": ("signature", text_field),
    "why": ("why", text_field),
    "last-update": ("last_update", date_field),
}


@dataclass(frozen=True)
class Override:
    """One method of a vendored class that a class of ours overrides."""

    folder: str
    target: str
    class_name: str
    method: str
    signature: str
    why: str
    last_update: str

    @property
    def id(self) -> str:
        return f"{self.folder}/{self.scope}"

    @property
    def scope(self) -> str:
        """Dotted name in the target file."""
        return f"{self.class_name}.{self.method}"


def load_overrides(folder: Path) -> list[Override]:
    """The overrides declared in one folder of patches. Raises InvalidPatch."""
    path = folder / OVERRIDES_FILE
    if not path.exists():
        return []
    table = read_toml(path, InvalidPatch)
    name = f"{folder.name}/{OVERRIDES_FILE}"
    check_keys(table, set(), ("override",), name)
    entries = table.get("override", [])
    if not isinstance(entries, list):
        raise InvalidPatch(f"{name}: override must be a list of tables")
    overrides = []
    for i, entry in enumerate(entries, 1):
        where = f"{name}: override {i}"
        check_keys(entry, set(_FIELDS), tuple(_FIELDS), where)
        values = {
            attribute: read(entry[key], f"{where}: {key}")
            for key, (attribute, read) in _FIELDS.items()
        }
        overrides.append(Override(folder=folder.name, **values))
    ids = [o.id for o in overrides]
    for override in overrides:
        if ids.count(override.id) > 1:
            raise InvalidPatch(f"{name}: {override.scope} is declared twice")
        if not override.target.startswith(folder.name + "-"):
            raise InvalidPatch(
                f"{name}: target {override.target!r} must start with {folder.name + '-'!r}"
            )
    return overrides


def load_all_overrides(patches: Path) -> list[Override]:
    """The overrides of all folders. Raises InvalidPatch."""
    folders = sorted(p for p in patches.iterdir() if p.is_dir())
    return [override for folder in folders for override in load_overrides(folder)]


def signature_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The parameters as a declaration writes them: `(self, frame, *, wait=...)`."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    required = len(positional) - len(a.defaults)
    parts = [arg.arg + ("=..." if i >= required else "") for i, arg in enumerate(positional)]
    if a.posonlyargs:
        parts.insert(len(a.posonlyargs), "/")
    if a.vararg is not None:
        parts.append(f"*{a.vararg.arg}")
    elif a.kwonlyargs:
        parts.append("*")
    for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        parts.append(arg.arg + ("" if default is None else "=..."))
    if a.kwarg is not None:
        parts.append(f"**{a.kwarg.arg}")
    return f"({', '.join(parts)})"


def check_override(source: Source, override: Override) -> str:
    """The fingerprint of the overridden method.

    Raises NotFound or Ambiguous when upstream has not exactly one such method, Refused when its
    parameters are not those declared.
    """
    anchor = f"override of {override.scope}"
    node = source.scope(override.scope)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise Refused("it is a class, not a method", anchor=anchor)
    found = signature_of(node)
    if found != override.signature:
        raise Refused(
            f"upstream's parameters are {found}, declared are {override.signature}", anchor=anchor
        )
    return fingerprint(node)
