"""An interrupted reply that never ends, and a caller who then meets silence (R13); a turn that was
stopped before its first output.

The reply is interrupted at 12 and finalised at 15; the silence after what is said or asked then is
borne for 3. Deadlines are asserted, then jumped to.
"""

from __future__ import annotations

import dataclasses

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import Decision, RecordOutcome, Redrive, SuspectDead
from livekit.plugins.resilient.core.limits import SLOWEST_START_S
from tests.core import deadlines

BOUNDS = Bounds(liveness_timeout_s=None)
REPLY = (
    f.Connected(0.0),
    f.GenerationOpened(10.0, "g"),
    f.AudioReceived(11.0, "g", 4.0),
    f.PlaybackStarted(11.5, "g"),
)
CUT = (*REPLY, f.Interrupted(12.0, "g"), f.PlaybackFinished(12.1, "g", 0.6))
SAID = (*CUT, f.LocalSpeechHinted(12.5))  # and no more than that
TURN = (*CUT, f.UserTurnEnded(13.0))
CAPTION = f.GenerationOpened(13.0, "caption", by_caption=True)
BY_CAPTION = (*CUT, f.GenerationEnded(13.0, "g", "overtaken"), CAPTION, f.UserTurnEnded(13.0))
NEVER = 100.0


def after(*facts: Fact, bounds: Bounds = BOUNDS) -> TurnMachine:
    machine = TurnMachine(bounds)
    for fact in facts:
        machine.receive(fact)
    return machine


def suspected(machine: TurnMachine, until: float = NEVER) -> list[tuple[float, float]]:
    """When the connection is suspected for it, and the silence that is told, up to `until`."""
    found = []
    while (at := machine.next_deadline()) is not None and at <= until:
        decisions: tuple[Decision, ...] = machine.due(at)
        for decision in decisions:
            if isinstance(decision, SuspectDead) and decision.sign == "turn_unended":
                found.append((at, decision.silent_s))
    return found


@pytest.mark.parametrize(
    ("facts", "at"),
    [
        pytest.param(SAID, 15.5, id="3 after the words, of which the server said nothing"),
        pytest.param(
            (*REPLY, f.LocalSpeechHinted(11.5), f.Interrupted(12.0, "g")),
            15.0,
            id="not before the end is overdue: words that were over when they cut in",
        ),
        pytest.param(TURN, 16.0, id="3 after the turn, as the server said"),
        pytest.param((*SAID, f.UserTurnEnded(13.0)), 16.0, id="the later of both"),
        pytest.param(BY_CAPTION, 16.0, id="the words came, and nothing but that"),
        pytest.param((*CUT, f.ReplyRequested(14.5, "r")), 17.5, id="3 after a request"),
        pytest.param((*SAID, f.LocalSpeechHinted(17.0)), 20.0, id="the caller goes on to speak"),
        pytest.param(
            (*TURN, *(f.LocalSpeechHinted(13.0 + s) for s in range(30))),
            26.0,
            id="music after a turn is no part of it for more than 10",
        ),
        pytest.param(
            (*SAID, f.UserSpeechStarted(12.5)), 15.5, id="begun, says the server, and no more"
        ),
        pytest.param(
            (*SAID, f.AudioReceived(13.5, "g", 0.2)), 16.5, id="some of the reply still comes"
        ),
        pytest.param((*SAID, f.WaitStated(12.5, 10.0)), 25.5, id="a wait that was stated"),
        pytest.param(
            (*SAID, f.PlaybackPaused(12.5), f.PlaybackResumed(14.5)),
            15.5,
            id="taken for a false interruption here, which tells the server nothing",
        ),
        pytest.param((*SAID, f.LoopStalled(14.5, 1.0)), 16.5, id="our own loop slept"),
    ],
)
def test_silence_after_an_interruption_without_end_is_a_sign(
    facts: tuple[Fact, ...], at: float
) -> None:
    assert [when for when, _ in suspected(after(*facts))] == [pytest.approx(at)]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(CUT, id="nobody said anything since"),
        pytest.param((*REPLY, f.LocalSpeechHinted(11.6), f.Interrupted(13.0, "g")), id="before"),
        pytest.param((*SAID, f.GenerationEnded(12.5, "g")), id="its end came"),
        pytest.param((*TURN, f.GenerationEnded(15.9, "g")), id="its end came late"),
        pytest.param((*TURN, f.TurnPassedOver(15.9)), id="an end came that names no reply"),
        pytest.param((*TURN, f.GenerationOpened(15.9, "h")), id="the next began"),
        pytest.param((*BY_CAPTION, f.AudioReceived(15.9, "caption", 0.2)), id="an answer"),
        pytest.param((*BY_CAPTION, f.ToolCallOpened(15.9, "caption", "c")), id="a tool call"),
        pytest.param((*CUT, f.UserSpeechStarted(12.5)), id="the caller speaks, nobody here hears"),
        pytest.param(
            (*REPLY, f.ToolCallOpened(11.5, "g", "c"), f.Interrupted(12.0, "g"), TURN[-1]),
            id="a tool is at work",
        ),
        pytest.param((*TURN, f.Connected(15.9)), id="another connection serves"),
        pytest.param((*CUT, f.UserTurnEnded(13.0, certain=False)), id="words of an earlier turn"),
        pytest.param(
            (*CUT, f.LocalSpeechHinted(12.4, to_be_heard=False)), id="the application finds turns"
        ),
        pytest.param((*REPLY, f.UserTurnEnded(14.0)), id="not interrupted"),
        pytest.param(
            (f.Connected(0.0), CAPTION, f.Interrupted(13.5, "caption"), f.UserTurnEnded(14.0)),
            id="nothing was there to interrupt but a caption",
        ),
    ],
)
def test_nothing_else_is(facts: tuple[Fact, ...]) -> None:
    assert suspected(after(*facts)) == []


