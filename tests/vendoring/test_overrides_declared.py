"""Every method of ours that overrides a vendored one is declared, and every declaration is used.

Works on syntax trees only: neither our modules nor upstream's are imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vendoring import ensure
from vendoring.layout import PACKAGE, VENDOR_PACKAGE, Layout
from vendoring.overrides import load_all_overrides
from vendoring.targets import load_targets

FOLDERS = ("google", "openai", "inference", "xai")


@dataclass
class ClassInfo:
    """A class as its source shows it: its bases by dotted name, its members by name."""

    name: str
    bases: list[str] = field(default_factory=list)
    members: set[str] = field(default_factory=set)


def module_classes(module: str, text: str, *, is_package: bool = False) -> Iterator[ClassInfo]:
    """The top-level classes of a module, with bases resolved through its imports."""
    tree = ast.parse(text)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = module.split(".") + ([""] if is_package else [])
            base = parts[: -node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names.update({a.asname or a.name: f"{origin}.{a.name}" for a in node.names})
        elif isinstance(node, ast.Import):
            names.update({a.asname: a.name for a in node.names if a.asname})
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = f"{module}.{node.name}"
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            info = ClassInfo(f"{module}.{node.name}")
            for base_node in node.bases:
                plain = base_node.value if isinstance(base_node, ast.Subscript) else base_node
                head, _, rest = ast.unparse(plain).partition(".")
                dotted = names.get(head, head)
                info.bases.append(f"{dotted}.{rest}" if rest else dotted)
            info.members = set(members(node))
            yield info


def members(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            yield from (t.id for t in statement.targets if isinstance(t, ast.Name))


def lineage(name: str, classes: dict[str, ClassInfo]) -> list[ClassInfo]:
    """The class and its known ancestors, nearest first."""
    if name not in classes:
        return []
    found = [classes[name]]
    for base in classes[name].bases:
        found += [c for c in lineage(base, classes) if c not in found]
    return found


def overriding(
    ours: dict[str, ClassInfo], vendored: dict[str, ClassInfo]
) -> set[tuple[str, str, str]]:
    """(vendored module, class, method) for each vendored method that a class of ours replaces."""
    found = set()
    for name in ours:
        ancestors = lineage(name, {**ours, **vendored})
        upstream = [c for c in ancestors if c.name in vendored]
        for info in (c for c in ancestors if c.name in ours):
            for method in info.members:
                origin = next((c for c in upstream if method in c.members), None)
                if origin is not None:
                    module, _, class_name = origin.name.rpartition(".")
                    found.add((module, class_name, method))
    return found


def classes_below(folder: Path, package: str) -> dict[str, ClassInfo]:
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join([package, *(parts[:-1] if is_package else parts)])
        for info in module_classes(module, path.read_text("utf-8"), is_package=is_package):
            found[info.name] = info
    return found


def test_declarations_and_overrides_agree() -> None:
    layout = Layout.here()
    vendored = classes_below(ensure(layout), VENDOR_PACKAGE)
    ours: dict[str, ClassInfo] = {}
    for folder in FOLDERS:
        ours.update(classes_below(layout.package / folder, f"{PACKAGE}.{folder}"))
    targets = load_targets(layout.targets)
    declared = {
        (targets.get(o.target).module, o.class_name, o.method)
        for o in load_all_overrides(layout.patches)
    }
    used = overriding(ours, vendored)
    assert sorted(used - declared) == [], "not declared in patches/*/overrides.toml"
    assert sorted(declared - used) == [], "declared, but no class of ours overrides it"


# -- the walk itself, on made-up classes

VENDORED = """
class Base:
    def __init__(self): ...
    def close(self): ...
class Session(Base):
    def push(self): ...
    kind = "x"
"""


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (
            "from ._v import up\nclass A(up.Session):\n    def push(self): ...",
            {("Session", "push")},
        ),
        (
            "from ._v.up import Session as S\nclass A(S):\n    def close(self): ...",
            {("Base", "close")},
        ),
        (
            "from ._v.up import Session\nclass A(Session):\n    def __init__(self): ...",
            {("Base", "__init__")},
        ),
        ("from ._v.up import Session\nclass A(Session):\n    kind = 'y'", {("Session", "kind")}),
        ("from ._v.up import Session\nclass A(Session):\n    def ours(self): ...", set()),
        (
            "from ._v.up import Session\nclass Mix:\n    def push(self): ...\n"
            "class A(Mix, Session): ...",
            {("Session", "push")},
        ),
        (
            "from ._v.up import Session\nclass A(Session): ...\nclass B(A):\n    push = 1",
            {("Session", "push")},
        ),
        (
            "from ._v.up import Session\nclass A(Session[int]):\n    def push(self): ...",
            {("Session", "push")},
        ),
        ("class Session:\n    def push(self): ...", set()),
    ],
)
def test_overrides_are_seen_however_the_base_is_named(
    ours: str, expected: set[tuple[str, str]]
) -> None:
    vendored = {c.name: c for c in module_classes("pkg._v.up", VENDORED)}
    mine = {c.name: c for c in module_classes("pkg.mine", ours)}
    assert overriding(mine, vendored) == {("pkg._v.up", *pair) for pair in expected}
