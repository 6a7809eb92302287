"""`Link`: the life of a session's line. Facts in, decisions out, and when to ask again.

Which connection is dialled, and when; when one is left for the next, and when it is all given up.
What a connection is told, and what is owed to the caller, is not its business. No I/O, no clock,
no randomness of its own: jitter, from 0 to 1, comes with the facts. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import link_facts as f
from .budget import Budget, BudgetLimits
from .decisions import HedgeResult
from .facts import IllegalFactError
from .handover import Backoff, Leaving, RenewalLimits, Rest
from .hedging import Hedging
from .limits import HEDGE_LASTS_S, OVERLAP_RETRY_S
from .link_decisions import (
    Dial,
    DialBeside,
    DropSuccessor,
    GiveUp,
    Hedge,
    Leave,
    LinkDecision,
    RecordHedge,
    Switch,
)
from .link_state import MOVES, SERVING, State

__all__ = [
    "MOVES",
    "Dial",
    "DialBeside",
    "DropSuccessor",
    "GiveUp",
    "Hedge",
    "Leave",
    "Link",
    "LinkDecision",
    "LinkLimits",
    "RecordHedge",
    "State",
    "Switch",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Bounds of one line; times in seconds, above 0.

    Attributes:
        budget: Of its outages.
        margin_s: Longest time before an announced end by which the connection is left.
        renewal: How old a connection may grow; None for as old as it will.
        retry_s: Between two tries to make a connection beside the one that serves.
    """

    budget: BudgetLimits
    margin_s: float
    renewal: RenewalLimits | None = None
    retry_s: float = OVERLAP_RETRY_S


