"""The form of patch files: what is refused, and that the message says what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vendoring.edits import OPERATIONS
from vendoring.errors import InvalidPatch
from vendoring.patchfile import PATCH_FIELDS, Patch, load_all, load_patch, load_series

PatchMaker = Callable[..., Patch]

EDIT = {"op": "insert-first", "in": "f", "code": "pass"}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("id", "google/other", "id must be 'google/sample'"),
        ("target", "openai-realtime", "target 'openai-realtime' must start with 'google-'"),
        ("description", "  ", "description must be a non-empty string"),
        ("reason", "because", r"reason: 'because' is unknown \(allowed: temporary, "),
        ("why-not-subclass", 1, "why-not-subclass must be a non-empty string"),
        ("bug", "https://x", "bug must be a list of strings"),
        ("forwarded", "yes", r"forwarded: 'yes' \(allowed: no, not-needed, or an https:// link"),
        ("applies-to", "~=1.8", "applies-to: version range"),
        ("last-update", "29.11.2026", "last-update: .* YYYY-MM-DD"),
        ("probe", "tests/probes/google/test_other.py", "probe must be .*test_sample.py"),
        ("requires", [1], "requires must be a non-empty string"),
        ("edit", [], r"edit: at least one \[\[edit\]\] table"),
        ("author", "me", r"unknown field 'author' \(allowed: " + ", ".join(PATCH_FIELDS)),
    ],
)
def test_a_wrong_field_is_named(
    make_patch: PatchMaker, field: str, value: object, says: str
) -> None:
    with pytest.raises(InvalidPatch, match=f"google/sample: {says}"):
        make_patch(EDIT, **{field: value})


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "google" / "sample.toml"
    path.parent.mkdir()
    path.write_text('id = "google/sample"\n')
    with pytest.raises(InvalidPatch, match="google/sample: field 'target' is missing"):
        load_patch(path)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"op": "sed", "in": "f"}, "op 'sed' is unknown .allowed: " + ", ".join(OPERATIONS)),
        ({"in": "f"}, "op None is unknown"),
        ({**EDIT, "name": "x"}, "insert-first does not take 'name' .allowed: op, in, code, at"),
        ({"op": "insert-after", "in": "f"}, "insert-after needs 'at'"),
        ({"op": "insert-first", "in": "f", "code": " "}, "code must be a non-empty string"),
        ({**EDIT, "code": "a\nb\nc\nd"}, "code has 4 lines, at most 3"),
        ({**EDIT, "code": "if x:"}, "code is not Python"),
        (
            {"op": "replace-expr", "in": "f", "at": {"kind": "If"}, "code": "x = 1"},
            "code is not one Python expression",
        ),
        (
            {"op": "add-parameter", "in": "f", "code": "x: int"},
            "code of add-parameter must be 'name: type = default'",
        ),
        (
            {"op": "set-kwarg", "in": "f", "at": {"kind": "Call"}, "name": "a b", "value": "1"},
            "name must be a Python name",
        ),
        (
            {"op": "set-kwarg", "in": "f", "at": {"kind": "Call"}, "name": "a", "value": "1 2"},
            "value is not one Python expression",
        ),
    ],
)
def test_a_wrong_edit_is_named(make_patch: PatchMaker, edit: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPatch, match=f"google/sample: edit 2: {says}"):
        make_patch(EDIT, edit)


# -- the series


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("series", "files", "says"),
    [
        ("a.toml\n", [], "google/series: 'a.toml' does not exist"),
        ("", ["a.toml"], "google/series: a.toml is not listed"),
        ("a.toml\na.toml # again\n", ["a.toml"], "google/series: 'a.toml' is listed twice"),
        (None, ["a.toml"], "google: has patches but no series file"),
        ("a.toml\n", ["a.toml"], "google/a: field 'id' is missing"),
    ],
)
def test_series_and_files_must_agree(
    tmp_path: Path, series: str | None, files: list[str], says: str
) -> None:
    folder = tmp_path / "google"
    folder.mkdir()
    for name in files:
        write(folder, name, "")
    if series is not None:
        write(folder, "series", series)
    with pytest.raises(InvalidPatch, match=says):
        load_series(folder)


def test_a_folder_without_patches_is_fine(tmp_path: Path) -> None:
    write(tmp_path / "inference", "overrides.toml", "")
    assert load_series(tmp_path / "inference") == []


def test_broken_toml_says_which_file(tmp_path: Path) -> None:
    write(tmp_path / "google", "series", "a.toml")
    write(tmp_path / "google", "a.toml", "id = \n")
    with pytest.raises(InvalidPatch, match=r"google/a.toml cannot be read as TOML.*line 1"):
        load_all(tmp_path)
