"""Each bound just before, at and just after; deadlines are asserted, then jumped to."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    CloseStreams,
    Decision,
    FinaliseGeneration,
    FinaliseReason,
    RecordOutcome,
    Redrive,
    SuspectDead,
)

# Short ones, to reckon with; what the defaults are is tested apart.
SHORT = Bounds(complete_after_s=5.0, stalled_after_s=4.0, silent_after_s=15.0, working_after_s=40.0)
QUIET = dataclasses.replace(SHORT, liveness_timeout_s=None)
CONNECTED = f.Connected(0.0)
OPENED = (CONNECTED, f.GenerationOpened(10.0, "g"))
SPOKEN = (*OPENED, f.AudioReceived(11.0, "g", 2.0))
HEARD = (*SPOKEN, f.PlaybackStarted(11.5, "g"))  # all of it at 13.5


def changed(bounds: Bounds, **fields: Any) -> Bounds:
    return dataclasses.replace(bounds, **fields)


def after(*facts: Fact, bounds: Bounds = QUIET) -> TurnMachine:
    machine = TurnMachine(bounds)
    for fact in facts:
        assert not [d for d in machine.receive(fact) if isinstance(d, FinaliseGeneration)]
    return machine


def fires(machine: TurnMachine, at: float) -> tuple[Decision, ...]:
    """What is decided at `at`, having shown that nothing is before it, and the same after it."""
    assert machine.next_deadline() == at
    assert machine.next_deadline() == at, "asking must not change it"
    assert machine.due(math.nextafter(at, 0.0)) == ()
    late = copy.deepcopy(machine).due(at + 0.5)
    decisions = machine.due(at)
    assert [type(d) for d in late] == [type(d) for d in decisions]
    deadline = machine.next_deadline()
    assert deadline is None or deadline > at
    return decisions


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


# --- liveness -----------------------------------------------------------------------------------

LIVE = dataclasses.replace(SHORT, liveness_timeout_s=25.0, reply_silent_after_s=8.0)
ASKED = (CONNECTED, f.ReplyRequested(10.0, "r"))
PONG = f.PongArrived(5.0, 0.1)
SPOKE = (CONNECTED, PONG, f.LocalSpeechHinted(9.0), f.LocalSpeechHinted(10.0))


@pytest.mark.parametrize(
    ("facts", "sign", "at", "silent_s"),
    [
        pytest.param((CONNECTED, PONG), "nothing_arrived", 30.0, 25.0, id="nothing since a pong"),
        pytest.param(
            (CONNECTED, PONG, f.MessageArrived(6.0)),
            "nothing_arrived",
            31.0,
            25.0,
            id="since a message",
        ),
        pytest.param(
            (CONNECTED, PONG, f.Disconnected(6.0), f.Connected(7.0)),
            "nothing_arrived",
            32.0,
            25.0,
            id="of a peer that answered pings on the connection before",
        ),
        pytest.param(
            (CONNECTED, f.PongArrived(7.0)), "nothing_arrived", 32.0, 25.0, id="a pong is a byte"
        ),
        pytest.param(ASKED, "reply_silent", 18.0, 18.0, id="no message for 8 since the request"),
        pytest.param(
            (*ASKED, f.MessageArrived(12.0)), "reply_silent", 20.0, 8.0, id="since the last one"
        ),
        pytest.param(
            (*ASKED, f.PongArrived(12.0)), "reply_silent", 18.0, 18.0, id="a pong is no message"
        ),
        pytest.param(
            (*ASKED, f.ReplyRequested(12.0, "r2"), f.ReplyCancelled(13.0, "r")),
            "reply_silent",
            20.0,
            20.0,
            id="the oldest request that is left",
        ),
        pytest.param(
            (*ASKED, f.MessageArrived(11.0), f.WaitStated(11.0, 12.0)),
            "reply_silent",
            31.0,
            20.0,
            id="a stated wait is no silence",
        ),
        pytest.param(
            (*SPOKE, f.WaitStated(10.0, 5.0)),
            "caller_unheard",
            21.0,
            21.0,
            id="nor for the caller",
        ),
        pytest.param(SPOKE, "caller_unheard", 18.0, 18.0, id="8 after the end of speech"),
        pytest.param(
            (*SPOKE, f.PongArrived(12.0)), "caller_unheard", 32.0, 32.0, id="22 on a live path"
        ),
        pytest.param(
            (*SPOKE, f.NoticeArrived(12.0)), "caller_unheard", 32.0, 32.0, id="a notice is no more"
        ),
        pytest.param(
            (CONNECTED, PONG, f.NoticeArrived(7.0)),
            "nothing_arrived",
            32.0,
            25.0,
            id="nor less",
        ),
        pytest.param(
            (CONNECTED, *SPOKE[2:]),
            "caller_unheard",
            32.0,
            32.0,
            id="a path that never answered is not known to be dead",
        ),
        pytest.param(
            (CONNECTED, f.PongArrived(5.0, 5.0), *SPOKE[2:]),
            "nothing_arrived",
            30.0,
            25.0,
            id="nor one that is slow to answer",
        ),
        pytest.param(
            (*SPOKE, f.MessageArrived(10.5), f.LocalSpeechHinted(11.0)),
            "caller_unheard",
            19.0,
            8.5,
            id="speech after the last message",
        ),
    ],
)
def test_each_sign_of_death(facts: tuple[Fact, ...], sign: str, at: float, silent_s: float) -> None:
    assert fires(after(*facts, bounds=LIVE), at) == (SuspectDead(sign, silent_s),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ((CONNECTED, PONG), "liveness_timeout_s"),
        (ASKED, "reply_silent_after_s"),
        (SPOKE, "unheard_after_s"),
    ],
)
def test_none_switches_that_sign_off(facts: tuple[Fact, ...], field: str) -> None:
    on = changed(LIVE, liveness_timeout_s=None, reply_silent_after_s=None, unheard_after_s=None)
    on = changed(on, **{field: getattr(LIVE, field)})
    assert after(*facts, bounds=on).next_deadline() is not None
    assert after(*facts, bounds=changed(on, **{field: None})).next_deadline() is None


@pytest.mark.parametrize(
    "fact",
    [
        f.ReplyCancelled(11.0, "r"),
        f.ReplyCancelled(11.0),
        f.ReplyRequestTimedOut(11.0, "r"),
        f.GenerationOpened(11.0, "g", "r"),
    ],
)
def test_a_request_that_is_over_raises_no_suspicion(fact: Fact) -> None:
    bounds = changed(LIVE, liveness_timeout_s=None, silent_after_s=None)
    assert after(*ASKED, fact, bounds=bounds).next_deadline() is None


def test_a_message_after_the_speech_clears_it() -> None:
    assert after(*SPOKE, f.MessageArrived(10.0), bounds=QUIET).next_deadline() is None


def test_a_suspicion_is_raised_once_until_a_sign_of_life() -> None:
    machine = after(*SPOKE, bounds=LIVE)
    assert len(machine.due(18.0)) == 1
    assert machine.next_deadline() is None
    machine.receive(f.PongArrived(19.0))
    assert machine.next_deadline() is None, "a pong does not answer the caller"
    machine.receive(f.MessageArrived(20.0))
    assert machine.next_deadline() == 45.0
    assert len(machine.due(45.0)) == 1
    machine.receive(f.PongArrived(46.0))
    assert machine.next_deadline() == 71.0


def test_a_new_connection_is_not_blamed_for_the_old_one() -> None:
    machine = after(*SPOKE, bounds=LIVE)
    machine.receive(f.Connected(17.0))
    assert machine.next_deadline() == 42.0


def test_a_connection_in_the_gap_is_not_suspected() -> None:
    machine = after(*SPOKE, f.Disconnected(11.0), bounds=LIVE)
    assert machine.next_deadline() is None


def test_sound_proves_nothing_where_the_application_finds_the_turns() -> None:
    quiet = changed(LIVE, liveness_timeout_s=None)
    spoke = (CONNECTED, PONG, f.LocalSpeechHinted(9.0, to_be_heard=False))
    assert after(*spoke, bounds=quiet).next_deadline() is None


BUSY = {
    "a reply is open": (f.GenerationOpened(7.0, "g"),),
    "one is owed": (f.UserTurnEnded(7.0),),
    "a tool runs": (f.GenerationOpened(7.0, "g"), f.ToolCallOpened(7.0, "g", "c")),
    "a reply plays": (
        f.GenerationOpened(7.0, "g"),
        f.AudioReceived(7.0, "g", 30.0),
        f.PlaybackStarted(7.0, "g"),
        f.GenerationEnded(7.5, "g"),
    ),
}


@pytest.mark.parametrize("facts", BUSY.values(), ids=BUSY)
def test_what_explains_the_silence_makes_no_sign_of_a_sound(facts: tuple[Fact, ...]) -> None:
    bounds = changed(
        LIVE, liveness_timeout_s=None, silent_after_s=None, stalled_after_s=None, redrive=False
    )
    machine = after(CONNECTED, PONG, *facts, bounds=bounds)
    machine.receive(f.LocalSpeechHinted(10.0))
    machine.receive(f.PongArrived(12.0))
    assert not [d for d in machine.due(500.0) if isinstance(d, SuspectDead)]


def test_a_path_that_died_is_suspected_all_the_same() -> None:
    bounds = changed(LIVE, liveness_timeout_s=None, silent_after_s=None)
    machine = after(CONNECTED, PONG, f.GenerationOpened(7.0, "g"), bounds=bounds)
    machine.receive(f.LocalSpeechHinted(10.0))
    assert fires(machine, 18.0) == (SuspectDead("caller_unheard", 18.0),)


def test_each_false_alarm_doubles_the_time_to_the_next_until_the_caller_is_heard() -> None:
    bounds = changed(LIVE, liveness_timeout_s=None, reply_silent_after_s=None)
    machine = after(*SPOKE, bounds=bounds)
    assert len(machine.due(18.0)) == 1
    for at, wait_s in ((20.0, 12.0), (60.0, 24.0), (120.0, 48.0)):
        machine.receive(f.Connected(at))
        machine.receive(f.PongArrived(at + 1.0))
        machine.receive(f.LocalSpeechHinted(at + 2.0))
        assert machine.next_deadline() == at + 2.0 + 2.0 + wait_s
        assert len(machine.due(at + 4.0 + wait_s)) == 1
    machine.receive(f.UserTurnEnded(200.0))
    machine.receive(f.Connected(201.0))
    machine.receive(f.PongArrived(202.0))
    machine.receive(f.LocalSpeechHinted(203.0))
    assert SuspectDead("caller_unheard", 10.0) in machine.due(211.0)


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


def test_a_peer_that_never_answers_pings_says_nothing_by_it() -> None:
    bounds = changed(LIVE, unheard_after_s=None)
    assert after(CONNECTED, f.MessageArrived(4.0), bounds=bounds).next_deadline() is None


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


# --- a server that gives nothing when asked -----------------------------------------------------


def test_a_mute_connection_is_not_asked_again_but_replaced() -> None:
    asked = (CONNECTED, f.UserTurnEnded(10.0), f.GenerationOpened(10.0, "g"))
    machine = after(*asked, bounds=changed(QUIET, silent_after_s=20.0))
    decisions = fires(machine, 30.0)
    assert [type(d) for d in decisions] == [FinaliseGeneration, SuspectDead]
    (redrive,) = machine.receive(f.Connected(31.0))
    assert isinstance(redrive, Redrive)


def test_where_no_other_is_to_be_had_it_is_asked_after_all() -> None:
    asked = (CONNECTED, f.UserTurnEnded(10.0), f.GenerationOpened(10.0, "g"))
    machine = after(*asked, bounds=changed(QUIET, silent_after_s=20.0))
    machine.due(30.0)
    assert [type(d) for d in fires(machine, 33.0)] == [Redrive]


def test_a_connection_that_speaks_of_other_things_is_asked_itself() -> None:
    asked = (CONNECTED, f.UserTurnEnded(10.0), f.GenerationOpened(10.0, "g"))
    machine = after(*asked, f.MessageArrived(25.0), bounds=changed(QUIET, silent_after_s=20.0))
    assert [type(d) for d in fires(machine, 30.0)] == [FinaliseGeneration, Redrive]


def test_a_redrive_that_is_ended_in_silence_goes_to_another_connection() -> None:
    machine = after(
        CONNECTED,
        f.UserTurnEnded(10.0),
        f.GenerationOpened(10.0, "g"),
        f.GenerationEnded(11.0, "g"),
    )
    assert [type(d) for d in fires(machine, 14.0)] == [Redrive]
    assert machine.receive(f.MessageArrived(15.0)) == ()
    decisions = machine.receive(f.TurnPassedOver(15.0))
    assert [type(d) for d in decisions] == [RecordOutcome, SuspectDead]
    (redrive,) = machine.receive(f.Connected(16.0))
    assert isinstance(redrive, Redrive)


UNANSWERED = (
    CONNECTED,
    f.UserTurnEnded(10.0),
    f.GenerationOpened(10.0, "g"),
    f.GenerationEnded(11.0, "g"),
)


def stopped_unbegun(*facts: f.Fact, bounds: Bounds = QUIET) -> TurnMachine:
    """A re-drive is asked for, and its turn is stopped at 15.0 before anything came of it."""
    machine = after(*UNANSWERED, bounds=bounds)
    fires(machine, 14.0)
    for fact in (f.TurnPassedOver(15.0, interrupted=True), *facts):
        assert machine.receive(fact) == ()
    return machine


def test_a_turn_that_nobody_stopped_before_it_began_was_passed_over() -> None:
    machine = stopped_unbegun()
    assert machine.next_deadline() == 16.0
    assert [type(d) for d in fires(machine, 16.0)] == [RecordOutcome, SuspectDead]


@pytest.mark.parametrize("heard_at", [15.0, 15.2])
def test_a_caller_who_cuts_in_on_a_model_that_thinks_is_no_fault(heard_at: float) -> None:
    machine = stopped_unbegun(f.LocalSpeechHinted(heard_at, True))
    assert machine.due(16.0) == ()
    (outcome,) = machine.receive(f.UserTurnEnded(17.0))
    assert isinstance(outcome, RecordOutcome)
    assert outcome.result == "superseded"


def test_without_ears_of_our_own_the_server_is_believed() -> None:
    machine = stopped_unbegun(bounds=changed(QUIET, unheard_after_s=None))
    assert machine.due(16.0) == ()


def test_a_turn_that_nobody_asked_for_may_be_passed_over() -> None:
    assert after(CONNECTED).receive(f.TurnPassedOver(15.0)) == ()


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
