"""How long a session tries: the times alone, without sockets."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core.limits import FAILOVER_LAST_DIAL_S
from livekit.plugins.resilient.core.reconnect import RedialLimits
from livekit.plugins.resilient.dialling import Dialling, Outages
from livekit.plugins.resilient.fallback import Fallback, GivenUp

TIMEOUT_S, AFTER_S, DEADLINE_S, HEALTHY_S = 10.0, 3.0, 60.0, 10.0
LIMITS = RedialLimits(deadline_s=DEADLINE_S, base_s=0.25, cap_s=8.0, healthy_after_s=HEALTHY_S)


class FakeFallback(Fallback):
    """Another model is available in so many seconds; None for never."""

    given_up: GivenUp | None = None

    def __init__(self, other_in_s: float | None) -> None:
        self.other_in_s = other_in_s

    def other_model_in_s(self) -> float | None:
        return self.other_in_s


def outages(
    fallback: FakeFallback, *, after_s: float | None = AFTER_S, connected_at: float | None = 0.0
) -> Outages:
    made = Outages(Dialling(TIMEOUT_S, LIMITS, after_s), fallback)
    if connected_at is not None:
        assert made.dialling(connected_at) == TIMEOUT_S
        made.connected(connected_at)
    return made


def test_redials_go_on_until_another_model_is_better() -> None:
    made = outages(FakeFallback(0.0))
    now, dials = 100.0, 0
    while (wait_s := made.lost(now, 1.0)) is not None:
        now += wait_s
        assert made.dialling(now) <= AFTER_S
        dials += 1
    assert now == 100.0 + AFTER_S - FAILOVER_LAST_DIAL_S
    assert dials == 5  # after 0, 0.25, 0.75, 1.75 and 2.75


def test_a_dial_takes_what_is_left() -> None:
    made = outages(FakeFallback(0.0))
    made.lost(100.0, 0.0)
    assert made.dialling(100.0) == AFTER_S
    made.lost(101.0, 0.0)
    assert made.dialling(101.0) == AFTER_S - 1.0
    made.lost(102.5, 0.0)
    assert made.dialling(102.5) == 0.5


def test_the_first_redial_is_whole_however_late_it_is_made() -> None:
    made = outages(FakeFallback(0.0))
    made.lost(100.0, 0.0)
    assert made.dialling(105.0) == AFTER_S


def test_the_one_timeout_is_not_lengthened() -> None:
    made = Outages(Dialling(2.0, LIMITS, AFTER_S), FakeFallback(0.0))
    made.dialling(0.0)
    made.connected(0.0)
    made.lost(100.0, 0.0)
    assert made.dialling(100.0) == 2.0


@pytest.mark.parametrize("other_in_s", [None, 0.0])
def test_nothing_changes_without_another_model_or_where_it_is_switched_off(
    other_in_s: float | None,
) -> None:
    made = outages(FakeFallback(other_in_s), after_s=None if other_in_s == 0 else AFTER_S)
    now = 100.0
    while (wait_s := made.lost(now, 1.0)) is not None:
        now += wait_s
        assert made.dialling(now) == TIMEOUT_S
    assert now > 100.0 + DEADLINE_S - 10


def test_a_model_that_is_barred_is_waited_for() -> None:
    fallback = FakeFallback(20.0)
    made = outages(fallback)
    now = 100.0
    for _ in range(6):  # waits of 0 to 4 in all 7.75
        wait_s = made.lost(now, 1.0)
        assert wait_s is not None
        now += wait_s
        fallback.other_in_s = 120.0 - now
        assert made.dialling(now) == TIMEOUT_S
    fallback.other_in_s = 2.0
    assert made.lost(118.0, 1.0) == 2.0
    # It may still be late, so that the dial is not cut at once.
    fallback.other_in_s = 0.1
    assert made.dialling(119.9) == AFTER_S
    assert made.lost(119.9, 1.0) == 0.1
    fallback.other_in_s = 0.0
    assert made.lost(120.1, 1.0) is None


def test_a_first_dial_has_the_whole_time() -> None:
    made = outages(FakeFallback(0.0), connected_at=None)
    assert made.dialling(100.0) == TIMEOUT_S
    assert made.lost(110.0, 1.0) is None
    made = outages(FakeFallback(0.0), connected_at=None)
    made.dialling(100.0)
    assert made.lost(100.0, 1.0) == 0.0
    assert made.dialling(100.0) == AFTER_S
    assert made.lost(101.0, 1.0, at_once=True) is None


def test_at_once_means_nothing_where_no_other_model_is() -> None:
    made = outages(FakeFallback(None), connected_at=None)
    made.dialling(100.0)
    assert made.lost(100.0, 1.0, at_once=True) == 0.0


@pytest.mark.parametrize(("served_s", "same"), [(AFTER_S - 0.1, True), (AFTER_S, False)])
def test_a_connection_that_serves_as_long_ends_the_outage(served_s: float, same: bool) -> None:
    made = outages(FakeFallback(0.0))
    made.lost(100.0, 1.0)
    made.dialling(100.0)
    made.connected(100.2)
    assert (made.lost(100.2 + served_s, 0.0) is None) is same


def test_a_finished_turn_ends_the_outage() -> None:
    made = outages(FakeFallback(0.0))
    made.lost(100.0, 1.0)
    made.dialling(100.0)
    made.connected(100.1)
    made.progressed()
    assert made.lost(102.9, 1.0) == 0.0


def test_a_planned_redial_is_no_outage_unless_it_fails() -> None:
    made = outages(FakeFallback(0.0))
    assert made.dialling(100.0) == AFTER_S
    made.connected(100.5)
    assert made.lost(102.9, 1.0) == 0.0  # the first since
    made = outages(FakeFallback(0.0))
    made.dialling(100.0)
    assert made.lost(103.0, 1.0) is None


def test_a_handover_is_no_outage() -> None:
    made = outages(FakeFallback(0.0))
    made.connected(100.0)
    assert made.lost(102.0, 1.0) == 0.0


def test_the_budget_is_that_of_the_call() -> None:
    fallback = FakeFallback(0.0)
    first = outages(fallback)
    first.lost(100.0, 1.0)
    assert first.lost(103.0, 1.0) is None
    assert fallback.given_up == GivenUp(100.0, 103.0)
    second = outages(fallback, connected_at=None)
    assert second.dialling(103.5) == AFTER_S
    fallback.other_in_s = None
    assert second.lost(103.5, 1.0) == 0.0
    assert second.lost(159.0, 0.0) == 0.0
    assert second.lost(160.0, 0.0) is None
    assert fallback.given_up == GivenUp(100.0, 160.0)  # it is spent for the next as well


def test_progress_restores_the_budget_of_the_call() -> None:
    fallback = FakeFallback(0.0)
    fallback.given_up = GivenUp(100.0, 103.0)
    second = outages(fallback, connected_at=None)
    second.dialling(103.5)
    second.connected(104.0)
    assert fallback.given_up is not None
    second.progressed()
    assert fallback.given_up is None
    fallback.other_in_s = None
    assert second.lost(165.0, 0.0) == 0.0


def test_an_outage_that_another_model_ended_is_forgotten() -> None:
    fallback = FakeFallback(None)
    fallback.given_up = GivenUp(100.0, 103.0)
    later = outages(fallback, connected_at=None)
    assert later.dialling(103.0 + HEALTHY_S) == TIMEOUT_S
    assert later.lost(165.0, 0.0) == 0.0


def test_a_timer_that_fires_early_by_the_clocks_resolution_is_no_reason_to_dial_again() -> None:
    made = outages(FakeFallback(0.0))
    made.lost(1004.75, 0.0)
    assert made.lost(1007.4999999999932, 0.0) is None
