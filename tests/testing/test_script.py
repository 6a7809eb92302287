"""Scripts: words have exact places, turns come in order, nonsense is refused."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.errors import ScriptError
from livekit.plugins.resilient.testing.script import (
    NoReply,
    Reply,
    Script,
    ToolCall,
    ToolCalls,
    TurnRequest,
)

REQUEST = TurnRequest("speech", "hi", connection=1)


def test_words_take_the_time_of_their_characters() -> None:
    reply = Reply("One two three", characters_per_second=10)
    assert [word.text for word in reply.words] == ["One", " two", " three"]
    assert [word.start_s for word in reply.words] == pytest.approx([0.0, 0.3, 0.7])
    assert [word.end_s for word in reply.words] == pytest.approx([0.3, 0.7, 1.3])
    assert reply.duration_s == pytest.approx(1.3)
    assert audio.duration_of(reply.pcm(24_000), 24_000) == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("position_s", "heard", "rest"),
    [
        (0.0, "", "One two three"),
        (0.299, "", "One two three"),
        (0.3, "One", "two three"),
        (0.9, "One two", "three"),
        (9.0, "One two three", ""),
    ],
)
def test_what_was_heard_and_what_is_left(position_s: float, heard: str, rest: str) -> None:
    reply = Reply("One two three", characters_per_second=10)
    assert reply.words_until(position_s) == heard
    assert reply.rest_after(position_s).text == rest


def test_turns_come_from_the_queue_then_from_the_default() -> None:
    script = Script(["first", ToolCall("look")], default_reply=lambda r: f"you said {r.user_text}")
    assert script.next_turn(REQUEST) == Reply("first")
    assert script.next_turn(REQUEST) == ToolCall("look")
    assert script.next_turn(REQUEST) == Reply("you said hi")
    script.replies.append(lambda request: NoReply())
    assert script.next_turn(REQUEST) == NoReply()


def test_user_texts_come_in_order_then_the_default() -> None:
    script = Script()
    script.user_says("one", "two")
    assert [script.next_user_text() for _ in range(3)] == ["one", "two", "hello there"]


def test_nonsense_is_refused() -> None:
    with pytest.raises(ScriptError, match="characters_per_second must be a finite number above 0"):
        Reply("hello", characters_per_second=0)
    with pytest.raises(ScriptError, match="at least one ToolCall"):
        ToolCalls(())
    script = Script([lambda request: 42])  # type: ignore[list-item,return-value]
    with pytest.raises(ScriptError, match="not int"):
        script.next_turn(REQUEST)


def test_a_seed_is_the_number_of_its_turn() -> None:
    script = Script()
    assert script.turns == 0
    assert [script.next_seed(1), script.next_seed(2)] == [1, 2]
    assert script.turns == 2
