"""Finds the package's functions by name, and whether one leads to another. Reads, imports nothing.

A name is `Class.method` or `function`, after `scope:` where that is not enough: a folder of the
package, a module, or `upstream`, for what was vendored of the provider in question.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

PACKAGE = (
    Path(__file__).parents[1] / "livekit-plugins-resilient/livekit/plugins/resilient"
).resolve()
VENDORED = "_vendor"
APART = ("testing", VENDORED)
"""Folders in which a name is only looked for where it says so."""

Node: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class WalkError(Exception):
    """A walk is not as the code is."""


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the package.

    Attributes:
        path: Below the package.
        owner: The class it is a method of; None for none.
        node: Its definition.
    """

    path: Path
    owner: ast.ClassDef | None
    node: Node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def qualified(self) -> str:
        return self.name if self.owner is None else f"{self.owner.name}.{self.name}"

    @property
    def is_upstream(self) -> bool:
        return self.path.parts[0] == VENDORED

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Every name and attribute in it."""
        return self.attributes | {
            node.id for node in ast.walk(self.node) if isinstance(node, ast.Name)
        }

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Every attribute in it."""
        nodes = (node for node in ast.walk(self.node) if isinstance(node, ast.Attribute))
        return frozenset(node.attr for node in nodes)

    def names(self, other: Function) -> bool:
        """Whether it mentions another function: a method as an attribute of something."""
        return other.name in (self.mentioned if other.owner is None else self.attributes)

    @property
    def doc(self) -> str:
        return first_sentence(ast.get_docstring(self.node))


@dataclass(frozen=True)
class Module:
    path: Path
    tree: ast.Module = field(repr=False)

    @property
    def doc(self) -> str:
        return first_sentence(ast.get_docstring(self.tree))


def first_sentence(doc: str | None) -> str:
    """The first sentence of a docstring in one line; "" for none."""
    text = " ".join((doc or "").split("\n\n")[0].split())
    ends = re.search(r"\.(?=\s+[A-Z`]|$)", text)
    return text[: ends.start()] if ends else text.rstrip(".")


class Code:
    """The package's source.

    Args:
        root: Its folder.
    """

    def __init__(self, root: Path = PACKAGE) -> None:
        self.modules = [
            Module(path.relative_to(root), ast.parse(path.read_text(encoding="utf-8")))
            for path in sorted(root.rglob("*.py"))
        ]
        self._functions: dict[str, list[Function]] = defaultdict(list)
        for module in self.modules:
            for function in _functions(module):
                self._functions[function.qualified].append(function)

    def function(self, name: str, provider: str) -> Function:
        """The one function of that name; of `provider`'s folder, where several have it.

        Raises:
            WalkError: There is none, or more than one.
        """
        scope, _, qualified = name.rpartition(":")
        folders = (VENDORED, provider) if scope == "upstream" else (scope,) if scope else ()
        found = [
            function
            for function in self._functions.get(qualified, ())
            if _lies_in(function.path, folders)
        ]
        if len(found) > 1:
            found = [function for function in found if provider in function.path.parts] or found
        if len(found) != 1:
            places = ", ".join(function.path.as_posix() for function in found) or "nowhere"
            raise WalkError(f"{name} must be in one place, and is in {places}")
        return found[0]

    def doc(self, function: Function, protocols: tuple[str, ...]) -> str:
        """What a function says of itself, or what the protocol says that it implements."""
        if function.doc or function.owner is None:
            return function.doc
        docs = (
            other.doc
            for protocol in protocols
            for other in self._functions.get(f"{protocol}.{function.name}", ())
            if other.owner is not None and _is_protocol(other.owner)
        )
        return next((doc for doc in docs if doc), "")

    def has_class(self, name: str, modules: tuple[str, ...]) -> bool:
        """Whether one of these modules, by their names, defines a class."""
        return any(
            isinstance(node, ast.ClassDef) and node.name == name
            for module in self.modules
            if module.path.stem in modules and module.path.parts[0] not in APART
            for node in module.tree.body
        )


def _functions(module: Module) -> Iterator[Function]:
    for node in module.tree.body:
        if isinstance(node, Node):
            yield Function(module.path, None, node)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                # What is only there for the type checker has no body of its own.
                if isinstance(inner, Node):
                    yield Function(module.path, node, inner)


def _is_protocol(node: ast.ClassDef) -> bool:
    names = {
        name.id for base in node.bases for name in ast.walk(base) if isinstance(name, ast.Name)
    }
    return "Protocol" in names


def _lies_in(path: Path, folders: tuple[str, ...]) -> bool:
    places = (*path.parts[:-1], path.stem)
    if not folders:
        return path.parts[0] not in APART
    return all(folder in places for folder in folders) and (
        VENDORED in folders or path.parts[0] not in APART
    )
