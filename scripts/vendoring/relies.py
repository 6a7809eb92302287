"""Private names of others that our code uses: declared, and compared with what was reviewed.

A private name may vanish or change its meaning in any release. So each one that our package reads,
calls, assigns or overrides is declared in `relies-on.toml`: what upstream vendored, in the folder
of its patches; what is only installed beside it, in `patches/` itself.
"""

from __future__ import annotations

import ast
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InvalidPatch, NotFound, NotInstalled
from .patchfile import RELIES_FILE, check_keys, date_field, text_field, texts_field
from .source import DEFINITIONS, MODULE_SCOPE, Function, Source, walk
from .toml import read_toml

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_FIELDS: dict[str, tuple[str, Callable[[object, str], Any]]] = {
    "target": ("target", text_field),
    "dist": ("dist", text_field),
    "module": ("module", text_field),
    "name": ("name", text_field),
    "read-by": ("read_by", texts_field),
    "why": ("why", text_field),
    "bug": ("bug", texts_field),
    "drop-when": ("drop_when", text_field),
    "last-update": ("last_update", date_field),
}
_REQUIRED = {"name", "read-by", "why", "last-update"}


@dataclass(frozen=True)
class Relied:
    """One private name of others, and the modules of ours that use it.

    What is vendored has a `target`; what is not has the distribution and module it is defined in.
    """

    folder: str
    name: str
    read_by: tuple[str, ...]
    why: str
    last_update: str
    target: str = ""
    dist: str = ""
    module: str = ""
    bug: tuple[str, ...] = ()
    drop_when: str = ""

    @property
    def where(self) -> str:
        """The target or module that defines it."""
        return self.target or self.module

    @property
    def id(self) -> str:
        return f"{self.where}:{self.name}"

    @property
    def scope(self) -> str:
        """Dotted name in the file."""
        return self.name

    @property
    def file(self) -> str:
        """Where it is declared, below the folder of patches."""
        return "/".join(filter(None, (self.folder, RELIES_FILE)))


def load_relied(folder: Path, name: str) -> list[Relied]:
    """The names declared in one folder, `name` being "" for that of all patches.

    Raises InvalidPatch.
    """
    path = folder / RELIES_FILE
    if not path.exists():
        return []
    table = read_toml(path, InvalidPatch)
    file = f"{folder.name}/{RELIES_FILE}"
    check_keys(table, set(), ("relies-on",), file)
    entries = table.get("relies-on", [])
    if not isinstance(entries, list):
        raise InvalidPatch(f"{file}: relies-on must be a list of tables")
    relied = []
    for i, entry in enumerate(entries, 1):
        where = f"{file}: relies-on {i}"
        # What is vendored moves between modules; the target map knows where it lies.
        place = {"target"} if name else {"dist", "module"}
        allowed = tuple(k for k in _FIELDS if k in place or k not in ("target", "dist", "module"))
        check_keys(entry, _REQUIRED | place, allowed, where)
        values = {
            attribute: read(entry[key], f"{where}: {key}")
            for key, (attribute, read) in _FIELDS.items()
            if key in entry
        }
        relied.append(Relied(folder=name, **values))
    ids = [r.id for r in relied]
    for item in relied:
        if ids.count(item.id) > 1:
            raise InvalidPatch(f"{file}: {item.id} is declared twice")
        if name and not item.target.startswith(name + "-"):
            raise InvalidPatch(f"{file}: target {item.target!r} must start with {name + '-'!r}")
    return relied


def load_all_relied(patches: Path) -> list[Relied]:
    """The names declared beside all patches. Raises InvalidPatch."""
    folders = sorted(p for p in patches.iterdir() if p.is_dir())
    vendored = [relied for folder in folders for relied in load_relied(folder, folder.name)]
    return [*vendored, *load_relied(patches, "")]


