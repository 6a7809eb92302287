"""What makes a reply owed, what settles it, and when it is asked for."""

from __future__ import annotations

import math

import pytest

from livekit.plugins.resilient.core import Fact
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    CloseStreams,
    FinaliseGeneration,
    Redrive,
    RedriveCause,
)
from tests.core.call_log import ANSWERED, CALLED, DROP, RESULT, SPEAKING, TURN, UP, Call, changed

# --- what is owed across a reconnect -----------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        pytest.param(TURN, "unanswered_turn", id="turn not begun"),
        pytest.param((*TURN, f.GenerationOpened(11.0, "g")), "unanswered_turn", id="nothing yet"),
        pytest.param(SPEAKING, "reply_cut", id="cut in mid-speech"),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.AudioReceived(19.9, "g", 1.0)),
            "reply_cut",
            id="received is not heard",
        ),
        pytest.param(
            (UP, f.GenerationOpened(11.0, "g"), f.AudioReceived(19.0, "g", 1.0)),
            "reply_cut",
            id="cut, and nobody had asked",
        ),
        pytest.param(RESULT, "tool_result_unanswered", id="tool result"),
        pytest.param((UP, f.ReplyRequested(10.0, "r")), "reply_requested", id="request"),
        pytest.param(
            (UP, f.ReplyRequested(10.0, "r"), f.GenerationOpened(11.0, "g", "r")),
            "reply_requested",
            id="request begun, nothing of it arrived",
        ),
        pytest.param((UP, f.UserSpeechStarted(10.0)), "user_words_lost", id="in mid-sentence"),
        pytest.param(
            (UP, f.UserSpeechStarted(10.0), f.UserSpeechStopped(12.0)),
            "user_words_lost",
            id="between speech and turn",
        ),
        pytest.param(
            (*SPEAKING, f.UserTurnEnded(15.0)), "unanswered_turn", id="a newer turn than the reply"
        ),
        pytest.param((*ANSWERED, f.UserTurnEnded(19.0)), "unanswered_turn", id="the next turn"),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.AudioReceived(11.0, "g", 1.0),
                f.GenerationEnded(11.5, "g"),
                f.PlaybackFinished(15.0, "g", 0.0),
            ),
            "unanswered_turn",
            id="whole, but flushed unheard",
        ),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.Interrupted(12.0, "g")),
            "unanswered_turn",
            id="interrupted by a noise before it was heard",
        ),
        pytest.param(
            (*TURN, f.ReplyRequested(11.0, "r"), f.ReplyRequestTimedOut(16.0, "r")),
            "unanswered_turn",
            id="a request timed out, the turn did not",
        ),
    ],
)
def test_is_owed_and_asked_for_at_once_where_the_session_cannot_know(
    facts: tuple[Fact, ...], cause: RedriveCause
) -> None:
    call = Call(*facts, DROP)
    assert call.machine.owes_reply
    call.feed(f.Connected(20.5))
    speaking_at_the_drop = isinstance(facts[-1], f.UserSpeechStarted)
    call.run(60.0)
    assert call.redrives() == [(22.0 if speaking_at_the_drop else 20.5, cause)]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param((UP,), id="nothing ever"),
        pytest.param(ANSWERED, id="answered, still playing"),
        pytest.param((*SPEAKING, f.OutputCompleted(12.0, "g")), id="complete, no terminal event"),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.AudioReceived(11.0, "g", 1.0),
                f.GenerationEnded(12.0, "g"),
            ),
            id="answered, about to be heard",
        ),
        pytest.param((*SPEAKING, f.Interrupted(18.0, "g")), id="the caller cut in"),
        pytest.param((*SPEAKING, f.GenerationEnded(18.0, "g", "cancelled")), id="cancelled"),
        pytest.param(CALLED, id="the tool still runs"),
        pytest.param(
            (
                *RESULT,
                f.GenerationOpened(14.0, "h"),
                f.AudioReceived(14.0, "h", 1.0),
                f.PlaybackStarted(14.0, "h"),
                f.GenerationEnded(15.0, "h"),
            ),
            id="tool result answered",
        ),
        pytest.param((*CALLED, f.ToolResultDelivered(13.0, "c", False)), id="silent tool"),
        pytest.param(
            (*CALLED, f.GenerationEnded(12.0, "g"), f.ToolResultDelivered(13.0, "c", False)),
            id="silent tool after its generation",
        ),
        pytest.param((*TURN, f.ReplyCancelled(15.0)), id="taken back"),
        pytest.param(
            (UP, f.ReplyRequested(10.0, "r"), f.ReplyCancelled(15.0, "r")), id="request taken back"
        ),
        pytest.param(
            (UP, f.ReplyRequested(10.0, "r"), f.ReplyRequestTimedOut(15.0, "r")),
            id="request failed",
        ),
        pytest.param(
            (
                UP,
                f.ReplyRequested(10.0, "r"),
                f.GenerationOpened(11.0, "g", "r"),
                f.Disconnected(12.0),
                f.ReplyCancelled(13.0, "r"),
                f.Connected(14.0),
            ),
            id="request taken back in the gap that cut its reply",
        ),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.PlaybackStarted(12.0, "g"),
                f.TextReceived(12.0, "g"),
                f.GenerationEnded(13.0, "g"),
            ),
            id="spoken from text",
        ),
    ],
)
def test_nothing_is_asked_where_nothing_is_owed(facts: tuple[Fact, ...]) -> None:
    call = Call(*facts, DROP, f.Connected(20.5))
    call.run(25.0)
    assert call.redrives() == []


