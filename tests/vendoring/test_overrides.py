from __future__ import annotations

import ast
from pathlib import Path

import pytest

from vendoring.errors import Ambiguous, InvalidPatch, NotFound, Refused
from vendoring.overrides import Override, check_override, load_overrides, signature_of
from vendoring.source import Source

ENTRY = """
[[override]]
target = "google-realtime"
class = "Session"
method = "tell"
signature = "(self, error, again)"
why = "Made up."
last-update = 2026-11-29
"""


@pytest.mark.parametrize(
    ("parameters", "signature"),
    [
        ("self", "(self)"),
        ("self, a, b=1", "(self, a, b=...)"),
        ("self, /, a=None, *, b, c=1", "(self, /, a=..., *, b, c=...)"),
        ("self, a: int, *args: int, b: str = 'x', **rest: int", "(self, a, *args, b=..., **rest)"),
        ("", "()"),
    ],
)
def test_signatures_are_names_and_defaults(parameters: str, signature: str) -> None:
    function = ast.parse(f"async def f({parameters}): ...").body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert signature_of(function) == signature


def declared(tmp_path: Path, text: str) -> list[Override]:
    folder = tmp_path / "google"
    folder.mkdir()
    (folder / "overrides.toml").write_text(text)
    return load_overrides(folder)


def test_a_declared_method_is_found(tmp_path: Path, source: bytes) -> None:
    (override,) = declared(tmp_path, ENTRY)
    assert override.id == "google/Session.tell"
    before = check_override(Source(source, "a"), override)
    changed = source.replace(b'"told"', b'"said"')
    assert check_override(Source(changed, "a"), override) != before


@pytest.mark.parametrize(
    ("old", "new", "error", "says"),
    [
        (b"def tell(", b"def say(", NotFound, "override|scope Session.tell: 0 matches"),
        (b", again: bool)", b", again: bool, how: int = 1)", Refused, "again, how=..."),
        (
            b"    async def _dial",
            b"    tell = 1\n    class tell: ...\n    async def _dial",
            Ambiguous,
            "2",
        ),
    ],
)
def test_a_changed_upstream_method_is_noticed(
    tmp_path: Path, source: bytes, old: bytes, new: bytes, error: type[Exception], says: str
) -> None:
    (override,) = declared(tmp_path, ENTRY)
    assert old in source
    with pytest.raises(error, match=says):
        check_override(Source(source.replace(old, new), "a"), override)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ENTRY.replace("why", "because"), "override 1: unknown field 'because' .allowed: target,"),
        (ENTRY.replace('method = "tell"\n', ""), "override 1: field 'method' is missing"),
        (ENTRY + ENTRY, "Session.tell is declared twice"),
        (ENTRY.replace("google-realtime", "openai-realtime"), "must start with 'google-'"),
        ("[override]\n", "override must be a list of tables"),
        ("x = 1\n", "unknown field 'x' .allowed: override"),
    ],
)
def test_a_malformed_declaration_says_what_is_allowed(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidPatch, match=f"google/overrides.toml.*{says}"):
        declared(tmp_path, text)
