"""That a part is handed what it needs: no module reads what another keeps to itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from fnmatch import fnmatch
from pathlib import Path

import pytest
from livekit.plugins import resilient

from vendoring.layout import Layout
from vendoring.overrides import load_all_overrides
from vendoring.relies import load_all_relied

PACKAGE = Path(resilient.__file__).parent

# What does so still, and why that is; an entry that nothing needs any more fails.
STILL = {
    "core/hedging.py": "its two classes keep one allowance between them",
    "fallback.py": "upstream's names that are ours elsewhere",
    "hooks.py": "what patched lines of upstream call is private to a session",
    "owed_reply.py": "one debt takes over from another; upstream's names that are ours elsewhere",
}


# The modules that read upstream's private names for the others.
ENGINE = "/engine.py"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined_in(tree: ast.Module) -> Iterator[str]:
    """The private names that a module, its classes and their instances have."""
    statements = list(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            statements += node.body
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            yield node.attr


def is_own(node: ast.Attribute) -> bool:
    """Whether an attribute is looked up on what the code itself belongs to."""
    of = node.value
    if isinstance(of, ast.Call) and isinstance(of.func, ast.Name):
        return of.func.id == "super"
    return isinstance(of, ast.Name) and of.id in ("self", "cls")


def reads(tree: ast.Module, ours: set[str]) -> Iterator[tuple[int, str]]:
    """The line and name of each private name of ours that is read on anything else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ours and not is_own(node):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from ((node.lineno, a.name) for a in node.names if a.name in ours)


def found_in(folder: Path, theirs: Set[str] = frozenset()) -> dict[str, list[tuple[int, str]]]:
    """By module, what it reads of the others. An engine may read `theirs`, which we override."""
    trees = {
        file: ast.parse(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.py"))
        if not (file := path.relative_to(folder).as_posix()).startswith(("_vendor/", "testing/"))
    }
    ours = {name for tree in trees.values() for name in defined_in(tree) if is_private(name)}
    found = {
        file: sorted(reads(tree, ours - theirs if file.endswith(ENGINE) else ours))
        for file, tree in trees.items()
    }
    return {file: found[file] for file in found if found[file]}


def declared() -> set[str]:
    """The private names of upstream that our code relies on, or overrides."""
    patches = Layout.here().patches
    relied = {r.name.rpartition(".")[2] for r in load_all_relied(patches)}
    return relied | {o.method for o in load_all_overrides(patches)}


def test_no_module_reads_what_another_keeps_to_itself() -> None:
    found = found_in(PACKAGE, declared())
    allowed = {file: [entry for entry in STILL if fnmatch(file, entry)] for file in found}
    assert {file: found[file] for file in found if not allowed[file]} == {}
    assert sorted(STILL.keys() - {e for entries in allowed.values() for e in entries}) == [], (
        "needed no more"
    )


@pytest.mark.parametrize("provider", ["google", "openai", "xai"])
def test_no_part_names_the_session(provider: str) -> None:
    naming = {
        path.name
        for path in (PACKAGE / provider).glob("*.py")
        if "RealtimeSession" in path.read_text("utf-8")
    }
    assert naming <= {"__init__.py", "engine.py", "realtime.py"}


HOLDS = """
_level = 1
class Part:
    _kind = "part"
    def __init__(self): self._session = None; self._now: float = 0.0
    def _settle(self): ...
"""


@pytest.mark.parametrize(
    ("reader", "names"),
    [
        ("def f(part): part._settle()", ["_settle"]),
        ("def f(part): return part._session", ["_session"]),
        ("def f(part): part._now = 1.0", ["_now"]),
        ("class A:\n    def f(self): return self._part._kind", ["_kind"]),
        ("from . import part\nprint(part._level)", ["_level"]),
        ("from .part import _level", ["_level"]),
        # nobody else's
        ("class A:\n    def f(self): return self._session", []),
        ("class A:\n    def f(self): return super()._settle()", []),
        ("class A:\n    @classmethod\n    def f(cls): return cls._kind", []),
        ("def f(part): return part.settle, part.__dict__", []),
        # not ours
        ("def f(theirs): return theirs._queue", []),
        ("from theirs import _level", []),
    ],
)
def test_what_counts_as_reading_it(tmp_path: Path, reader: str, names: list[str]) -> None:
    (tmp_path / "part.py").write_text(HOLDS, "utf-8")
    (tmp_path / "reader.py").write_text(reader, "utf-8")
    assert [name for _, name in found_in(tmp_path).get("reader.py", [])] == names


def test_an_engine_may_read_what_is_upstreams_too(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(HOLDS, "utf-8")
    (tmp_path / "openai").mkdir()
    for name in ("engine", "reader"):
        text = "def f(session): session._settle(); session._now"
        (tmp_path / f"openai/{name}.py").write_text(text, "utf-8")
    assert found_in(tmp_path, {"_settle"}) == {
        "openai/engine.py": [(1, "_now")],
        "openai/reader.py": [(1, "_now"), (1, "_settle")],
    }


@pytest.mark.parametrize("folder", ["_vendor", "testing"])
def test_what_is_generated_or_a_test_bed_may(tmp_path: Path, folder: str) -> None:
    (tmp_path / "part.py").write_text(HOLDS, "utf-8")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "reader.py").write_text("def f(part): part._settle()", "utf-8")
    assert found_in(tmp_path) == {}
