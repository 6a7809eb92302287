"""Selectors: how a patch names one node by its kind and names, never by upstream's text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import Ambiguous, InvalidPatch, NotFound
from .source import Scope, Source, fingerprint, walk

_NODE_TYPES = (ast.stmt, ast.expr, ast.ExceptHandler)
KINDS = frozenset(
    name
    for name, value in vars(ast).items()
    if isinstance(value, type)
    and issubclass(value, _NODE_TYPES)
    and value not in (ast.stmt, ast.expr)
)
ANY_VALUE = "*"


@dataclass(frozen=True)
class Expr:
    """A short expression, compared by meaning."""

    text: str
    kind: type[ast.AST]
    print: str

    @classmethod
    def parse(cls, text: object, where: str) -> Expr:
        """Raises InvalidPatch when `text` is not one Python expression."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidPatch(f"{where} must be a Python expression in a string")
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as e:
            raise InvalidPatch(f"{where}: {text!r} is not a Python expression") from e
        return cls(text.strip(), type(node), fingerprint(node))

    def same_as(self, node: ast.AST | None) -> bool:
        return type(node) is self.kind and node is not None and fingerprint(node) == self.print


@dataclass(frozen=True)
class Selector:
    """Facts that a node must have; those that are not given do not matter."""

    kind: str | None = None
    call: Expr | None = None
    arg: tuple[Expr, ...] = ()
    kw: tuple[tuple[str, Expr | None], ...] = ()
    assign: Expr | None = None
    test: Expr | None = None
    expr: Expr | None = None
    handles: Expr | None = None
    name: str | None = None
    has: tuple[Selector, ...] = ()
    not_has: tuple[Selector, ...] = ()
    within: tuple[Selector, ...] = ()
    nested: bool = False

    def describe(self) -> str:
        """The selector in words, for messages."""
        words = [self.kind or "node"]
        for word, value in (
            ("calling", self.call),
            ("assigning", self.assign),
            ("testing", self.test),
            ("equal to", self.expr),
            ("handling", self.handles),
        ):
            if value is not None:
                words.append(f"{word} `{value.text}`")
        if self.name is not None:
            words.append(f"named {self.name}")
        words += [f"given `{a.text}`" for a in self.arg]
        words += [f"with {k}={v.text if v else ANY_VALUE}" for k, v in self.kw]
        words += [f"containing ({s.describe()})" for s in self.has]
        words += [f"not containing ({s.describe()})" for s in self.not_has]
        words += [f"within ({s.describe()})" for s in self.within]
        return " ".join(words)


# -- reading a selector from a patch file


def _kind(value: object, where: str) -> str:
    if value not in KINDS:
        raise InvalidPatch(f"{where}: {value!r} is no ast statement, expression or ExceptHandler")
    return str(value)


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise InvalidPatch(f"{where} must be a Python name, not {value!r}")
    return value