def test_a_session_that_can_know_has_three_seconds_to_go_on_by_itself() -> None:
    call = Call(*SPEAKING, DROP, f.Connected(20.5, knows_turn=True))
    assert call.machine.next_deadline() == 23.5
    assert call.machine.due(math.nextafter(23.5, 0.0)) == ()
    assert call.run(23.5) == [
        Redrive(
            "redrive-1",
            "reply_cut",
            3.0,
            generation_id="g",
            heard_s=12.5,
            received_s=30.0,
        )
    ]


def test_it_went_on_by_itself() -> None:
    call = Call(
        *SPEAKING,
        DROP,
        f.Connected(20.5, knows_turn=True),
        f.GenerationOpened(22.0, "h"),
        f.AudioReceived(22.1, "h", 1.0),
        f.PlaybackStarted(30.0, "h"),
        f.GenerationEnded(30.0, "h"),
    )
    call.run(99.0)
    assert call.redrives() == []


def test_lost_words_are_asked_for_at_once_whatever_the_session_knows() -> None:
    call = Call(UP, DROP, f.Connected(20.5, knows_turn=True, words_lost=True))
    assert call.redrives() == [(20.5, "user_words_lost")]


def test_streams_close_at_the_drop_and_not_after_the_reconnect() -> None:
    assert Call(*SPEAKING).feed(DROP) == [CloseStreams("g")]


def test_a_generation_read_from_the_dead_connection_is_closed_at_once() -> None:
    call = Call(*TURN, DROP)
    assert call.feed(f.GenerationOpened(20.1, "late")) == [CloseStreams("late")]


def test_the_switch_leaves_only_the_re_issue_of_requests() -> None:
    off = changed(redrive=False)
    for facts in (TURN, SPEAKING, RESULT, (UP, f.UserSpeechStarted(10.0))):
        call = Call(*facts, DROP, f.Connected(20.5), bounds=off)
        call.run(99.0)
        assert call.redrives() == []
    call = Call(UP, f.ReplyRequested(10.0, "r"), DROP, f.Connected(20.5), bounds=off)
    assert call.redrives() == [(20.5, "reply_requested")]


# --- edges -------------------------------------------------------------------------------------


def test_a_gap_inside_one_tick_counts() -> None:
    call = Call(*TURN, f.Disconnected(20.0), f.Connected(20.0))
    assert call.redrives() == [(20.0, "unanswered_turn")]


def test_a_handover_without_a_gap_counts() -> None:
    call = Call(*SPEAKING)
    decisions = call.feed(f.Connected(20.0))
    assert decisions[0] == CloseStreams("g")
    assert call.redrives() == [(20.0, "reply_cut")]


def test_an_edge_is_spent_once_the_model_was_heard() -> None:
    call = Call(*TURN, DROP, f.Connected(20.5, knows_turn=True))
    call.feed(
        f.GenerationOpened(21.0, "h"),
        f.AudioReceived(21.0, "h", 1.0),
        f.PlaybackStarted(21.0, "h"),
        f.GenerationEnded(22.0, "h", "failed"),
    )
    call.run(99.0)
    assert call.redrives() == [(25.0, "reply_cut")], "no sooner than any failed reply"


