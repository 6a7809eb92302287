"""Re-drives: the model is asked for what is owed, and how that turned out."""

from __future__ import annotations

from typing import TypeAlias

from . import watchdogs
from .decisions import RecordOutcome, Redrive, RedriveCause, RedriveResult
from .generation import Generation
from .limits import Bounds
from .state import Question

__all__ = ["Outcomes", "Redrives", "asking"]

Outcomes: TypeAlias = tuple[RecordOutcome, ...]


class Redrives:
    """The questions of one session to the model, of which at most one is open."""

    def __init__(self) -> None:
        self.question: Question | None = None
        """The open one."""
        self.asked_at = float("-inf")
        """When the last one was asked."""
        self._count = 0

    def ask(
        self,
        now: float,
        cause: RedriveCause,
        since: float,
        request_ids: tuple[str, ...],
        cut: Generation | None,
    ) -> Redrive:
        """Ask for what is owed since `since`: for requests, or to go on with a `cut` reply."""
        self._count += 1
        self.asked_at = now
        question = self.question = Question(f"redrive-{self._count}", now, request_ids)
        return asking(question.redrive_id, cause, now, since, request_ids, cut)

    def asked_by_hedge(self, hedge: Question, at: float) -> Outcomes:
        """A connection serves on which a hedge has asked: that is the open question now."""
        outcomes = self.settle("superseded")
        self.question = hedge
        hedge.at = at
        return outcomes

    def failure_deadline(self, bounds: Bounds) -> float | None:
        """When the open question counts as failed: no reply of any kind followed it."""
        return None if self.question is None else watchdogs.failure_deadline(self.question, bounds)

    def heard(self, generation: Generation) -> Outcomes:
        """The caller hears a generation."""
        question = self.question
        if question is None:
            return ()
        if question.generation_id == generation.id:
            return self.settle("rescued")
        if generation.opened_at >= question.at:
            return self.settle("talked_over")
        return ()

    def settle(self, result: RedriveResult, about: Generation | str | None = None) -> Outcomes:
        """Close the open question, if there is one and, given `about`, if it is about that."""
        question = self.question
        if question is None:
            return ()
        if isinstance(about, Generation):
            if about.id != question.generation_id:
                return ()
        elif about is not None and not question.asked(about):
            return ()
        self.question = None
        if question.is_hedge:
            return ()
        return (RecordOutcome(question.redrive_id, result),)


def asking(
    redrive_id: str,
    cause: RedriveCause,
    now: float,
    since: float,
    request_ids: tuple[str, ...],
    cut: Generation | None,
) -> Redrive:
    """What the model is to be asked for."""
    return Redrive(
        redrive_id,
        cause,
        now - since,
        request_ids=request_ids,
        generation_id=None if cut is None else cut.id,
        heard_s=0.0 if cut is None else cut.heard_s(now),
        received_s=0.0 if cut is None else cut.received_s,
    )
