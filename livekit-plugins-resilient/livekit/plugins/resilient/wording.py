"""What a re-drive says to the model, by cause; the text that `redrive_instructions` replaces."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .core.decisions import RedriveCause
from .runtime.log import logger

__all__ = [
    "WORDED_CAUSES",
    "RedriveContext",
    "RedriveInstructions",
    "cut_in_text",
    "redrive_text",
    "result_text",
    "tail",
]


@dataclass(frozen=True)
class RedriveContext:
    """What a wording may use.

    Attributes:
        cause: Why the reply is owed; never "reply_requested", which keeps its own instructions.
        last_words: With "reply_cut": the end of what the caller heard (`tail()`); "" where the
            audio had no transcript. Part of a transcript: do not log it (it is left out of
            the repr).
    """

    cause: RedriveCause
    last_words: str = field(default="", repr=False)


RedriveInstructions: TypeAlias = Callable[[RedriveContext], str] | Mapping[RedriveCause, str]
"""A function, or a text per cause; causes left out keep the default. "{last_words}" in a text
stands for `RedriveContext.last_words`."""

_TAIL_WORDS = 12

_CUT_AFTER_WORDS = (
    'A technical fault cut your reply off. The last words the caller heard were: "{last_words}". '
    "Go on from exactly there and finish the thought. Do not repeat what was heard, do not greet, "
    "do not mention the fault."
)
_CUT_UNTRANSCRIBED = (
    "A technical fault cut your reply off in the middle. Finish what you were saying to the "
    "caller. Do not start over, do not greet, do not mention the fault."
)
_DEFAULTS: Mapping[RedriveCause, str] = {
    "reply_cut": _CUT_AFTER_WORDS,
    "user_words_lost": (
        "A technical fault swallowed what the caller just said. In one short sentence, ask them "
        "to say it again. Do not greet and do not guess what it was."
    ),
    "unanswered_turn": (
        "The caller's last words have had no answer yet. Answer them now. Do not greet and do not "
        "apologise for the delay."
    ),
    "tool_result_unanswered": (
        "The result of your last tool call is in, and the caller still waits for it. Tell them "
        "what it means for their request now. Do not greet and do not call the tool again."
    ),
}

WORDED_CAUSES: frozenset[RedriveCause] = frozenset(_DEFAULTS)
"""The causes that `redrive_instructions` may name."""

# Functions whose failure was reported; the caller hears a reply either way.
_REPORTED: weakref.WeakSet[Callable[..., str]] = weakref.WeakSet()


def redrive_text(context: RedriveContext, instructions: RedriveInstructions | None = None) -> str:
    """The instructions for a re-drive: the application's own, or the default for its cause.

    The default takes the place of what is no text: a function that raises, a result that is
    empty. That is logged, for each function once.

    Raises:
        KeyError: The cause is "reply_requested", which is worded by the request itself.
    """
    default = _DEFAULTS[context.cause]
    if context.cause == "reply_cut" and not context.last_words:
        default = _CUT_UNTRANSCRIBED
    try:
        if callable(instructions):
            return _checked(instructions(context))
        text = (instructions or {}).get(context.cause, default)
        return _checked(text).replace("{last_words}", context.last_words)
    except Exception as e:
        # Its message may quote the transcript.
        _report(instructions, type(e).__name__)
    return default.replace("{last_words}", context.last_words)


def _checked(text: object) -> str:
    if inspect.iscoroutine(text):
        text.close()
    if not isinstance(text, str):
        raise TypeError
    if not text.strip():
        raise ValueError
    return text


def _report(instructions: RedriveInstructions | None, error: str) -> None:
    if callable(instructions):
        try:
            if instructions in _REPORTED:
                return
            _REPORTED.add(instructions)
        except TypeError:
            pass  # not every callable can be remembered
    logger.warning(
        "redrive_instructions gave no text, the default wording is used", extra={"error": error}
    )


def tail(words: str) -> str:
    """The last words of a reply, enough of them for the model to find the place; "" for none."""
    return " ".join(words.split()[-_TAIL_WORDS:])


def cut_in_text(heard: str) -> str:
    """Tells the model how much of its last reply was heard; "" for none of it."""
    if not heard:
        return "(The caller cut in before hearing any of your last reply.)"
    return f'(The caller cut in on your last reply, and heard only: "{heard}")'


def result_text(name: str, arguments: str | None, output: str, *, is_error: bool) -> str:
    """A tool's result in words, for a session that does not know of the call.

    Args:
        name: Of the tool.
        arguments: Of the call, in JSON; None where they are not known.
        output: The result, or with `is_error` what went wrong.
        is_error: Whether the tool failed.
    """
    outcome = "failed with" if is_error else "returned"
    return f"(Tool call {name}({arguments or ''}) {outcome}: {output})"
