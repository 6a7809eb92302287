"""When a connection is suspected, and what clears it; deadlines are asserted, then jumped to."""

from __future__ import annotations

import dataclasses

import pytest

from livekit.plugins.resilient.core import Fact
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    FinaliseGeneration,
    RecordOutcome,
    Redrive,
    SuspectDead,
)
from tests.core.deadlines import CONNECTED, QUIET, SHORT, after, changed, fires

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


def test_a_peer_that_never_answers_pings_says_nothing_by_it() -> None:
    bounds = changed(LIVE, unheard_after_s=None)
    assert after(CONNECTED, f.MessageArrived(4.0), bounds=bounds).next_deadline() is None


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
