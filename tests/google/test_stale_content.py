"""Content of a turn that is over is taken out of the messages, and nothing else is (R18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.genai import types

from livekit.plugins.resilient.google.stale_content import StaleContentFilter

PART = types.Part(text="late")
AUDIO = types.LiveServerContent(model_turn=types.Content(parts=[PART]))
WORDS = types.LiveServerContent(output_transcription=types.Transcription(text="late"))
ASKED = types.LiveServerContent(input_transcription=types.Transcription(text="next"))
END = types.LiveServerContent(turn_complete=True)
CUT = types.LiveServerContent(interrupted=True)
CALL = types.LiveServerToolCall(function_calls=[types.FunctionCall(name="weather")])

AT_S = 100.0

BEGIN: dict[str, Callable[[StaleContentFilter], None]] = {
    "finalised": lambda late: late.finalised(AT_S, said_all=False),
    "tool called": StaleContentFilter.tool_called,
    "request failed": lambda late: late.request_failed(AT_S),
}
each_reason = pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)


def heard(
    late: StaleContentFilter, content: types.LiveServerContent, spoke_at: float = 0.0
) -> types.LiveServerContent | None:
    message = types.LiveServerMessage(server_content=content)
    late.strip(message, spoke_at=spoke_at)
    return message.server_content


def test_without_a_reason_everything_passes() -> None:
    late = StaleContentFilter()
    assert [heard(late, content) for content in (AUDIO, WORDS, CUT, END)] == [
        AUDIO,
        WORDS,
        CUT,
        END,
    ]


@each_reason
def test_late_content_is_dropped_up_to_its_end(begin: Callable[[StaleContentFilter], None]) -> None:
    late = StaleContentFilter()
    begin(late)
    assert [heard(late, content) for content in (AUDIO, WORDS, END)] == [None, None, None]
    assert heard(late, AUDIO) == AUDIO


@each_reason
def test_what_else_a_message_carries_stays(begin: Callable[[StaleContentFilter], None]) -> None:
    late = StaleContentFilter()
    begin(late)
    usage = types.UsageMetadata(total_token_count=3)
    message = types.LiveServerMessage(server_content=END, usage_metadata=usage)
    late.strip(message)
    assert message.usage_metadata == usage


@each_reason
@pytest.mark.parametrize("next_turn", ["caller", "call", "request"])
def test_the_next_turn_is_heard(
    begin: Callable[[StaleContentFilter], None], next_turn: str
) -> None:
    late = StaleContentFilter()
    begin(late)
    if next_turn == "caller":
        assert heard(late, ASKED) == ASKED
    elif next_turn == "call":
        late.strip(types.LiveServerMessage(tool_call=CALL))
    else:
        late.next_turn()
    assert heard(late, AUDIO) == AUDIO


def test_the_end_of_an_earlier_turn_is_not_that_of_a_reply_to_come() -> None:
    late = StaleContentFilter()
    late.request_failed(AT_S)
    assert [heard(late, content) for content in (END, AUDIO, END)] == [None, None, None]
    assert heard(late, AUDIO) == AUDIO


@pytest.mark.parametrize("reason", ["tool called", "request failed"])
def test_a_barge_in_is_told_and_ends_it(reason: str) -> None:
    late = StaleContentFilter()
    BEGIN[reason](late)
    told = heard(late, CUT.model_copy(update={"model_turn": AUDIO.model_turn}))
    assert told is not None
    assert told.interrupted
    assert told.model_turn is None
    assert heard(late, AUDIO) == AUDIO


def test_a_finalised_turn_cannot_be_interrupted() -> None:
    late = StaleContentFilter()
    late.finalised(AT_S, said_all=False)
    assert heard(late, AUDIO) is None
    assert heard(late, CUT) is None


def test_what_follows_its_interruption_is_the_next_turns() -> None:
    late = StaleContentFilter()
    late.finalised(AT_S, said_all=False)
    assert heard(late, CUT) is None
    assert heard(late, AUDIO) == AUDIO


@pytest.mark.parametrize("said", [AUDIO, WORDS])
def test_of_a_turn_that_had_said_all_only_the_end_is_late(said: types.LiveServerContent) -> None:
    late = StaleContentFilter()
    late.finalised(AT_S, said_all=True)
    assert [heard(late, content) for content in (CUT, END)] == [None, None]
    late.finalised(AT_S, said_all=True)
    assert [heard(late, content) for content in (said, END)] == [said, END]


def test_what_a_caller_is_told_who_spoke_since_is_heard() -> None:
    for reason in ("finalised", "request failed"):
        late = StaleContentFilter()
        BEGIN[reason](late)
        assert heard(late, AUDIO, spoke_at=AT_S) is None
        assert heard(late, AUDIO, spoke_at=AT_S + 0.1) == AUDIO


def test_a_sound_makes_no_reply_of_what_trails_a_call() -> None:
    late = StaleContentFilter()
    late.tool_called()
    assert heard(late, AUDIO, spoke_at=AT_S) is None
