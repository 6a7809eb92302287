"""How a session dials: by the application's `conn_options` where it gave any, else by ours (R2),
and how long it goes on where another model could take over (R26)."""

from __future__ import annotations

from dataclasses import dataclass

from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions

from .core.limits import FAILOVER_LAST_DIAL_S
from .core.reconnect import Redial, RedialLimits
from .fallback import Fallback, GivenUp
from .options import ResilienceOptions

__all__ = ["Dialling", "Outages"]

# A loop may fire a timer early by its clock's resolution.
_TIMER_SLACK_S = 0.001


@dataclass(frozen=True)
class Dialling:
    """The bounds of one session's dials.

    Attributes:
        connect_timeout_s: For one dial, up to the provider's first answer.
        limits: For the redials of one outage.
        failover_after_s: For one outage where another model is available; None for no such bound.
    """

    connect_timeout_s: float
    limits: RedialLimits
    failover_after_s: float | None

    @classmethod
    def of(cls, options: ResilienceOptions, given: APIConnectOptions) -> Dialling:
        """From the model's options; in `given`, a time of 0 leaves ours in force."""
        own = given is not DEFAULT_API_CONNECT_OPTIONS
        base_s = (own and given.retry_interval) or options.redial_base_s
        limits = RedialLimits(
            deadline_s=options.reconnect_deadline_s,
            base_s=base_s,
            cap_s=max(base_s, options.redial_cap_s),
            healthy_after_s=options.healthy_after_s,
            max_redials=given.max_retry if own else None,
        )
        connect_timeout_s = (own and given.timeout) or options.connect_timeout_s
        return cls(connect_timeout_s, limits, options.failover_after_s)


class Outages:
    """The outages of one session: as `Redial` has it, and shorter where another model is available.

    Call `dialling` before each dial that is made while no connection serves, and `connected`,
    `progressed` and `lost` as they happen. Times are monotonic seconds.

    Args:
        bounds: Of the session.
        fallback: Of the session.
    """

    def __init__(self, bounds: Dialling, fallback: Fallback) -> None:
        self._bounds = bounds
        self._fallback = fallback
        self._redial = Redial(bounds.limits)
        # Of the outage under way: when the line was lost, and the drops and failed dials since.
        self._since: float | None = None
        self._failures = 0
        self._connected_at: float | None = None
        self._was_connected = False
        # When the call lost its line, where another model gave up before this one was dialled.
        self._call_since: float | None = None

    def dialling(self, now: float) -> float:
        """A dial begins; returns the seconds that it may take, up to the first answer."""
        self._credit(now)
        begins = self._since is None and not self._was_connected
        if self._since is None:
            self._since = now
        if begins:
            self._call_since = self._left_since(now)
        timeout_s, after_s = self._bounds.connect_timeout_s, self._bounds.failover_after_s
        if after_s is None or (begins and self._call_since is None):
            return timeout_s  # nothing is lost yet: as long as upstream takes for it
        other_in_s = self._fallback.other_model_in_s()
        if other_in_s is None:
            return timeout_s
        # The first redial is not cut short because the event loop came late to it, nor is any
        # that began when nobody could take over.
        whole = self._failures <= 1 or other_in_s > 0
        least_s = after_s if whole else FAILOVER_LAST_DIAL_S
        return min(timeout_s, max(self._since + after_s - now, other_in_s, least_s))

    def connected(self, now: float) -> None:
        """A dial succeeded, which by itself proves nothing; see `Redial.connected`."""
        self._credit(now)
        self._redial.connected(now)
        self._connected_at = now
        self._was_connected = True
        if not self._failures:
            self._since = None

    def progressed(self) -> None:
        """A turn was finished: whatever comes is another outage."""
        self._redial.progressed()
        self._since = None
        self._failures = 0
        if self._call_since is not None:
            self._call_since = self._fallback.given_up = None

    def lost(self, now: float, jitter: float, *, at_once: bool = False) -> float | None:
        """A connection or a dial is lost.

        Args:
            now: Monotonic seconds.
            jitter: 0 to 1, by which the wait is multiplied.
            at_once: Give up now if another model is available.

        Returns:
            Seconds to wait before the next dial, or None to give up.
        """
        self._credit(now)
        if self._since is None:
            self._since = now
        self._failures += 1
        call_since = self._since if self._call_since is None else self._call_since
        wait_s = self._redial.lost(now, jitter)
        if wait_s is None or now + wait_s - call_since >= self._bounds.limits.deadline_s:
            wait_s = None
        else:
            wait_s = self._unless_taken_over(now, self._since, wait_s, at_once=at_once)
        if wait_s is None and self._bounds.failover_after_s is not None:
            # The budget is that of the call, or two models would leave it to each other for ever.
            self._fallback.given_up = GivenUp(call_since, now)
        return wait_s

    def _unless_taken_over(
        self, now: float, since: float, wait_s: float, *, at_once: bool
    ) -> float | None:
        after_s = self._bounds.failover_after_s
        other_in_s = None if after_s is None else self._fallback.other_model_in_s()
        if after_s is None or other_in_s is None:
            return wait_s
        left_s = since + after_s - now
        if other_in_s <= 0 and (at_once or left_s <= FAILOVER_LAST_DIAL_S + _TIMER_SLACK_S):
            return None
        return min(wait_s, max(left_s - FAILOVER_LAST_DIAL_S, other_in_s))

    def _credit(self, now: float) -> None:
        """What a connection that ends, or is followed by another, has proved."""
        connected_at, self._connected_at = self._connected_at, None
        if connected_at is None:
            return
        lasted_s, after_s = now - connected_at, self._bounds.failover_after_s
        if lasted_s >= self._bounds.limits.healthy_after_s:
            self.progressed()
        elif after_s is not None and lasted_s >= after_s:
            self._since = None
            self._failures = 0

    def _left_since(self, now: float) -> float | None:
        given_up = self._fallback.given_up
        if given_up is None or now - given_up.at >= self._bounds.limits.healthy_after_s:
            return None  # somebody else served meanwhile
        return given_up.since