def installed_source(relied: Relied) -> tuple[Path, str]:
    """The file of a module of an installed distribution, and the distribution's version.

    Raises NotInstalled, or NotFound when the distribution has no such module any more.
    """
    try:
        dist = importlib.metadata.distribution(relied.dist)
    except importlib.metadata.PackageNotFoundError as e:
        raise NotInstalled(
            f"{relied.dist} is not installed, whose {relied.id} our code relies on: run "
            "scripts/verify.sh, which sets up .venv"
        ) from e
    for file in module_files(relied.module):
        path = Path(str(dist.locate_file(file)))
        if path.is_file():
            return path, dist.version
    raise NotFound(f"{relied.dist} {dist.version} has no such module", anchor=relied.module)


def module_files(module: str) -> tuple[str, str]:
    """Where a module may lie below the folder that its distribution is installed in."""
    stem = module.replace(".", "/")
    return f"{stem}.py", f"{stem}/__init__.py"


def relied_nodes(source: Source, name: str) -> list[ast.AST]:
    """What a reviewer has to look at for a private name.

    A function or class counts whole, with its overloads and setters. An attribute is what is
    assigned to it, or to an element of it: so every statement counts that does so, under the name
    of the function that it stands in; in methods of its class, and on other objects anywhere in the
    module (a record is filled in by others). Raises NotFound or Ambiguous.
    """
    owner_name, _, attribute = name.rpartition(".")
    owner = source.scope(owner_name or MODULE_SCOPE)
    parts: list[ast.AST] = []
    for node in walk(owner):
        if isinstance(node, DEFINITIONS):
            if node.name == attribute:
                parts.append(node)
        elif isinstance(node, ast.stmt) and attribute in _names(node):
            parts.append(_header(node))
    if isinstance(owner, ast.ClassDef) and not any(isinstance(p, DEFINITIONS) for p in parts):
        for function in ast.walk(source.tree):
            if isinstance(function, _FUNCTIONS):
                own = source.parent(function) is owner
                me = next((a.arg for a in function.args.args), "")
                found = list(_assigning(function, attribute, me, own=own))
                if found:
                    parts.append(_shell(function.name, found))
    if not parts:
        raise NotFound(f"nothing defines or assigns {attribute!r}", anchor=f"name {name}")
    return parts


def _names(statement: ast.stmt) -> set[str]:
    """The plain names that a statement gives a value or a type."""
    return {t.id for t in _targets(statement) if isinstance(t, ast.Name)}


def _targets(statement: ast.stmt) -> Iterator[ast.AST]:
    targets: Sequence[ast.AST | None] = ()
    if isinstance(statement, (ast.Assign, ast.Delete)):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = (statement.target,)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items]
    for target in targets:
        stack = [target]
        while stack:
            node = stack.pop()
            if isinstance(node, (ast.Tuple, ast.List)):
                stack += node.elts
            elif isinstance(node, ast.Starred):
                stack.append(node.value)
            elif node is not None:
                yield node


def _assigning(function: Function, attribute: str, me: str, *, own: bool) -> Iterator[ast.stmt]:
    """The statements that assign the attribute on `me` (in a method of its class) or on another
    object (anywhere)."""
    for node in walk(function):
        if not isinstance(node, ast.stmt):
            continue
        for target in _targets(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if not isinstance(target, ast.Attribute) or target.attr != attribute:
                continue
            on_me = isinstance(target.value, ast.Name) and target.value.id == me
            if own or not on_me:
                yield _header(node)
                break


def _header(statement: ast.stmt) -> ast.stmt:
    """The statement; of a compound one, without its body."""
    header: ast.stmt
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        header = type(statement)(statement.target, statement.iter, [ast.Pass()], [])
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        header = type(statement)(statement.items, [ast.Pass()])
    else:
        return statement
    return ast.fix_missing_locations(ast.copy_location(header, statement))


def _shell(name: str, body: list[ast.stmt]) -> ast.FunctionDef:
    """A function of this name with nothing but these statements."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    shell = ast.FunctionDef(name=name, args=nothing, body=body, decorator_list=[])
    return ast.fix_missing_locations(ast.copy_location(shell, body[0]))
