"""The operations: how each edit becomes byte splices."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .edits import Edit
from .errors import AlreadyApplied, Refused
from .selectors import find_expression, find_statement
from .source import Located, Scope, Source, Splice, docstring_of, fingerprint

MARKER = "# resilient-patch: "

# Inserted expressions of these kinds need no parentheses wherever they stand.
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.List, ast.Dict)


# -- text


def _block(source: Source, code: str, indent: bytes) -> bytes:
    lines = [indent + line.encode() if line.strip() else b"" for line in code.split("\n")]
    return b"".join(line + source.eol for line in lines)


def _mark(source: Source, indent: bytes, patch: str) -> bytes:
    return indent + (MARKER + patch).encode() + source.eol


def _inline(code: str) -> bytes:
    """An expression as text that can stand anywhere an expression can."""
    text = code.strip()
    node = ast.parse(text, mode="eval").body
    return (text if isinstance(node, _ATOMS) else f"({text})").encode()


def _editable_expression(source: Source, node: ast.AST) -> Located:
    if not isinstance(node, ast.expr):
        raise Refused(f"the anchor is a {type(node).__name__}, not an expression")
    if any(isinstance(a, ast.JoinedStr) for a in source.ancestors(node)):
        raise Refused(f"line {node.lineno}: the anchor stands inside an f-string")
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        raise Refused(f"line {node.lineno}: the anchor is assigned to or deleted")
    return node


# -- operations: each returns the splices for one edit


def _insert_after(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    assert edit.at is not None
    _, end, indent = source.lines(find_statement(source, scope, edit.at))
    text = _mark(source, indent, patch) + _block(source, edit.code, indent)
    return [Splice(end, end, text)]


def _insert_first(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    owner = scope if edit.at is None else find_expression(source, scope, edit.at)
    body = getattr(owner, "body", None)
    if not isinstance(body, list) or not body or isinstance(owner, ast.Module):
        raise Refused("the anchor has no body to insert into")
    first: ast.stmt = body[0]
    if first is docstring_of(owner):
        _, place, indent = source.lines(first)
    else:
        place, _, indent = source.lines(first)
    text = _mark(source, indent, patch) + _block(source, edit.code, indent)
    return [Splice(place, place, text)]


def _set_kwarg(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    assert edit.at is not None
    node = find_expression(source, scope, edit.at)
    if not isinstance(node, ast.Call):
        raise Refused(f"the anchor is a {type(node).__name__}, not a call")
    _editable_expression(source, node)
    value = ast.parse(edit.value, mode="eval").body
    for keyword in node.keywords:
        if keyword.arg == edit.name:
            if fingerprint(keyword.value) == fingerprint(value):
                raise AlreadyApplied(f"line {node.lineno}: {edit.name} is already {edit.value}")
            return [Splice(*source.span(keyword.value), _inline(edit.value))]
    _, end = source.span(node)
    parts: list[ast.expr] = [node.func, *node.args, *(k.value for k in node.keywords)]
    last = max(source.span(part)[1] for part in parts)
    # Between the last argument and the parenthesis there may be a comma, comments and newlines.
    gap = source.data[last : end - 1]
    code_only = b"".join(line.split(b"#")[0] for line in gap.splitlines())
    bare = not node.args and not node.keywords
    if bare or code_only.strip().startswith(b","):
        comma = last + gap.find(b"(" if bare else b",") + 1
        text = f"{edit.name}={edit.value}" if bare else f" {edit.name}={edit.value},"
        return [Splice(comma, comma, text.encode())]
    if code_only.strip():
        raise Refused(f"line {node.lineno}: the call's last argument stands in parentheses")
    return [Splice(last, last, f", {edit.name}={edit.value}".encode())]


def _replace_expr(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    assert edit.at is not None
    node = _editable_expression(source, find_expression(source, scope, edit.at))
    if fingerprint(node) == fingerprint(ast.parse(edit.code.strip(), mode="eval").body):
        raise AlreadyApplied(f"line {node.lineno}: the expression is already {edit.code!r}")
    return [Splice(*source.span(node), _inline(edit.code))]


def _add_parameter(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise Refused("add-parameter needs a function")
    parameter = ast.parse(edit.code).body[0]
    assert isinstance(parameter, ast.AnnAssign)
    assert isinstance(parameter.target, ast.Name)
    splices = []
    # A caller's type checker looks at the overloads, so they get the parameter too.
    for function in (*source.overloads(scope), scope):
        arguments = function.args
        names = (a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        if parameter.target.id in names:
            raise AlreadyApplied(f"line {function.lineno}: already takes {parameter.target.id}")
        if not arguments.kwonlyargs:
            raise Refused(f"line {function.lineno}: the function takes no keyword-only parameter")
        last, default = arguments.kwonlyargs[-1], arguments.kw_defaults[-1]
        _, end = source.span(default or last)
        splices.append(Splice(end, end, f", {edit.code.strip()}".encode()))
    return splices


def import_place(source: Source) -> int:
    """Byte offset after the module's opening imports."""
    last: ast.stmt | None = docstring_of(source.tree)
    for statement in source.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last = statement
        elif statement is not last and not isinstance(statement, (ast.If, ast.Try)):
            break
    if last is not None:
        return source.lines(last)[1]
    return source.lines(source.tree.body[0])[0] if source.tree.body else len(source.data)


def add_imports(source: Source, code: str) -> list[Splice]:
    """Splices for those imports of `code` that the module does not have yet."""
    have = {fingerprint(s) for s in source.tree.body}
    wanted = [s for s in ast.parse(code).body if fingerprint(s) not in have]
    place = import_place(source)
    return [Splice(place, place, _block(source, ast.unparse(s), b"")) for s in wanted]


def _add_import(source: Source, scope: Scope, edit: Edit, patch: str) -> list[Splice]:
    return add_imports(source, edit.code)


_PLANNERS: dict[str, Callable[[Source, Scope, Edit, str], list[Splice]]] = {
    "insert-after": _insert_after,
    "insert-first": _insert_first,
    "set-kwarg": _set_kwarg,
    "replace-expr": _replace_expr,
    "add-parameter": _add_parameter,
    "add-import": _add_import,
}


def plan(source: Source, edit: Edit, patch: str) -> list[Splice]:
    """The splices that one edit makes. Raises a PatchProblem; changes nothing."""
    return _PLANNERS[edit.op](source, source.scope(edit.scope), edit, patch)
