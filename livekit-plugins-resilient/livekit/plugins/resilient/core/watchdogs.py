"""When each rule falls due: pure functions of timestamps and bounds.

Each returns monotonic seconds, or None where the rule does not apply; at that time, not after it,
the rule acts. None of them looks at a clock or changes anything.
"""

from __future__ import annotations

from typing import TypeAlias

from .decisions import DeathSign, FinaliseReason
from .limits import HINT_TRUST_S, Bounds
from .state import Edge, Generation, Liveness, Owed, Phase, Question, Speech, Voice

__all__ = [
    "Suspicion",
    "edge_deadline",
    "failure_deadline",
    "finalise_deadline",
    "finalise_reason",
    "liveness_deadline",
    "redrive_deadline",
]

Suspicion: TypeAlias = tuple[float, DeathSign]
"""When it falls due, and by which sign."""

_REASONS: dict[Phase, FinaliseReason] = {
    Phase.SILENT: "silent",
    Phase.PRODUCING: "stalled",
    Phase.COMPLETE: "complete",
    Phase.INTERRUPTED: "interrupted",
    Phase.INTERRUPTED_COMPLETE: "interrupted",
}


def finalise_reason(generation: Generation) -> FinaliseReason:
    """Which of the four bounds an open generation is under."""
    return _REASONS[generation.phase]


def finalise_deadline(
    generation: Generation, ahead: Generation | None, owed: Owed | None, bounds: Bounds
) -> float | None:
    """When an open generation without terminal event is to be finalised.

    `ahead` is the generation at the speaker, which may be the same one. A speaker that holds its
    audio holds the bounds that follow what the caller has heard.
    """
    phase = generation.phase
    if phase is Phase.SILENT:
        # A turn that is still being transcribed belongs to the generation it opened (Gemini).
        asked_at = owed.since if owed and owed.answer == generation.id else generation.opened_at
        return _after(max(generation.opened_at, asked_at), bounds.silent_after_s)
    if generation.interrupted:
        return _after(generation.interrupted_at, bounds.interrupted_after_s)
    heard_at = generation.heard_all_at(ahead)
    if heard_at is None:
        return None
    if phase is Phase.COMPLETE and generation.completed_at is not None:
        return _after(max(heard_at, generation.completed_at), bounds.complete_after_s)
    return _after(max(heard_at, generation.last_sign_at), bounds.stalled_after_s)


def redrive_deadline(
    owed: Owed | None, edge: Edge | None, speech: Speech, bounds: Bounds
) -> float | None:
    """When an owed reply may be asked for; the caller sees to it that nothing else is under way."""
    if owed is None or owed.answer is not None or not bounds.redrive:
        return None
    due = edge_deadline(edge, bounds) if edge else _retry_deadline(owed, bounds)
    if due is None or speech.voice is Voice.SPEAKING:
        return None
    if speech.voice is Voice.PAUSED:
        due = max(due, speech.paused_at + bounds.redrive_after_s)
    if speech.last_at is not None:
        quiet_at = speech.last_at + bounds.speech_quiet_s
        due = max(due, min(quiet_at, due + HINT_TRUST_S))
    return due


def edge_deadline(edge: Edge, bounds: Bounds) -> float:
    """When a reconnect's one re-drive is due, or the re-issue of its pending requests."""
    return edge.at + bounds.redrive_after_s if edge.knows_turn else edge.at


def _retry_deadline(owed: Owed, bounds: Bounds) -> float | None:
    """Without an edge: once, after a reply that failed or never started."""
    if owed.retried:
        return None
    if owed.failed_at is None:
        return _after(owed.since, bounds.silent_after_s)
    if owed.retry_after_s is not None:
        return owed.failed_at + owed.retry_after_s
    return owed.failed_at + bounds.redrive_after_s if owed.by_provider else owed.failed_at


def failure_deadline(question: Question, bounds: Bounds) -> float | None:
    """When a re-drive without any generation counts as failed."""
    if question.generation_id is not None:
        return None
    return _after(question.at, bounds.silent_after_s)


def liveness_deadline(
    liveness: Liveness, asked_at: float | None, bounds: Bounds
) -> Suspicion | None:
    """When the connection is to be suspected, and by which sign; the earliest of three.

    `asked_at` is when the oldest request without a reply was sent. A pong counts as a byte but not
    as a message, and its absence is never a sign by itself.
    """
    if liveness.suspected is not None:
        return None
    first: Suspicion | None = None
    if bounds.liveness_timeout_s is not None:
        first = (liveness.byte_at + bounds.liveness_timeout_s, "nothing_arrived")
    if asked_at is not None and bounds.reply_silent_after_s is not None:
        silent_from = max(asked_at, liveness.message_at, liveness.quiet_until)
        due = silent_from + bounds.reply_silent_after_s
        if first is None or due < first[0]:
            first = (due, "reply_silent")
    hinted_at = liveness.hinted_at
    if (
        hinted_at is not None
        and hinted_at > liveness.message_at
        and bounds.unheard_after_s is not None
    ):
        due = hinted_at + bounds.speech_quiet_s + bounds.unheard_after_s
        if first is None or due < first[0]:
            first = (due, "caller_unheard")
    return first


def _after(at: float | None, bound: float | None) -> float | None:
    return None if at is None or bound is None else at + bound