def test_a_slow_answer_after_an_interruption_that_ended_is_waited_for() -> None:
    ended = after(*CUT, f.GenerationEnded(12.2, "g", "cancelled"), f.UserTurnEnded(13.0))
    assert ended.due(13.0 + SLOWEST_START_S) == ()
    assert not ended.is_stuck


@pytest.mark.parametrize(
    "bounds",
    [
        dataclasses.replace(BOUNDS, mute_after_s=None),
        dataclasses.replace(BOUNDS, interrupted_after_s=None),
    ],
    ids=["mute", "interrupted"],
)
def test_none_switches_it_off(bounds: Bounds) -> None:
    assert suspected(after(*SAID, bounds=bounds)) == []


def test_it_is_told_once_and_only_an_answer_or_the_end_disproves_it() -> None:
    machine = after(*TURN)
    assert not machine.is_stuck
    assert len(suspected(machine, until=20.0)) == 1
    for fact in (f.MessageArrived(20.0), f.PongArrived(20.5), f.LocalSpeechHinted(21.0)):
        machine.receive(fact)
        assert machine.is_stuck
    assert suspected(machine, until=29.0) == []
    machine.receive(f.GenerationEnded(29.0, "g"))
    assert not machine.is_stuck


@pytest.mark.parametrize("facts", [TURN, BY_CAPTION], ids=["finalised", "opened by a caption"])
def test_the_next_connection_is_asked_at_once(facts: tuple[Fact, ...]) -> None:
    machine = after(*facts)
    assert len(suspected(machine, until=16.5)) == 1
    decisions = machine.receive(f.Connected(17.0))
    (redrive,) = [decision for decision in decisions if isinstance(decision, Redrive)]
    assert redrive.cause == "unanswered_turn"


# --- a turn that was stopped before its first output ---------------------------------------------

UNANSWERED = (
    deadlines.CONNECTED,
    f.UserTurnEnded(10.0),
    f.GenerationOpened(10.0, "g"),
    f.GenerationEnded(11.0, "g"),
)


def stopped_unbegun(*facts: f.Fact, bounds: Bounds = deadlines.QUIET) -> TurnMachine:
    """A re-drive is asked for, and its turn is stopped at 15.0 before anything came of it."""
    machine = deadlines.after(*UNANSWERED, bounds=bounds)
    deadlines.fires(machine, 14.0)
    for fact in (f.TurnPassedOver(15.0, interrupted=True), *facts):
        assert machine.receive(fact) == ()
    return machine


def test_a_turn_that_nobody_stopped_before_it_began_was_passed_over() -> None:
    machine = stopped_unbegun()
    assert machine.next_deadline() == 16.0
    assert [type(d) for d in deadlines.fires(machine, 16.0)] == [RecordOutcome, SuspectDead]


@pytest.mark.parametrize("heard_at", [15.0, 15.2])
def test_a_caller_who_cuts_in_on_a_model_that_thinks_is_no_fault(heard_at: float) -> None:
    machine = stopped_unbegun(f.LocalSpeechHinted(heard_at, True))
    assert machine.due(16.0) == ()
    (outcome,) = machine.receive(f.UserTurnEnded(17.0))
    assert isinstance(outcome, RecordOutcome)
    assert outcome.result == "superseded"


def test_without_ears_of_our_own_the_server_is_believed() -> None:
    machine = stopped_unbegun(bounds=deadlines.changed(deadlines.QUIET, unheard_after_s=None))
    assert machine.due(16.0) == ()


def test_a_turn_that_nobody_asked_for_may_be_passed_over() -> None:
    assert after(deadlines.CONNECTED).receive(f.TurnPassedOver(15.0)) == ()
