"""Where the line of a session can stand, and the table by which it moves."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from . import link_facts as f

__all__ = ["MOVES", "SERVING", "State"]


class State(Enum):
    """Where the line stands.

    IDLE: not opened. DIALLING: no connection serves, one is being made. RESTORING: it is made and
    is being told the call. UP: it serves. HANDING_OVER: it serves, and the next one is being made
    beside it. HEDGING: it serves and has not answered, and another one is asked beside it.
    BACKING_OFF: none serves, the next dial waits. OVER: closed, or given up.
    """

    IDLE = auto()
    DIALLING = auto()
    RESTORING = auto()
    UP = auto()
    HANDING_OVER = auto()
    HEDGING = auto()
    BACKING_OFF = auto()
    OVER = auto()


_KEPT: Final = (
    f.AnswerOwed,
    f.AnswerSettled,
    f.Progressed,
    f.OtherModelSeen,
    f.Suspected,
    f.SuspicionCleared,
    f.EndAnnounced,
    f.HedgeAnswered,
    f.HedgeFailed,
    f.HedgeUnneeded,
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
    State.HEDGING: {
        **_stays(State.HEDGING),
        f.Suspected: frozenset({State.HEDGING, State.OVER}),
        f.HedgeFailed: frozenset({State.UP}),
        f.HedgeUnneeded: frozenset({State.UP}),
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
UP (to HANDING_OVER or HEDGING), HEDGING (to UP) and BACKING_OFF (to DIALLING) as well."""

SERVING: Final = frozenset({State.UP, State.HANDING_OVER, State.HEDGING})
"""In which a connection serves."""
