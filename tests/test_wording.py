"""What a re-drive says, by cause, and how an application replaces it."""

from __future__ import annotations

import logging
import typing
from collections.abc import Callable
from typing import Any

import pytest

from livekit.plugins.resilient.core.decisions import RedriveCause
from livekit.plugins.resilient.wording import WORDED_CAUSES, RedriveContext, redrive_text, tail

CAUSES: tuple[RedriveCause, ...] = typing.get_args(RedriveCause)


def test_every_cause_but_a_request_has_a_wording() -> None:
    assert set(CAUSES) - {"reply_requested"} == WORDED_CAUSES


@pytest.mark.parametrize("cause", sorted(WORDED_CAUSES))
def test_every_default_forbids_a_greeting(cause: RedriveCause) -> None:
    assert "not greet" in redrive_text(RedriveContext(cause))


def test_a_cut_reply_names_the_last_words_heard_and_forbids_repeating() -> None:
    text = redrive_text(RedriveContext("reply_cut", last_words="the train leaves at"))
    assert '"the train leaves at"' in text
    assert "Do not repeat" in text


def test_a_cut_reply_without_transcript_quotes_nothing() -> None:
    text = redrive_text(RedriveContext("reply_cut"))
    assert '"' not in text
    assert "{" not in text


def test_lost_words_are_asked_for_in_one_sentence() -> None:
    assert "one short sentence" in redrive_text(RedriveContext("user_words_lost"))


def test_a_mapping_replaces_a_cause_and_leaves_the_others() -> None:
    own: dict[RedriveCause, str] = {"reply_cut": "Resume after {last_words}!"}
    assert redrive_text(RedriveContext("reply_cut", "a {b}"), own) == "Resume after a {b}!"
    default = redrive_text(RedriveContext("unanswered_turn"))
    assert redrive_text(RedriveContext("unanswered_turn"), own) == default


def test_a_function_sees_the_context() -> None:
    text = redrive_text(RedriveContext("reply_cut", "so"), lambda c: f"{c.cause}/{c.last_words}")
    assert text == "reply_cut/so"


CUT = RedriveContext("reply_cut", "a secret")


async def too_late(_: RedriveContext) -> str:
    return "too late"


def fails(_: RedriveContext) -> str:
    raise RuntimeError("a secret")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "given",
    [
        fails,
        too_late,
        lambda _: None,
        lambda _: 7,
        lambda _: "",
        lambda _: " \n",
        lambda: "takes no context",
        {"reply_cut": ""},
        {"reply_cut": None},
    ],
)
def test_the_default_takes_the_place_of_what_is_no_text(given: Any) -> None:
    assert redrive_text(CUT, given) == redrive_text(CUT)


def test_what_is_no_format_is_taken_as_it_stands() -> None:
    own: dict[RedriveCause, str] = {"reply_cut": "{ {0} {cause} {last_words} }"}
    assert redrive_text(CUT, own) == "{ {0} {cause} a secret }"
    assert redrive_text(CUT, lambda _: "{last_words} }{") == "{last_words} }{"


class Remembered:
    """A callable of which there can be no weak reference."""

    __slots__ = ()

    def __call__(self, context: RedriveContext) -> str:
        raise RuntimeError


def test_a_failing_function_is_reported_once_and_quotes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(context: RedriveContext) -> str:
        raise RuntimeError(context.last_words)

    caplog.set_level(logging.WARNING)
    given: Callable[[RedriveContext], str] = failing
    for _ in range(3):
        redrive_text(CUT, given)
    (record,) = caplog.records
    assert "secret" not in str(record.__dict__)
    assert redrive_text(CUT, Remembered()) == redrive_text(CUT)


def test_a_request_has_its_own_words() -> None:
    with pytest.raises(KeyError):
        redrive_text(RedriveContext("reply_requested"))


def test_the_tail_is_short_and_whole_words() -> None:
    words = [f"w{number}" for number in range(40)]
    assert tail(" ".join(words)).split() == words[-12:]
    assert tail("  one  two ") == "one two"
    assert tail("") == ""


def test_no_transcript_in_the_repr() -> None:
    assert "secret" not in repr(RedriveContext("reply_cut", "secret"))