def test_an_edge_without_anything_owed_hastens_no_later_reply() -> None:
    call = Call(UP, DROP, f.Connected(20.5))
    call.feed(
        f.GenerationOpened(21.0, "h"),
        f.AudioReceived(21.0, "h", 1.0),
        f.GenerationEnded(22.0, "h", "failed"),
    )
    call.run(99.0)
    assert call.redrives() == [(25.0, "reply_cut")]


def test_a_new_edge_replaces_an_unspent_one_also_with_nothing_owed() -> None:
    call = Call(*TURN, DROP, f.Connected(20.5, knows_turn=True))
    call.feed(
        f.GenerationOpened(21.0, "h"),
        f.AudioReceived(21.0, "h", 1.0),
        f.GenerationEnded(21.5, "h"),
        f.Disconnected(30.0),
        f.Connected(31.0),
        f.PlaybackFinished(32.0, "h", 0.0),
    )
    call.run(99.0)
    assert call.redrives() == [(47.0, "unanswered_turn")]


def test_a_result_delivered_after_the_edge_has_the_time_of_any_other() -> None:
    call = Call(*CALLED, DROP, f.Connected(20.5), f.ToolResultDelivered(21.0, "c"))
    call.run(99.0)
    assert call.redrives() == [(36.0, "tool_result_unanswered")]


def test_the_first_connection_is_no_edge() -> None:
    call = Call(f.ReplyRequested(0.0, "r"), f.Connected(1.0))
    call.run(99.0)
    assert call.redrives() == []


def test_of_several_flaps_the_last_edge_decides() -> None:
    call = Call(*TURN, DROP)
    for at in (21.0, 23.0, 25.0):
        call.feed(f.Connected(at, knows_turn=True), f.Disconnected(at + 1.0))
    call.feed(f.Connected(30.0, knows_turn=True))
    call.run(99.0)
    assert call.redrives() == [(33.0, "unanswered_turn")]


def test_each_edge_asks_once_and_two_never_run_together() -> None:
    call = Call(*TURN, DROP)
    for at in (21.0, 23.0, 25.0):
        call.feed(f.Connected(at), f.Disconnected(at + 1.0))
    assert call.redrives() == [(at, "unanswered_turn") for at in (21.0, 23.0, 25.0)]
    assert call.outcomes() == ["failed"] * 3


def test_an_edge_with_nothing_owed_is_not_kept_for_later() -> None:
    call = Call(UP, DROP, f.Connected(20.5), f.UserTurnEnded(21.0))
    assert call.machine.next_deadline() == 36.0, "only the reply that never starts"


# --- while the caller speaks -------------------------------------------------------------------


def test_not_while_the_caller_speaks_whose_new_turn_then_supersedes() -> None:
    call = Call(*SPEAKING, DROP, f.Connected(20.5, knows_turn=True), f.UserSpeechStarted(21.0))
    call.run(29.0)
    assert call.redrives() == []
    call.feed(f.UserSpeechStopped(30.0), f.UserTurnEnded(30.0))
    assert call.machine.next_deadline() == 45.0
    call.feed(f.GenerationOpened(31.0, "h"), f.AudioReceived(31.0, "h", 1.0))
    assert call.redrives() == []


def test_speech_that_came_to_no_turn_only_delays() -> None:
    call = Call(
        *SPEAKING,
        DROP,
        f.Connected(20.5, knows_turn=True),
        f.UserSpeechStarted(21.0),
        f.UserSpeechStopped(25.0),
    )
    call.run(99.0)
    assert call.redrives()[0] == (28.0, "reply_cut")


def test_a_hint_of_speech_delays_until_two_seconds_of_quiet() -> None:
    call = Call(*SPEAKING, DROP, f.LocalSpeechHinted(20.2), f.Connected(20.5))
    call.feed(f.LocalSpeechHinted(21.0))
    call.run(99.0)
    assert call.redrives()[0] == (23.0, "reply_cut")


def test_noise_that_never_ends_does_not_silence_the_agent() -> None:
    call = Call(*SPEAKING, DROP, f.Connected(20.5, knows_turn=True))
    for tenth in range(205, 400):
        call.feed(f.LocalSpeechHinted(tenth / 10))
    assert call.redrives()[0] == (33.5, "reply_cut")


