"""A Python file seen twice: as an `ast` tree to find things in, and as bytes to cut."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from .errors import Ambiguous, NotFound, Refused

Definition: TypeAlias = "ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef"
Scope: TypeAlias = "ast.Module | Definition"
Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
Located: TypeAlias = "ast.stmt | ast.expr | ast.arg"

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
MODULE_SCOPE = "<module>"

# Fields that do not change meaning, or that only some of Python 3.10 to 3.13 have.
_UNSTABLE_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_params"})


@dataclass(frozen=True)
class Splice:
    """Replace the bytes `start:end` by `text`."""

    start: int
    end: int
    text: bytes


def docstring_of(node: ast.AST) -> ast.stmt | None:
    """The statement that is the docstring of a module, class or function, if it has one."""
    body: list[ast.stmt] = getattr(node, "body", [])
    if not isinstance(node, (ast.Module, *DEFINITIONS)) or not body:
        return None
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first if isinstance(first.value.value, str) else None
    return None


def fingerprint(*nodes: ast.AST) -> str:
    """Sixteen hex digits that change when the meaning does.

    Formatting, comments, docstrings and the running Python (3.10 to 3.13) do not matter.
    """

    def shape(value: Any) -> Any:
        if isinstance(value, ast.AST):
            doc = docstring_of(value)
            fields = []
            for name, child in ast.iter_fields(value):
                if child is None or child == [] or name in _UNSTABLE_FIELDS:
                    continue
                if name == "body" and doc is not None:
                    child = child[1:]
                if isinstance(value, ast.JoinedStr):
                    # Some 3.12 parsers leave empty pieces in a nested format.
                    child = [c for c in child if getattr(c, "value", None) != ""]
                fields.append((name, shape(child)))
            return (type(value).__name__, *fields)
        if isinstance(value, list):
            return tuple(shape(item) for item in value)
        return repr(value)

    text = repr([shape(node) for node in nodes])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def walk(root: ast.AST, *, nested: bool = False) -> Iterator[ast.AST]:
    """Descendants in source order. Nested definitions are yielded; entered only if `nested`."""
    for child in ast.iter_child_nodes(root):
        yield child
        if nested or not isinstance(child, (*DEFINITIONS, ast.Lambda)):
            yield from walk(child, nested=nested)


def parse_quietly(data: bytes | str) -> ast.Module:
    """`ast.parse` without upstream's own syntax warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


def check_compiles(data: bytes, what: str) -> None:
    """Raise Refused, saying `what` and the line, when the bytes are no Python module."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, what, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as e:
        raise Refused(f"{what} does not compile (line {getattr(e, 'lineno', '?')})") from e


def _is_variant(node: ast.AST) -> bool:
    """Whether this definition is an `@overload` stub or a property's setter or deleter."""
    for decorator in getattr(node, "decorator_list", []):
        last = decorator.attr if isinstance(decorator, ast.Attribute) else None
        last = decorator.id if isinstance(decorator, ast.Name) else last
        if last in ("overload", "setter", "deleter"):
            return True
    return False


