"""The form of one edit: what each operation takes. How it is done is in `operations`."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from .errors import InvalidPatch
from .selectors import Selector, parse_selector
from .source import MODULE_SCOPE

# The substance belongs in our linted modules; a patch only calls it.
MAX_CODE_LINES = 3


@dataclass(frozen=True)
class Edit:
    """One `[[edit]]` table, validated. Fields an operation does not take are empty."""

    op: str
    scope: str
    at: Selector | None = None
    code: str = ""
    name: str = ""
    value: str = ""

    def inserted(self) -> str:
        """The code that this edit adds, as statements."""
        if self.op == "set-kwarg":
            return self.value
        return self.code


# -- the form


@dataclass(frozen=True)
class Form:
    """What one operation takes: required keys, optional keys, and what `code` must parse as."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    code: str = "statements"


OPERATIONS: dict[str, Form] = {
    "insert-after": Form(("in", "at", "code")),
    "insert-first": Form(("in", "code"), ("at",)),
    "set-kwarg": Form(("in", "at", "name", "value")),
    "replace-expr": Form(("in", "at", "code"), code="expression"),
    "add-parameter": Form(("in", "code"), code="parameter"),
    "add-import": Form(("code",), code="import"),
}


def parse_edit(table: object, where: str) -> Edit:
    """Read one edit table. Raises InvalidPatch naming the field and what is allowed."""
    if not isinstance(table, dict):
        raise InvalidPatch(f"{where} must be a table")
    op = table.get("op")
    if op not in OPERATIONS:
        raise InvalidPatch(f"{where}: op {op!r} is unknown (allowed: {', '.join(OPERATIONS)})")
    form = OPERATIONS[op]
    allowed = ("op", *form.required, *form.optional)
    for key in table:
        if key not in allowed:
            raise InvalidPatch(
                f"{where}: {op} does not take {key!r} (allowed: {', '.join(allowed)})"
            )
    for key in form.required:
        if key not in table:
            raise InvalidPatch(f"{where}: {op} needs {key!r}")
    texts = {key: table.get(key, "") for key in ("in", "code", "name", "value")}
    for key, text in texts.items():
        if not isinstance(text, str) or (key in form.required and not text.strip()):
            raise InvalidPatch(f"{where}: {key} must be a non-empty string")
    code = textwrap.dedent(texts["code"]).strip("\n").rstrip()
    if code:
        _check_code(form.code, code, where)
    if op == "set-kwarg":
        if not texts["name"].isidentifier():
            raise InvalidPatch(f"{where}: name must be a Python name, not {texts['name']!r}")
        _parse_expression(texts["value"], f"{where}: value")
    return Edit(
        op=op,
        scope=texts["in"] or MODULE_SCOPE,
        code=code,
        name=texts["name"],
        value=texts["value"].strip(),
        at=parse_selector(table["at"], f"{where}: at") if "at" in table else None,
    )


def _parse_expression(text: str, where: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise InvalidPatch(f"{where} is not one Python expression") from e


def _check_code(form: str, code: str, where: str) -> None:
    lines = [line for line in code.split("\n") if line.strip()]
    if len(lines) > MAX_CODE_LINES:
        raise InvalidPatch(
            f"{where}: code has {len(lines)} lines, at most {MAX_CODE_LINES} are allowed: "
            "put the substance in hooks.py and call it"
        )
    if form == "expression":
        _parse_expression(code, f"{where}: code")
        return
    try:
        body = ast.parse(code).body
    except SyntaxError as e:
        raise InvalidPatch(f"{where}: code is not Python ({e.msg}, line {e.lineno})") from e
    if form == "parameter":
        first = body[0] if len(body) == 1 else None
        if not (
            isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name) and first.value
        ):
            raise InvalidPatch(f"{where}: code of add-parameter must be 'name: type = default'")
    if form == "import" and not all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in body):
        raise InvalidPatch(f"{where}: code of add-import must be import statements only")
