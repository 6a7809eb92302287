"""When each rule falls due: pure functions of timestamps and bounds.

Each returns monotonic seconds, or None where the rule does not apply; at that time, not after it,
the rule acts. None of them looks at a clock or changes anything.
"""

from __future__ import annotations

from .decisions import FinaliseReason
from .generation import Generation, Phase
from .limits import HINT_TRUST_S, SILENT_AFTER_S, Bounds
from .state import Claim, Edge, Owed, Question, Speech, Voice

__all__ = [
    "edge_deadline",
    "failure_deadline",
    "finalise_deadline",
    "finalise_reason",
    "hedge_deadline",
    "redrive_deadline",
    "withdraw_deadline",
]

_REASONS: dict[Phase, FinaliseReason] = {
    Phase.SILENT: "silent",
    Phase.PRODUCING: "stalled",
    Phase.COMPLETE: "complete",
    Phase.INTERRUPTED: "interrupted",
    Phase.INTERRUPTED_COMPLETE: "interrupted",
}


def finalise_reason(generation: Generation, *, owed: bool = True) -> FinaliseReason:
    """Which of the bounds an open generation is under, which may not be `owed` to anybody."""
    if not owed and not generation.interrupted:
        return "captions"
    return _REASONS[generation.phase]


def finalise_deadline(
    generation: Generation, ahead: Generation | None, owed: Owed | None, bounds: Bounds
) -> float | None:
    """When an open generation without terminal event is to be finalised.

    `ahead` is the generation at the speaker, which may be the same one. A speaker that holds its
    audio holds the bounds that follow what the caller has heard.
    """
    phase = generation.phase
    mine = owed if owed is not None and owed.answer == generation.id else None
    if generation.by_caption and not generation.interrupted and not (mine and mine.certain):
        # Nobody waits for it, and the next turn may still take it up: upstream would let it.
        since = (
            generation.last_sign_at if mine is None else max(generation.last_sign_at, mine.since)
        )
        return since + bounds.working_after_s
    if phase is Phase.SILENT:
        # A turn that is still being transcribed belongs to the generation it opened (Gemini).
        asked_at = mine.since if mine is not None else generation.opened_at
        bound = _patience(bounds.silent_after_s, generation, bounds)
        return _after(max(generation.opened_at, asked_at), bound)
    if generation.interrupted:
        return _after(generation.interrupted_at, bounds.interrupted_after_s)
    heard_at = generation.heard_all_at(ahead)
    if heard_at is None:
        return None
    if phase is Phase.COMPLETE and generation.completed_at is not None:
        return _after(max(heard_at, generation.completed_at), bounds.complete_after_s)
    bound = _patience(bounds.stalled_after_s, generation, bounds)
    return _after(max(heard_at, generation.last_sign_at), bound)


def _patience(bound: float | None, generation: Generation, bounds: Bounds) -> float | None:
    """A bound on silence, for a generation in which the provider may be at work."""
    if bound is None or not generation.working:
        return bound
    return max(bound, bounds.working_after_s)


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
    return _once_quiet(due, speech, bounds)


def hedge_deadline(
    claim: Claim, silent_from: float, speech: Speech, quiet_until: float, bounds: Bounds
) -> float | None:
    """When another connection is to be asked beside.

    `silent_from` is when something last accounted for the silence, `quiet_until` the end of the
    wait that the provider stated, if it did: such a reply is never hedged.
    """
    if bounds.hedge_after_s is None or claim.hedged or quiet_until > claim.since:
        return None
    if speech.voice is Voice.SPEAKING:
        return None
    after_s = bounds.hedge_stalled_after_s if claim.stopped else bounds.hedge_after_s
    return _once_quiet(max(claim.since, silent_from) + after_s, speech, bounds)


def _once_quiet(due: float, speech: Speech, bounds: Bounds) -> float:
    """A deadline, held back while the microphone sounds like speech; noise may never end."""
    if speech.last_at is None:
        return due
    quiet_at = speech.last_at + bounds.speech_quiet_s
    return max(due, min(quiet_at, due + HINT_TRUST_S))


def edge_deadline(edge: Edge, bounds: Bounds) -> float:
    """When a reconnect's one re-drive is due, or the re-issue of its pending requests."""
    return edge.at + bounds.redrive_after_s if edge.knows_turn else edge.at


def withdraw_deadline(owed: Owed | None, bounds: Bounds) -> float | None:
    """When a reply that is not certain to be owed is given up, since none has begun."""
    if owed is None or owed.certain or owed.answer is not None:
        return None
    return owed.since + (bounds.silent_after_s or SILENT_AFTER_S)


def _retry_deadline(owed: Owed, bounds: Bounds) -> float | None:
    """Without an edge: once, after a reply that failed or never started."""
    if owed.retried or not owed.certain:
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


def _after(at: float | None, bound: float | None) -> float | None:
    return None if at is None or bound is None else at + bound