def _args(value: object, where: str) -> tuple[Expr, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(Expr.parse(item, where) for item in items)


def _kw(value: object, where: str) -> tuple[tuple[str, Expr | None], ...]:
    if not isinstance(value, dict) or not value:
        raise InvalidPatch(f"{where} must be a table of keyword = expression (or {ANY_VALUE!r})")
    return tuple(
        (_name(k, where), None if v == ANY_VALUE else Expr.parse(v, f"{where}.{k}"))
        for k, v in value.items()
    )


def _selectors(value: object, where: str) -> tuple[Selector, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(parse_selector(item, where) for item in items)


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidPatch(f"{where} must be true or false")
    return value


_KEYS: dict[str, tuple[str, Callable[[object, str], Any]]] = {
    "kind": ("kind", _kind),
    "call": ("call", Expr.parse),
    "arg": ("arg", _args),
    "kw": ("kw", _kw),
    "assign": ("assign", Expr.parse),
    "test": ("test", Expr.parse),
    "expr": ("expr", Expr.parse),
    "handles": ("handles", Expr.parse),
    "name": ("name", _name),
    "has": ("has", _selectors),
    "not-has": ("not_has", _selectors),
    "within": ("within", _selectors),
    "nested": ("nested", _flag),
}
SELECTOR_KEYS = tuple(_KEYS)


def parse_selector(table: object, where: str) -> Selector:
    """Read a selector table. Raises InvalidPatch naming the key and what is allowed."""
    if not isinstance(table, dict) or not set(table) - {"nested"}:
        raise InvalidPatch(f"{where} must be a table with at least one of {', '.join(_KEYS)}")
    values = {}
    for key, value in table.items():
        if key not in _KEYS:
            allowed = ", ".join(_KEYS)
            raise InvalidPatch(f"{where}: unknown selector key {key!r} (allowed: {allowed})")
        field, read = _KEYS[key]
        values[field] = read(value, f"{where}.{key}")
    return Selector(**values)


# -- matching


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []


def matches(source: Source, scope: Scope, node: ast.AST, s: Selector) -> bool:
    """Whether a node inside `scope` has all the facts of the selector."""
    if s.kind is not None and type(node).__name__ != s.kind:
        return False
    if s.call is not None and not (isinstance(node, ast.Call) and s.call.same_as(node.func)):
        return False
    positional = node.args if isinstance(node, ast.Call) else []
    if not all(any(want.same_as(arg) for arg in positional) for want in s.arg):
        return False
    keywords: list[ast.keyword] = getattr(node, "keywords", [])
    for name, want in s.kw:
        if not any(k.arg == name and (want is None or want.same_as(k.value)) for k in keywords):
            return False
    if s.assign is not None and not any(s.assign.same_as(t) for t in _targets(node)):
        return False
    if s.test is not None and not s.test.same_as(getattr(node, "test", None)):
        return False
    if s.expr is not None and not (isinstance(node, ast.expr) and s.expr.same_as(node)):
        return False
    if s.handles is not None and not (
        isinstance(node, ast.ExceptHandler) and s.handles.same_as(node.type)
    ):
        return False
    if s.name is not None and getattr(node, "name", None) != s.name:
        return False

    def contains(inner: Selector) -> bool:
        return any(matches(source, scope, n, inner) for n in walk(node, nested=inner.nested))

    if not all(contains(inner) for inner in s.has) or any(contains(i) for i in s.not_has):
        return False
    if s.within:
        around = []
        for ancestor in source.ancestors(node):
            if ancestor is scope:
                break
            around.append(ancestor)
        return all(any(matches(source, scope, a, outer) for a in around) for outer in s.within)
    return True


def find(source: Source, scope: Scope, s: Selector) -> list[ast.AST]:
    """All matches in source order. With `has`, a match around another match does not count."""
    hits = [n for n in walk(scope, nested=s.nested) if matches(source, scope, n, s)]
    if s.has:
        outer = {a for hit in hits for a in source.ancestors(hit)}
        hits = [hit for hit in hits if hit not in outer]
    return hits


def exactly_one(nodes: list[ast.AST], anchor: str) -> ast.AST:
    """The only node; raises NotFound or Ambiguous with the lines of the matches."""
    if not nodes:
        raise NotFound("0 matches", anchor=anchor)
    if len(nodes) > 1:
        lines = ", ".join(str(getattr(n, "lineno", "?")) for n in nodes)
        raise Ambiguous(f"{len(nodes)} matches at lines {lines}", anchor=anchor)
    return nodes[0]


def find_expression(source: Source, scope: Scope, s: Selector) -> ast.AST:
    """The one node that matches."""
    return exactly_one(find(source, scope, s), s.describe())


def find_statement(source: Source, scope: Scope, s: Selector) -> ast.stmt:
    """The one statement that matches or holds the matches."""
    statements: list[ast.AST] = []
    for hit in find(source, scope, s):
        statement = source.statement(hit)
        if statement not in statements:
            statements.append(statement)
    found = exactly_one(statements, s.describe())
    assert isinstance(found, ast.stmt)
    return found
