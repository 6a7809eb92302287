"""Patch files: reading, validating, and the order in which a folder's patches apply."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from .edits import Edit, parse_edit
from .errors import InvalidPatch, UnsupportedVersion
from .hashing import sha256
from .toml import read_toml
from .versions import VersionRange

Reason = Literal["temporary", "not-upstreamable", "permanent"]
DEFAULT_DROP_WHEN = "the probe passes on bare upstream"
OVERRIDES_FILE = "overrides.toml"
RELIES_FILE = "relies-on.toml"
# What lies beside the patches and is none.
DECLARATIONS = frozenset({OVERRIDES_FILE, RELIES_FILE})


@dataclass(frozen=True)
class Patch:
    """One validated patch file."""

    id: str
    target: str
    description: str
    reason: str
    why_not_subclass: str
    forwarded: str
    applies_to: VersionRange
    last_update: str
    probe: str
    edits: tuple[Edit, ...]
    sha256: str
    bug: tuple[str, ...] = ()
    applied_upstream: str = ""
    drop_when: str = DEFAULT_DROP_WHEN
    requires: tuple[str, ...] = ()


# -- field readers


def text_field(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidPatch(f"{where} must be a non-empty string")
    return value.strip()


def _reason(value: object, where: str) -> str:
    if value not in get_args(Reason):
        allowed = ", ".join(get_args(Reason))
        raise InvalidPatch(f"{where}: {value!r} is unknown (allowed: {allowed})")
    return str(value)


def _forwarded(value: object, where: str) -> str:
    text = text_field(value, where)
    if text not in ("no", "not-needed") and not text.startswith("https://"):
        raise InvalidPatch(f"{where}: {text!r} (allowed: no, not-needed, or an https:// link)")
    return text


def date_field(value: object, where: str) -> str:
    text = value.isoformat() if isinstance(value, datetime.date) else value
    try:
        return datetime.date.fromisoformat(text_field(text, where)).isoformat()
    except ValueError as e:
        raise InvalidPatch(f"{where}: {text!r} is not a date of the form YYYY-MM-DD") from e


def _range(value: object, where: str) -> VersionRange:
    try:
        return VersionRange.parse(text_field(value, where))
    except UnsupportedVersion as e:
        raise InvalidPatch(f"{where}: {e}") from e


def texts_field(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidPatch(f"{where} must be a list of strings")
    return tuple(text_field(item, where) for item in value)


def _edits(value: object, where: str) -> tuple[Edit, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidPatch(f"{where}: at least one [[edit]] table is needed")
    return tuple(parse_edit(item, f"{where} {i}") for i, item in enumerate(value, 1))


@dataclass(frozen=True)
class _Field:
    attribute: str
    read: Callable[[object, str], Any]
    required: bool = True


_FIELDS: dict[str, _Field] = {
    "id": _Field("id", text_field),
    "target": _Field("target", text_field),
    "description": _Field("description", text_field),
    "reason": _Field("reason", _reason),
    "why-not-subclass": _Field("why_not_subclass", text_field),
    "bug": _Field("bug", texts_field, required=False),
    "forwarded": _Field("forwarded", _forwarded),
    "applied-upstream": _Field("applied_upstream", text_field, required=False),
    "applies-to": _Field("applies_to", _range),
    "last-update": _Field("last_update", date_field),
    "probe": _Field("probe", text_field),
    "drop-when": _Field("drop_when", text_field, required=False),
    "requires": _Field("requires", texts_field, required=False),
    "edit": _Field("edits", _edits),
}
PATCH_FIELDS = tuple(_FIELDS)


def check_keys(
    table: Mapping[str, object], required: set[str], allowed: tuple[str, ...], where: str
) -> None:
    """Refuse unknown and missing keys, naming what is allowed."""
    for key in table:
        if key not in allowed:
            raise InvalidPatch(f"{where}: unknown field {key!r} (allowed: {', '.join(allowed)})")
    for key in allowed:
        if key in required and key not in table:
            raise InvalidPatch(f"{where}: field {key!r} is missing")


def probe_path(patch_id: str) -> str:
    """Where the probe of a patch stands: same stem, under tests/probes/."""
    folder, _, stem = patch_id.partition("/")
    return f"tests/probes/{folder}/test_{stem.replace('-', '_')}.py"


def parse_patch(table: Mapping[str, object], patch_id: str, digest: str) -> Patch:
    """Validate one patch. `patch_id` is what its place in the tree says it is."""
    required = {key for key, field in _FIELDS.items() if field.required}
    check_keys(table, required, PATCH_FIELDS, patch_id)
    values = {
        field.attribute: field.read(table[key], f"{patch_id}: {key}")
        for key, field in _FIELDS.items()
        if key in table
    }
    patch = Patch(sha256=digest, **values)
    folder = patch_id.partition("/")[0]
    if patch.id != patch_id:
        raise InvalidPatch(f"{patch_id}: id must be {patch_id!r}, as the file is named")
    if not patch.target.startswith(folder + "-"):
        raise InvalidPatch(f"{patch_id}: target {patch.target!r} must start with {folder + '-'!r}")
    if patch.probe != probe_path(patch_id):
        raise InvalidPatch(f"{patch_id}: probe must be {probe_path(patch_id)!r}")
    return patch


def load_patch(path: Path) -> Patch:
    """Read and validate one patch file. Raises InvalidPatch."""
    patch_id = f"{path.parent.name}/{path.stem}"
    return parse_patch(read_toml(path, InvalidPatch), patch_id, sha256(path.read_bytes()))


def load_series(folder: Path) -> list[Patch]:
    """The patches of one folder in the order of its `series` file.

    Every patch file must be listed, every listed file must exist, and a patch must come after
    those it requires. Raises InvalidPatch.
    """
    series = folder / "series"
    files = {p.name for p in folder.glob("*.toml")} - DECLARATIONS
    if not series.exists():
        if files:
            raise InvalidPatch(f"{folder.name}: has patches but no series file")
        return []
    lines = [line.split("#")[0].strip() for line in series.read_text("utf-8").splitlines()]
    names = [line for line in lines if line]
    for name in names:
        if name not in files:
            raise InvalidPatch(f"{folder.name}/series: {name!r} does not exist")
        if names.count(name) > 1:
            raise InvalidPatch(f"{folder.name}/series: {name!r} is listed twice")
    if unlisted := sorted(files - set(names)):
        raise InvalidPatch(f"{folder.name}/series: {', '.join(unlisted)} is not listed")
    return [load_patch(folder / name) for name in names]


def load_all(patches: Path) -> list[Patch]:
    """All patches of all folders, in order. Raises InvalidPatch."""
    loaded: list[Patch] = []
    for folder in sorted(p for p in patches.iterdir() if p.is_dir()):
        loaded += load_series(folder)
    for i, patch in enumerate(loaded):
        earlier = {p.id for p in loaded[:i]}
        for needed in patch.requires:
            if needed not in earlier:
                raise InvalidPatch(f"{patch.id}: requires {needed!r}, which must come before it")
    return loaded
