"""Each bound just before, at and just after; deadlines are asserted, then jumped to."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core import Bounds, Fact
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    CloseStreams,
    FinaliseGeneration,
    FinaliseReason,
    Redrive,
)
from tests.core.deadlines import CONNECTED, HEARD, OPENED, QUIET, SPOKEN, after, changed, fires


@pytest.mark.parametrize(
    ("facts", "reason", "at", "idle_s"),
    [
        pytest.param(OPENED, "silent", 25.0, 15.0, id="nothing produced: 15 from opening"),
        pytest.param(SPOKEN, "stalled", 17.0, 6.0, id="stalled, no playback fact: 11 + 2 + 4"),
        pytest.param(HEARD, "stalled", 17.5, 6.5, id="stalled: 4 after all was heard"),
        pytest.param(
            (*HEARD, f.PlaybackFinished(12.0, "g", 0.5)),
            "stalled",
            16.0,
            5.0,
            id="stalled: 4 after the speaker was cleared",
        ),
        pytest.param(
            (*HEARD, f.PlaybackFinished(13.5, "g", 2.0), f.TextReceived(20.0, "g")),
            "stalled",
            24.0,
            4.0,
            id="stalled: text after the audio is output too",
        ),
        pytest.param(
            (*HEARD, f.PlaybackProgressed(12.5, "g", 0.5)),
            "stalled",
            18.0,
            7.0,
            id="stalled: a reported position beats the clock",
        ),
        pytest.param(
            (*HEARD, f.OutputCompleted(12.0, "g")),
            "complete",
            18.5,
            7.5,
            id="complete: 5 after all was heard",
        ),
        pytest.param(
            (*HEARD, f.PlaybackFinished(13.5, "g", 2.0), f.OutputCompleted(14.0, "g")),
            "complete",
            19.0,
            8.0,
            id="complete: 5 after it was said to be, where that is later",
        ),
        pytest.param(
            (*HEARD, f.OutputCompleted(12.0, "g"), f.AudioReceived(12.5, "g", 1.0)),
            "stalled",
            18.5,
            6.0,
            id="more audio takes completion back",
        ),
        pytest.param(
            (*OPENED, f.OutputCompleted(12.0, "g")),
            "complete",
            17.0,
            7.0,
            id="complete and empty",
        ),
        pytest.param(
            (*HEARD, f.Interrupted(12.0, "g")),
            "interrupted",
            15.0,
            4.0,
            id="interrupted: 3 after it",
        ),
        pytest.param(
            (*HEARD, f.Interrupted(12.0, "g"), f.Interrupted(13.0, "g")),
            "interrupted",
            15.0,
            4.0,
            id="a second interruption buys no time",
        ),
        pytest.param(
            (*HEARD, f.OutputCompleted(12.0, "g"), f.Interrupted(12.5, "g")),
            "interrupted",
            15.5,
            4.5,
            id="interrupted after completion",
        ),
        pytest.param(
            (*OPENED, f.Interrupted(11.0, "g")),
            "interrupted",
            14.0,
            4.0,
            id="interrupted before any output",
        ),
        pytest.param(
            (*HEARD, f.PlaybackPaused(12.5), f.PlaybackResumed(20.0)),
            "stalled",
            25.0,
            14.0,
            id="stalled: a pause moves the hearing, and the bound with it",
        ),
        pytest.param(
            (
                *HEARD,
                f.Interrupted(12.5, "g"),
                f.PlaybackPaused(12.5),
                f.PlaybackResumed(14.5),
            ),
            "stalled",
            19.5,
            8.5,
            id="a false interruption is forgotten, the hearing goes on from the pause",
        ),
        pytest.param(
            (
                *HEARD,
                f.OutputCompleted(12.0, "g"),
                f.Interrupted(12.5, "g"),
                f.PlaybackPaused(12.5),
                f.PlaybackResumed(14.5),
            ),
            "complete",
            20.5,
            9.5,
            id="the same after completion",
        ),
        pytest.param(
            (*HEARD, f.Interrupted(12.5, "g"), f.PlaybackPaused(12.5)),
            "interrupted",
            15.5,
            4.5,
            id="a pause does not hold up the end of an interruption",
        ),
        pytest.param(
            (*OPENED, f.ToolCallOpened(11.0, "g", "c")),
            "stalled",
            15.0,
            4.0,
            id="a call without a terminal event",
        ),
        pytest.param(
            (*OPENED, f.UserTurnEnded(14.0)),
            "silent",
            29.0,
            19.0,
            id="nothing produced: the turn is still being transcribed",
        ),
    ],
)
def test_a_generation_without_terminal_event_is_finalised(
    facts: tuple[Fact, ...], reason: FinaliseReason, at: float, idle_s: float
) -> None:
    machine = after(*facts)
    first = fires(machine, at)[0]
    assert first == FinaliseGeneration("g", reason, at - 10.0, idle_s)


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        (OPENED, "silent_after_s"),
        (HEARD, "stalled_after_s"),
        ((*HEARD, f.OutputCompleted(12.0, "g")), "complete_after_s"),
        ((*HEARD, f.Interrupted(12.0, "g")), "interrupted_after_s"),
    ],
)
def test_none_switches_that_bound_off(facts: tuple[Fact, ...], field: str) -> None:
    bounds = changed(QUIET, **{field: None})
    assert after(*facts, bounds=bounds).next_deadline() is None
    assert after(*facts).next_deadline() is not None


@pytest.mark.parametrize(
    "fact",
    [
        f.GenerationEnded(12.0, "g"),
        f.GenerationEnded(12.0, "g", "cancelled"),
    ],
)
def test_a_terminal_event_disarms(fact: Fact) -> None:
    assert after(*HEARD, fact).next_deadline() is None


def test_a_speaker_that_holds_its_audio_holds_the_bound() -> None:
    machine = after(*HEARD, f.PlaybackPaused(12.0))
    assert machine.next_deadline() is None
    machine.receive(f.PlaybackProgressed(13.0, "g", 0.5))  # a late report of the position
    assert machine.next_deadline() is None


def test_a_reply_queued_behind_one_that_plays_waits_for_it() -> None:
    machine = after(
        CONNECTED,
        f.GenerationOpened(1.0, "first"),
        f.AudioReceived(1.0, "first", 20.0),
        f.PlaybackStarted(1.0, "first"),
        f.GenerationEnded(2.0, "first"),
        *SPOKEN[1:],
    )
    assert machine.next_deadline() == 21.0 + 2.0 + 4.0


def test_the_resume_of_another_reply_forgives_no_interruption() -> None:
    machine = after(
        CONNECTED,
        f.GenerationOpened(1.0, "first"),
        f.AudioReceived(1.0, "first", 20.0),
        f.PlaybackStarted(1.0, "first"),
        f.GenerationEnded(2.0, "first"),
        *OPENED[1:],
        f.Interrupted(11.0, "g"),
        f.PlaybackPaused(11.0),
        f.PlaybackResumed(12.0),
    )
    assert machine.next_deadline() == 14.0


def test_facts_of_an_older_generation_move_nothing_of_the_open_one() -> None:
    machine = after(*HEARD, f.GenerationEnded(12.0, "g"), f.GenerationOpened(20.0, "h"))
    for late in (
        f.AudioReceived(21.0, "g", 1.0),
        f.OutputCompleted(21.0, "g"),
        f.Interrupted(21.0, "g"),
        f.GenerationEnded(21.0, "g"),
    ):
        machine.receive(late)
    assert machine.next_deadline() == 35.0


def test_a_second_start_of_the_playback_does_not_rewind_it() -> None:
    assert after(*HEARD, f.PlaybackStarted(12.5, "g")).next_deadline() == 17.5


def test_late_facts_of_a_finalised_generation_are_ignored() -> None:
    machine = after(*HEARD)
    assert machine.due(17.5)
    machine.receive(f.UserTurnEnded(18.0))  # nothing of the old reply is owed any more
    before = machine.next_deadline()
    for late in (
        f.AudioReceived(18.0, "g", 9.0),
        f.TextReceived(18.0, "g"),
        f.OutputCompleted(18.0, "g"),
        f.Interrupted(18.0, "g"),
        f.GenerationEnded(18.0, "g"),
    ):
        assert machine.receive(late) == ()
    assert machine.next_deadline() == before


# --- patience -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "at"),
    [
        pytest.param(OPENED, 50.0, id="silent"),
        pytest.param(SPOKEN, 53.0, id="stalled"),
        pytest.param((*OPENED, f.ToolCallOpened(11.0, "g", "c")), 51.0, id="after a call"),
    ],
)
def test_a_provider_that_may_be_at_work_is_given_longer(facts: tuple[Fact, ...], at: float) -> None:
    assert after(*facts, f.PauseExpected(12.0, "g")).next_deadline() == at


def test_the_longer_time_is_never_a_shorter_one() -> None:
    bounds = changed(QUIET, silent_after_s=90.0, stalled_after_s=None)
    machine = after(*OPENED, f.PauseExpected(12.0, "g"), bounds=bounds)
    assert machine.next_deadline() == 100.0
    machine.receive(f.AudioReceived(13.0, "g", 1.0))
    assert machine.next_deadline() is None


def test_the_defaults_are_longer_than_any_pause_of_a_healthy_call_on_record() -> None:
    bounds = Bounds()
    assert bounds.silent_after_s is not None
    assert bounds.stalled_after_s is not None
    assert min(bounds.silent_after_s, bounds.stalled_after_s) >= 20.0
    assert bounds.reply_silent_after_s is None


# --- what only captions opened ------------------------------------------------------------------

CAPTION = (CONNECTED, f.GenerationOpened(10.0, "g", by_caption=True))
SAID = (*CAPTION, f.TextReceived(10.0, "g", is_caption=True))


@pytest.mark.parametrize("facts", [CAPTION, SAID], ids=["the caller's words", "the agent's"])
def test_what_only_captions_opened_is_closed_and_owed_nothing(facts: tuple[Fact, ...]) -> None:
    machine = after(*facts)
    deadline = machine.next_deadline()
    assert deadline is not None
    decisions = fires(machine, deadline)
    assert [getattr(d, "reason", None) for d in decisions] == ["captions"]
    assert machine.next_deadline() is None
    assert not machine.owes_reply


@pytest.mark.parametrize(
    "output",
    [
        f.AudioReceived(11.0, "g", 1.0),
        f.TextReceived(11.0, "g"),
        f.ToolCallOpened(11.0, "g", "c"),
    ],
)
def test_output_makes_a_reply_of_it(output: Fact) -> None:
    machine = after(*SAID, output)
    deadline = machine.next_deadline()
    assert deadline is not None
    assert getattr(machine.due(deadline)[0], "reason", None) == "stalled"


def test_words_that_may_be_no_turn_are_not_answered_by_force() -> None:
    machine = after(*CAPTION, f.UserTurnEnded(10.0, certain=False))
    assert machine.owes_reply
    assert machine.rests_from == float("-inf")
    assert [type(d) for d in fires(machine, 50.0)] == [FinaliseGeneration]
    assert machine.next_deadline() is None
    assert not machine.owes_reply


def test_a_handover_asks_for_nothing_that_may_be_owed_to_nobody() -> None:
    machine = after(*CAPTION, f.UserTurnEnded(10.0, certain=False))
    assert [type(d) for d in machine.receive(f.Connected(11.0))] == [CloseStreams]
    assert machine.next_deadline() is None


# --- what is written and not spoken -------------------------------------------------------------


def test_a_written_reply_is_answered_with_when_it_is_over() -> None:
    turn = (CONNECTED, f.UserTurnEnded(10.0), f.GenerationOpened(10.0, "g"))
    machine = after(*turn, f.TextReceived(11.0, "g"), f.GenerationEnded(12.0, "g"))
    assert not machine.owes_reply
    assert machine.next_deadline() is None


@pytest.mark.parametrize("cut", [f.Disconnected(12.0)])
def test_a_written_reply_that_is_cut_is_owed(cut: Fact) -> None:
    turn = (CONNECTED, f.UserTurnEnded(10.0), f.GenerationOpened(10.0, "g"))
    machine = after(*turn, f.TextReceived(11.0, "g"), cut)
    (redrive,) = machine.receive(f.Connected(13.0))
    assert isinstance(redrive, Redrive)


def test_without_a_generation_they_are_forgotten_in_the_same_time() -> None:
    machine = after(CONNECTED, f.UserTurnEnded(10.0, certain=False))
    assert fires(machine, 25.0) == ()
    assert not machine.owes_reply


def test_a_reconnect_has_them_answered() -> None:
    machine = after(
        *CAPTION, f.UserTurnEnded(10.0, certain=False), f.Disconnected(11.0), f.Connected(12.0)
    )
    assert not machine.owes_reply or machine.next_deadline() is not None


# --- the loop was blocked -----------------------------------------------------------------------


def test_a_blocked_loop_moves_every_deadline() -> None:
    machine = after(*SPOKEN)
    assert machine.next_deadline() == 17.0
    assert machine.receive(f.LoopStalled(16.0, 4.5)) == ()
    assert fires(machine, 21.5)


def test_nothing_is_judged_before_what_waited_could_be_read() -> None:
    machine = after(*SPOKEN)
    assert machine.receive(f.LoopStalled(20.0, 3.0)) == ()  # overdue, but for the block
    assert machine.next_deadline() == pytest.approx(20.5)
    assert machine.due(20.4) == ()
    machine.receive(f.GenerationEnded(20.4, "g"))
    assert machine.next_deadline() is None


def test_a_block_takes_back_no_time_that_was_seen_to_pass() -> None:
    machine = after(*OPENED)
    machine.receive(f.MessageArrived(20.0))
    machine.receive(f.LoopStalled(22.0, 9.0))
    assert fires(machine, 27.0)


def test_it_moves_what_lies_ahead_of_a_rest_too() -> None:
    hinted = f.LocalSpeechHinted(10.0, to_be_heard=False)
    machine = after(CONNECTED, hinted, f.LoopStalled(16.0, 5.0))
    assert machine.rests_from == 17.0
