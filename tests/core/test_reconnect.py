"""The first redial is immediate, later ones wait, and an outage has an end (R2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.reconnect import Redial, RedialLimits


def limits(max_redials: int | None = None) -> RedialLimits:
    return RedialLimits(
        deadline_s=60.0, base_s=0.25, cap_s=8.0, healthy_after_s=10.0, max_redials=max_redials
    )


def test_waits_double_up_to_the_cap() -> None:
    redial = Redial(limits())
    waits = [redial.lost(0.0, 1.0) for _ in range(9)]
    assert waits == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_jitter_shortens_the_wait(jitter: float) -> None:
    redial = Redial(limits())
    redial.lost(0.0, jitter)
    assert redial.lost(0.0, jitter) == jitter * 0.25


def test_a_dial_that_would_come_after_the_deadline_is_not_made() -> None:
    redial = Redial(limits())
    assert redial.lost(100.0, 1.0) == 0.0
    assert redial.lost(159.0, 1.0) == 0.25
    assert redial.lost(159.6, 1.0) is None


def test_the_number_of_redials_can_be_bounded() -> None:
    redial = Redial(limits(max_redials=2))
    assert [redial.lost(0.0, 0.0) for _ in range(3)] == [0.0, 0.0, None]


def test_a_bare_connection_does_not_end_the_outage() -> None:
    redial = Redial(limits(max_redials=2))
    for at in (0.0, 9.0):
        redial.connected(at)
        assert redial.lost(at + 9.0, 0.0) == 0.0
    redial.connected(18.0)
    assert redial.lost(19.0, 0.0) is None


@pytest.mark.parametrize("how", ["a finished turn", "ten seconds"])
def test_real_progress_ends_the_outage(how: str) -> None:
    redial = Redial(limits(max_redials=1))
    redial.lost(0.0, 1.0)
    redial.connected(1.0)
    if how == "a finished turn":
        redial.progressed()
        assert redial.lost(2.0, 1.0) == 0.0
    else:
        assert redial.lost(11.0, 1.0) == 0.0


def test_a_failed_dial_is_not_helped_by_an_old_connection() -> None:
    redial = Redial(limits(max_redials=1))
    redial.connected(0.0)
    assert redial.lost(20.0, 1.0) == 0.0
    assert redial.lost(31.0, 1.0) is None


@given(jitters=st.lists(st.floats(0, 1), min_size=20, max_size=40), dial_s=st.floats(0.1, 10))
def test_an_outage_ends_within_its_deadline(jitters: list[float], dial_s: float) -> None:
    redial, now = Redial(limits()), 0.0
    for jitter in jitters * 40:
        wait_s = redial.lost(now, jitter)
        if wait_s is None:
            return
        assert now + wait_s < 60.0
        now += wait_s + dial_s
    raise AssertionError("it never gave up")


def test_a_handover_counts_the_health_of_the_connection_it_replaces() -> None:
    redial = Redial(limits(max_redials=1))
    redial.lost(0.0, 1.0)
    redial.connected(1.0)
    redial.connected(100.0)
    assert redial.lost(100.5, 1.0) == 0.0
    redial.connected(101.0)
    redial.connected(102.0)
    assert redial.lost(102.5, 1.0) is None
