"""Interruptions that leave something behind: a reply whose end never came, and a turn that was
stopped before its first output, of which nobody said by whom.

Healthy servers tell the end of a reply at once when the caller cuts in. Where nothing tells it and
then nothing answers the caller either, the connection is stuck, alive as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from . import facts as f
from .generation import Generation
from .limits import CUT_IN_HEARD_S, HINT_TRUST_S, Bounds
from .liveness import Liveness
from .state import Owed, Speech, Voice

__all__ = ["Interruption", "Output", "Unended", "answer_owed_since", "unended_deadline"]

Output: TypeAlias = (
    f.PauseExpected
    | f.AudioReceived
    | f.TextReceived
    | f.ToolCallOpened
    | f.OutputCompleted
    | f.Interrupted
)
"""What a provider tells of a generation, short of its end."""


@dataclass(slots=True)
class Unended:
    """A reply that was interrupted, and of whose end nothing came: healthy servers tell it at once.

    `output_at` is when it last gave output all the same. `suspected` says whether the connection is
    to be replaced for it.
    """

    generation_id: str
    at: float
    output_at: float
    suspected: bool = False


class Interruption:
    """What the last interruption on a connection left behind."""

    def __init__(self) -> None:
        self.unended: Unended | None = None
        self.stopped_at: float | None = None
        """When a turn was stopped before its first output, while it is not known by whom."""

    @property
    def is_stuck(self) -> bool:
        """Whether the connection is suspected because the reply never ended."""
        return self.unended is not None and self.unended.suspected

    @property
    def stopped_deadline(self) -> float | None:
        """When it is to be judged who stopped a turn."""
        return None if self.stopped_at is None else self.stopped_at + CUT_IN_HEARD_S

    def forget(self) -> None:
        """Another connection serves."""
        self.unended = self.stopped_at = None

    def follow(self, fact: Output, opened: Generation | None) -> None:
        """Note an interruption, of which the end is still to come, and what contradicts it."""
        unended = self.unended
        if isinstance(fact, f.Interrupted):
            # What only captions opened may have nothing to interrupt.
            real = opened is not None and opened.id == fact.generation_id and not opened.by_caption
            if real and (unended is None or unended.generation_id != fact.generation_id):
                self.unended = Unended(fact.generation_id, fact.at, fact.at)
        elif unended is not None and not isinstance(fact, f.PauseExpected):
            if fact.generation_id == unended.generation_id:
                unended.output_at = fact.at
            else:
                self.unended = None

    def stopped_by_caller(self, speech: Speech) -> bool:
        """Judge who stopped the turn, once: the caller, as far as is known here, or nobody."""
        stopped_at, self.stopped_at = self.stopped_at, None
        if stopped_at is None or speech.voice is not Voice.QUIET:
            return True
        return speech.last_at is not None and speech.last_at >= stopped_at - CUT_IN_HEARD_S


def answer_owed_since(
    at: float, asked_at: float | None, owed: Owed | None, open_: Generation | None
) -> float | None:
    """Since when the provider owes an answer to something that it was given after `at`, and of
    which nothing came; None for nothing.

    Args:
        at: Monotonic seconds.
        asked_at: When the oldest request without a reply was sent.
        owed: What the caller waits for.
        open_: The open generation.
    """
    times = [] if asked_at is None or asked_at <= at else [asked_at]
    if (
        owed is not None
        and owed.certain
        and owed.since > at
        and owed.cause in ("unanswered_turn", "tool_result_unanswered")
        and (owed.answer is None or (open_ is not None and owed.answer == open_.id))
    ):
        times.append(owed.since)
    return max(times, default=None)


def unended_deadline(
    unended: Unended,
    asked_at: float | None,
    speech: Speech,
    liveness: Liveness,
    bounds: Bounds,
) -> float | None:
    """When a connection is to be suspected on which an interrupted reply never ended.

    `asked_at` is since when the provider is to answer something that it was given after the
    interruption, as far as it says so or was asked; None for nothing. Words that it never spoke of
    are known by the local hint.
    """
    if unended.suspected or bounds.mute_after_s is None or bounds.interrupted_after_s is None:
        return None
    hinted_at = liveness.hinted_at
    # The words that cut in may be over when the provider says that they do.
    if hinted_at is not None and hinted_at <= unended.at - CUT_IN_HEARD_S:
        hinted_at = None
    if asked_at is None and hinted_at is None:
        return None
    if hinted_at is None and speech.voice is Voice.SPEAKING:
        return None  # and nobody here can tell until when
    silent_from = max(unended.output_at, liveness.quiet_until)
    if asked_at is not None:
        silent_from = max(silent_from, asked_at)
        if hinted_at is not None:
            hinted_at = min(hinted_at, asked_at + HINT_TRUST_S)
    if hinted_at is not None:
        silent_from = max(silent_from, hinted_at)
    return max(unended.at + bounds.interrupted_after_s, silent_from + bounds.mute_after_s)
