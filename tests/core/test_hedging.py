"""One session in ten of a process hedges at a time, and none for a while after a refusal (R24)."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core.hedging import HedgeAllowance
from livekit.plugins.resilient.core.limits import HEDGE_RETRY_S, HEDGING_OFF_S


@pytest.mark.parametrize(
    ("sessions", "places"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (100, 10)]
)
def test_one_in_ten_at_least_one(sessions: int, places: int) -> None:
    allowance = HedgeAllowance()
    seats = [allowance.join() for _ in range(sessions)]
    assert allowance.sessions == sessions
    assert sum(seat.take(0.0) for seat in seats) == places == allowance.hedging


def test_a_place_that_is_given_back_is_free_for_another() -> None:
    allowance = HedgeAllowance()
    first, second = allowance.join(), allowance.join()
    assert first.take(0.0)
    assert first.hedges
    assert not second.take(1.0)
    assert second.free_at(1.0) == 1.0 + HEDGE_RETRY_S
    first.give_back()
    first.give_back()
    assert allowance.hedging == 0
    assert second.take(2.0)
    first.give_back()
    assert allowance.hedging == 1, "it was not the first one's to give"


def test_a_session_hedges_once_at_a_time() -> None:
    allowance = HedgeAllowance()
    seats = [allowance.join() for _ in range(20)]
    assert seats[0].take(0.0)
    assert not seats[0].take(0.0)


def test_a_session_that_is_over_counts_no_more_and_leaves_no_hedge() -> None:
    allowance = HedgeAllowance()
    first, second = allowance.join(), allowance.join()
    first.take(0.0)
    first.leave()
    first.leave()
    assert (allowance.sessions, allowance.hedging) == (1, 0)
    assert not first.take(1.0)
    assert second.take(1.0)


def test_a_refusal_switches_it_off_for_all_of_them_for_a_while() -> None:
    allowance = HedgeAllowance()
    first, second = allowance.join(), allowance.join()
    first.take(0.0)
    first.refused(3.0)
    first.give_back()
    assert not second.take(4.0)
    assert second.free_at(4.0) == 3.0 + HEDGING_OFF_S
    assert not second.take(62.9)
    assert second.take(63.0)
