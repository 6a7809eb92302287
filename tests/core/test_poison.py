"""What is left out of the next connection because of how the last ones ended (R3, R7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.limits import POISONED_AFTER, POISONED_WITHIN_S
from livekit.plugins.resilient.core.poison import (
    Blame,
    ConnectionEnded,
    HistoryUntold,
    LeftOut,
    Poison,
)

FORMS = ("turns", "announced", "instructed")
SOON_S = POISONED_WITHIN_S - 0.01

# A connection that had served for a second and was lost with nobody's fault.
LOST = ConnectionEnded(
    at=101.0,
    resumed=True,
    set_up_at=100.0,
    blames="nothing",
    closed=False,
    finished=False,
    understood=False,
    was_connected=True,
    told=0,
    in_set_up=0,
    announced=False,
)
FRESH = replace(LOST, resumed=False)
REFUSED = replace(LOST, set_up_at=None, closed=True)
REFUSED_FRESH = replace(REFUSED, resumed=False)

KEEP = LeftOut()
REJECTED = LeftOut(handle=True, rejected=True)


def a_poison(*, form: str = "turns", plain: bool = False, limit: int | None = None) -> Poison[str]:
    poison = Poison(FORMS, "announced")
    while poison.form != form:
        assert poison.next_form()
    poison.plain_set_up, poison.limit = plain, limit
    return poison


# -- a connection that was resumed


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (LOST, KEEP),
        (replace(LOST, blames="handle"), REJECTED),
        (replace(LOST, blames="something"), replace(REJECTED, audio=True)),
        (replace(REFUSED, blames="handle"), REJECTED),
        (replace(REFUSED, blames="something"), replace(REJECTED, audio=True)),
        # It was a good one: what it is blamed for came later.
        (replace(LOST, blames="handle", finished=True), KEEP),
        (replace(LOST, blames="handle", at=100.0 + POISONED_WITHIN_S), KEEP),
        (replace(LOST, blames="something", finished=True), LeftOut(audio=True)),
        (replace(LOST, blames="handle", at=100.0 + SOON_S), REJECTED),
    ],
)
def test_a_handle_goes_where_it_is_blamed_soon(fact: ConnectionEnded, expected: LeftOut) -> None:
    poison = a_poison()
    assert poison.receive(fact) == expected
    assert (poison.form, poison.plain_set_up, poison.limit) == ("turns", False, None)


@pytest.mark.parametrize("blame", ["nothing", "handle", "something"])
def test_no_handle_costs_the_history_or_the_set_up_anything(blame: Blame) -> None:
    poison = a_poison(limit=8)
    for fact in (LOST, REFUSED, LOST, REFUSED, LOST):
        assert not poison.receive(replace(fact, blames=blame, told=4, in_set_up=4)).hopeless
    assert (poison.form, poison.plain_set_up, poison.limit) == ("turns", False, 8)


def test_a_handle_goes_with_the_second_death_soon_after_it_was_resumed() -> None:
    poison = a_poison()
    found = [poison.receive(LOST) for _ in range(2 * POISONED_AFTER)]
    assert found == [KEEP, REJECTED, KEEP, REJECTED], "the next handle is another one"


@pytest.mark.parametrize(
    "between",
    [replace(LOST, finished=True), replace(LOST, at=100.0 + POISONED_WITHIN_S)],
    ids=["turn", "time"],
)
def test_deaths_with_a_good_connection_between_them_do_not_count(between: ConnectionEnded) -> None:
    poison = a_poison()
    assert {poison.receive(fact) for fact in (LOST, between) * 3} == {KEEP}


def test_a_failed_dial_is_no_death() -> None:
    poison = a_poison()
    refused = replace(REFUSED, closed=False)
    assert [poison.receive(fact) for fact in (LOST, refused, refused)] == [KEEP] * 3
    assert poison.receive(LOST) == REJECTED


# -- a handle with which every dial is closed


def refused_at(at: float) -> ConnectionEnded:
    return replace(REFUSED, at=at)


def test_a_handle_goes_once_its_dials_were_closed_for_so_long() -> None:
    poison = a_poison()
    ends = (10.0, 11.0, 10.0 + SOON_S, 10.0 + POISONED_WITHIN_S)
    assert [poison.receive(refused_at(at)) for at in ends] == [KEEP, KEEP, KEEP, REJECTED]


@pytest.mark.parametrize(
    ("between", "counts_on"),
    [(LOST, False), (FRESH, False), (replace(REFUSED, at=11.0, closed=False), True)],
    ids=["set up", "fresh", "network"],
)
def test_what_ends_the_time_in_which_they_are_closed(
    between: ConnectionEnded, counts_on: bool
) -> None:
    poison = a_poison()
    poison.receive(refused_at(10.0))
    poison.receive(between)
    last = poison.receive(refused_at(10.0 + POISONED_WITHIN_S))
    assert last == (REJECTED if counts_on else KEEP)


def test_a_network_that_fails_for_long_costs_no_handle() -> None:
    poison = a_poison()
    ends = [replace(REFUSED, at=10.0 * n, closed=False) for n in range(5)]
    assert {poison.receive(fact) for fact in ends} == {KEEP}


# -- a fresh connection


@dataclass(frozen=True)
class After:
    """What a fresh connection is made with."""

    form: str = "turns"
    plain: bool = False
    limit: int | None = None


INVALID = replace(FRESH, blames="something", closed=True)
INVALID_DIAL = replace(REFUSED_FRESH, blames="something")


@pytest.mark.parametrize(
    ("fact", "before", "left_out", "after"),
    [
        (FRESH, After(), KEEP, After()),
        (replace(FRESH, blames="handle"), After(), KEEP, After()),
        (REFUSED_FRESH, After(), KEEP, After()),
        # the set-up
        (
            replace(INVALID_DIAL, was_connected=False),
            After(),
            LeftOut(audio=True),
            After(plain=True),
        ),
        (
            INVALID_DIAL,
            After("announced"),
            LeftOut(audio=True),
            After("instructed"),
        ),
        (
            replace(INVALID_DIAL, in_set_up=9),
            After("instructed", plain=True),
            LeftOut(audio=True),
            After("instructed", plain=True, limit=4),
        ),
        (INVALID_DIAL, After(plain=True), LeftOut(audio=True), After(plain=True)),
        (
            replace(INVALID_DIAL, was_connected=False),
            After(plain=True),
            LeftOut(audio=True, hopeless=True),
            After(plain=True),
        ),
        # what it was told
        (
            replace(INVALID, told=9),
            After(),
            LeftOut(handle=True, audio=True),
            After("announced"),
        ),
        (
            replace(INVALID, told=9),
            After("instructed"),
            LeftOut(handle=True, audio=True),
            After("instructed", limit=4),
        ),
        (
            replace(INVALID, told=9, in_set_up=6),
            After("instructed"),
            LeftOut(handle=True, audio=True),
            After("instructed", limit=3),
        ),
        (
            replace(INVALID, told=9, at=100.0 + POISONED_WITHIN_S),
            After(),
            LeftOut(handle=True, audio=True),
            After("announced"),
        ),
        (INVALID, After(), LeftOut(handle=True, audio=True), After(plain=True)),
        # what came later
        (
            replace(INVALID, told=9, understood=True),
            After(),
            LeftOut(audio=True),
            After(),
        ),
        (replace(INVALID, finished=True), After(), LeftOut(audio=True), After()),
        (
            replace(INVALID, at=100.0 + POISONED_WITHIN_S),
            After(),
            LeftOut(audio=True),
            After(),
        ),
        (
            replace(FRESH, finished=True),
            After("instructed", plain=True, limit=4),
            KEEP,
            After("instructed", plain=True),
        ),
    ],
)
def test_what_is_left_out_after_a_fresh_connection(
    fact: ConnectionEnded, before: After, left_out: LeftOut, after: After
) -> None:
    poison = a_poison(form=before.form, plain=before.plain, limit=before.limit)
    assert poison.receive(fact) == left_out
    assert After(poison.form, poison.plain_set_up, poison.limit) == after


@pytest.mark.parametrize(
    ("told", "closed", "form"), [(9, True, "announced"), (9, False, "turns"), (0, True, "turns")]
)
def test_a_history_that_kills_without_a_word_is_told_in_another_form(
    told: int, closed: bool, form: str
) -> None:
    poison = a_poison()
    for _ in range(POISONED_AFTER):
        assert poison.form == "turns"
        assert poison.receive(replace(FRESH, told=told, closed=closed)) == KEEP
    assert poison.form == form


def test_nothing_is_left_to_leave_out_after_the_second_bare_refusal() -> None:
    poison = a_poison(form="instructed", plain=True)
    found = [poison.receive(INVALID_DIAL).hopeless for _ in range(2)]
    assert found == [False, True]


def test_a_good_connection_forgives_a_bare_refusal() -> None:
    poison = a_poison(form="instructed", plain=True)
    ends = (INVALID_DIAL, replace(FRESH, finished=True), INVALID_DIAL)
    assert not any(poison.receive(fact).hopeless for fact in ends)


def test_a_history_that_cannot_be_made_is_halved_until_none_is_left() -> None:
    poison = a_poison()
    found = [(poison.receive(HistoryUntold(10)), poison.limit) for _ in range(5)]
    told = [(LeftOut(handle=True), limit) for limit in (5, 2, 1, 0)]
    assert found == [*told, (LeftOut(handle=True, hopeless=True), 0)]


# -- a provider that refuses some of it


@dataclass
class Provider:
    """Says "invalid" to a connection with anything in it that it refuses.

    Attributes:
        refuses: Of handle, extras, announcement.
        most: By form, how many items it takes.
    """

    refuses: frozenset[str]
    most: dict[str, int]
    told: int = field(default=0, init=False)

    def connect(self, poison: Poison[str], items: int, *, handle: bool) -> ConnectionEnded | None:
        """One dial; None for a connection that serves."""
        if handle:
            blamed = replace(REFUSED, blames="handle")
            return blamed if "handle" in self.refuses else None
        told = items if poison.limit is None else min(items, poison.limit)
        in_set_up = told if poison.form == "instructed" else 0
        announced = poison.form == "announced" and told > 0
        fact = replace(INVALID_DIAL, told=self.told, in_set_up=in_set_up, announced=announced)
        if not poison.plain_set_up and "extras" in self.refuses:
            return fact
        if announced and "announcement" in self.refuses:
            return fact
        takes = self.most[poison.form]
        if in_set_up > takes:
            return fact
        self.told = told
        return replace(fact, set_up_at=100.0, told=told) if told > takes else None


def play(provider: Provider, items: int, *, handle: bool) -> tuple[Poison[str], int, bool]:
    """Dial until a connection serves or none is to be had; the state, the dials, and which."""
    poison = a_poison()
    for dials in range(1, 40):
        end = provider.connect(poison, items, handle=handle)
        if end is None:
            return poison, dials, True
        left_out = poison.receive(end)
        if left_out.hopeless:
            return poison, dials, False
        handle = handle and not left_out.handle
    raise AssertionError("dialled for ever")


counts = st.integers(0, 200)
providers = st.builds(
    Provider,
    refuses=st.frozensets(st.sampled_from(["handle", "extras", "announcement"])),
    most=st.fixed_dictionaries(dict.fromkeys(FORMS, counts)),
)


@given(providers, counts, st.booleans())
def test_a_provider_that_takes_a_bare_session_gets_one_in_the_end(
    provider: Provider, items: int, handle: bool
) -> None:
    poison, dials, serves = play(provider, items, handle=handle)
    assert serves
    assert dials <= 1 + 1 + len(FORMS) + items.bit_length()
    if provider.most["turns"] >= items and "extras" not in provider.refuses:
        assert (poison.form, poison.plain_set_up, poison.limit) == ("turns", False, None)


@given(counts, st.booleans())
def test_one_that_refuses_everything_is_given_up(items: int, handle: bool) -> None:
    class Never(Provider):
        def connect(
            self, poison: Poison[str], items: int, *, handle: bool
        ) -> ConnectionEnded | None:
            found = super().connect(poison, items, handle=handle)
            return found or replace(INVALID_DIAL, resumed=handle)

    never = Never(frozenset(["handle", "extras", "announcement"]), dict.fromkeys(FORMS, 0))
    _, dials, serves = play(never, items, handle=handle)
    assert not serves
    assert dials <= 4 + len(FORMS) + items.bit_length()


@given(
    st.lists(
        st.builds(
            ConnectionEnded,
            at=st.floats(0, 100),
            resumed=st.booleans(),
            set_up_at=st.none() | st.floats(0, 100),
            blames=st.sampled_from(["nothing", "handle", "something"]),
            closed=st.booleans(),
            finished=st.booleans(),
            understood=st.booleans(),
            was_connected=st.booleans(),
            told=counts,
            in_set_up=counts,
            announced=st.booleans(),
        )
    )
)
def test_forms_only_get_plainer_and_a_call_ends_for_blame_alone(
    ends: Sequence[ConnectionEnded],
) -> None:
    poison = a_poison()
    for end in ends:
        form = FORMS.index(poison.form)
        plain = poison.plain_set_up
        left_out = poison.receive(end)
        assert FORMS.index(poison.form) >= form
        assert poison.plain_set_up >= plain
        assert not left_out.hopeless or (end.blames == "something" and not end.resumed)
        assert left_out.handle or not left_out.rejected
        assert not left_out.audio or end.blames == "something"
