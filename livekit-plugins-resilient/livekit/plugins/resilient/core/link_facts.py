"""What can happen to a session's line: the facts that `Link.receive()` takes.

Every fact has `at`: when it happened, in monotonic seconds. `jitter`, from 0 to 1, is drawn at
random by who reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "AnswerOwed",
    "AnswerSettled",
    "AttemptFailed",
    "Closed",
    "DialAnswered",
    "EndAnnounced",
    "HedgeAnswered",
    "HedgeFailed",
    "HedgeUnneeded",
    "LineLeft",
    "LineLost",
    "LinkFact",
    "Opened",
    "OtherModelSeen",
    "Progressed",
    "Restored",
    "SuccessorFailed",
    "SuccessorReady",
    "Suspected",
    "SuspicionCleared",
    "Switched",
]


@dataclass(frozen=True, slots=True)
class Opened:
    """The session begins.

    Attributes:
        call_since: When the call lost its line, where another model gave up just before.
    """

    at: float
    call_since: float | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """The application closed the session."""

    at: float


# --- making a connection ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DialAnswered:
    """The provider has set the connection up; it knows nothing of the call yet."""

    at: float


@dataclass(frozen=True, slots=True)
class Restored:
    """The connection was told what it lacked, and serves."""

    at: float


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """No connection came of the dial, or it was lost before it served.

    Attributes:
        final: Whether another cannot end otherwise.
        at_once: Whether another model is to be left the call, if there is one.
    """

    at: float
    jitter: float
    final: bool = False
    at_once: bool = False


# --- what becomes of the one that serves --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LineLost:
    """It ended, and not because we left it.

    Attributes:
        final: Whether no other can be had.
    """

    at: float
    jitter: float
    final: bool = False


@dataclass(frozen=True, slots=True)
class LineLeft:
    """We closed it, as decided or as the application wants; the next one is dialled now."""

    at: float


@dataclass(frozen=True, slots=True)
class EndAnnounced:
    """The server said when it ends."""

    at: float
    ends_at: float
    jitter: float


@dataclass(frozen=True, slots=True)
class Suspected:
    """It looks dead, or gives no answer."""

    at: float


@dataclass(frozen=True, slots=True)
class SuspicionCleared:
    """It has shown life since."""

    at: float


# --- the one that is made beside it -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SuccessorReady:
    """It knows all that the one that serves knows."""

    at: float


@dataclass(frozen=True, slots=True)
class SuccessorFailed:
    """It could not be made.

    Attributes:
        refuses_overlap: Whether the provider does not serve two connections at once.
        hopeless: Whether none can be had while this one serves.
    """

    at: float
    refuses_overlap: bool = False
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Switched:
    """It serves now."""

    at: float


# --- the one that is asked beside it (R24) ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HedgeAnswered:
    """It gave output of the answer, before the one that serves did. Unless this leads to `Switch`,
    it is not wanted any more: close it."""

    at: float


@dataclass(frozen=True, slots=True)
class HedgeFailed:
    """It could not be made or asked, or was lost.

    Attributes:
        refused_for_quota: The provider has no more for this account now, or not so fast.
    """

    at: float
    refused_for_quota: bool = False


@dataclass(frozen=True, slots=True)
class HedgeUnneeded:
    """`TurnMachine.awaits_hedge` is false: the one that serves gave output first, or what the
    hedge is asked for is not owed any more."""

    at: float


# --- the conversation and the application -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerOwed:
    """Somebody waits for an answer that nobody has heard."""

    at: float


@dataclass(frozen=True, slots=True)
class AnswerSettled:
    """Nobody does any more."""

    at: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """A turn was finished, or the caller hears one, on the connection that serves."""

    at: float


@dataclass(frozen=True, slots=True)
class OtherModelSeen:
    """Another model may take the call.

    Attributes:
        free_at: From when on; None for none.
    """

    at: float
    free_at: float | None


LinkFact: TypeAlias = (
    Opened
    | Closed
    | DialAnswered
    | Restored
    | AttemptFailed
    | LineLost
    | LineLeft
    | EndAnnounced
    | Suspected
    | SuspicionCleared
    | SuccessorReady
    | SuccessorFailed
    | Switched
    | HedgeAnswered
    | HedgeFailed
    | HedgeUnneeded
    | AnswerOwed
    | AnswerSettled
    | Progressed
    | OtherModelSeen
)
