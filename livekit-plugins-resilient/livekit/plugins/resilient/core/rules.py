"""What falls due in the turns of a session, and what is then done about it.

Each rule says when it is due (`watchdogs`, `liveness`, `interruption`: functions of times) and
withdraws its own deadline by acting. No clock: `now` is the time of a loop that runs.
"""

from __future__ import annotations

from . import watchdogs
from .decisions import Decision, FinaliseGeneration, SuspectDead
from .generation import Generation
from .interruption import Unended, answer_owed_since, unended_deadline
from .limits import SLOWEST_START_S
from .liveness import Liveness, Suspicion, liveness_deadline
from .state import Claim, Connection
from .turn_state import TurnState

__all__ = ["Rules"]


class Rules:
    """The rules that act by time.

    Args:
        turns: What they look at and move.
    """

    def __init__(self, turns: TurnState) -> None:
        self._turns = turns
        self._bounds = turns.bounds

    def next_deadline(self) -> float | None:
        """When the first one is due; None for not before the next fact."""
        turns = self._turns
        if turns.connection is not Connection.UP:
            return None
        replies, interruption = turns.replies, turns.interruption
        suspicion = self._suspicion()
        earliest = None if suspicion is None else suspicion[0]
        # It is asked for with each message: what cannot be due is not looked at.
        for at in (
            self._redrive_deadline() if turns.open is None else self._finalise_deadline(),
            replies.redrives.failure_deadline(self._bounds),
            None if replies.owed is None else replies.withdraw_deadline(),
            None if interruption.unended is None else self._unended_deadline(),
            interruption.stopped_deadline,
        ):
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def act(self, now: float) -> tuple[Decision, ...]:
        """Carry out the first rule that is due by `now`."""
        turns = self._turns
        replies, interruption = turns.replies, turns.interruption

        def is_due(deadline: float | None) -> bool:
            return deadline is not None and deadline <= now

        if turns.open is not None and is_due(self._finalise_deadline()):
            return self._finalise(now, turns.open)
        if is_due(self._redrive_deadline()):
            return (replies.redrive(now),)
        if is_due(replies.redrives.failure_deadline(self._bounds)):
            return self._unanswered(now)
        if is_due(replies.withdraw_deadline()):
            replies.withdraw()
            return ()
        if interruption.unended is not None and is_due(self._unended_deadline()):
            return self._suspect_unended(now, interruption.unended)
        if is_due(interruption.stopped_deadline):
            return self._stopped(now)
        suspicion = self._suspicion()
        if suspicion is not None and turns.liveness is not None and is_due(suspicion[0]):
            return self._suspect(now, suspicion, turns.liveness)
        return ()

    def hedge_deadline(self, claim: Claim) -> float | None:
        """When another connection is to be asked for a claim beside the one that serves."""
        turns = self._turns
        heard_at, liveness = turns.speaker.heard_all_at(), turns.liveness
        if heard_at is None or liveness is None:
            return None
        sign_at = float("-inf") if turns.open is None else turns.open.last_sign_at
        silent_from = max(
            heard_at,
            sign_at,
            turns.explained_at,
            turns.speaker.connected_at,
            turns.replies.redrives.asked_at,
        )
        return watchdogs.hedge_deadline(
            claim, silent_from, turns.speech, liveness.quiet_until, self._bounds
        )

    # --- deadlines ------------------------------------------------------------------------------

    def _finalise_deadline(self) -> float | None:
        turns = self._turns
        if turns.open is None:
            return None
        return watchdogs.finalise_deadline(
            turns.open, turns.speaker.playing, turns.replies.owed, self._bounds
        )

    def _redrive_deadline(self) -> float | None:
        turns = self._turns
        return None if turns.open is not None else turns.replies.redrive_deadline(turns.speech)

    def _unended_deadline(self) -> float | None:
        turns = self._turns
        unended, liveness, replies = turns.interruption.unended, turns.liveness, turns.replies
        # A server that waits for a tool answers once it has the result.
        if unended is None or liveness is None or replies.calls_open:
            return None
        owed_since = answer_owed_since(unended.at, replies.asked_at, replies.owed, turns.open)
        return unended_deadline(unended, owed_since, turns.speech, liveness, self._bounds)

    def _suspicion(self) -> Suspicion | None:
        liveness = self._turns.liveness
        if liveness is None:
            return None
        return liveness_deadline(liveness, self._turns.replies.asked_at, self._bounds)

    # --- acts -----------------------------------------------------------------------------------

    def _suspect(
        self, now: float, suspicion: Suspicion, liveness: Liveness
    ) -> tuple[Decision, ...]:
        sign = suspicion[1]
        if sign == "caller_unheard":
            self._turns.false_alarms += 1  # until the caller is heard
        return (liveness.suspect(sign, now),)

    def _suspect_unended(self, now: float, unended: Unended) -> tuple[Decision, ...]:
        assert self._turns.liveness is not None
        unended.suspected = True
        return (SuspectDead("turn_unended", now - self._turns.liveness.message_at),)

    def _stopped(self, now: float) -> tuple[Decision, ...]:
        """Judge a turn that was stopped before its first output: by the caller, or by nobody."""
        by_caller = self._turns.interruption.stopped_by_caller(self._turns.speech)
        # Where nobody listens on this side, it takes the server's word.
        if by_caller or self._bounds.unheard_after_s is None:
            return ()
        return self._turns.passed_over(now)

    def _unanswered(self, now: float) -> tuple[Decision, ...]:
        """A re-drive was not answered by as much as a generation."""
        turns = self._turns
        asked_at, liveness = turns.replies.asked_at, turns.liveness
        outcome = turns.replies.redrives.settle("failed")
        silent = asked_at is not None and liveness is not None and liveness.message_at <= asked_at
        if not silent or not turns.replies.surely_owes:
            return outcome
        return outcome + self._suspect_silent(now)

    def _finalise(self, now: float, generation: Generation) -> tuple[Decision, ...]:
        turns = self._turns
        reason = watchdogs.finalise_reason(generation, owed=turns.owes_open)
        is_mute = (
            reason in ("stalled", "silent")
            and turns.liveness is not None
            and now - turns.liveness.message_at >= SLOWEST_START_S
        )
        outcome = turns.close(now, "expired")
        if is_mute and turns.replies.owes:
            outcome += self._suspect_silent(now)
        return (
            FinaliseGeneration(
                generation.id, reason, now - generation.opened_at, now - generation.last_sign_at
            ),
            *outcome,
        )

    def _suspect_silent(self, now: float) -> tuple[Decision, ...]:
        """Asked again on this connection, it would be as silent."""
        liveness = self._turns.liveness
        if liveness is None:
            return ()
        self._turns.replies.wait_for_handover()
        return (liveness.suspect("reply_silent", now),)