def test_the_dead_connection_says_nothing_of_the_caller() -> None:
    call = Call(*SPEAKING, DROP, f.UserSpeechStarted(20.1), f.Connected(20.5))
    assert call.redrives() == [(20.5, "reply_cut")]


def test_old_speech_delays_nothing() -> None:
    call = Call(*SPEAKING, f.LocalSpeechHinted(15.0), DROP, f.Connected(20.5))
    assert call.redrives() == [(20.5, "reply_cut")]


# --- requests ----------------------------------------------------------------------------------


def test_requests_pending_at_the_drop_and_made_in_the_gap_are_issued_again_once() -> None:
    call = Call(
        UP,
        f.ReplyRequested(10.0, "a"),
        f.ReplyRequested(11.0, "b"),
        f.ReplyCancelled(12.0, "a"),
        DROP,
        f.ReplyRequested(20.2, "c"),
    )
    assert call.feed(f.Connected(20.5)) == [
        Redrive("redrive-1", "reply_requested", 0.0, request_ids=("b", "c"))
    ]
    call.run(99.0)
    assert len(call.redrives()) == 1


def test_a_request_made_on_the_new_connection_is_not_issued_again() -> None:
    call = Call(*TURN, DROP, f.Connected(20.5, knows_turn=True), f.ReplyRequested(21.0, "r"))
    call.run(60.0)
    assert call.redrives() == []
    call.feed(f.ReplyRequestTimedOut(60.0, "r"))
    assert call.redrives() == [(60.0, "unanswered_turn")]


def test_a_request_waits_where_the_session_can_know_of_it() -> None:
    call = Call(UP, f.ReplyRequested(10.0, "r"), DROP, f.Connected(20.5, knows_turn=True))
    call.run(99.0)
    assert call.redrives() == [(23.5, "reply_requested")]


def test_a_request_that_ended_during_that_wait_is_not_issued_again() -> None:
    call = Call(UP, f.ReplyRequested(10.0, "a"), f.ReplyRequested(11.0, "b"), DROP)
    call.feed(f.Connected(20.5, knows_turn=True), f.ReplyCancelled(21.0, "a"))
    assert [d for d in call.run(99.0) if isinstance(d, Redrive)] == [
        Redrive("redrive-1", "reply_requested", 3.0, request_ids=("b",))
    ]


def test_a_new_turn_during_that_wait_does_not_forget_the_request() -> None:
    call = Call(UP, f.ReplyRequested(10.0, "r"), DROP, f.Connected(20.5, knows_turn=True))
    call.feed(f.UserTurnEnded(21.0))
    call.run(30.0)
    assert call.redrives() == [(23.5, "reply_requested")]


def test_a_reissued_request_counts_its_silence_from_then() -> None:
    call = Call(
        UP,
        f.ReplyRequested(10.0, "r"),
        f.Disconnected(12.0),
        f.Connected(20.5, knows_turn=True),
        bounds=changed(reply_silent_after_s=8.0),
    )
    call.run(23.5)
    assert call.machine.next_deadline() == 31.5


def test_a_reissued_request_that_never_starts_is_left_alone() -> None:
    call = Call(UP, f.ReplyRequested(10.0, "r"), DROP, f.Connected(20.5))
    call.feed(f.GenerationOpened(21.0, "h", "r"))
    call.run(99.0)
    assert len(call.redrives()) == 1


def test_a_request_is_issued_again_though_the_caller_speaks_or_a_tool_runs() -> None:
    call = Call(*CALLED, f.ReplyRequested(12.0, "r"), DROP, f.LocalSpeechHinted(20.3))
    call.feed(f.Connected(20.5))
    assert call.redrives() == [(20.5, "reply_requested")]


def test_a_reissued_request_that_began_is_never_issued_a_second_time() -> None:
    call = Call(UP, f.ReplyRequested(10.0, "r"), DROP, f.Connected(20.5))
    call.feed(
        f.GenerationOpened(21.0, "h", "r"),
        f.AudioReceived(21.0, "h", 1.0),
        f.PlaybackStarted(21.1, "h"),
        f.GenerationEnded(22.0, "h"),
        f.Disconnected(30.0),
        f.Connected(31.0),
    )
    assert call.outcomes() == ["rescued"]
    assert len(call.redrives()) == 1


