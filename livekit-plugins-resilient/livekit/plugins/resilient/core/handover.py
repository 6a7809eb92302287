"""When to leave a connection that is going to end (R8, R16). No I/O, no clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .budget import backoff_s
from .limits import (
    DIALS_AHEAD,
    HANDLE_WAIT_S,
    HANDOVER_SPREAD_S,
    LEAST_MARGIN_S,
    SPREAD_PART,
)

__all__ = ["Backoff", "Leaving", "Notice", "RenewalLimits", "Rest", "handover_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalLimits:
    """How old a connection may grow; times in seconds, above 0.

    Attributes:
        after_s: Age from which it is to be renewed; None for never.
        wait_s: For the conversation to rest, from then on.
    """

    after_s: float | None
    wait_s: float


@dataclass(frozen=True, slots=True)
class Notice:
    """A connection is to be left; monotonic seconds.

    Attributes:
        since: From when on it may be left.
        leave_by: When it must have been left, whatever is under way then.
    """

    since: float
    leave_by: float


@dataclass(frozen=True, slots=True)
class Rest:
    """Whether the conversation rests, as things stand; monotonic seconds.

    Attributes:
        rests_from: See `TurnMachine.rests_from`.
        turn_ended_at: When the last turn was over; None for no turn yet, or where no handle comes.
        handle_at: When the newest handle arrived; None for none.
    """

    rests_from: float | None
    turn_ended_at: float | None = None
    handle_at: float | None = None


def handover_at(notice: Notice, rest: Rest) -> float:
    """When to hand over to a new connection: at rest, with a handle that knows of the last turn.

    Returns:
        Monotonic seconds; at the latest the notice's `leave_by`, whatever is under way then.
    """
    rests_from, ended_at = rest.rests_from, rest.turn_ended_at
    if rests_from is None:
        return notice.leave_by
    ready_at = max(notice.since, rests_from)
    if ended_at is not None and (rest.handle_at is None or rest.handle_at < ended_at):
        ready_at = max(ready_at, ended_at + HANDLE_WAIT_S)
    return min(ready_at, notice.leave_by)


class Backoff:
    """How long a connection is kept that came right after others which were left.

    Args:
        base_s: Longest wait before the third; doubles with each further one.
        cap_s: Longest wait.
    """

    def __init__(self, base_s: float, cap_s: float) -> None:
        self._base_s, self._cap_s = base_s, cap_s
        self._times = 0

    def next_s(self, jitter: float) -> float:
        """Seconds to wait, at most `cap_s` times `jitter`."""
        self._times += 1
        if self._times == 1:
            return 0.0
        return backoff_s(self._times - 1, self._base_s, self._cap_s, jitter)

    def progressed(self) -> None:
        """A turn was finished: the next is the first again."""
        self._times = 0


class Leaving:
    """When the connection that serves is left for the next one.

    Args:
        margin_s: Longest time before an announced end by which it is left.
        renewal: How old it may grow.
    """

    def __init__(self, margin_s: float, renewal: RenewalLimits | None) -> None:
        self._margin_s = margin_s
        self._limits = renewal
        self._announced: Notice | None = None  # by when it ends
        self._renewal: Notice | None = None
        self.dial_s: float | None = None
        """How long the last connection took to make; None before the first."""
        self.retry_at = -math.inf
        """Not before, since a try has just failed."""

    def began(self, at: float) -> None:
        """A connection begins to serve."""
        self.kept()
        self.retry_at = -math.inf
        limits = self._limits
        if limits is not None and limits.after_s is not None:
            renew_at = at + limits.after_s
            self._renewal = Notice(renew_at, renew_at + limits.wait_s)

    def announced(self, at: float, ends_at: float, jitter: float, pace_s: float) -> None:
        """The server said when it ends; a later notice never buys time.

        Args:
            at: Now.
            ends_at: When it ends.
            jitter: 0 to 1, by which the moment is spread where time allows.
            pace_s: Seconds that it is kept at least; infinite for as long as it lasts.
        """
        if self._announced is not None:
            ends_at, since = min(ends_at, self._announced.leave_by), self._announced.since
        else:
            spread_s = min(HANDOVER_SPREAD_S, SPREAD_PART * max(0.0, ends_at - at))
            since = at + max(jitter * spread_s, pace_s)
        self._announced = Notice(since, ends_at)

    def kept(self) -> None:
        """Nothing takes its place while it serves, so it is kept to its end."""
        self._announced = self._renewal = None

    @property
    def since(self) -> float | None:
        """From when on it may be left, so that it matters whether the conversation rests; None
        for not at all."""
        notices = [notice for notice in (self._announced, self._renewal) if notice is not None]
        return min((notice.since for notice in notices), default=None)

    def leave_by(self, *, overlaps: bool) -> float:
        """When it must have been left, whatever is under way then; infinite for never."""
        return min((notice.leave_by for notice in self._notices(overlaps)), default=math.inf)

    def at(self, rest: Callable[[], Rest], *, overlaps: bool) -> float | None:
        """When to leave it, as things stand; None for not at all.

        Args:
            rest: Tells whether the conversation rests.
            overlaps: Whether the next one can be made while it serves.
        """
        if not (notices := self._notices(overlaps)):
            return None
        resting = rest()
        at = min(handover_at(notice, resting) for notice in notices)
        return None if at == math.inf else max(at, self.retry_at)

    def _notices(self, overlaps: bool) -> list[Notice]:
        notices = [] if self._renewal is None else [self._renewal]
        if (announced := self._announced) is not None:
            margin_s = LEAST_MARGIN_S
            if overlaps and self.dial_s is not None:
                margin_s = max(margin_s, DIALS_AHEAD * self.dial_s)
            leave_by = announced.leave_by - min(margin_s, self._margin_s)
            # One that is kept for a while is kept no longer than it lasts.
            notices.append(Notice(announced.since, max(leave_by, announced.since)))
        return notices
