"""How a re-drive turns out, and when it is taken back."""

from __future__ import annotations

import math

import pytest

from livekit.plugins.resilient.core import Fact
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import TakeBack
from tests.core.call_log import DROP, SPEAKING, TURN, Call

ASKED = (*TURN, DROP, f.Connected(20.5))  # redrive-1 goes out at 20.5
OURS = (f.GenerationOpened(21.0, "h", "redrive-1"), f.AudioReceived(21.0, "h", 1.0))


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        pytest.param((*OURS, f.PlaybackStarted(22.0, "h")), "rescued", id="heard"),
        pytest.param((*OURS, f.PlaybackFinished(23.0, "h", 0.5)), "rescued", id="heard in part"),
        pytest.param(
            (*OURS, f.GenerationEnded(21.5, "h"), f.Disconnected(21.6), f.PlaybackStarted(22, "h")),
            "rescued",
            id="whole before the next drop, heard after it",
        ),
        pytest.param(
            (OURS[0], f.ToolCallOpened(21.0, "h", "c"), f.GenerationEnded(21.1, "h")),
            "rescued",
            id="went on to a tool",
        ),
        pytest.param(
            (
                f.GenerationOpened(21.0, "own"),
                f.AudioReceived(21.0, "own", 1.0),
                f.PlaybackStarted(21.1, "own"),
            ),
            "talked_over",
            id="the model spoke by itself",
        ),
        pytest.param((f.UserTurnEnded(22.0),), "superseded", id="the caller went on"),
        pytest.param((f.ReplyRequested(22.0, "r"),), "superseded", id="the application asked"),
        pytest.param((f.ReplyCancelled(22.0),), "superseded", id="taken back"),
        pytest.param((f.Disconnected(22.0),), "failed", id="dropped again"),
        pytest.param((*OURS, f.Disconnected(22.0)), "failed", id="cut before it was heard"),
        pytest.param((f.ReplyRequestTimedOut(22.0, "redrive-1"),), "failed", id="timed out"),
        pytest.param((OURS[0], f.GenerationEnded(22.0, "h")), "failed", id="empty"),
        pytest.param((OURS[0], f.GenerationEnded(22.0, "h", "cancelled")), "failed", id="cancel"),
        pytest.param(
            (*OURS, f.GenerationEnded(21.5, "h"), f.PlaybackFinished(22.0, "h", 0.0)),
            "failed",
            id="flushed unheard",
        ),
    ],
)
def test_a_redrive_has_one_outcome(facts: tuple[Fact, ...], outcome: str) -> None:
    call = Call(*ASKED, *facts)
    assert call.outcomes() == [outcome]


# The reply "g" is cut at 20, and what arrived of it plays on.
CUT = (*SPEAKING, DROP)
STOPPED = f.PlaybackFinished(25.0, "g", 14.0, cut_in=True)


def test_a_cut_reply_whose_rest_is_stopped_is_not_asked_for() -> None:
    call = Call(*CUT, STOPPED, f.Connected(26.0))
    call.run(500.0)
    assert call.redrives() == []


def test_a_cut_reply_whose_rest_is_heard_or_flushed_is_asked_for() -> None:
    call = Call(*CUT, f.PlaybackFinished(25.0, "g", 14.0), f.Connected(26.0))
    assert call.redrives() == [(26.0, "reply_cut")]


def test_a_reply_that_was_stopped_before_the_drop_is_not_asked_for() -> None:
    """Not every provider is told by the application."""
    call = Call(*SPEAKING, f.PlaybackFinished(15.0, "g", 4.0, cut_in=True), DROP)
    call.feed(f.Connected(20.5))
    call.run(500.0)
    assert call.redrives() == []


@pytest.mark.parametrize("begun", [False, True])
def test_a_redrive_is_taken_back_where_the_old_rest_is_stopped(begun: bool) -> None:
    call = Call(*CUT, f.Connected(20.5))
    assert call.redrives() == [(20.5, "reply_cut")]
    if begun:
        call.feed(*OURS)
    decided = call.feed(STOPPED)
    assert decided[0] == TakeBack("redrive-1", "h" if begun else None)
    assert call.outcomes() == ["superseded"]
    call.feed(f.Disconnected(26.0), f.Connected(26.5))
    call.run(500.0)
    assert len(call.redrives()) == 1, "nor is it asked for again"


def test_a_redrive_that_is_heard_is_not_taken_back() -> None:
    call = Call(*CUT, f.Connected(20.5), *OURS, f.PlaybackStarted(22.0, "h"))
    assert not any(isinstance(d, TakeBack) for d in call.feed(STOPPED))


def test_a_request_outlives_the_reply_before_it() -> None:
    """It is the application's, which takes it back by itself."""
    call = Call(*CUT, f.ReplyRequested(21.0, "r"), STOPPED, f.Connected(26.0))
    assert call.redrives() == [(26.0, "reply_requested")]
    assert not any(isinstance(d, TakeBack) for _, d in call.log)


def test_a_redrive_without_any_generation_fails_after_the_bound() -> None:
    call = Call(*ASKED)
    call.run(math.nextafter(35.5, 0.0))
    assert call.outcomes() == []
    call.run(35.5)
    assert call.outcomes() == ["failed"]


def test_a_redrive_whose_reply_began_is_not_given_up_for_the_wait() -> None:
    call = Call(*ASKED, f.GenerationOpened(35.0, "h", "redrive-1"))
    call.feed(f.AudioReceived(36.0, "h", 1.0), f.PlaybackStarted(36.0, "h"))
    assert call.outcomes() == ["rescued"]


def test_two_redrives_never_run_together() -> None:
    call = Call(*SPEAKING, DROP, f.Connected(20.5))  # the old audio plays until 41
    call.feed(
        *OURS,
        f.ToolCallOpened(21.5, "h", "c"),
        f.GenerationEnded(22.0, "h"),
        f.ToolResultDelivered(23.0, "c"),
    )
    call.run(40.9)
    assert len(call.redrives()) == 1
    call.feed(f.PlaybackStarted(41.0, "h"))
    assert call.outcomes() == ["rescued"]
    assert len(call.redrives()) == 2, "the tool's result is owed, and was due at 38"


def test_nothing_is_asked_while_the_model_goes_on_with_an_older_reply() -> None:
    call = Call(*SPEAKING, f.UserTurnEnded(15.0))
    for at in range(16, 60):
        call.feed(f.AudioReceived(float(at), "g", 1.0))
    assert call.redrives() == []


def test_what_played_before_the_redrive_rescues_nothing() -> None:
    call = Call(
        *TURN,
        f.GenerationOpened(11.0, "g"),
        f.AudioReceived(19.9, "g", 1.0),
        DROP,
        f.Connected(20.5),
        f.PlaybackStarted(20.6, "g"),
    )
    assert call.outcomes() == []
    assert call.machine.owes_reply
