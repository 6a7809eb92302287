from __future__ import annotations

from typing import Any

import pytest

from vendoring.errors import InvalidPatch
from vendoring.selectors import SELECTOR_KEYS, find, parse_selector
from vendoring.source import Source

CODE = b"""\
class Box:
    async def run(self, items):
        a = b = self.make(1, kind="x")
        c: int = self.make(2, kind="y")
        try:
            if not a or c == 0:
                await self.make(a)
        except (OSError, ValueError) as e:
            self.tell(e)

        def later():
            self.make(3)

        while items:
            items.pop()
        else:
            self.tell(None)
"""


def lines(scope: str = "Box.run", **selector: Any) -> list[int]:
    source = Source(CODE, "box.py")
    parsed = parse_selector(selector, "at")
    return [n.lineno for n in find(source, source.scope(scope), parsed)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"kind": "Await"}, [7]),
        ({"call": "self.make"}, [3, 4, 7]),
        ({"call": "self.make", "nested": True}, [3, 4, 7, 12]),
        ({"call": "self.make", "kw": {"kind": "*"}}, [3, 4]),
        ({"call": "self.make", "kw": {"kind": "'y'"}}, [4]),
        ({"call": "self.make", "arg": "a"}, [7]),
        ({"call": "self.make", "arg": ["a", "b"]}, []),
        ({"assign": "a"}, [3]),
        ({"assign": "b"}, [3]),
        ({"assign": "c"}, [4]),
        ({"test": "not a or c == 0"}, [6]),
        ({"test": "not  a  or (c==0)"}, [6]),
        ({"expr": "not a"}, [6]),
        ({"handles": "(OSError, ValueError)"}, [8]),
        ({"name": "later"}, [11]),
        ({"name": "e"}, [8]),
        ({"call": "self.tell", "within": {"kind": "ExceptHandler"}}, [9]),
        ({"call": "self.tell", "within": [{"kind": "Try"}, {"kind": "While"}]}, []),
        ({"kind": "Try", "has": {"call": "self.tell"}, "not-has": {"kind": "While"}}, [5]),
        ({"kind": "While", "not-has": {"call": "self.tell"}}, []),
        ({"kind": "Expr", "has": [{"call": "self.make"}, {"expr": "a"}]}, [7]),
    ],
)
def test_all_given_facts_must_hold(selector: dict[str, Any], expected: list[int]) -> None:
    assert lines(**selector) == expected


def test_with_has_the_innermost_match_counts() -> None:
    """The try statement contains the call too, but only through the if statement."""
    assert lines(has={"call": "self.make", "arg": "a"}) == [7]


def test_within_does_not_look_outside_the_scope() -> None:
    assert lines(call="self.tell", within={"kind": "ClassDef"}) == []


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ({"cal": "x"}, "unknown selector key 'cal' .allowed: " + ", ".join(SELECTOR_KEYS)),
        ({}, "at least one of"),
        ({"nested": True}, "at least one of"),
        ({"kind": "Iff"}, "'Iff' is no ast"),
        ({"kind": "stmt"}, "'stmt' is no ast"),
        ({"call": "a b"}, "at.call: 'a b' is not a Python expression"),
        ({"call": 3}, "at.call must be a Python expression"),
        ({"kw": {}}, "at.kw must be a table"),
        ({"kw": {"a-b": "1"}}, "at.kw must be a Python name"),
        ({"has": {"knd": "If"}}, "at.has: unknown selector key 'knd'"),
        ({"within": "If"}, "at.within must be a table"),
        ({"kind": "If", "nested": "yes"}, "at.nested must be true or false"),
        ({"name": "a.b"}, "at.name must be a Python name"),
    ],
)
def test_a_malformed_selector_names_the_key(selector: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPatch, match=says):
        parse_selector(selector, "at")
