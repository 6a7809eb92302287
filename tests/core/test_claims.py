"""When another connection is asked beside, for what, and what follows once it serves (R24)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    CloseStreams,
    Decision,
    RecordOutcome,
    Redrive,
    SuspectDead,
    TakeBack,
)
from livekit.plugins.resilient.core.limits import READ_WITHIN_S

BOUNDS = Bounds(liveness_timeout_s=None, unheard_after_s=None)
UP = f.Connected(0.0)
TURN = (UP, f.UserTurnEnded(10.0))
OPENED = (*TURN, f.GenerationOpened(11.0, "g"))
SPOKEN = (*OPENED, f.AudioReceived(11.0, "g", 2.0))
HEARD = (*SPOKEN, f.PlaybackStarted(11.5, "g"))  # all of it at 13.5
STALLED_AT = 19.5
REQUESTED = (UP, f.ReplyRequested(10.0, "r"))
CALLED = (*OPENED, f.ToolCallOpened(11.0, "g", "c"))


def after(*facts: Fact, **changed: Any) -> TurnMachine:
    machine = TurnMachine(dataclasses.replace(BOUNDS, **changed))
    for fact in facts:
        machine.receive(fact)
    return machine


def hedged(*facts: Fact, **changed: Any) -> tuple[TurnMachine, Redrive, float]:
    """With a hedge under way, as soon as it was due: what it asks for, and when."""
    machine = after(*facts, **changed)
    at = machine.hedge_at
    assert at is not None
    asked = machine.hedge(at)
    assert asked is not None
    assert machine.receive(f.HedgeBegun(at)) == ()
    return machine, asked, at


def of(kind: type[Decision], decisions: tuple[Decision, ...]) -> list[Decision]:
    return [decision for decision in decisions if isinstance(decision, kind)]


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "at", "cause"),
    [
        pytest.param(TURN, 18.0, "unanswered_turn", id="8 after the turn"),
        pytest.param(
            (*TURN, f.UserTurnEnded(12.0)), 20.0, "unanswered_turn", id="a refreshed turn"
        ),
        pytest.param(OPENED, 19.0, "unanswered_turn", id="8 after it opened"),
        pytest.param(
            (UP, f.GenerationOpened(9.0, "g", by_caption=True), f.UserTurnEnded(10.0)),
            18.0,
            "unanswered_turn",
            id="only captions, of a turn that is surely owed",
        ),
        pytest.param(REQUESTED, 18.0, "reply_requested", id="8 after the request"),
        pytest.param(
            (*REQUESTED, f.GenerationOpened(11.0, "g", "r")),
            19.0,
            "reply_requested",
            id="a requested one that opened",
        ),
        pytest.param(HEARD, STALLED_AT, "reply_cut", id="6 after all was heard"),
        pytest.param(SPOKEN, 19.0, "reply_cut", id="without a report of playback: 11 + 2 + 6"),
        pytest.param(
            (*HEARD, f.PlaybackFinished(12.0, "g", 0.5)),
            18.0,
            "reply_cut",
            id="6 after the speaker was cleared",
        ),
        pytest.param(
            (*HEARD, f.PlaybackPaused(12.0), f.PlaybackResumed(20.0)),
            27.5,
            "reply_cut",
            id="a pause counts",
        ),
        pytest.param(
            (*OPENED, f.TextReceived(12.0, "g")), 18.0, "reply_cut", id="6 after the last text"
        ),
        pytest.param(
            (UP, f.GenerationOpened(11.0, "g"), f.AudioReceived(11.0, "g", 1.0)),
            18.0,
            "reply_cut",
            id="one that nobody asked for",
        ),
        pytest.param(
            (*CALLED, f.ToolResultDelivered(20.0, "c")),
            28.0,
            "tool_result_unanswered",
            id="8 after a tool's result",
        ),
        pytest.param(
            (
                *REQUESTED,
                f.GenerationOpened(11.0, "g"),
                f.ToolCallOpened(11.0, "g", "c"),
                f.ToolResultDelivered(30.0, "c", expects_reply=False),
            ),
            38.0,
            "reply_requested",
            id="8 after a tool that explained the silence",
        ),
        pytest.param(
            (*HEARD, f.UserTurnEnded(12.0)), 21.5, "unanswered_turn", id="not while one still plays"
        ),
        pytest.param(
            (*HEARD, f.OutputCompleted(12.0, "g"), f.UserTurnEnded(15.0)),
            23.0,
            "unanswered_turn",
            id="the turn after one that is complete and did not end",
        ),
        pytest.param(
            (*TURN, f.UserSpeechStarted(12.0), f.UserSpeechStopped(14.0, in_turn=False)),
            22.0,
            "unanswered_turn",
            id="after a noise",
        ),
        pytest.param(
            (*REQUESTED, f.UserSpeechStarted(12.0), f.UserTurnEnded(20.0, certain=False)),
            28.0,
            "reply_requested",
            id="after words that may be no turn",
        ),
        pytest.param(
            (*TURN, f.LocalSpeechHinted(17.5)), 19.5, "unanswered_turn", id="2 after a sound"
        ),
        pytest.param(
            (*TURN, f.LocalSpeechHinted(40.0)), 28.0, "unanswered_turn", id="noise holds 10 at most"
        ),
        pytest.param(
            (*TURN, f.Disconnected(12.0), f.Connected(13.0, knows_turn=True)),
            21.0,
            "unanswered_turn",
            id="8 after the connection began to serve",
        ),
        pytest.param(
            (
                *REQUESTED,
                f.WaitStated(10.5, 1.0),
                f.ReplyRequestTimedOut(12.0, "r"),
                f.UserTurnEnded(13.0),
            ),
            21.0,
            "unanswered_turn",
            id="a stated wait of an older reply",
        ),
        pytest.param(
            (*TURN, f.ReplyRequested(11.0, "r"), f.ReplyCancelled(17.0, "r")),
            25.0,
            "unanswered_turn",
            id="a request that was taken back",
        ),
    ],
)
def test_it_is_due(facts: tuple[Fact, ...], at: float, cause: str) -> None:
    machine = after(*facts)
    assert machine.hedge_at == at == machine.hedge_at
    assert machine.hedge(math.nextafter(at, 0.0)) is None
    asked = machine.hedge(at)
    assert asked is not None
    assert asked.cause == cause
    assert machine.hedge(at) == asked, "asking must not change it"


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param((), id="not connected"),
        pytest.param((UP,), id="nothing owed"),
        pytest.param((*TURN, f.Disconnected(12.0)), id="in the gap"),
        pytest.param((*TURN, f.Closed(12.0)), id="closed"),
        pytest.param((UP, f.UserTurnEnded(10.0, certain=False)), id="not surely owed"),
        pytest.param((UP, f.GenerationOpened(9.0, "g", by_caption=True)), id="captions alone"),
        pytest.param(
            (
                UP,
                f.GenerationOpened(9.0, "g", by_caption=True),
                f.TextReceived(9.5, "g", is_caption=True),
            ),
            id="captions alone, with text",
        ),
        pytest.param((*TURN, f.UserSpeechStarted(12.0)), id="the caller speaks"),
        pytest.param(CALLED, id="a tool runs"),
        pytest.param((*HEARD, f.PlaybackPaused(12.0)), id="the speaker holds audio"),
        pytest.param((*HEARD, f.Interrupted(12.0, "g")), id="interrupted"),
        pytest.param(
            (*HEARD, f.Interrupted(12.0, "g"), f.UserTurnEnded(12.5)), id="interrupted, next turn"
        ),
        pytest.param((*HEARD, f.OutputCompleted(12.0, "g")), id="complete"),
        pytest.param((*OPENED, f.OutputCompleted(12.0, "g")), id="complete and empty"),
        pytest.param((*SPOKEN, f.GenerationEnded(12.0, "g")), id="ended, and still to be heard"),
        pytest.param((*HEARD, f.GenerationEnded(12.0, "g")), id="ended and heard"),
        pytest.param((*HEARD, f.ReplyCancelled(12.0)), id="taken back"),
        pytest.param((*HEARD, f.PlaybackFinished(12.0, "g", 0.5, cut_in=True)), id="stopped"),
        pytest.param((*TURN, f.InputAwaited(11.0)), id="more input is awaited"),
        pytest.param((*TURN, f.WaitStated(11.0, 1.0)), id="after a stated wait"),
        pytest.param((*REQUESTED, f.WaitStated(11.0, 30.0)), id="during one"),
        pytest.param((*OPENED, f.GenerationEnded(12.0, "g", "failed", 20.0)), id="put off"),
        pytest.param((*REQUESTED, f.ReplyRequestTimedOut(11.0, "r")), id="timed out"),
    ],
)
def test_it_is_not_due(facts: tuple[Fact, ...]) -> None:
    machine = after(*facts)
    assert machine.hedge_at is None
    assert machine.hedge(1e9) is None


def test_none_switches_it_off() -> None:
    assert after(*TURN, hedge_after_s=None).hedge_at is None
    assert after(*HEARD, hedge_after_s=None).hedge_at is None


def test_where_nothing_is_asked_for_only_requests_are_hedged() -> None:
    assert after(*TURN, redrive=False).hedge_at is None
    assert after(*HEARD, redrive=False).hedge_at is None
    assert after(*REQUESTED, redrive=False).hedge_at == 18.0


def test_a_redrive_is_given_its_time() -> None:
    machine = after(*OPENED, f.GenerationEnded(12.0, "g"))
    assert machine.next_deadline() == 15.0
    assert [type(d) for d in machine.due(15.0)] == [Redrive]
    assert machine.hedge_at == 23.0


def test_time_stands_still_while_the_loop_sleeps() -> None:
    machine = after(*TURN, f.LoopStalled(16.0, 5.0))
    assert machine.hedge_at == 23.0
    machine = after(*TURN, f.LoopStalled(30.0, 12.0))
    assert machine.hedge_at == 30.0 + READ_WITHIN_S
    assert machine.hedge(30.0) is None
    asked = machine.hedge(30.5)
    assert asked is not None
    assert asked.waited_s == 8.5


def test_a_bound_of_its_own_for_each() -> None:
    assert after(*TURN, hedge_after_s=3.0).hedge_at == 13.0
    assert after(*HEARD, hedge_stalled_after_s=2.0).hedge_at == 15.5


# --- what it asks for ---------------------------------------------------------------------------


def test_it_asks_for_the_rest_of_what_was_cut() -> None:
    _, asked, _ = hedged(*HEARD)
    assert asked == Redrive(
        "hedge-1", "reply_cut", 8.5, generation_id="g", heard_s=2.0, received_s=2.0
    )


def test_it_asks_for_all_pending_requests_in_order() -> None:
    _, asked, _ = hedged(*REQUESTED, f.ReplyRequested(12.0, "s"))
    assert (asked.cause, asked.request_ids) == ("reply_requested", ("r", "s"))


def test_it_asks_for_a_request_that_opened_and_said_nothing() -> None:
    _, asked, _ = hedged(*REQUESTED, f.GenerationOpened(11.0, "g", "r"))
    assert asked.request_ids == ("r",)


# --- once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [TURN, OPENED, HEARD, REQUESTED, (*REQUESTED, f.GenerationOpened(11.0, "g", "r"))],
    ids=["turn", "opened", "stopped", "requested", "requested and opened"],
)
def test_one_for_each_owed_reply(facts: tuple[Fact, ...]) -> None:
    machine, _, at = hedged(*facts)
    assert machine.hedge_at is None
    assert machine.awaits_hedge
    machine.receive(f.HedgeBegun(at))
    if facts is TURN:
        machine.receive(f.GenerationOpened(at + 1.0, "g"))
    if facts is not REQUESTED:
        machine.receive(f.AudioReceived(at + 2.0, "g", 1.0))
        assert machine.hedge_at is None, "the same reply, which went on and stopped"
        machine.receive(f.PlaybackFinished(at + 3.0, "g", 1.0))
        machine.receive(f.GenerationEnded(at + 3.0, "g"))
    machine.receive(f.ReplyCancelled(at + 3.5))
    machine.receive(f.UserTurnEnded(at + 4.0))
    assert machine.hedge_at == at + 12.0, "another reply"
    asked = machine.hedge(at + 12.0)
    assert asked is not None
    assert asked.redrive_id == "hedge-2"


def test_a_reply_that_was_cut_across_a_drop_is_the_same() -> None:
    machine, _, at = hedged(*HEARD)
    machine.receive(f.Disconnected(at + 1.0))
    machine.receive(f.Connected(at + 2.0, knows_turn=True))
    assert machine.hedge_at is None


def test_a_requested_reply_stays_hedged_once_it_opened() -> None:
    machine, _, at = hedged(*REQUESTED)
    machine.receive(f.GenerationOpened(at + 1.0, "g", "r"))
    assert machine.hedge_at is None


def test_late_captions_of_the_turn_earn_no_second_one_but_the_callers_voice_does() -> None:
    machine, _, at = hedged(*TURN)
    machine.receive(f.UserTurnEnded(at + 1.0))
    assert machine.hedge_at is None
    assert machine.awaits_hedge
    machine.receive(f.UserSpeechStarted(at + 2.0))
    machine.receive(f.UserTurnEnded(at + 3.0))
    assert not machine.awaits_hedge, "it was asked for something else"
    assert machine.hedge_at == at + 11.0
    by_hint, _, at = hedged(*TURN)
    by_hint.receive(f.LocalSpeechHinted(at + 2.0))
    by_hint.receive(f.UserTurnEnded(at + 3.0))
    assert by_hint.hedge_at == at + 11.0


# --- while it is under way ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "more"),
    [
        pytest.param(OPENED, (f.AudioReceived(20.0, "g", 0.1),), id="audio"),
        pytest.param(OPENED, (f.TextReceived(20.0, "g"),), id="text"),
        pytest.param(HEARD, (f.AudioReceived(20.0, "g", 0.1),), id="it goes on"),
        pytest.param(OPENED, (f.ToolCallOpened(20.0, "g", "c"),), id="a call"),
        pytest.param(
            OPENED,
            (f.ToolCallOpened(20.0, "g", "c"), f.ToolResultDelivered(21.0, "c")),
            id="a call that is over",
        ),
        pytest.param(OPENED, (f.UserSpeechStarted(20.0),), id="the caller speaks"),
        pytest.param(OPENED, (f.ReplyCancelled(20.0),), id="nobody waits"),
        pytest.param(OPENED, (f.Interrupted(20.0, "g"),), id="interrupted"),
        pytest.param(REQUESTED, (f.ReplyRequestTimedOut(20.0, "r"),), id="timed out"),
        pytest.param(TURN, (f.InputAwaited(20.0),), id="more input is awaited"),
        pytest.param(TURN, (f.ReplyRequested(20.0, "r"),), id="something else is asked for"),
        pytest.param(TURN, (f.Disconnected(20.0),), id="dropped"),
        pytest.param(TURN, (f.Connected(20.0),), id="another one serves"),
    ],
)
def test_it_is_not_waited_for_any_more(facts: tuple[Fact, ...], more: tuple[Fact, ...]) -> None:
    machine, _, at = hedged(*facts)
    assert at <= 20.0
    assert machine.awaits_hedge
    for fact in more:
        machine.receive(fact)
        assert not machine.awaits_hedge


@pytest.mark.parametrize(
    "fact",
    [
        f.MessageArrived(20.0),
        f.PongArrived(20.0),
        f.PauseExpected(20.0, "g"),
        f.TextReceived(20.0, "g", is_caption=True),
        f.LocalSpeechHinted(20.0),
        f.GenerationEnded(20.0, "g"),
        f.AudioReceived(20.0, "older", 0.1),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_it_still_is(fact: Fact) -> None:
    machine, _, _ = hedged(*OPENED)
    machine.receive(fact)
    assert machine.awaits_hedge


def test_cutting_keeps_its_own_bounds() -> None:
    for facts, at in ((OPENED, 41.0), (HEARD, 43.5)):
        machine, _, _ = hedged(*facts)
        assert machine.next_deadline() == at


# --- once it serves -----------------------------------------------------------------------------


def test_the_open_generation_is_closed_and_nothing_is_asked_beside_the_answer() -> None:
    machine, asked, at = hedged(*HEARD)
    decisions = machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert decisions == (CloseStreams("g"),)
    assert machine.owes_reply
    assert machine.receive(f.GenerationOpened(at + 1.0, "h", asked.redrive_id)) == ()
    machine.receive(f.AudioReceived(at + 1.0, "h", 3.0))
    assert not of(Redrive, machine.receive(f.PlaybackStarted(at + 1.1, "h")))
    assert not machine.owes_reply
    machine.receive(f.GenerationEnded(at + 1.2, "h"))
    assert machine.due(at + 300.0) == ()


def test_without_its_id_it_is_a_reconnect_like_any_other() -> None:
    for hedge_id in (None, "hedge-7"):
        machine, _, at = hedged(*HEARD)
        decisions = machine.receive(f.Connected(at + 1.0, hedge_id=hedge_id))
        assert [type(d) for d in decisions] == [CloseStreams, Redrive]


def test_an_answer_that_was_never_heard_is_followed_by_the_usual_rules() -> None:
    machine, asked, at = hedged(*TURN)
    assert machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id)) == ()
    machine.receive(f.GenerationOpened(at + 1.0, "h", asked.redrive_id))
    machine.receive(f.AudioReceived(at + 1.0, "h", 3.0))
    assert machine.receive(f.Disconnected(at + 2.0)) == (CloseStreams("h"),)
    (redrive,) = machine.receive(f.Connected(at + 3.0))
    assert isinstance(redrive, Redrive)
    assert redrive.cause == "reply_cut"


def test_one_that_never_opened_counts_as_an_unanswered_redrive() -> None:
    machine, asked, at = hedged(*TURN)
    machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert machine.next_deadline() == at + 31.0
    assert machine.due(at + 31.0) == (SuspectDead("reply_silent", 30.0),)
    assert [type(d) for d in machine.receive(f.Connected(at + 32.0))] == [Redrive]


def test_one_that_is_passed_over_leads_to_another_session() -> None:
    machine, asked, at = hedged(*TURN)
    machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert machine.receive(f.TurnPassedOver(at + 2.0)) == (SuspectDead("passed_over", 1.0),)


def test_requests_keep_their_future_and_later_ones_are_issued_after_it() -> None:
    machine, asked, at = hedged(*REQUESTED)
    machine.receive(f.ReplyRequested(at + 0.5, "s"))
    decisions = machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert decisions == ()
    machine.receive(f.GenerationOpened(at + 1.0, "h", "r"))
    machine.receive(f.AudioReceived(at + 1.0, "h", 1.0))
    machine.receive(f.GenerationEnded(at + 1.0, "h"))
    (redrive,) = of(Redrive, machine.receive(f.PlaybackStarted(at + 1.1, "h")))
    assert isinstance(redrive, Redrive)
    assert redrive.request_ids == ("s",)


def test_a_request_that_it_answers_counts_its_silence_from_then() -> None:
    machine, asked, at = hedged(*REQUESTED, reply_silent_after_s=10.0)
    machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert machine.next_deadline() == at + 11.0


def test_a_redrive_that_was_open_has_its_one_outcome() -> None:
    machine = after(*OPENED, f.GenerationEnded(12.0, "g"))
    (redrive,) = machine.due(15.0)
    assert isinstance(redrive, Redrive)
    asked = machine.hedge(23.0)
    assert asked is not None
    machine.receive(f.HedgeBegun(23.0))
    decisions = machine.receive(f.Connected(24.0, hedge_id=asked.redrive_id))
    assert decisions == (RecordOutcome(redrive.redrive_id, "failed"),)


def test_its_reply_is_taken_back_where_the_old_rest_is_stopped() -> None:
    machine, asked, at = hedged(*HEARD, f.AudioReceived(13.5, "g", 60.0))
    at = 80.0
    machine.receive(f.Connected(at, hedge_id=asked.redrive_id))
    machine.receive(f.GenerationOpened(at, "h", asked.redrive_id))
    stopped = f.PlaybackFinished(at + 1.0, "g", 5.0, cut_in=True)
    assert machine.receive(stopped) == (TakeBack(asked.redrive_id, "h"),)


def test_words_that_were_under_way_ask_for_nothing_before_the_answer() -> None:
    machine, asked, at = hedged(*TURN)
    machine.receive(f.UserSpeechStarted(at + 0.5))
    machine.receive(f.UserSpeechStopped(at + 0.6))
    decisions = machine.receive(f.Connected(at + 1.0, hedge_id=asked.redrive_id))
    assert decisions == ()
    assert machine.receive(f.GenerationOpened(at + 1.0, "h", asked.redrive_id)) == ()
    assert not of(Redrive, machine.receive(f.PlaybackStarted(at + 1.1, "h")))
    assert not machine.owes_reply
