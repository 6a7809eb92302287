"""`Link`: the life of a session's line. Facts in, decisions out, and when to ask again.

Which connection is dialled, and when; when one is left for the next, and when it is all given up.
What a connection is told, and what is owed to the caller, is not its business. No I/O, no clock,
no randomness of its own: jitter, from 0 to 1, comes with the facts. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import link_facts as f
from .budget import Budget, BudgetLimits
from .facts import IllegalFactError
from .handover import Backoff, Leaving, RenewalLimits, Rest
from .limits import OVERLAP_RETRY_S

__all__ = [
    "MOVES",
    "Dial",
    "DialBeside",
    "DropSuccessor",
    "GiveUp",
    "Leave",
    "Link",
    "LinkDecision",
    "LinkLimits",
    "State",
    "Switch",
]


class State(Enum):
    """Where the line stands.

    IDLE: not opened. DIALLING: no connection serves, one is being made. RESTORING: it is made and
    is being told the call. UP: it serves. HANDING_OVER: it serves, and the next one is being made
    beside it. BACKING_OFF: none serves, the next dial waits. OVER: closed, or given up.
    """

    IDLE = auto()
    DIALLING = auto()
    RESTORING = auto()
    UP = auto()
    HANDING_OVER = auto()
    BACKING_OFF = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True)
class Dial:
    """Make a connection; no other serves.

    Attributes:
        within_s: Seconds that it may take, up to the provider's first answer.
    """

    within_s: float


@dataclass(frozen=True, slots=True)
class DialBeside:
    """Make a connection beside the one that serves, and bring it up to date.

    Attributes:
        leave_by: When the one that serves must have been left.
    """

    leave_by: float


@dataclass(frozen=True, slots=True)
class Switch:
    """Have the connection that was made beside serve, and close the other."""


@dataclass(frozen=True, slots=True)
class DropSuccessor:
    """Close the connection that was made beside: it is not needed now, or knows too little."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Close the connection that serves; the next one is made after it."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Tell the application of the final error; the line is over.

    Attributes:
        since: When the call lost its line.
    """

    since: float


LinkDecision: TypeAlias = Dial | DialBeside | Switch | DropSuccessor | Leave | GiveUp

_KEPT: Final = (
    f.AnswerOwed,
    f.AnswerSettled,
    f.Progressed,
    f.OtherModelSeen,
    f.Suspected,
    f.SuspicionCleared,
    f.EndAnnounced,
)
"""Facts that are taken, or late and ignored, in any state."""


def _stays(state: State) -> dict[type[f.LinkFact], frozenset[State]]:
    return {kind: frozenset({state}) for kind in _KEPT}


MOVES: Final[Mapping[State, Mapping[type[f.LinkFact], frozenset[State]]]] = {
    State.IDLE: {
        **_stays(State.IDLE),
        f.Opened: frozenset({State.DIALLING}),
        f.Closed: frozenset({State.OVER}),
    },
    State.DIALLING: {
        **_stays(State.DIALLING),
        f.DialAnswered: frozenset({State.RESTORING}),
        f.AttemptFailed: frozenset({State.BACKING_OFF, State.OVER}),
        f.Closed: frozenset({State.OVER}),
    },
    State.RESTORING: {
        **_stays(State.RESTORING),
        f.Restored: frozenset({State.UP}),
        f.AttemptFailed: frozenset({State.BACKING_OFF, State.OVER}),
        f.Closed: frozenset({State.OVER}),
    },
    State.UP: {
        **_stays(State.UP),
        f.Suspected: frozenset({State.UP, State.OVER}),
        f.LineLost: frozenset({State.BACKING_OFF, State.OVER}),
        f.LineLeft: frozenset({State.DIALLING}),
        f.SuccessorFailed: frozenset({State.UP}),
        f.Closed: frozenset({State.OVER}),
    },
    State.HANDING_OVER: {
        **_stays(State.HANDING_OVER),
        f.Suspected: frozenset({State.HANDING_OVER, State.OVER}),
        f.SuccessorReady: frozenset({State.HANDING_OVER, State.UP}),
        f.SuccessorFailed: frozenset({State.UP}),
        f.Switched: frozenset({State.UP}),
        f.LineLost: frozenset({State.BACKING_OFF, State.OVER}),
        f.LineLeft: frozenset({State.DIALLING}),
        f.Closed: frozenset({State.OVER}),
    },
    State.BACKING_OFF: {
        **_stays(State.BACKING_OFF),
        f.Closed: frozenset({State.OVER}),
    },
    State.OVER: {
        **_stays(State.OVER),
        f.Closed: frozenset({State.OVER}),
    },
}
"""The states that a fact may lead to; one without an entry is illegal there. Time leads on from
UP (to HANDING_OVER) and BACKING_OFF (to DIALLING) as well."""


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
    """

    def __init__(self, limits: LinkLimits, rest: Callable[[], Rest]) -> None:
        self._limits = limits
        self._rest = rest
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
        return self._leaving.since if self._state is State.UP else None

    def next_deadline(self) -> float | None:
        """When to call `due`; None for not before the next fact."""
        if self._state is State.BACKING_OFF:
            return self._redial_at
        if self._state is State.UP:
            return self._leave_at()
        return None

    def due(self, now: float) -> tuple[LinkDecision, ...]:
        """What has fallen due by `now`."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return ()
        if self._state is State.BACKING_OFF:
            return self._dial(now)
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
                return self._lost(fact.at, fact.jitter, fact.final, False)
            case f.LineLeft():
                return self._dial(at)
            case f.SuccessorReady():
                return self._ready(fact)
            case f.SuccessorFailed():
                return self._successor_failed(fact)
            case f.Switched():
                self._serves(at)
            case f.EndAnnounced():
                if self._state in _SERVING:
                    self._announced(fact)
            case f.Suspected():
                return self._suspected(at)
            case f.SuspicionCleared():
                self._suspected_at = None
                if self._state in _SERVING and not self._owed:
                    budget.rests(at)
            case f.AnswerOwed():
                self._owed = True
                budget.owes(at)
            case f.AnswerSettled():
                self._owed = False
                if self._state in _SERVING:
                    budget.rests(at)
            case f.Progressed():
                budget.progressed()
                self._moves.progressed()
            case f.OtherModelSeen():
                budget.other_free_at = fact.free_at
            case f.Closed():
                self._state = State.OVER
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

    def _give_up(self, at: float) -> tuple[LinkDecision, ...]:
        self._state = State.OVER
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
        if self._state not in _SERVING or self._suspected_at is not None:
            return ()
        if not self._budget.gave_nothing(at):
            return self._give_up(at)
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


_SERVING: Final = frozenset({State.UP, State.HANDING_OVER})
