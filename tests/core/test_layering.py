"""The core stays sans-I/O, and its numbers stay in one file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

CORE = (
    Path(__file__).parents[2] / "livekit-plugins-resilient/livekit/plugins/resilient/core"
).resolve()
MODULES = sorted(CORE.glob("*.py"))
DECIDING = tuple(
    f"{name}.py"
    for name in (
        "claims",
        "decisions",
        "facts",
        "generation",
        "interruption",
        "liveness",
        "poison",
        "redrives",
        "replies",
        "rules",
        "speaker",
        "state",
        "turn",
        "turn_state",
        "watchdogs",
    )
)
LONGEST = 400
"""Lines that a module of the core may have without a reason."""
# Longer ones, and why; one that is so no more fails.
LONG = {
    "facts.py": "the vocabulary of one machine, without logic, to be read in one go",
    "limits.py": "one table: each limit with its unit, reason, source and date",
}
ALLOWED = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "itertools",
    "math",
    "re",
    "typing",
    "typing_extensions",
    "livekit.plugins.resilient.errors",
}
DOCUMENTED = re.compile(
    r"(?s)^(Seconds|Longest seconds|Tokens|.*\(count\)).*Source: .+ Date: 20\d\d-\d\d\.$"
)


def imports(tree: ast.Module) -> set[str]:
    """Names of the modules imported from outside the core."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level != 1:
            assert node.level == 0, "an import from above the core must be absolute"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_core_imports_no_io_no_clock_and_no_provider(path: Path) -> None:
    found = imports(ast.parse(path.read_text()))
    foreign = {n for n in found if n not in ALLOWED and n.split(".")[0] not in ALLOWED}
    assert not foreign


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "import time",
        "from random import random",
        "from livekit.plugins import google",
        "import livekit.agents",
    ],
)
def test_the_import_rule_can_fail(source: str) -> None:
    found = imports(ast.parse(source))
    assert {n for n in found if n not in ALLOWED and n.split(".")[0] not in ALLOWED}


def test_no_module_is_long_without_a_reason() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in MODULES}
    assert {name for name, count in lines.items() if count > LONGEST} == set(LONG)


def constants() -> list[tuple[str, str]]:
    """Upper-case constants of limits.py, each with the docstring after it ("" for none)."""
    body = ast.parse((CORE / "limits.py").read_text()).body
    found = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper():
                doc = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    doc = str(after.value.value)
                found.append((name, doc))
    return found


def test_there_are_limits() -> None:
    assert len(constants()) > 10


@pytest.mark.parametrize(("name", "doc"), constants(), ids=lambda value: value[:24])
def test_each_limit_states_unit_source_and_date(name: str, doc: str) -> None:
    assert DOCUMENTED.match(" ".join(doc.split())), f"{name} lacks unit, source or date"
    # The unit stands in the name, or the doc says that it is a plain count.
    assert name.endswith(("_S", "_TOKENS")) or "(count)" in doc


@pytest.mark.parametrize("name", DECIDING)
def test_no_module_that_decides_has_a_number_of_its_own(name: str) -> None:
    tree = ast.parse((CORE / name).read_text())
    numbers = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }
    assert numbers <= {0, 1}
