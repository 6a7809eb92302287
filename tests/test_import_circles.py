"""No module leads back to itself by what it imports, not even for the type checker's sake alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from livekit.plugins import resilient

PACKAGE = Path(resilient.__file__).parent

# Generated; and the test bed, whose servers and connections know each other.
APART = ("_vendor/", "testing/")


def imports(path: Path, folder: Path) -> set[str]:
    """The modules of a package that one of them imports."""
    found: set[Path | None] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            # A name is a module of that package, or else something in it.
            names = {alias.name for alias in node.names}
            found |= {module_at(base / name) or module_at(base) for name in names}
    return {file.relative_to(folder).as_posix() for file in found if file is not None}


def module_at(place: Path) -> Path | None:
    """The module that is imported by that path, if there is one."""
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return file
    return None


def circles_in(folder: Path) -> set[str]:
    """The modules of a package from which imports lead back to them."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    leads = {name: imports(path, folder) - {name} for name, path in paths.items()}
    circles = set()
    for name in leads:
        reached: set[str] = set()
        ahead = set(leads[name])
        while ahead:
            following = ahead.pop()
            reached.add(following)
            ahead |= leads[following] - reached
        if name in reached:
            circles.add(name)
    return circles


def test_no_module_leads_back_to_itself() -> None:
    circles = {name for name in circles_in(PACKAGE) if not name.startswith(APART)}
    assert sorted(circles) == []


@pytest.mark.parametrize(
    ("first", "second", "circles"),
    [
        ("from .b import x", "from .c import y", set()),
        ("from .b import x", "from .a import y", {"a.py", "b.py"}),
        ("from .b import x", "from . import a", {"a.py", "b.py"}),
        ("from .b import x", "from .sub import d", {"a.py", "b.py", "sub/d.py"}),
        ("from .b import x", "from .sub.e import z", set()),
        ("from .b import x", "if TYPE_CHECKING:\n    from .a import y", {"a.py", "b.py"}),
    ],
)
def test_what_counts_as_a_circle(
    tmp_path: Path, first: str, second: str, circles: set[str]
) -> None:
    (tmp_path / "sub").mkdir()
    files = {
        "__init__.py": "",
        "a.py": first,
        "b.py": second,
        "c.py": "",
        "sub/__init__.py": "",
        "sub/d.py": "from ..a import x",
        "sub/e.py": "from . import f",
        "sub/f.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert circles_in(tmp_path) == circles
