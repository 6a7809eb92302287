"""Whose private names our source uses. Nothing is imported: types are followed in syntax trees.

A name belongs to the nearest class outside of our package that defines it, also where a class of
ours inherits, assigns or overrides it. Only names that no such class defines are ours.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.vendoring.type_inference import FUNCTIONS, Class, Env, Module, Value, World

# Where a class gives an attribute a value or a type, or defines a method.
_ASSIGNED = re.compile(r"(?:self\.|^\s+|def )(_\w+)(?= *[:=(])", re.MULTILINE)
# Modules of this name say something about the code that imports them.
_OF_PYTHON = ("__future__", "_typeshed")
ATTRIBUTE_CALLS = ("getattr", "hasattr", "setattr", "delattr")


@dataclass(frozen=True)
class Use:
    """A place that reads, calls, assigns, imports or overrides a private name of others.

    `owner` is `module` or `module:Class` of what defines it; empty where that is not known.
    """

    file: str
    line: int
    name: str
    owner: str

    @property
    def id(self) -> str:
        return f"{self.owner}{'.' if ':' in self.owner else ':'}{self.name}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.id if self.owner else self.name}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@dataclass(frozen=True)
class Package:
    """What is ours: `name`, without what lies in the package `generated` below it.

    `others` are the packages whose objects may come to us untyped.
    """

    world: World
    folder: Path
    name: str
    generated: str
    others: tuple[str, ...] = ()

    def is_ours(self, module: str) -> bool:
        def below(package: str) -> bool:
            return f"{module}.".startswith(f"{package}.")

        return below(self.name) and not below(self.generated)

    @property
    def modules(self) -> Iterator[tuple[str, Module]]:
        """Each module of ours, with its path below the package."""
        for path in sorted(self.folder.rglob("*.py")):
            file = path.relative_to(self.folder)
            parts = file.with_suffix("").parts
            inner = parts[:-1] if parts[-1] == "__init__" else parts
            name = ".".join([self.name, *inner])
            if self.is_ours(name) and (module := self.world.module(name)) is not None:
                yield file.as_posix(), module

    def uses(self) -> list[Use]:
        """Every use of a private name that is not ours, or of which that is not known.

        Names of the standard library are left out: it is no package that upstream's release picks.
        """
        found: list[Use] = []
        for file, module in self.modules:
            found += _Uses(self, file, module).all()
        # On a value of unknown type, a name is ours that we define, and nobody in `others` does.
        ours = {
            name
            for _, module in self.modules
            for cls in module.classes.values()
            if not cls.is_protocol
            for name in cls.members
        }
        theirs = {
            name
            for package in self.others
            for path in self.world.files(package)
            for name in _ASSIGNED.findall(path.read_text("utf-8"))
        }
        return [u for u in found if u.owner or u.name not in ours - theirs]


@dataclass(frozen=True)
class _Uses:
    """The uses in one module."""

    package: Package
    file: str
    module: Module

    def all(self) -> Iterator[Use]:
        for node in ast.walk(self.module.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from self._imports(node)
            elif isinstance(node, ast.ClassDef):
                yield from self._overrides(node)
        yield from self._visit(self.module.tree, Env(self.module, None, None))

    def _imports(self, node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
        for alias in node.names:
            origin = self.module.origin(node) if isinstance(node, ast.ImportFrom) else ""
            dotted = ".".join(filter(None, (origin, alias.name)))
            if self.package.is_ours(dotted) or dotted.partition(".")[0] in _OF_PYTHON:
                continue
            # The generated package is named as a private one by ourselves.
            rest = f"{dotted}.".removeprefix(f"{self.package.generated}.").split(".")
            for name in filter(is_private, rest):
                yield Use(self.file, node.lineno, name, dotted.partition(f".{name}")[0])

    def _overrides(self, node: ast.ClassDef) -> Iterator[Use]:
        cls = Class(self.module, node, node.name)
        for name, places in cls.members.items():
            if is_private(name):
                line = getattr(places[0][0], "lineno", node.lineno)
                for owner in self._owners(Value("instance", cls=cls), name):
                    yield from self._use(line, name, owner)

    def _visit(self, node: ast.AST, env: Env) -> Iterator[Use]:
        for child in ast.iter_child_nodes(node):
            inner = env
            if isinstance(child, ast.ClassDef):
                inner = Env(self.module, None, Class(self.module, child, child.name), env)
            elif isinstance(child, (*FUNCTIONS, ast.Lambda)):
                inner = Env(self.module, child, env.cls, env)
            yield from self._visit(child, inner)
            if isinstance(child, ast.Attribute):
                yield from self._read(child.value, child.attr, child.lineno, env)
            elif (
                isinstance(child, ast.Call)
                and isinstance(child.func, ast.Name)
                and child.func.id in ATTRIBUTE_CALLS
            ):
                for name in _texts(child.args[1], env):
                    yield from self._read(child.args[0], name, child.lineno, env)

    def _read(self, receiver: ast.expr, name: str, line: int, env: Env) -> Iterator[Use]:
        if is_private(name):
            values = self.module.value(receiver, env)
            owners = {o for v in values for o in self._owners(v, name)}
            for owner in owners or (None,):
                yield from self._use(line, name, owner)

    def _use(self, line: int, name: str, owner: Module | Class | None) -> Iterator[Use]:
        module = owner.module if isinstance(owner, Class) else owner
        if module is None:
            yield Use(self.file, line, name, "")
        elif owner is not None and not (
            self.package.is_ours(module.name) or self.package.world.is_standard(module)
        ):
            yield Use(self.file, line, name, owner.name)

    def _owners(self, value: Value, name: str) -> Sequence[Module | Class]:
        """What defines `name` on a value; nothing where that is not known."""
        if value.kind == "module":
            return [value.module] if value.module else []
        # A protocol of ours may describe what is not.
        defining = [
            c
            for c in value.lineage
            if name in c.members and not (c.is_protocol and self.package.is_ours(c.module.name))
        ]
        foreign = [c for c in defining if not self.package.is_ours(c.module.name)]
        return (foreign or defining)[:1]


def _texts(node: ast.expr, env: Env) -> list[str]:
    """The texts that an argument may be: it is written there, or loops over such."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.Name) and env.function is not None:
        for loop in ast.walk(env.function):
            if (
                isinstance(loop, (ast.For, ast.comprehension))
                and isinstance(loop.target, ast.Name)
                and loop.target.id == node.id
                and isinstance(loop.iter, ast.Tuple)
            ):
                return [str(e.value) for e in loop.iter.elts if isinstance(e, ast.Constant)]
    return []
