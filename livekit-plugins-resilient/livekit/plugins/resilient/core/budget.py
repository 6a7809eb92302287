"""How long an outage lasts: when to dial again, and when to give up (R2, R26).

No I/O, no clock, no randomness of its own. Times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from .limits import FAILOVER_LAST_DIAL_S, FIRST_REDIAL_S, TIMER_SLACK_S

__all__ = ["Budget", "BudgetLimits", "backoff_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimits:
    """Bounds of one outage; times in seconds, above 0.

    Attributes:
        connect_timeout_s: For one dial, up to the provider's first answer.
        deadline_s: All dials of one outage together.
        base_s: Longest wait before the second redial; doubles with each further one.
        cap_s: Longest wait between two dials.
        healthy_after_s: Of connection in which nothing is owed, that end an outage.
        max_redials: Redials of one outage; None for no limit but the deadline.
        failover_after_s: For one outage where another model is available; None for no such bound.
    """

    connect_timeout_s: float
    deadline_s: float
    base_s: float
    cap_s: float
    healthy_after_s: float
    max_redials: int | None = None
    failover_after_s: float | None = None


def backoff_s(times: int, base_s: float, cap_s: float, jitter: float) -> float:
    """Seconds to wait before the next try, with full jitter.

    Args:
        times: Which wait it is, from 1.
        base_s: Longest first wait; doubles with each further one.
        cap_s: Longest wait.
        jitter: 0 to 1, by which the wait is multiplied.
    """
    # Beyond any cap, and short of what a float can hold.
    return jitter * min(cap_s, base_s * 2.0 ** min(times - 1, 64))


class Budget:
    """The outages of one line.

    A dial that succeeds proves nothing, and neither does a connection that leaves what is owed
    unanswered, however long it lasts: only progress ends an outage. That is a turn that was
    finished or heard (`progressed`), or a while in which nothing was owed (`rests` to `owes`).

    Args:
        limits: Of the line.
        call_since: When the call lost its line, where another model gave up before this one was
            dialled for the first time.
    """

    def __init__(self, limits: BudgetLimits, call_since: float | None = None) -> None:
        self._limits = limits
        self._call_since = call_since
        self._began_at: float | None = None  # of what `deadline_s` bounds
        self._redials = 0
        # Of what `failover_after_s` bounds: when the line was lost, and how often since.
        self._since: float | None = None
        self._failures = 0
        self._was_connected = False
        self._quiet_since: float | None = None
        self.other_free_at: float | None = None
        """From when on another model may be taken; None where there is none."""

    @property
    def call_since(self) -> float | None:
        """When the call lost its line; None while no outage is under way."""
        began = (self._call_since, self._began_at, self._since)
        return min((at for at in began if at is not None), default=None)

    @property
    def is_inherited(self) -> bool:
        """Whether an outage that another model left is not over."""
        return self._call_since is not None

    def dialling(self, now: float) -> float:
        """A dial begins while no connection serves; returns the seconds that it may take."""
        self._credit(now)
        begins = self._since is None and not self._was_connected
        if self._since is None:
            self._since = now
        timeout_s, after_s = self._limits.connect_timeout_s, self._limits.failover_after_s
        if after_s is None or (begins and self._call_since is None):
            return timeout_s  # nothing is lost yet: as long as upstream takes for it
        other_in_s = self._other_in_s(now)
        if other_in_s is None:
            return timeout_s
        # The first redial is not cut short because the event loop came late to it, nor is any
        # that began when nobody could take over.
        whole = self._failures <= 1 or other_in_s > 0
        least_s = max(after_s - FIRST_REDIAL_S if whole else 0.0, FAILOVER_LAST_DIAL_S)
        return min(timeout_s, max(self._since + after_s - now, other_in_s, least_s))

    def connected(self, now: float, *, owed: bool) -> None:
        """A connection begins to serve, of which nothing is known yet but whether it is `owed`
        an answer."""
        self._credit(now)
        self._quiet_since = None if owed else now
        self._was_connected = True
        if not self._failures:
            self._since = None

    def owes(self, now: float) -> None:
        """Somebody waits for an answer of the connection that serves."""
        self._credit(now)

    def rests(self, now: float) -> None:
        """Nobody does any more."""
        if self._quiet_since is None:
            self._quiet_since = now

    def progressed(self) -> None:
        """A turn was finished, or heard: whatever comes is another outage."""
        self._began_at = self._since = self._call_since = None
        self._redials = self._failures = 0

    def lost(self, now: float, jitter: float, *, at_once: bool = False) -> float | None:
        """A connection or a dial is lost.

        Args:
            now: Monotonic seconds.
            jitter: 0 to 1, by which the wait is multiplied.
            at_once: Give up now if another model is available.

        Returns:
            Seconds to wait before the next dial, or None to give up.
        """
        limits = self._limits
        since = self._loses(now)
        if limits.max_redials is not None and self._redials >= limits.max_redials:
            return None
        wait_s = jitter * min(FIRST_REDIAL_S, limits.base_s)
        if self._redials:
            wait_s = backoff_s(self._redials, limits.base_s, limits.cap_s, jitter)
        if self.is_spent(now + wait_s):
            return None
        self._redials += 1
        return self._unless_taken_over(now, since, wait_s, at_once=at_once)

    def gave_nothing(self, now: float) -> bool:
        """A connection that serves gave no answer and is to be replaced beside.

        Returns:
            Whether to go on; False to give up.
        """
        since = self._loses(now)
        return not self.is_spent(now) and self._unless_taken_over(now, since, 0.0) is not None

    def is_spent(self, at: float) -> bool:
        """Whether a dial at that time would come too late for this outage."""
        since = self.call_since
        return since is not None and at - since >= self._limits.deadline_s

    def _loses(self, now: float) -> float:
        """Count a loss; returns when the outage began."""
        self._credit(now)
        if self._began_at is None:
            self._began_at = now
        if self._since is None:
            self._since = now
        self._failures += 1
        return self._since

    def _unless_taken_over(
        self, now: float, since: float, wait_s: float, *, at_once: bool = False
    ) -> float | None:
        after_s, other_in_s = self._limits.failover_after_s, self._other_in_s(now)
        if after_s is None or other_in_s is None:
            return wait_s
        left_s = since + after_s - now
        if other_in_s <= 0 and (at_once or left_s <= FAILOVER_LAST_DIAL_S + TIMER_SLACK_S):
            return None
        return min(wait_s, max(left_s - FAILOVER_LAST_DIAL_S, other_in_s))

    def _other_in_s(self, now: float) -> float | None:
        return None if self.other_free_at is None else max(0.0, self.other_free_at - now)

    def _credit(self, now: float) -> None:
        """What a while in which nothing was owed has proved."""
        since, self._quiet_since = self._quiet_since, None
        if since is None:
            return
        lasted_s, after_s = now - since, self._limits.failover_after_s
        if lasted_s >= self._limits.healthy_after_s:
            self.progressed()
        elif after_s is not None and lasted_s >= after_s:
            self._since = None
            self._failures = 0
