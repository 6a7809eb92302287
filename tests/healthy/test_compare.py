"""What counts as a difference, and how it is told."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import pytest

from .compare import MISSING, TOLERANCE_S, Difference, compare
from .observe import Observation, Seen
from .plain import Names, plain


def differences(theirs: Sequence[Seen], own: Sequence[Seen]) -> list[Difference]:
    upstream, ours = Observation(), Observation()
    upstream.channels["wire"] = list(theirs)
    ours.channels["wire"] = list(own)
    return compare(upstream, ours)


def frames(*labels: str) -> list[Seen]:
    return [Seen(label, {"n": 1}, float(place)) for place, label in enumerate(labels)]


def test_equal_runs_have_no_difference() -> None:
    assert differences(frames("a", "b", "b"), frames("a", "b", "b")) == []


def test_one_frame_too_many_is_told_with_its_place() -> None:
    own = frames("a", "b", "c", "d")
    own.insert(2, Seen("cancel", {"id": 7}, 1.5))
    (found,) = differences(frames("a", "b", "c", "d"), own)
    assert (found.label, found.place, found.upstream) == ("cancel", 2, MISSING)
    assert str(found) == "wire[2] 'cancel' at 1.50 s: upstream (nothing), ours {'id': 7}"


def test_one_frame_too_few_is_told() -> None:
    (found,) = differences(
        frames("a", "b", "c", "d"), [*frames("a"), *frames("x", "b", "c", "d")[2:]]
    )
    assert (found.label, found.ours) == ("b", MISSING)


def test_another_order_is_a_difference() -> None:
    assert differences(frames("a", "b", "c", "d"), frames("a", "c", "b", "d"))


def test_events_of_different_kinds_have_no_order_at_one_moment() -> None:
    upstream, ours = Observation(), Observation()
    upstream.channels["events"] = [Seen("state", 1, 4.0), Seen("usage", 2, 4.0)]
    ours.channels["events"] = list(reversed(upstream.channels["events"]))
    assert compare(upstream, ours) == []
    ours.channels["events"][0] = Seen("usage", 2, 5.0)
    assert [found.path for found in compare(upstream, ours)] == ["@"]


def test_what_cannot_be_aligned_ends_with_one_difference() -> None:
    (found,) = differences(frames("a", *"bcde"), frames("a", *("x" * 20)))
    assert (found.upstream, found.ours) == ("b > c > d > e", "x > x > x > x > x")


def test_a_field_is_told_by_its_path() -> None:
    theirs = [Seen("a", {"session": {"tools": [{"name": "x"}]}})]
    own = [Seen("a", {"session": {"tools": [{"name": "y"}, {"name": "z"}]}})]
    assert [(found.path, found.upstream, found.ours) for found in differences(theirs, own)] == [
        (".session.tools[0].name", "x", "y"),
        (".session.tools[1]", MISSING, {"name": "z"}),
    ]


@pytest.mark.parametrize(("late_s", "count"), [(TOLERANCE_S / 2, 0), (TOLERANCE_S * 2, 1)])
def test_times_may_differ_by_the_tolerance(late_s: float, count: int) -> None:
    own = [Seen("a", {"n": 1}, late_s)]
    found = differences(frames("a"), own)
    assert [difference.path for difference in found] == ["@"] * count


def test_whole_numbers_and_truth_have_no_tolerance() -> None:
    assert differences([Seen("a", 100_000)], [Seen("a", 100_001)])
    assert differences([Seen("a", True)], [Seen("a", 1)])


def test_random_ids_are_numbered_and_a_servers_are_kept() -> None:
    names = Names()
    first, second = "item_0123456789ab", "item_ba9876543210"
    assert names.stable(first) == "item_<1>"
    assert names.stable(f"{second} after {first}") == "item_<2> after item_<1>"
    assert names.stable("resp_000000000012") == "resp_000000000012"
    assert names.stable("http://127.0.0.1:4711/x") == "http://the server/x"
    assert Names(count=False).stable(second) == "item_<>"


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Fact:
    name: str
    created_at: float
    colour: Colour
    what: Any


def test_anything_becomes_plain_data() -> None:
    fact = Fact("x", 1.0, Colour.RED, object())
    assert plain([fact, '{"a": 1.5}', ValueError("no")], Names()) == [
        {"name": "x", "colour": "red", "what": "an object"},
        {"a": 1.5},
        {"class": "ValueError", "text": "no"},
    ]