# --- without an edge ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "at", "cause"),
    [
        pytest.param(TURN, 25.0, "unanswered_turn", id="never started, no generation"),
        pytest.param(RESULT, 28.0, "tool_result_unanswered", id="never started after a tool"),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.MessageArrived(20.0)),
            26.0,
            "unanswered_turn",
            id="never started",
        ),
        pytest.param(
            (
                UP,
                f.ReplyRequested(9.0, "r"),
                f.GenerationOpened(11.0, "g", "r"),
                f.MessageArrived(20.0),
            ),
            26.0,
            "reply_requested",
            id="a requested one never started",
        ),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.AudioReceived(11.0, "g", 2.0),
                f.PlaybackStarted(11.0, "g"),
                f.MessageArrived(12.0),
            ),
            17.0,
            "reply_cut",
            id="stalled",
        ),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.GenerationEnded(12.0, "g")),
            15.0,
            "unanswered_turn",
            id="empty turn",
        ),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.OutputCompleted(12.0, "g")),
            20.0,
            "unanswered_turn",
            id="empty turn without terminal event: 12 + 5 + 3",
        ),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.AudioReceived(11.0, "g", 2.0),
                f.PlaybackStarted(11.0, "g"),
                f.GenerationEnded(12.0, "g", "failed"),
            ),
            15.0,
            "reply_cut",
            id="failed by the provider",
        ),
        pytest.param(
            (*SPEAKING, f.Interrupted(12.0, "g"), f.UserTurnEnded(13.0)),
            28.0,
            "unanswered_turn",
            id="a barge-in that is never answered",
        ),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.Interrupted(12.0, "g")),
            30.0,
            "unanswered_turn",
            id="interrupted unheard by nothing: 12 + 3 + 15",
        ),
        pytest.param(
            (
                *TURN,
                f.GenerationOpened(11.0, "g"),
                f.AudioReceived(11.0, "g", 1.0),
                f.GenerationEnded(11.5, "g"),
                f.PlaybackFinished(12.0, "g", 0.0),
            ),
            27.0,
            "unanswered_turn",
            id="cleared unheard, and then no new turn",
        ),
        pytest.param(
            (*CALLED, f.GenerationEnded(12.0, "g"), f.ToolCallCancelled(13.0, "c")),
            28.0,
            "unanswered_turn",
            id="the tool was given up",
        ),
    ],
)
def test_a_reply_that_failed_or_never_started_is_asked_for_once(
    facts: tuple[Fact, ...], at: float, cause: RedriveCause
) -> None:
    call = Call(*facts)
    call.run(500.0)
    assert call.redrives() == [(at, cause)]
    assert call.outcomes() == ["failed"]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param((UP, f.GenerationOpened(11.0, "g")), id="an empty one nobody waits for"),
        pytest.param(ANSWERED, id="a whole one"),
        pytest.param((*SPEAKING, f.OutputCompleted(12.0, "g")), id="no terminal event, but whole"),
        pytest.param((*SPEAKING, f.Interrupted(12.0, "g")), id="interrupted after it was heard"),
        pytest.param(CALLED, id="the tool still runs"),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.GenerationEnded(12.0, "g", "cancelled")),
            id="taken back before it began to speak",
        ),
        pytest.param(
            (
                UP,
                f.ReplyRequested(10.0, "r"),
                f.GenerationOpened(11.0, "g", "r"),
                f.ReplyCancelled(12.0, "r"),
            ),
            id="the request was taken back after its reply opened",
        ),
        pytest.param(
            (
                UP,
                f.ReplyRequested(10.0, "r"),
                f.GenerationOpened(11.0, "g", "r"),
                f.AudioReceived(11.0, "g", 1.0),
                f.PlaybackStarted(11.0, "g"),
                f.ReplyCancelled(12.0, "r"),
            ),
            id="the request was taken back while its reply spoke",
        ),
        pytest.param((*SPEAKING, f.ReplyCancelled(12.0)), id="the reply was taken back"),
        pytest.param(
            (*TURN, f.GenerationOpened(11.0, "g"), f.ReplyCancelled(12.0)),
            id="any reply was taken back",
        ),
    ],
)
def test_without_an_edge_nothing_is_asked_where_nothing_is_owed(facts: tuple[Fact, ...]) -> None:
    call = Call(*facts)
    call.run(500.0)
    assert call.redrives() == []


