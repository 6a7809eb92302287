"""Content of a turn that is over is taken out of the messages, and nothing else is (R18)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.genai import types

from livekit.plugins.resilient.google.late_content import LateContent

PART = types.Part(text="late")
AUDIO = types.LiveServerContent(model_turn=types.Content(parts=[PART]))
WORDS = types.LiveServerContent(output_transcription=types.Transcription(text="late"))
ASKED = types.LiveServerContent(input_transcription=types.Transcription(text="next"))
END = types.LiveServerContent(turn_complete=True)
CUT = types.LiveServerContent(interrupted=True)
CALL = types.LiveServerToolCall(function_calls=[types.FunctionCall(name="weather")])

BEGIN: dict[str, Callable[[LateContent], None]] = {
    "finalised": LateContent.finalised,
    "tool called": LateContent.tool_called,
    "request failed": LateContent.request_failed,
}
each_reason = pytest.mark.parametrize("begin", BEGIN.values(), ids=BEGIN)


def heard(late: LateContent, content: types.LiveServerContent) -> types.LiveServerContent | None:
    message = types.LiveServerMessage(server_content=content)
    late.strip(message)
    return message.server_content


def test_without_a_reason_everything_passes() -> None:
    late = LateContent()
    assert [heard(late, content) for content in (AUDIO, WORDS, CUT, END)] == [
        AUDIO,
        WORDS,
        CUT,
        END,
    ]


@each_reason
def test_late_content_is_dropped_up_to_its_end(begin: Callable[[LateContent], None]) -> None:
    late = LateContent()
    begin(late)
    assert [heard(late, content) for content in (AUDIO, WORDS, END)] == [None, None, None]
    assert heard(late, AUDIO) == AUDIO


@each_reason
def test_what_else_a_message_carries_stays(begin: Callable[[LateContent], None]) -> None:
    late = LateContent()
    begin(late)
    usage = types.UsageMetadata(total_token_count=3)
    message = types.LiveServerMessage(server_content=END, usage_metadata=usage)
    late.strip(message)
    assert message.usage_metadata == usage


@each_reason
@pytest.mark.parametrize("next_turn", ["caller", "call", "request"])
def test_the_next_turn_is_heard(begin: Callable[[LateContent], None], next_turn: str) -> None:
    late = LateContent()
    begin(late)
    if next_turn == "caller":
        assert heard(late, ASKED) == ASKED
    elif next_turn == "call":
        late.strip(types.LiveServerMessage(tool_call=CALL))
    else:
        late.next_turn()
    assert heard(late, AUDIO) == AUDIO


def test_the_end_of_an_earlier_turn_is_not_that_of_a_reply_to_come() -> None:
    late = LateContent()
    late.request_failed()
    assert [heard(late, content) for content in (END, AUDIO, END)] == [None, None, None]
    assert heard(late, AUDIO) == AUDIO


@pytest.mark.parametrize("reason", ["tool called", "request failed"])
def test_a_barge_in_is_told_and_ends_it(reason: str) -> None:
    late = LateContent()
    BEGIN[reason](late)
    told = heard(late, CUT.model_copy(update={"model_turn": AUDIO.model_turn}))
    assert told is not None
    assert told.interrupted
    assert told.model_turn is None
    assert heard(late, AUDIO) == AUDIO


def test_a_finalised_turn_cannot_be_interrupted() -> None:
    late = LateContent()
    late.finalised()
    assert heard(late, CUT) is None
    assert heard(late, AUDIO) is None
