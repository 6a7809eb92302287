"""What is to be done about a session's line: the answers of `Link.receive()` and `Link.due()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .decisions import HedgeResult

__all__ = [
    "Dial",
    "DialBeside",
    "DropSuccessor",
    "GiveUp",
    "Hedge",
    "Leave",
    "LinkDecision",
    "RecordHedge",
    "Switch",
]


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
class Hedge:
    """Make a connection beside the one that serves, tell it the call, and ask it for what
    `TurnMachine.hedge()` says. Nobody hears it and none of its calls runs before it serves."""


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


@dataclass(frozen=True, slots=True)
class RecordHedge:
    """Report what became of a hedge; exactly one for each, unless the session is closed."""

    result: HedgeResult


LinkDecision: TypeAlias = (
    Dial | DialBeside | Hedge | Switch | DropSuccessor | Leave | GiveUp | RecordHedge
)
