"""When to leave a connection that is going to end (R8). No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

from .limits import HANDLE_WAIT_S

__all__ = ["HANDOVER_NEVER", "Notice", "handover_at"]

HANDOVER_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Notice:
    """The server said that the connection ends.

    Attributes:
        at: When it said so, in monotonic seconds.
        leave_by: When the connection must have been left, a margin before it ends.
    """

    at: float
    leave_by: float

    def sooner(self, other: Notice | None) -> Notice:
        """The one that is to be kept: a later notice never buys time."""
        return self if other is None or self.leave_by <= other.leave_by else other


def handover_at(
    notice: Notice | None,
    *,
    rests_from: float | None,
    turn_ended_at: float | None,
    handle_at: float | None,
) -> float:
    """When to hand over to a new connection: at rest, with a handle that knows of the last turn.

    Args:
        notice: Of the connection's end; without one there is no need to move.
        rests_from: See `Conversation.rests_from`.
        turn_ended_at: When the last turn was over; None for no turn yet.
        handle_at: When the newest handle arrived; None for none.

    Returns:
        Monotonic seconds; at the latest the notice's `leave_by`, whatever is under way then.
    """
    if notice is None:
        return HANDOVER_NEVER
    if rests_from is None:
        return notice.leave_by
    ready_at = max(notice.at, rests_from)
    knows_turn = handle_at is not None and (turn_ended_at is None or handle_at >= turn_ended_at)
    if not knows_turn and turn_ended_at is not None:
        ready_at = max(ready_at, turn_ended_at + HANDLE_WAIT_S)
    return min(ready_at, notice.leave_by)