class Link:
    """The line of one session, over all its connections.

    Feed facts to `receive`, carry out what it answers, and call `due` at `next_deadline`, which
    changes with the conversation as well.

    Args:
        limits: Of the line.
        rest: Tells whether the conversation rests.
        hedging: What it needs to hedge; None for never. Its seat is left when the line is over.
    """

    def __init__(
        self, limits: LinkLimits, rest: Callable[[], Rest], hedging: Hedging | None = None
    ) -> None:
        self._limits = limits
        self._rest = rest
        self._hedging = hedging
        self._hedge_from = self._hedged_at = float("-inf")
        self._looked_at = float("-inf")
        self._state = State.IDLE
        self._now = float("-inf")
        self._budget = Budget(limits.budget)
        self._owed = False
        self._dialled_at = self._redial_at = 0.0
        self._leaving = Leaving(limits.margin_s, limits.renewal)
        # A server that is drained announces the end of every new connection as well.
        self._moves = Backoff(limits.budget.base_s, limits.budget.cap_s)
        self._suspected_at: float | None = None
        self._overlaps = True

    @property
    def state(self) -> State:
        """Where the line stands."""
        return self._state

    @property
    def overlaps(self) -> bool:
        """Whether the provider serves two connections at once, as far as is known."""
        return self._overlaps

    @property
    def is_inherited(self) -> bool:
        """Whether an outage that another model left is not over."""
        return self._budget.is_inherited

    @property
    def is_suspected(self) -> bool:
        """Whether the connection that serves is to be left because it looks dead."""
        return self._suspected_at is not None

    @property
    def watches_from(self) -> float | None:
        """From when on `next_deadline` changes with the conversation; None for not at all."""
        return self._leaving.since if self._state in (State.UP, State.HEDGING) else None

    def next_deadline(self) -> float | None:
        """When to call `due`; None for not before the next fact.

        What makes a hedge due needs not be told: every few seconds of UP it is time for a look.
        """
        if self._state is State.BACKING_OFF:
            return self._redial_at
        if self._state is State.UP:
            return _earliest(self._leave_at(), self._hedge_at(), self._look_at())
        if self._state is State.HEDGING:
            return _earliest(self._leave_at(), self._hedged_at + HEDGE_LASTS_S)
        return None

    def due(self, now: float) -> tuple[LinkDecision, ...]:
        """What has fallen due by `now`."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return ()
        if self._state is State.BACKING_OFF:
            return self._dial(now)
        leave_at = self._leave_at()
        leaves = leave_at is not None and leave_at <= now
        if self._state is State.HEDGING:
            return (DropSuccessor(), *self._hedge_ends(now, "superseded" if leaves else "failed"))
        if not leaves:
            return self._look(now)
        if not self._overlaps:
            return (Leave(),)
        self._state = State.HANDING_OVER
        return (DialBeside(self._leave_by(now)),)

    def receive(self, fact: f.LinkFact) -> tuple[LinkDecision, ...]:
        """Take a fact; returns what to do about it now. Then ask `next_deadline`.

        Raises:
            IllegalFactError: It cannot have happened now: `MOVES` has no entry for it, or it is
                earlier than the fact before it. Nothing was changed.
        """
        moves = MOVES[self._state].get(type(fact))
        if moves is None:
            name = type(fact).__name__
            raise IllegalFactError(f"{name} cannot happen while the line is {self._state.name}")
        if not fact.at >= self._now:
            raise IllegalFactError(f"{type(fact).__name__}.at={fact.at!r} is before {self._now!r}")
        self._now = fact.at
        decisions = self._take(fact)
        assert self._state in moves
        return decisions

    def _take(self, fact: f.LinkFact) -> tuple[LinkDecision, ...]:
        """Move by a fact that is legal now; returns what to do about it at once."""
        at, budget = fact.at, self._budget
        match fact:
            case f.Opened():
                self._budget = Budget(self._limits.budget, fact.call_since)
                self._budget.other_free_at = budget.other_free_at
                return self._dial(at)
            case f.DialAnswered():
                self._state = State.RESTORING
            case f.Restored():
                self._leaving.dial_s = at - self._dialled_at
                self._serves(at)
            case f.AttemptFailed():
                return self._lost(fact.at, fact.jitter, fact.final, fact.at_once)
            case f.LineLost():
                ended = self._hedge_ends(at, "superseded")
                return ended + self._lost(fact.at, fact.jitter, fact.final, False)
            case f.LineLeft():
                return self._hedge_ends(at, "superseded") + self._dial(at)
            case f.SuccessorReady():
                return self._ready(fact)
            case f.SuccessorFailed():
                return self._successor_failed(fact)
            case f.Switched():
                ended = self._hedge_ends(at, "served")
                self._serves(at)
                return ended
            case f.HedgeAnswered():
                return (Switch(),) if self._state is State.HEDGING else ()
            case f.HedgeUnneeded():
                if self._state is State.HEDGING:
                    return (DropSuccessor(), *self._hedge_ends(at, "false_alarm"))
            case f.HedgeFailed():
                return self._hedge_failed(fact)
            case f.EndAnnounced():
                if self._state in SERVING:
                    self._announced(fact)
            case f.Suspected():
                return self._suspected(at)
            case f.SuspicionCleared():
                self._suspected_at = None
                if self._state in SERVING and not self._owed:
                    budget.rests(at)
            case f.AnswerOwed():
                self._owed = True
                budget.owes(at)
            case f.AnswerSettled():
                self._owed = False
                if self._state in SERVING:
                    budget.rests(at)
            case f.Progressed():
                budget.progressed()
                self._moves.progressed()
            case f.OtherModelSeen():
                budget.other_free_at = fact.free_at
            case f.Closed():
                self._is_over()
            case _:
                assert_never(fact)
        return ()

    # --- making a connection --------------------------------------------------------------------

    def _dial(self, now: float) -> tuple[LinkDecision, ...]:
        self._state = State.DIALLING
        self._dialled_at = now
        return (Dial(self._budget.dialling(now)),)

    def _serves(self, at: float) -> None:
        self._state = State.UP
        self._budget.connected(at, owed=self._owed)
        self._suspected_at = None
        self._looked_at = at
        self._leaving.began(at)

    def _lost(
        self, at: float, jitter: float, final: bool, at_once: bool
    ) -> tuple[LinkDecision, ...]:
        wait_s = None if final else self._budget.lost(at, jitter, at_once=at_once)
        if wait_s is None:
            return self._give_up(at)
        self._state = State.BACKING_OFF
        self._redial_at = at + wait_s
        return ()

    def _is_over(self) -> None:
        self._state = State.OVER
        if self._hedging is not None:
            self._hedging.seat.leave()

    def _give_up(self, at: float) -> tuple[LinkDecision, ...]:
        self._is_over()
        since = self._budget.call_since
        return (GiveUp(at if since is None else since),)

    # --- leaving one for the next ---------------------------------------------------------------

    def _announced(self, fact: f.EndAnnounced) -> None:
        # In the end it is kept until the server ends it, which is bounded as a loss.
        pace_s = self._moves.next_s(fact.jitter)
        self._leaving.announced(fact.at, fact.ends_at, fact.jitter, pace_s)

    def _leave_by(self, now: float) -> float:
        if self._suspected_at is not None:
            return now
        return max(now, self._leaving.leave_by(overlaps=self._overlaps))

    def _leave_at(self) -> float | None:
        if self._suspected_at is not None:
            return max(self._suspected_at, self._leaving.retry_at)
        return self._leaving.at(self._rest, overlaps=self._overlaps)

    def _suspected(self, at: float) -> tuple[LinkDecision, ...]:
        if self._state not in SERVING or self._suspected_at is not None:
            return ()
        if not self._budget.gave_nothing(at):
            return self._hedge_ends(at, "superseded") + self._give_up(at)
        self._suspected_at = at
        return ()

    def _ready(self, fact: f.SuccessorReady) -> tuple[LinkDecision, ...]:
        leave_at = self._leave_at()
        if leave_at is not None and leave_at <= fact.at:
            return (Switch(),)
        # Something began meanwhile, of which it does not know, or there is no need any more.
        self._state = State.UP
        return (DropSuccessor(),)

    def _successor_failed(self, fact: f.SuccessorFailed) -> tuple[LinkDecision, ...]:
        self._state = State.UP
        if fact.refuses_overlap:
            self._overlaps = False
        if self._suspected_at is not None:
            return (Leave(),)
        if fact.hopeless:
            self._leaving.kept()
            return ()
        retry_at = fact.at + self._limits.retry_s
        if self._overlaps and retry_at < self._leaving.leave_by(overlaps=True):
            self._leaving.retry_at = retry_at
            return ()
        leave_at = self._leave_at()
        return (Leave(),) if leave_at is not None and leave_at <= fact.at else ()

    # --- asking another one beside --------------------------------------------------------------

    def _hedge_at(self) -> float | None:
        """When a hedge is due, as things stand and where there was a place; None for not."""
        hedging = self._hedging
        if hedging is None or self._suspected_at is not None or (at := hedging.at()) is None:
            return None
        return max(at, self._hedge_from)

    def _look_at(self) -> float | None:
        """When to look again whether one is: none falls due sooner after what gave rise to it."""
        return None if self._hedging is None else self._looked_at + self._hedging.notice_s

    def _look(self, now: float) -> tuple[LinkDecision, ...]:
        self._looked_at = now
        hedge_at = self._hedge_at()
        if self._hedging is None or hedge_at is None or hedge_at > now:
            return ()
        seat = self._hedging.seat
        self._hedge_from = seat.free_at(now)
        if not seat.take(now):
            return ()
        self._state = State.HEDGING
        self._hedged_at = now
        return (Hedge(),)

    def _hedge_ends(self, at: float, result: HedgeResult) -> tuple[LinkDecision, ...]:
        """Another session may hedge now, whatever became of this one's, if it had any."""
        if self._hedging is None or self._state is not State.HEDGING:
            return ()
        self._hedging.seat.give_back()
        self._state = State.UP
        self._looked_at = at
        return (RecordHedge(result),)

    def _hedge_failed(self, fact: f.HedgeFailed) -> tuple[LinkDecision, ...]:
        if self._hedging is not None and fact.refused_for_quota:
            self._hedging.seat.refused(fact.at)
        return self._hedge_ends(fact.at, "refused" if fact.refused_for_quota else "failed")


def _earliest(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)
