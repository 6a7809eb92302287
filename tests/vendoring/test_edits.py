"""Each operation on made-up code: the exact text that results, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vendoring.engine import apply
from vendoring.errors import AlreadyApplied, Ambiguous, NotFound, PatchProblem, Refused
from vendoring.patchfile import Patch

PatchMaker = Callable[..., Patch]

CODE = """\
import os


def work(self, items):
    \"\"\"Do it.\"\"\"
    # about total
    total = 0
    for item in items:
        if item.ready and not item.done:
            total += item.cost(scale=2)
        elif item.late:
            self.log(item)
    try:
        self.save(total)
    except OSError as e:
        self.fail(e)
    return total


class Box:
    size = 1

    def open(self):
        return f"{self.size!r}"
"""


@pytest.fixture
def edited(make_patch: PatchMaker) -> Callable[..., str]:
    """Apply one edit, `scope` standing for `in`; the result comes without marker comments."""

    def run(upstream: str = CODE, /, **edit: Any) -> str:
        if "scope" in edit:
            edit["in"] = edit.pop("scope")
        result = apply(upstream.encode(), make_patch(edit), "made_up.py")
        lines = result.decode().splitlines(keepends=True)
        return "".join(line for line in lines if "# resilient-patch: " not in line)

    return run


Edited = Callable[..., str]


def test_insert_after_keeps_the_indent(edited: Edited) -> None:
    at = {"call": "self.save"}
    inner = edited(op="insert-after", scope="work", at=at, code="one()\nif x:\n    two()")
    assert inner == CODE.replace(
        "    except", "        one()\n        if x:\n            two()\n    except"
    )
    after = edited(op="insert-after", scope="work", at={"kind": "For"}, code="one()")
    assert after == CODE.replace("    try:\n", "    one()\n    try:\n")


def test_insert_first_goes_after_a_docstring(edited: Edited) -> None:
    result = edited(op="insert-first", scope="work", code="one()")
    assert result == CODE.replace("    # about total\n", "    one()\n    # about total\n")


def test_insert_first_reaches_into_an_except_clause(edited: Edited) -> None:
    at = {"handles": "OSError"}
    first = edited(op="insert-first", scope="work", at=at, code="one(e)")
    assert first == CODE.replace("        self.fail(e)\n", "        one(e)\n        self.fail(e)\n")


@pytest.mark.parametrize(
    ("call", "name", "value", "result"),
    [
        ("f()", "a", "1", "f(a=1)"),
        ("f(x)", "a", "1", "f(x, a=1)"),
        ("f(x, b=2)", "a", "1", "f(x, b=2, a=1)"),
        ("f(x, a=2)", "a", "1", "f(x, a=1)"),
        ("f(x, a=2)", "a", "b or c", "f(x, a=(b or c))"),
        ("f(\n    x,  # why (,)\n)", "a", "1", "f(\n    x, a=1,  # why (,)\n)"),
        ("f(*x, **y)", "a", "1", "f(*x, **y, a=1)"),
    ],
)
def test_set_kwarg_adds_or_changes_one_argument(
    edited: Edited, call: str, name: str, value: str, result: str
) -> None:
    code = f"def work(x):\n    return {call}\n"
    edit = {"op": "set-kwarg", "scope": "work", "name": name, "value": value}
    assert edited(code, at={"call": "f"}, **edit) == f"def work(x):\n    return {result}\n"


def test_set_kwarg_sees_that_upstream_has_it(edited: Edited) -> None:
    edit = {"op": "set-kwarg", "scope": "work", "name": "scale", "value": "2"}
    with pytest.raises(AlreadyApplied, match="scale is already 2"):
        edited(at={"call": "item.cost"}, **edit)


def test_replace_expr_takes_one_part_of_a_condition(edited: Edited) -> None:
    at = {"expr": "not item.done", "within": {"kind": "If"}}
    result = edited(op="replace-expr", scope="work", at=at, code="a or b")
    assert result == CODE.replace("item.ready and not item.done", "item.ready and (a or b)")


def test_add_import_goes_after_the_opening_imports_and_only_once(edited: Edited) -> None:
    result = edited(op="add-import", code="import os\nimport json\nfrom a import b as c")
    assert result == CODE.replace("import os\n", "import os\nimport json\nfrom a import b as c\n")


def test_add_import_follows_a_docstring_where_there_is_no_import(edited: Edited) -> None:
    code = '"""Doc."""\n\nx = 1\n'
    assert edited(code, op="add-import", code="import json").startswith('"""Doc."""\nimport json\n')


# -- refusals: found, but not safe there


@pytest.mark.parametrize(
    ("code", "edit", "says"),
    [
        (
            "def work():\n    a(); b()\n",
            {"op": "insert-after", "at": {"call": "a"}, "code": "x"},
            "shares a line",
        ),
        ("def work(): a()\n", {"op": "insert-first", "code": "b()"}, "shares a line"),
        (CODE, {"op": "insert-after", "at": {"test": "item.late"}, "code": "x"}, "elif"),
        (
            CODE,
            {"op": "insert-after", "at": {"kind": "ExceptHandler"}, "code": "x"},
            "except clause",
        ),
        (CODE, {"op": "set-kwarg", "at": {"kind": "For"}, "name": "a", "value": "1"}, "not a call"),
        (CODE, {"op": "insert-first", "at": {"kind": "Return"}, "code": "x"}, "no body"),
        (
            "def work():\n    f(a=(1))\n",
            {"op": "set-kwarg", "at": {"call": "f"}, "name": "b", "value": "1"},
            "parentheses",
        ),
        (
            "def work():\n    a.b = a.b\n",
            {"op": "replace-expr", "at": {"expr": "a.b"}, "code": "x"},
            "2 matches",
        ),
        (
            "def work():\n    a.b = 1\n",
            {"op": "replace-expr", "at": {"expr": "a.b"}, "code": "x"},
            "assigned to",
        ),
        (
            "def work():\n    return f'{a.b}'\n",
            {"op": "replace-expr", "at": {"expr": "a.b"}, "code": "x"},
            "f-string",
        ),
        (
            "def work():\n    a()",
            {"op": "insert-after", "at": {"call": "a"}, "code": "b()"},
            "newline",
        ),
    ],
)
def test_unsafe_places_are_refused(
    edited: Edited, code: str, edit: dict[str, Any], says: str
) -> None:
    with pytest.raises(PatchProblem, match=says):
        edited(code, scope="work", **edit)


def test_nothing_found_says_which_anchor(edited: Edited) -> None:
    at = {"call": "gone", "kw": {"now": "True"}}
    with pytest.raises(NotFound) as caught:
        edited(op="insert-after", scope="work", at=at, code="x")
    assert str(caught.value) == (
        "patch google/sample: insert-after in work, node calling `gone` with now=True: 0 matches"
    )


def test_two_found_says_where(edited: Edited) -> None:
    with pytest.raises(Ambiguous, match=r"2 matches at lines 7, 10"):
        edited(op="insert-after", scope="work", at={"assign": "total"}, code="x")


def test_a_missing_scope_says_which_name(edited: Edited) -> None:
    with pytest.raises(NotFound, match=r"scope Box\.shut: 0 matches for 'shut'"):
        edited(op="insert-first", scope="Box.shut", code="pass")


def test_crlf_files_stay_crlf(edited: Edited) -> None:
    result = edited(
        CODE.replace("\n", "\r\n"), op="insert-first", scope="work", code="one()\ntwo()"
    )
    assert result == CODE.replace(
        "    # about total\n", "    one()\n    two()\n    # about total\n"
    ).replace("\n", "\r\n")


# -- parameters


def test_add_parameter_reaches_the_overload_stubs(edited: Edited) -> None:
    code = """\
class Box:
    @overload
    def fill(self, *, size=1): ...
    @overload
    def fill(self, *, name): ...
    def fill(self, *, size=1, name=None, **rest):
        pass
"""
    edit = {"op": "add-parameter", "scope": "Box.fill", "code": "more: X | None = None"}
    assert edited(code, **edit) == code.replace(
        "size=1):", "size=1, more: X | None = None):"
    ).replace("name):", "name, more: X | None = None):").replace(
        "name=None, **rest", "name=None, more: X | None = None, **rest"
    )


@pytest.mark.parametrize(
    ("header", "error", "says"),
    [
        ("def work(a):", Refused, "no keyword-only parameter"),
        ("def work(*, more=1):", AlreadyApplied, "already takes more"),
        ("class work:", Refused, "needs a function"),
    ],
)
def test_add_parameter_refuses_where_it_does_not_fit(
    edited: Edited, header: str, error: type[PatchProblem], says: str
) -> None:
    with pytest.raises(error, match=says):
        edited(f"{header}\n    pass\n", op="add-parameter", scope="work", code="more: int = 2")