class Source:
    """One file. `name` is only used in messages."""

    def __init__(self, data: bytes, name: str) -> None:
        """Parse. Raises Refused when the bytes are not plain UTF-8 Python."""
        self.data = data
        self.name = name
        if data.startswith(b"\xef\xbb\xbf"):
            raise Refused(f"{name} starts with a byte order mark")
        try:
            data.decode("utf-8")
            self.tree = parse_quietly(data)
        except (UnicodeDecodeError, SyntaxError, ValueError) as e:
            raise Refused(f"{name} is not plain UTF-8 Python: {type(e).__name__}") from e
        first, _, _ = data.partition(b"\n")
        self.eol = b"\r\n" if first.endswith(b"\r") else b"\n"
        self._starts = [0]
        for line in data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._parents = {
            child: parent
            for parent in ast.walk(self.tree)
            for child in ast.iter_child_nodes(parent)
        }

    # -- tree

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def scope(self, qualname: str) -> Scope:
        """The module, class or function with this dotted name; nested functions are allowed.

        Overload stubs and property setters do not count. Raises NotFound or Ambiguous.
        """
        node: Scope = self.tree
        if qualname == MODULE_SCOPE:
            return node
        for name in qualname.split("."):
            found = [
                n
                for n in walk(node)
                if isinstance(n, DEFINITIONS) and n.name == name and not _is_variant(n)
            ]
            where = f"scope {qualname}"
            if not found:
                raise NotFound(f"0 matches for {name!r}", anchor=where)
            if len(found) > 1:
                lines = ", ".join(str(n.lineno) for n in found)
                raise Ambiguous(f"{len(found)} matches for {name!r} at lines {lines}", anchor=where)
            node = found[0]
        return node

    def overloads(self, function: Definition) -> list[Function]:
        """The `@overload` stubs of a function, in order; a class has none."""
        return [
            n
            for n in self.block(function)
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
            and n.name == function.name
            and n is not function
            and _is_variant(n)
        ]

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is or is part of. An except clause or case is part of none."""
        for candidate in (node, *self.ancestors(node)):
            if isinstance(candidate, ast.stmt):
                return candidate
            if isinstance(candidate, (ast.ExceptHandler, ast.match_case)):
                raise Refused("an except clause or case is not a statement; use insert-first")
        raise Refused("the anchor is not inside a statement")

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that this one stands in."""
        parent = self._parents[statement]
        for _, value in ast.iter_fields(parent):
            if isinstance(value, list) and any(item is statement for item in value):
                return value
        raise Refused("the anchor's statement stands in no block")

    # -- bytes

    def offset(self, line: int, column: int = 0) -> int:
        """Byte offset of a one-based line and a zero-based byte column."""
        return self._starts[line - 1] + column

    def span(self, node: Located) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def lines(self, first: ast.stmt, last: ast.stmt | None = None) -> tuple[int, int, bytes]:
        """Start and end of the whole lines from `first` to `last`, and their indent.

        Decorators and a trailing comment belong to them. Raises Refused when another statement
        shares the first or last line, and for an `elif`, which cannot stand alone.
        """
        last = last or first
        assert last.end_lineno is not None
        decorators: list[ast.expr] = getattr(first, "decorator_list", [])
        start = self._starts[min([first.lineno, *(d.lineno for d in decorators)]) - 1]
        end = self._starts[last.end_lineno]
        first_byte, last_byte = self.span(first)[0], self.span(last)[1]
        indent = self.data[self._starts[first.lineno - 1] : first_byte]
        trailing = self.data[last_byte:end].strip()
        if indent.strip() or not (trailing == b"" or trailing.startswith(b"#")):
            raise Refused(f"line {first.lineno}: the statement shares a line with another one")
        if isinstance(first, ast.If) and self.data.startswith(b"elif", first_byte):
            raise Refused(f"line {first.lineno}: an elif branch cannot be cut out on its own")
        if not self.data[start:end].endswith((b"\n", b"\r")):
            raise Refused("the statement ends the file without a newline")
        return start, end, indent


def render(data: bytes, splices: list[Splice]) -> bytes:
    """The bytes with all splices made. Splices at one place keep their order.

    Raises Refused when two of them overlap.
    """
    out: list[bytes] = []
    position = 0
    for splice in sorted(splices, key=lambda s: (s.start, s.end)):
        if splice.start < position:
            raise Refused("two edits of the patch overlap")
        out += [data[position : splice.start], splice.text]
        position = splice.end
    return b"".join([*out, data[position:]])


def undo(data: bytes, original: bytes, splices: list[Splice]) -> bytes:
    """Take the splices out of a rendered result again."""
    out = bytearray(data)
    for splice in sorted(splices, key=lambda s: (s.start, s.end)):
        # Left to right: everything before this splice has its original length already.
        end = splice.start + len(splice.text)
        out[splice.start : end] = original[splice.start : splice.end]
    return bytes(out)