def test_a_redriven_reply_that_stalls_too_is_left_alone() -> None:
    call = Call(*TURN)
    call.run(25.0)
    call.feed(
        f.GenerationOpened(26.0, "h", "redrive-1"),
        f.AudioReceived(26.0, "h", 1.0),
        f.PlaybackStarted(26.0, "h"),
    )
    call.run(500.0)
    assert [type(d) for _, d in call.log].count(FinaliseGeneration) == 1
    assert len(call.redrives()) == 1


def test_a_reply_asked_for_at_an_edge_earns_no_second_try_without_one() -> None:
    call = Call(*TURN, DROP, f.Connected(20.5))
    call.run(500.0)
    assert call.redrives() == [(20.5, "unanswered_turn")]
    call.feed(f.UserTurnEnded(500.0))
    call.run(900.0)
    assert len(call.redrives()) == 2, "the next turn has its own"


def test_a_false_interruption_that_cut_the_stream_is_made_good() -> None:
    call = Call(*SPEAKING[:-2], f.AudioReceived(11.0, "g", 4.0), f.PlaybackStarted(11.0, "g"))
    call.feed(f.Interrupted(12.0, "g"), f.PlaybackPaused(12.0), f.PlaybackResumed(14.0))
    call.feed(f.MessageArrived(14.0))
    call.run(21.0)
    assert call.log[0][1] == FinaliseGeneration("g", "stalled", 10.0, 10.0)
    assert call.redrives() == [(21.0, "reply_cut")]


# --- generations in a row, and the end ----------------------------------------------------------


def test_a_generation_that_opens_while_another_is_open_takes_its_place() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"))
    assert call.feed(f.GenerationOpened(12.0, "h")) == [CloseStreams("g")]
    call.feed(f.GenerationEnded(12.5, "g"))
    call.feed(f.AudioReceived(13.0, "h", 1.0), f.PlaybackStarted(13.0, "h"))
    assert not call.machine.owes_reply


def test_a_reply_that_waits_to_be_heard_settles_what_it_answered() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"), f.AudioReceived(11.0, "g", 1.0))
    call.feed(f.GenerationOpened(12.0, "h"), f.PlaybackStarted(12.0, "g"))
    assert not call.machine.owes_reply


def test_close_closes_the_streams_and_nothing_comes_after_it() -> None:
    call = Call(*SPEAKING)
    assert call.feed(f.Closed(15.0)) == [CloseStreams("g")]
    assert call.feed(f.Disconnected(16.0), f.Connected(17.0), f.UserTurnEnded(18.0)) == []
    assert call.machine.next_deadline() is None


def test_a_drop_reported_twice_is_one() -> None:
    call = Call(*SPEAKING, DROP)
    assert call.feed(f.Disconnected(20.1)) == []
    call.feed(f.Connected(21.0))
    assert len(call.redrives()) == 1


def test_a_result_for_a_call_that_is_not_open_makes_nothing_owed() -> None:
    call = Call(UP, f.ToolResultDelivered(1.0, "c"), f.ToolCallCancelled(2.0, "c"))
    assert not call.machine.owes_reply


def test_a_cancelled_reply_is_owed_no_more() -> None:
    call = Call(*TURN, f.GenerationOpened(11.0, "g"), f.GenerationEnded(12.0, "g", "cancelled"))
    assert not call.machine.owes_reply


def test_a_silent_tool_does_not_answer_a_newer_turn() -> None:
    call = Call(*CALLED, f.GenerationEnded(12.0, "g"), f.UserTurnEnded(14.0))
    call.feed(f.ToolResultDelivered(15.0, "c", expects_reply=False))
    call.run(99.0)
    assert call.redrives() == [(29.0, "unanswered_turn")]


def test_a_reply_ends_the_speech_that_it_answers() -> None:
    call = Call(UP, f.UserSpeechStarted(9.0), f.UserSpeechStopped(10.0), *ANSWERED[2:])
    call.feed(DROP, f.Connected(20.5))
    assert call.redrives() == []


def test_two_calls_are_waited_for_together() -> None:
    call = Call(*CALLED, f.ToolCallOpened(11.0, "g", "d"), f.GenerationEnded(12.0, "g"))
    call.feed(f.ToolResultDelivered(13.0, "c"))
    call.run(100.0)
    assert call.redrives() == []
    call.feed(f.ToolResultDelivered(100.0, "d"))
    call.run(200.0)
    assert call.redrives() == [(115.0, "tool_result_unanswered")]
