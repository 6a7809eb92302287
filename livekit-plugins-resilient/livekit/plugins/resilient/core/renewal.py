"""When to renew a connection before the provider ends it (R16). No I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

from .limits import RENEWAL_RETRY_S

__all__ = ["Renewal", "RenewalLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalLimits:
    """How old a connection may grow; times in seconds, above 0.

    Attributes:
        after_s: Age from which it is to be renewed; None for never.
        wait_s: For the conversation to rest, from then on.
    """

    after_s: float | None
    wait_s: float


class Renewal:
    """The renewals of one session's connections.

    Call `connected` for each connection that begins to serve, then try to renew it at `next_at`,
    at rest or by `leave_by`. Where the new connection cannot be made while the old one serves on,
    call `failed`, or `refused` where the provider will not have two at once, or `given_up`.
    """

    def __init__(self, limits: RenewalLimits) -> None:
        self._limits = limits
        self.overlaps = True
        """Whether to try to have the new connection before the old one is left."""
        self.next_at: float | None = None
        """When to try next, in monotonic seconds; None for not at all."""
        self.leave_by = float("inf")
        """From when on to renew whatever is under way."""

    def connected(self, now: float) -> None:
        """A connection serves."""
        after_s = self._limits.after_s
        self.next_at = None if after_s is None else now + after_s
        if self.next_at is not None:
            self.leave_by = self.next_at + self._limits.wait_s

    def failed(self, now: float) -> None:
        """The new connection failed while the old one serves on."""
        self.next_at = now + RENEWAL_RETRY_S

    def given_up(self) -> None:
        """No new connection is to be had while this one serves: it is kept to its end."""
        self.next_at = None

    def refused(self, now: float) -> None:
        """The provider does not serve two connections at once."""
        self.overlaps = False
        self.next_at = now
