"""A connection that is going to end is left in time, at rest, its last handle read (R8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.handover import (
    Backoff,
    Leaving,
    Notice,
    RenewalLimits,
    Rest,
    handover_at,
)
from livekit.plugins.resilient.core.limits import (
    DIALS_AHEAD,
    HANDLE_WAIT_S,
    HANDOVER_SPREAD_S,
    LEAST_MARGIN_S,
)

ALWAYS = float("-inf")
NOTICE = Notice(since=100.0, leave_by=150.0)
"""The connection may be left from 100 on, and must be by 150."""
MARGIN_S = 2.0


@pytest.mark.parametrize(
    ("rests_from", "turn_ended_at", "handle_at", "moves_at"),
    [
        pytest.param(ALWAYS, None, None, 100.0, id="before the first turn: at once"),
        pytest.param(ALWAYS, 90.0, 90.5, 100.0, id="a handle knows of the turn: at once"),
        pytest.param(ALWAYS, 90.0, 90.0, 100.0, id="a handle that came with its end knows it too"),
        pytest.param(104.0, 90.0, 90.5, 104.0, id="a pause of the caller is waited for"),
        pytest.param(ALWAYS, 100.0, 90.0, 100.0 + HANDLE_WAIT_S, id="the handle is waited for"),
        pytest.param(ALWAYS, 100.0, None, 100.0 + HANDLE_WAIT_S, id="even a first one"),
        pytest.param(ALWAYS, 90.0, 50.0, 100.0, id="but not for longer than they take"),
        pytest.param(104.0, 100.0, 90.0, 104.0, id="both waits run at the same time"),
        pytest.param(None, 90.0, 90.5, 150.0, id="something is under way: as late as can be"),
        pytest.param(170.0, 90.0, 90.5, 150.0, id="the pause would come too late"),
        pytest.param(ALWAYS, 149.5, 90.0, 150.0, id="so would the handle"),
    ],
)
def test_when_it_moves(
    rests_from: float | None,
    turn_ended_at: float | None,
    handle_at: float | None,
    moves_at: float,
) -> None:
    assert handover_at(NOTICE, Rest(rests_from, turn_ended_at, handle_at)) == moves_at


def test_the_wait_for_a_handle_ends_when_it_comes() -> None:
    def moves_at(handle_at: float) -> float:
        return handover_at(NOTICE, Rest(ALWAYS, 101.0, handle_at))

    assert moves_at(99.0) == 101.0 + HANDLE_WAIT_S
    assert moves_at(101.2) == 100.0, "which is past, so now"


TIMES = st.floats(0.0, 1000.0)


@given(
    at=TIMES,
    left_s=st.floats(-10.0, 400.0),
    rests_from=st.one_of(st.none(), st.just(ALWAYS), TIMES),
    turn_ended_at=st.one_of(st.none(), TIMES),
    handle_at=st.one_of(st.none(), TIMES),
)
def test_what_holds_for_every_notice(
    at: float,
    left_s: float,
    rests_from: float | None,
    turn_ended_at: float | None,
    handle_at: float | None,
) -> None:
    notice = Notice(at, leave_by=at + left_s)
    moves_at = handover_at(notice, Rest(rests_from, turn_ended_at, handle_at))
    assert moves_at <= notice.leave_by, "never later than it must"
    forced = moves_at == notice.leave_by
    assert forced or moves_at >= notice.since, "never before there is a need"
    assert forced or (rests_from is not None and moves_at >= rests_from), "nothing is under way"
    if not forced and turn_ended_at is not None:
        knows_turn = handle_at is not None and handle_at >= turn_ended_at
        assert knows_turn or moves_at >= turn_ended_at + HANDLE_WAIT_S, "it knows of the turn"


def leaving(dial_s: float | None = 0.1, renewal: RenewalLimits | None = None) -> Leaving:
    made = Leaving(MARGIN_S, renewal)
    made.began(0.0)
    made.dial_s = dial_s
    return made


def resting(rests_from: float | None = ALWAYS) -> Rest:
    return Rest(rests_from)


def test_without_a_notice_there_is_no_need_to_move() -> None:
    made = leaving()
    assert made.at(resting, overlaps=True) is None
    assert made.since is None


@pytest.mark.parametrize(
    ("dial_s", "overlaps", "margin_s"),
    [
        pytest.param(None, True, LEAST_MARGIN_S, id="nothing measured yet"),
        pytest.param(0.01, True, LEAST_MARGIN_S, id="fast"),
        pytest.param(0.5, True, DIALS_AHEAD * 0.5, id="as the dial took"),
        pytest.param(5.0, True, MARGIN_S, id="but no longer than allowed"),
        pytest.param(0.5, False, LEAST_MARGIN_S, id="nothing is dialled before its end"),
    ],
)
def test_how_long_before_its_end_it_is_left(
    dial_s: float | None, overlaps: bool, margin_s: float
) -> None:
    made = leaving(dial_s)
    made.announced(100.0, 103.0, 0.0, 0.0)
    assert made.at(lambda: resting(None), overlaps=overlaps) == 103.0 - margin_s
    assert made.at(lambda: resting(102.5), overlaps=overlaps) == min(102.5, 103.0 - margin_s)


@pytest.mark.parametrize(("left_s", "spread_s"), [(50.0, HANDOVER_SPREAD_S), (8.0, 2.0)])
def test_those_that_are_told_at_once_do_not_leave_at_once(left_s: float, spread_s: float) -> None:
    for jitter in (0.0, 0.3, 1.0):
        made = leaving()
        made.announced(100.0, 100.0 + left_s, jitter, 0.0)
        assert made.at(resting, overlaps=True) == pytest.approx(100.0 + jitter * spread_s)
        assert made.since == pytest.approx(100.0 + jitter * spread_s)


def test_one_that_is_kept_for_a_while_is_left_later() -> None:
    made = leaving()
    made.announced(100.0, 150.0, 0.0, 4.0)
    assert made.at(resting, overlaps=True) == 104.0


TWO = st.tuples(TIMES, st.floats(0.0, 400.0))


@given(first=TWO, second=TWO, rests_from=st.one_of(st.none(), st.just(ALWAYS), TIMES))
def test_another_notice_never_buys_time(
    first: tuple[float, float], second: tuple[float, float], rests_from: float | None
) -> None:
    alone, both = leaving(), leaving()
    for made in (alone, both):
        made.announced(first[0], first[0] + first[1], 0.5, 0.0)
    both.announced(second[0], second[0] + second[1], 0.5, 0.0)
    before = alone.at(lambda: resting(rests_from), overlaps=True)
    after = both.at(lambda: resting(rests_from), overlaps=True)
    assert before is not None
    assert after is not None
    assert after <= before


def test_a_connection_is_renewed_at_its_age_and_left_after_the_wait() -> None:
    made = leaving(renewal=RenewalLimits(after_s=100.0, wait_s=10.0))
    seen = []
    for at in (1.0, 50.0):
        made.began(at)
        seen.append((made.since, made.leave_by(overlaps=True), made.leave_by(overlaps=False)))
    assert seen == [(101.0, 111.0, 111.0), (150.0, 160.0, 160.0)]


def test_without_a_limit_nothing_is_renewed() -> None:
    assert leaving(renewal=RenewalLimits(after_s=None, wait_s=10.0)).since is None


def test_a_try_that_failed_is_not_made_again_at_once() -> None:
    made = leaving(renewal=RenewalLimits(after_s=100.0, wait_s=10.0))
    made.retry_at = 106.0
    assert made.at(resting, overlaps=True) == 106.0
    made.began(200.0)
    assert made.at(resting, overlaps=True) == 300.0


def test_one_that_cannot_be_replaced_is_kept() -> None:
    made = leaving(renewal=RenewalLimits(after_s=100.0, wait_s=10.0))
    made.kept()
    assert made.at(resting, overlaps=True) is None


def test_connections_that_end_one_after_the_other_are_kept_longer_and_longer() -> None:
    backoff = Backoff(0.25, 8.0)
    assert [backoff.next_s(1.0) for _ in range(8)] == [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    backoff.progressed()
    assert [backoff.next_s(0.5) for _ in range(2)] == [0.0, 0.125]
