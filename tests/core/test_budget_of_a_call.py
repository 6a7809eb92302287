"""How long a session tries where another model could take over (R26)."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core.budget import Budget, BudgetLimits
from livekit.plugins.resilient.core.limits import FAILOVER_LAST_DIAL_S, FIRST_REDIAL_S

TIMEOUT_S, AFTER_S, DEADLINE_S, HEALTHY_S = 10.0, 3.0, 60.0, 10.0


def outages(
    other_in_s: float | None,
    *,
    after_s: float | None = AFTER_S,
    connected_at: float | None = 0.0,
    call_since: float | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Budget:
    """Another model is available in so many seconds; None for never."""
    limits = BudgetLimits(
        connect_timeout_s=timeout_s,
        deadline_s=DEADLINE_S,
        base_s=0.25,
        cap_s=8.0,
        healthy_after_s=HEALTHY_S,
        failover_after_s=after_s,
    )
    made = Budget(limits, call_since)
    if connected_at is not None:
        made.dialling(connected_at)
        made.connected(connected_at, owed=False)
    made.other_free_at = None if other_in_s is None else 100.0 + other_in_s
    return made


def test_redials_go_on_until_another_model_is_better() -> None:
    made = outages(0.0)
    now, dials = 100.0, 0
    while (wait_s := made.lost(now, 1.0)) is not None:
        now += wait_s
        assert made.dialling(now) <= AFTER_S
        dials += 1
    assert now == 100.0 + AFTER_S - FAILOVER_LAST_DIAL_S
    assert dials == 5  # after 0.25, 0.5, 1, 2 and 2.75


def test_a_dial_takes_what_is_left() -> None:
    made = outages(0.0)
    made.lost(100.0, 0.0)
    assert made.dialling(100.0) == AFTER_S
    made.lost(101.0, 0.0)
    assert made.dialling(101.0) == AFTER_S - 1.0
    made.lost(102.5, 0.0)
    assert made.dialling(102.5) == 0.5


def test_the_first_redial_is_whole_however_late_it_is_made() -> None:
    made = outages(0.0)
    made.lost(100.0, 0.0)
    assert made.dialling(105.0) == AFTER_S - FIRST_REDIAL_S


def test_the_one_timeout_is_not_lengthened() -> None:
    made = outages(0.0, timeout_s=2.0)
    made.lost(100.0, 0.0)
    assert made.dialling(100.0) == 2.0


@pytest.mark.parametrize("other_in_s", [None, 0.0])
def test_nothing_changes_without_another_model_or_where_it_is_switched_off(
    other_in_s: float | None,
) -> None:
    made = outages(other_in_s, after_s=None if other_in_s == 0 else AFTER_S)
    now = 100.0
    while (wait_s := made.lost(now, 1.0)) is not None:
        now += wait_s
        assert made.dialling(now) == TIMEOUT_S
    assert now > 100.0 + DEADLINE_S - 10


def test_a_model_that_is_barred_is_waited_for() -> None:
    made = outages(20.0)
    now = 100.0
    for _ in range(6):  # waits of 0.25 to 4, in all 8
        wait_s = made.lost(now, 1.0)
        assert wait_s is not None
        now += wait_s
        assert made.dialling(now) == TIMEOUT_S
    assert made.lost(118.0, 1.0) == 2.0
    # It may still be late, so that the dial is not cut at once.
    assert made.dialling(119.9) == AFTER_S - FIRST_REDIAL_S
    wait_s = made.lost(119.9, 1.0)
    assert wait_s == pytest.approx(0.1)
    assert made.lost(120.1, 1.0) is None


def test_a_first_dial_has_the_whole_time() -> None:
    made = outages(0.0, connected_at=None)
    assert made.dialling(100.0) == TIMEOUT_S
    assert made.lost(110.0, 1.0) is None
    made = outages(0.0, connected_at=None)
    made.dialling(100.0)
    assert made.lost(100.0, 0.0) == 0.0
    assert made.dialling(100.0) == AFTER_S
    assert made.lost(101.0, 1.0, at_once=True) is None


def test_at_once_means_nothing_where_no_other_model_is() -> None:
    made = outages(None, connected_at=None)
    made.dialling(100.0)
    assert made.lost(100.0, 0.0, at_once=True) == 0.0


@pytest.mark.parametrize(("served_s", "same"), [(AFTER_S - 0.1, True), (AFTER_S, False)])
def test_a_connection_that_serves_as_long_ends_the_outage(served_s: float, same: bool) -> None:
    made = outages(0.0)
    made.lost(100.0, 1.0)
    made.dialling(100.0)
    made.connected(100.2, owed=False)
    assert (made.lost(100.2 + served_s, 0.0) is None) is same


def test_a_finished_turn_ends_the_outage() -> None:
    made = outages(0.0)
    made.lost(100.0, 1.0)
    made.dialling(100.0)
    made.connected(100.1, owed=False)
    made.progressed()
    assert made.lost(102.9, 0.0) == 0.0


def test_a_planned_redial_is_no_outage_unless_it_fails() -> None:
    made = outages(0.0)
    assert made.dialling(100.0) == AFTER_S
    made.connected(100.5, owed=False)
    assert made.lost(102.9, 0.0) == 0.0  # the first since
    made = outages(0.0)
    made.dialling(100.0)
    assert made.lost(103.0, 1.0) is None


def test_a_handover_is_no_outage() -> None:
    made = outages(0.0)
    made.connected(100.0, owed=False)
    assert made.lost(102.0, 0.0) == 0.0


def test_the_budget_is_that_of_the_call() -> None:
    first = outages(0.0)
    first.lost(100.0, 1.0)
    assert first.lost(103.0, 1.0) is None
    assert first.call_since == 100.0
    second = outages(0.0, connected_at=None, call_since=100.0)
    assert second.dialling(103.5) == AFTER_S
    second.other_free_at = None
    assert second.lost(103.5, 0.0) == 0.0
    assert second.lost(159.0, 0.0) == 0.0
    assert second.lost(160.0, 0.0) is None
    assert second.call_since == 100.0  # it is spent for the next as well


def test_progress_restores_the_budget_of_the_call() -> None:
    second = outages(None, connected_at=None, call_since=100.0)
    second.dialling(103.5)
    second.connected(104.0, owed=False)
    assert second.is_inherited
    second.progressed()
    assert not second.is_inherited
    assert second.lost(165.0, 0.0) == 0.0


def test_a_model_that_gives_nothing_is_left_for_another_that_is_free() -> None:
    made = outages(0.0)
    made.owes(90.0)
    assert made.gave_nothing(100.0)
    made.connected(100.5, owed=True)
    assert not made.gave_nothing(110.5)


def test_a_timer_that_fires_early_by_the_clocks_resolution_is_no_reason_to_dial_again() -> None:
    made = outages(0.0)
    made.lost(1004.75, 0.0)
    assert made.lost(1007.4999999999932, 0.0) is None
