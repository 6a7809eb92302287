"""Apply a patch to one file: all of it or nothing, and prove that nothing else changed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from .edits import Edit
from .errors import AlreadyApplied, PatchProblem, Refused
from .operations import MARKER, add_imports, import_place, plan
from .patchfile import Patch
from .selectors import find_statement
from .source import (
    DEFINITIONS,
    MODULE_SCOPE,
    Scope,
    Source,
    Splice,
    check_compiles,
    docstring_of,
    fingerprint,
    parse_quietly,
    render,
    undo,
)

# Code in patches calls our hooks by this name; the import is added where it is used.
HOOKS_NAME = "_rk"
HOOKS_IMPORT = f"from livekit.plugins.resilient import hooks as {HOOKS_NAME}"


# `apply`, or what stands for it: file, patch, name of the file.
Apply: TypeAlias = Callable[[bytes, Patch, str], bytes]


def apply(data: bytes, patch: Patch, name: str) -> bytes:
    """The patched file. Raises a PatchProblem and changes nothing when any edit does not fit."""
    edit: Edit | None = None
    try:
        marker = (MARKER + patch.id).encode()
        if any(line.strip() == marker for line in data.splitlines()):
            raise AlreadyApplied("the patch is in this file already", anchor=name)
        source = Source(data, name)
        splices: list[Splice] = []
        for edit in patch.edits:
            planned = plan(source, edit, patch.id)
            _check_inside(source, edit, planned)
            splices += planned
        edit = None
        if any(_mentions_hooks(e) for e in patch.edits):
            splices += add_imports(source, HOOKS_IMPORT)
        result = render(data, splices)
        if undo(result, data, splices) != data:
            raise Refused("bytes outside the edits changed", anchor=name)
        check_compiles(result, f"the patched {name}")
        _check_rest_unchanged(source, result, patch)
        if marker not in (line.strip() for line in result.splitlines()):
            gap = b"" if result.endswith(b"\n") else source.eol
            result += gap + marker + source.eol
        return result
    except PatchProblem as e:
        e.locate(patch=patch.id)
        if edit is not None:
            at = e.anchor or (edit.at.describe() if edit.at else "")
            e.anchor = f"{edit.op} in {edit.scope}" + (f", {at}" if at else "")
        raise


def edited_scopes(patch: Patch) -> list[str]:
    """The scopes a patch edits, each once, in order."""
    return list(dict.fromkeys(e.scope for e in patch.edits if e.op != "add-import"))


def reviewed_nodes(source: Source, patch: Patch, scope: str) -> list[ast.AST]:
    """What a reviewer has to look at for the edits in this scope.

    A function counts whole; of a class or the module only its header and the anchors count, so
    that unrelated upstream changes are no drift. Raises NotFound or Ambiguous.
    """
    node = source.scope(scope)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [node]
    parts: list[ast.AST] = []
    if isinstance(node, ast.ClassDef):
        parts += [*node.decorator_list, *node.bases, *node.keywords]
    for edit in patch.edits:
        if edit.scope == scope and edit.at is not None:
            parts.append(find_statement(source, node, edit.at))
    return parts


def scope_fingerprint(source: Source, patch: Patch, scope: str) -> str:
    """The fingerprint of what `reviewed_nodes` gives; raises what that raises."""
    return fingerprint(*reviewed_nodes(source, patch, scope))


def _mentions_hooks(edit: Edit) -> bool:
    tree = ast.parse(edit.inserted())
    return any(isinstance(n, ast.Name) and n.id == HOOKS_NAME for n in ast.walk(tree))


# -- proofs


def _check_inside(source: Source, edit: Edit, splices: list[Splice]) -> None:
    """Every cut of an edit lies within its scope (or at the place for imports)."""
    if edit.op == "add-import":
        spans = [(import_place(source), import_place(source))]
    else:
        scope = source.scope(edit.scope)
        if isinstance(scope, ast.Module):
            return
        stubs = source.overloads(scope) if edit.op == "add-parameter" else []
        spans = [source.lines(node)[:2] for node in (scope, *stubs)]
    for splice in splices:
        if not any(start <= splice.start and splice.end <= end for start, end in spans):
            raise Refused("the edit reaches outside its scope")


def _units(scope: Scope, path: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Every statement of the module and of its classes, each with a dotted name."""
    for statement in scope.body:
        name = getattr(statement, "name", type(statement).__name__)
        dotted = f"{path}{name}"
        if isinstance(statement, ast.ClassDef):
            yield from _units(statement, f"{dotted}.")
        else:
            yield dotted, statement


def _check_rest_unchanged(source: Source, result: bytes, patch: Patch) -> None:
    """Definitions outside the edited scopes have the same bytes, number and order as before.

    This is what catches inserted text that would swallow or re-parent the code around it.
    """
    scopes = edited_scopes(patch)

    def untouched(tree: ast.Module, data: bytes) -> list[tuple[str, bytes]]:
        view = Source(data, source.name)
        kept = []
        for dotted, statement in _units(tree):
            if not isinstance(statement, DEFINITIONS) and MODULE_SCOPE in scopes:
                continue
            if isinstance(statement, (ast.Import, ast.ImportFrom)) and "." not in dotted:
                continue
            owner = dotted.rpartition(".")[0]
            if any(s in (dotted, owner) or s.startswith(dotted + ".") for s in scopes):
                continue
            if statement is docstring_of(tree):
                continue
            start, end = view.span(statement)
            kept.append((dotted, data[start:end]))
        return kept

    before = untouched(source.tree, source.data)
    after = untouched(parse_quietly(result), result)
    if before != after:
        changed = sorted({name for name, _ in set(before) ^ set(after)})
        raise Refused(f"the edit also changed {', '.join(changed) or 'the order of definitions'}")
