"""The newest audio of an outage is kept up to the limit, and every frame is counted once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.runtime.gap_audio import GapAudio


def test_the_newest_frames_are_kept_in_order() -> None:
    ring = GapAudio[int](1.0)
    for number in range(12):
        ring.keep(number, 0.25)
    assert ring.take_dropped_s() == 2.0
    assert ring.release() == [8, 9, 10, 11]
    assert ring.release() == []
    assert ring.take_dropped_s() == 0.0


def test_what_is_released_makes_room() -> None:
    ring = GapAudio[str](0.5)
    ring.keep("first", 0.5)
    assert ring.release() == ["first"]
    ring.keep("second", 0.5)
    assert ring.release() == ["second"]
    assert ring.take_dropped_s() == 0.0


@pytest.mark.parametrize("limit_s", [None, 0.125], ids=["off", "shorter than a frame"])
def test_a_frame_that_does_not_fit_is_dropped(limit_s: float | None) -> None:
    ring = GapAudio[str](limit_s)
    ring.keep("frame", 0.25)
    assert ring.release() == []
    assert ring.take_dropped_s() == 0.25


def test_a_discarded_ring_counts_as_dropped() -> None:
    ring = GapAudio[str](1.0)
    ring.keep("first", 0.25)
    ring.keep("second", 0.5)
    ring.discard()
    assert ring.release() == []
    assert ring.take_dropped_s() == 0.75


@given(
    limit=st.integers(1, 64), frames=st.lists(st.integers(0, 32), max_size=200), cut=st.booleans()
)
def test_no_frame_is_lost_uncounted_or_sent_twice(limit: int, frames: list[int], cut: bool) -> None:
    # In 32nds of a second, so that the sums are exact.
    ring = GapAudio[int](limit / 32)
    for index, duration in enumerate(frames):
        ring.keep(index, duration / 32)
    if cut:
        ring.discard()
    kept = ring.release()
    kept_32nds = sum(frames[index] for index in kept)
    assert kept == list(range(len(frames) - len(kept), len(frames)))
    assert kept_32nds <= limit
    assert kept_32nds + ring.take_dropped_s() * 32 == sum(frames)
