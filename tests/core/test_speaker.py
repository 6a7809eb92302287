"""What was heard, as the speaker tells it."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core import Bounds, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import RecordFirstAudio
from tests.core.call_log import ANSWERED, DROP, SPEAKING, TURN, Call, changed

# --- first audio after a reconnect -------------------------------------------------------------


@pytest.mark.parametrize("redrive", [True, False])
def test_first_audio_is_timed_once_per_reconnect_also_with_the_watchdogs_off(redrive: bool) -> None:
    off = changed(redrive=redrive, interrupted_after_s=None, complete_after_s=None)
    call = Call(*ANSWERED, DROP, f.Connected(21.0), bounds=off)
    call.feed(
        f.PlaybackProgressed(22.0, "g", 11.0),  # the old reply plays on: not the first after it
        f.GenerationOpened(23.0, "h"),
        f.AudioReceived(23.0, "h", 1.0),
        f.PlaybackStarted(24.5, "h"),
        f.GenerationOpened(25.0, "i"),
        f.AudioReceived(25.0, "i", 1.0),
        f.PlaybackStarted(26.0, "i"),
    )
    assert [d for _, d in call.log if isinstance(d, RecordFirstAudio)] == [RecordFirstAudio(3.5)]


def test_audio_from_before_the_drop_is_not_the_first_after_it() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"), f.AudioReceived(19.0, "g", 1.0), DROP)
    call.feed(f.Connected(20.5), f.PlaybackStarted(20.6, "g"))
    assert not [d for _, d in call.log if isinstance(d, RecordFirstAudio)]


def test_the_first_connection_is_not_timed() -> None:
    call = Call(*SPEAKING)
    assert not [d for _, d in call.log if isinstance(d, RecordFirstAudio)]


@pytest.mark.parametrize(("at_rest", "told"), [(True, 0), (False, 1)])
def test_first_audio_is_timed_after_a_handover_only_where_a_reply_is_owed(
    at_rest: bool, told: int
) -> None:
    machine = TurnMachine(Bounds(liveness_timeout_s=None))
    machine.receive(f.Connected(0.0))
    if not at_rest:
        machine.receive(f.UserTurnEnded(1.0))
    machine.receive(f.Connected(2.0))
    machine.receive(f.GenerationOpened(3.0, "g1"))
    machine.receive(f.AudioReceived(3.0, "g1", 1.0))
    decisions = machine.receive(f.PlaybackStarted(3.0, "g1"))
    assert sum(isinstance(d, RecordFirstAudio) for d in decisions) == told


# --- positions ---------------------------------------------------------------------------------


def test_empty_generations_do_not_push_out_a_reply_that_waits_to_be_heard() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"), f.AudioReceived(11.0, "g", 1.0))
    for number in range(20):
        call.feed(f.GenerationOpened(12.0, f"e{number}"), f.GenerationEnded(12.0, f"e{number}"))
    call.feed(f.PlaybackStarted(13.0, "g"))
    assert not call.machine.owes_reply


def test_a_position_of_zero_is_not_hearing() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"), f.AudioReceived(11.0, "g", 1.0))
    call.feed(f.PlaybackProgressed(12.0, "g", 0.0))
    assert call.machine.owes_reply
    call.feed(f.PlaybackProgressed(12.1, "g", 0.1))
    assert not call.machine.owes_reply
