"""A connection that is going to end is left in time, at rest, its last handle read (R8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.handover import HANDOVER_NEVER, Notice, handover_at
from livekit.plugins.resilient.core.limits import HANDLE_WAIT_S

ALWAYS = float("-inf")
NOTICE = Notice(at=100.0, leave_by=150.0)
"""The connection may be left from 100 on, and must be by 150."""


def test_without_a_notice_there_is_no_need_to_move() -> None:
    at = handover_at(None, rests_from=ALWAYS, turn_ended_at=90.0, handle_at=91.0)
    assert at == HANDOVER_NEVER


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
    at = handover_at(
        NOTICE, rests_from=rests_from, turn_ended_at=turn_ended_at, handle_at=handle_at
    )
    assert at == moves_at


def test_the_wait_for_a_handle_ends_when_it_comes() -> None:
    def moves_at(handle_at: float) -> float:
        return handover_at(NOTICE, rests_from=ALWAYS, turn_ended_at=101.0, handle_at=handle_at)

    assert moves_at(99.0) == 101.0 + HANDLE_WAIT_S
    assert moves_at(101.2) == 100.0, "which is past, so now"


@pytest.mark.parametrize(
    ("second", "kept"),
    [
        pytest.param(Notice(110.0, 120.0), Notice(110.0, 120.0), id="sooner"),
        pytest.param(Notice(110.0, 400.0), NOTICE, id="a later one buys no time"),
    ],
)
def test_of_two_notices_the_sooner_end_counts(second: Notice, kept: Notice) -> None:
    assert second.sooner(NOTICE) == kept
    assert NOTICE.sooner(second) == kept


def test_the_first_notice_is_kept() -> None:
    assert NOTICE.sooner(None) == NOTICE


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
    moves_at = handover_at(
        notice, rests_from=rests_from, turn_ended_at=turn_ended_at, handle_at=handle_at
    )
    assert moves_at <= notice.leave_by, "never later than it must"
    forced = moves_at == notice.leave_by
    assert forced or moves_at >= notice.at, "never before there is a need"
    assert forced or (rests_from is not None and moves_at >= rests_from), "nothing is under way"
    if not forced and turn_ended_at is not None:
        knows_turn = handle_at is not None and handle_at >= turn_ended_at
        assert knows_turn or moves_at >= turn_ended_at + HANDLE_WAIT_S, "it knows of the turn"


@given(
    first=st.tuples(TIMES, TIMES),
    second=st.tuples(TIMES, TIMES),
    rests_from=st.one_of(st.none(), TIMES),
)
def test_another_notice_never_moves_it_back(
    first: tuple[float, float], second: tuple[float, float], rests_from: float | None
) -> None:
    old, new = Notice(*first), Notice(*second)
    kept = new.sooner(old)
    assert kept.leave_by == min(old.leave_by, new.leave_by)
    moves_at = handover_at(kept, rests_from=rests_from, turn_ended_at=None, handle_at=None)
    assert moves_at <= min(old.leave_by, new.leave_by)
