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


def test_insert_before_and_after_keep_the_indent(edited: Edited) -> None:
    at = {"call": "self.save"}
    before = edited(op="insert-before", scope="work", at=at, code="one()\nif x:\n    two()")
    assert before == CODE.replace(
        "        self.save", "        one()\n        if x:\n            two()\n        self.save"
    )
    after = edited(op="insert-after", scope="work", at={"kind": "For"}, code="one()")
    assert after == CODE.replace("    try:\n", "    one()\n    try:\n")


def test_insert_first_goes_after_a_docstring(edited: Edited) -> None:
    result = edited(op="insert-first", scope="work", code="one()")
    assert result == CODE.replace("    # about total\n", "    one()\n    # about total\n")


def test_insert_first_and_last_reach_into_an_except_clause(edited: Edited) -> None:
    at = {"handles": "OSError"}
    first = edited(op="insert-first", scope="work", at=at, code="one(e)")
    assert first == CODE.replace("        self.fail(e)\n", "        one(e)\n        self.fail(e)\n")
    last = edited(op="insert-last", scope="work", at=at, code="one(e)")
    assert last == CODE.replace("        self.fail(e)\n", "        self.fail(e)\n        one(e)\n")


def test_replace_takes_the_whole_statement(edited: Edited) -> None:
    result = edited(op="replace", scope="work", at={"assign": "total", "kind": "Assign"}, code="x")
    assert result == CODE.replace("    total = 0\n", "    x\n")


def test_remove_leaves_pass_only_where_a_block_would_be_empty(edited: Edited) -> None:
    alone = edited(op="remove", scope="work", at={"call": "self.fail"})
    assert alone == CODE.replace("        self.fail(e)\n", "        pass\n")
    among = edited(op="remove", scope="work", at={"kind": "Return"})
    assert among == CODE.replace("    return total\n", "")


def test_replace_body_keeps_the_docstring(edited: Edited) -> None:
    result = edited(op="replace-body", scope="work", code="return self.ours(items)")
    head, _, rest = CODE.partition("    total = 0\n")
    tail = rest.partition("    return total\n")[2]
    assert result == head + "    return self.ours(items)\n" + tail


STRINGS = '''\
def work(self):
    self.say("""first
  second""", f"""{self}
third""",
             1)
    return 1
'''


def test_wrap_indents_but_leaves_long_strings_alone(edited: Edited) -> None:
    code = "if ok():\n    __BODY__\nelse:\n    no()"
    result = edited(STRINGS, op="wrap", scope="work", at={"call": "self.say"}, code=code)
    assert (
        result
        == '''\
def work(self):
    if ok():
        self.say("""first
  second""", f"""{self}
third""",
                 1)
    else:
        no()
    return 1
'''
    )


def test_move_after_and_before_a_sibling(edited: Edited) -> None:
    total, loop, save = {"assign": "total", "kind": "Assign"}, {"kind": "For"}, {"kind": "Try"}
    after = edited(op="move", scope="work", at=total, after=loop)
    assert after == CODE.replace("    total = 0\n", "").replace(
        "    try:\n", "    total = 0\n    try:\n"
    )
    before = edited(op="move", scope="work", at=save, before=total)
    block = CODE[CODE.index("    try:\n") : CODE.index("    return total\n")]
    assert before == CODE.replace(block, "").replace("    total = 0\n", block + "    total = 0\n")


def test_move_goes_beside_the_sibling_that_holds_the_destination(edited: Edited) -> None:
    """When upstream puts the destination under a condition, the order is still kept."""
    at, after = {"assign": "total", "kind": "Assign"}, {"call": "self.save"}
    result = edited(op="move", scope="work", at=at, after=after)
    assert result == CODE.replace("    total = 0\n", "").replace(
        "    return total\n", "    total = 0\n    return total\n"
    )


def test_move_stays_inside_a_nest_of_blocks(edited: Edited) -> None:
    code = """\
async def run(self):
    while True:
        try:
            await self.dial()
        except OSError as e:
            if self.left:
                self.tell(e)
                pause = 1
                await self.sleep(pause)
                self.left -= 1
"""
    result = edited(
        code, op="move", scope="run", at={"call": "self.tell"}, after={"call": "self.sleep"}
    )
    told = "                self.tell(e)\n"
    slept = "                await self.sleep(pause)\n"
    assert result == code.replace(told, "").replace(slept, slept + told)


def test_move_refuses_what_are_no_siblings(edited: Edited) -> None:
    with pytest.raises(Refused, match="not siblings"):
        edited(op="move", scope="work", at={"call": "self.save"}, after={"kind": "Return"})


def test_move_sees_that_the_order_is_right_already(edited: Edited) -> None:
    with pytest.raises(AlreadyApplied, match="already after"):
        edited(op="move", scope="work", at={"kind": "Return"}, after={"kind": "For"})


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


def test_guard_adds_to_a_condition(edited: Edited) -> None:
    at = {"test": "item.late"}
    result = edited(op="guard", scope="work", at=at, code="ours(item)")
    assert result == CODE.replace("elif item.late", "elif (item.late) and ours(item)")


def test_decorate_goes_before_the_other_decorators(edited: Edited) -> None:
    code = "@one\ndef work():\n    pass\n"
    assert edited(code, op="decorate", scope="work", code="two(1)") == "@two(1)\n" + code
    with pytest.raises(AlreadyApplied, match="already decorated"):
        edited(code, op="decorate", scope="work", code="one")


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
        ("def work():\n    a(); b()\n", {"op": "remove", "at": {"call": "a"}}, "shares a line"),
        ("def work(): a()\n", {"op": "replace-body", "code": "b()"}, "shares a line"),
        (CODE, {"op": "remove", "at": {"test": "item.late"}}, "elif"),
        (CODE, {"op": "replace", "at": {"kind": "ExceptHandler"}, "code": "x"}, "except clause"),
        (CODE, {"op": "guard", "at": {"kind": "Return"}, "code": "x"}, "no condition"),
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
    with pytest.raises(NotFound) as caught:
        edited(op="remove", scope="work", at={"call": "gone", "kw": {"now": "True"}})
    assert str(caught.value) == (
        "patch google/sample: remove in work, node calling `gone` with now=True: 0 matches"
    )


def test_two_found_says_where(edited: Edited) -> None:
    with pytest.raises(Ambiguous, match=r"2 matches at lines 7, 10"):
        edited(op="remove", scope="work", at={"assign": "total"})


def test_a_missing_scope_says_which_name(edited: Edited) -> None:
    with pytest.raises(NotFound, match=r"scope Box\.shut: 0 matches for 'shut'"):
        edited(op="replace-body", scope="Box.shut", code="pass")


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
