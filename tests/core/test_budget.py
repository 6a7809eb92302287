"""An outage ends by progress only, and has an end (R2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.budget import Budget, BudgetLimits
from livekit.plugins.resilient.core.limits import FIRST_REDIAL_S

DEADLINE_S, HEALTHY_S = 60.0, 10.0


def limits(max_redials: int | None = None, base_s: float = 0.25) -> BudgetLimits:
    return BudgetLimits(
        connect_timeout_s=10.0,
        deadline_s=DEADLINE_S,
        base_s=base_s,
        cap_s=8.0,
        healthy_after_s=HEALTHY_S,
        max_redials=max_redials,
    )


def test_the_first_redial_is_spread_and_the_waits_double_up_to_the_cap() -> None:
    budget = Budget(limits())
    waits = [budget.lost(0.0, 1.0) for _ in range(9)]
    assert waits == [FIRST_REDIAL_S, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_very_many_redials_are_as_far_apart_as_the_cap() -> None:
    budget = Budget(limits())
    for _ in range(1100):
        assert budget.lost(0.0, 0.0) == 0.0
    assert budget.lost(0.0, 1.0) == 8.0


@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_jitter_shortens_the_wait(jitter: float) -> None:
    budget = Budget(limits())
    assert [budget.lost(0.0, jitter) for _ in range(2)] == [jitter * 0.25, jitter * 0.25]


def test_a_longer_base_of_the_application_does_not_hold_back_the_first_redial() -> None:
    budget = Budget(limits(base_s=2.0))
    assert [budget.lost(0.0, 1.0) for _ in range(2)] == [FIRST_REDIAL_S, 2.0]


def test_a_shorter_one_does_not_lengthen_it() -> None:
    budget = Budget(limits(base_s=0.1))
    assert budget.lost(0.0, 1.0) == 0.1


def test_a_dial_that_would_come_after_the_deadline_is_not_made() -> None:
    budget = Budget(limits())
    assert budget.lost(100.0, 0.0) == 0.0
    assert budget.lost(159.0, 1.0) == 0.25
    assert budget.lost(159.6, 1.0) is None


def test_the_number_of_redials_can_be_bounded() -> None:
    budget = Budget(limits(max_redials=2))
    assert [budget.lost(0.0, 0.0) for _ in range(3)] == [0.0, 0.0, None]


def test_a_bare_connection_does_not_end_the_outage() -> None:
    budget = Budget(limits(max_redials=2))
    for at in (0.0, 9.0):
        budget.connected(at, owed=False)
        assert budget.lost(at + 9.0, 0.0) == 0.0
    budget.connected(18.0, owed=False)
    assert budget.lost(19.0, 0.0) is None


@pytest.mark.parametrize("how", ["a turn", "ten seconds at rest", "ten seconds between two"])
def test_progress_ends_the_outage(how: str) -> None:
    budget = Budget(limits(max_redials=1))
    budget.lost(0.0, 1.0)
    budget.connected(1.0, owed=how != "ten seconds at rest")
    if how == "a turn":
        budget.progressed()
    elif how == "ten seconds between two":
        budget.rests(2.0)
        budget.owes(12.0)
    assert budget.lost(12.0, 0.0) == 0.0


@pytest.mark.parametrize("owed_from_s", [0.0, 9.9])
def test_a_connection_that_owes_an_answer_proves_nothing_however_long_it_lasts(
    owed_from_s: float,
) -> None:
    budget = Budget(limits(max_redials=1))
    budget.lost(0.0, 1.0)
    budget.connected(1.0, owed=not owed_from_s)
    if owed_from_s:
        budget.owes(1.0 + owed_from_s)
    assert budget.lost(50.0, 0.0) is None


def test_two_short_rests_are_no_long_one() -> None:
    budget = Budget(limits(max_redials=1))
    budget.lost(0.0, 1.0)
    budget.connected(1.0, owed=False)
    budget.owes(7.0)
    budget.rests(8.0)
    assert budget.lost(14.0, 0.0) is None


def test_connections_that_give_nothing_spend_the_budget_though_every_dial_succeeds() -> None:
    budget, now, rounds = Budget(limits()), 0.0, 0
    budget.connected(now, owed=True)
    while budget.gave_nothing(now):
        rounds += 1
        now += 12.0
        budget.connected(now, owed=True)
    assert (rounds, now) == (5, DEADLINE_S)


def test_a_failed_dial_is_not_helped_by_an_old_connection() -> None:
    budget = Budget(limits(max_redials=1))
    budget.connected(0.0, owed=False)
    assert budget.lost(20.0, 0.0) == 0.0
    assert budget.lost(31.0, 0.0) is None


@given(jitters=st.lists(st.floats(0, 1), min_size=20, max_size=40), dial_s=st.floats(0.1, 10))
def test_an_outage_ends_within_its_deadline(jitters: list[float], dial_s: float) -> None:
    budget, now = Budget(limits()), 0.0
    for jitter in jitters * 40:
        wait_s = budget.lost(now, jitter)
        if wait_s is None:
            return
        assert now + wait_s < DEADLINE_S
        now += wait_s + dial_s
    raise AssertionError("it never gave up")


def test_a_handover_counts_the_rest_of_the_connection_it_replaces() -> None:
    budget = Budget(limits(max_redials=1))
    budget.lost(0.0, 1.0)
    budget.connected(1.0, owed=False)
    budget.connected(100.0, owed=False)
    assert budget.lost(100.5, 0.0) == 0.0
    budget.connected(101.0, owed=False)
    budget.connected(102.0, owed=False)
    assert budget.lost(102.5, 0.0) is None
