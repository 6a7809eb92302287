"""When a call is at rest, so that its connection can be left without anybody noticing."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f

ALWAYS = float("-inf")
QUIET_S, DEAF_S = 2.0, 9.0
BOUNDS = Bounds(
    liveness_timeout_s=None,
    reply_silent_after_s=None,
    unheard_after_s=None,
    speech_quiet_s=QUIET_S,
    deaf_after_s=DEAF_S,
)
UP = f.Connected(0.0)
TURN = (UP, f.UserTurnEnded(10.0))
SPEAKING = (
    *TURN,
    f.GenerationOpened(11.0, "g"),
    f.AudioReceived(11.0, "g", 3.0),
    f.PlaybackStarted(11.0, "g"),
)
CALLED = (
    *TURN,
    f.GenerationOpened(11.0, "g"),
    f.ToolCallOpened(11.0, "g", "c"),
    f.GenerationEnded(11.0, "g"),
)
SAID_SO = f.UserSpeechStarted(10.0)


def after(*facts: Fact) -> TurnMachine:
    machine = TurnMachine(BOUNDS)
    for fact in facts:
        machine.receive(fact)
    return machine


@pytest.mark.parametrize(
    ("facts", "rests_from"),
    [
        pytest.param((UP,), ALWAYS, id="nothing has happened yet"),
        pytest.param((UP, SAID_SO), None, id="the caller speaks"),
        pytest.param((UP, SAID_SO, f.UserSpeechStopped(11.0)), None, id="and may go on"),
        pytest.param(TURN, None, id="an answer is owed"),
        pytest.param((*TURN, f.GenerationOpened(11.0, "g")), None, id="a reply is open"),
        pytest.param(SPEAKING, None, id="the agent speaks"),
        pytest.param((*SPEAKING, f.GenerationEnded(12.0, "g")), ALWAYS, id="it said all"),
        pytest.param(
            (*SPEAKING, f.GenerationEnded(12.0, "g"), f.UserTurnEnded(13.0)),
            None,
            id="and is asked again",
        ),
        pytest.param((*SPEAKING, f.Disconnected(12.0)), None, id="the rest of a reply is owed"),
        pytest.param(CALLED, None, id="a tool runs"),
        pytest.param(
            (*CALLED, f.ToolResultDelivered(12.0, "c")), None, id="its result is not told yet"
        ),
        pytest.param(
            (*CALLED, f.ToolResultDelivered(12.0, "c", expects_reply=False)),
            ALWAYS,
            id="and need not be",
        ),
        pytest.param((UP, f.ReplyRequested(10.0, "r")), None, id="the application waits"),
        pytest.param(
            (UP, f.ReplyRequested(10.0, "r"), f.ReplyCancelled(11.0, "r")),
            ALWAYS,
            id="the application does not wait any more",
        ),
        pytest.param(
            (UP, f.LocalSpeechHinted(10.0), f.MessageArrived(10.0)),
            10.0 + QUIET_S,
            id="the microphone is not quiet yet",
        ),
        pytest.param(
            (UP, f.LocalSpeechHinted(10.0)),
            10.0 + DEAF_S,
            id="nor has the server said what it makes of the sound",
        ),
        pytest.param(
            (UP, f.LocalSpeechHinted(10.0, to_be_heard=False)),
            10.0 + QUIET_S,
            id="which it does not where the application finds the turns",
        ),
        pytest.param(
            (UP, f.LocalSpeechHinted(10.0), f.LocalSpeechHinted(11.5)),
            11.5 + DEAF_S,
            id="the last sound counts",
        ),
        pytest.param(
            (*TURN, f.LocalSpeechHinted(11.0)), None, id="what is under way goes before quiet"
        ),
    ],
)
def test_when_a_call_rests(facts: tuple[Fact, ...], rests_from: float | None) -> None:
    assert after(*facts).rests_from == rests_from


def test_a_cancelled_call_leaves_the_answer_owed() -> None:
    machine = after(*CALLED, f.ToolCallCancelled(12.0, "c"))
    assert machine.rests_from is None
    machine.receive(f.ReplyCancelled(13.0))
    assert machine.rests_from == ALWAYS


def test_of_two_calls_both_have_to_be_answered() -> None:
    machine = after(
        *TURN,
        f.GenerationOpened(11.0, "g"),
        f.ToolCallOpened(11.0, "g", "a"),
        f.ToolCallOpened(11.0, "g", "b"),
        f.GenerationEnded(11.0, "g"),
        f.ToolResultDelivered(12.0, "a", expects_reply=False),
    )
    assert machine.rests_from is None
    machine.receive(f.ToolResultDelivered(13.0, "b", expects_reply=False))
    assert machine.rests_from == ALWAYS
