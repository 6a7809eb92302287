"""A reply that is refused because another is under way is asked for when that is over (R12)."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import Decision, RecordOutcome, Redrive

BOUNDS = Bounds(
    complete_after_s=5.0,
    stalled_after_s=4.0,
    silent_after_s=15.0,
    liveness_timeout_s=None,
    unheard_after_s=None,
)
UP = f.Connected(0.0)
BUSY = f.GenerationOpened(10.0, "g")
SOUNDS = (f.AudioReceived(11.0, "g", 9.0), f.PlaybackStarted(11.0, "g"))
TURN = f.UserTurnEnded(12.0)
# A re-drive at 20.0, because a reply failed without a word.
ASKED = (
    UP,
    f.UserTurnEnded(17.0),
    f.GenerationOpened(17.0, "failing"),
    f.GenerationEnded(17.0, "failing", "failed"),
)


def told(*facts: Fact) -> tuple[TurnMachine, list[Decision]]:
    """A machine, and what it decided by the time of the last fact."""
    machine = TurnMachine(BOUNDS)
    decisions: list[Decision] = []
    for fact in facts:
        while (at := machine.next_deadline()) is not None and at < fact.at:
            decisions += machine.due(at)
        decisions += machine.receive(fact)
    return machine, decisions


def causes(decisions: list[Decision]) -> list[str]:
    return [decision.cause for decision in decisions if isinstance(decision, Redrive)]


def outcomes(decisions: list[Decision]) -> list[str]:
    return [decision.result for decision in decisions if isinstance(decision, RecordOutcome)]


@pytest.mark.parametrize("said", [(), SOUNDS], ids=["silent", "speaking"])
def test_a_refused_turn_is_answered_when_the_running_reply_is_over(
    said: tuple[Fact, ...],
) -> None:
    # It may begin to sound only after the turn; it knows nothing of it all the same.
    later = () if said else (f.AudioReceived(13.0, "g", 9.0), f.PlaybackStarted(13.0, "g"))
    running = (UP, BUSY, *said, TURN, f.ReplyRefused(12.0, None), *later)
    assert causes(told(*running)[1]) == []
    assert causes(told(*running, f.GenerationEnded(14.0, "g"))[1]) == ["unanswered_turn"]


def test_a_reply_that_began_after_the_turn_answers_it() -> None:
    late = (UP, TURN, f.GenerationOpened(12.5, "g"), f.ReplyRefused(12.6, None))
    machine, decisions = told(*late, f.AudioReceived(13.0, "g", 1.0))
    decisions += machine.receive(f.GenerationEnded(14.0, "g"))
    assert causes(decisions) == []


@pytest.mark.parametrize("about", [None, "redrive-1"])
def test_nothing_is_asked_for_where_nothing_is_owed(about: str | None) -> None:
    machine, decisions = told(UP, f.ReplyRefused(1.0, about))
    assert decisions == []
    assert machine.next_deadline() is None


def test_a_refused_redrive_is_made_again() -> None:
    _, decisions = told(*ASKED, f.ReplyRefused(20.5, "redrive-1"))
    assert causes(decisions) == ["unanswered_turn"] * 2
    assert outcomes(decisions) == ["superseded"]


def test_a_refused_redrive_is_not_made_again_where_the_running_reply_is_the_answer() -> None:
    answered = (*ASKED, f.GenerationOpened(20.1, "g"), f.AudioReceived(20.2, "g", 1.0))
    over = (f.GenerationEnded(20.5, "g"), f.ReplyRefused(20.5, "redrive-1"))
    machine, decisions = told(*answered, *over)
    decisions += machine.receive(f.PlaybackStarted(20.6, "g"))
    assert causes(decisions) == ["unanswered_turn"]
    assert outcomes(decisions) == ["superseded"]
    assert machine.next_deadline() is None


@pytest.mark.parametrize("about", ["redrive-9", "redrive-1"])
def test_a_late_refusal_changes_nothing(about: str) -> None:
    begun = (*ASKED, f.GenerationOpened(20.1, "g", "redrive-1"), f.ReplyRefused(20.2, about))
    _, decisions = told(*begun, f.AudioReceived(20.3, "g", 1.0), f.PlaybackStarted(20.3, "g"))
    assert causes(decisions) == ["unanswered_turn"]
    assert outcomes(decisions) == ["rescued"]


def test_a_redrive_that_would_talk_over_the_caller_waits_until_they_are_done() -> None:
    cut_in = (f.UserSpeechStarted(20.1), f.ReplyRefused(20.1, "redrive-1"))
    machine, decisions = told(*ASKED, *cut_in, f.UserSpeechStopped(21.0))
    assert causes(decisions) == ["unanswered_turn"]
    assert machine.next_deadline() == 21.0 + BOUNDS.redrive_after_s
