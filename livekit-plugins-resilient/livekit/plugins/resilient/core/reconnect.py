"""When to dial again, and when to give up (R2). No I/O, no clock, no randomness of its own."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Redial", "RedialLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedialLimits:
    """Bounds of one outage; times in seconds, above 0.

    Attributes:
        deadline_s: All dials of one outage together.
        base_s: Longest wait before the second dial; doubles with each further one.
        cap_s: Longest wait between two dials.
        healthy_after_s: Of connection that end an outage; a finished turn does too.
        max_redials: Redials of one outage; None for no limit but the deadline.
    """

    deadline_s: float
    base_s: float
    cap_s: float
    healthy_after_s: float
    max_redials: int | None = None


class Redial:
    """The outages of one session. Call `connected`, `progressed` and `lost` as they happen."""

    def __init__(self, limits: RedialLimits) -> None:
        self._limits = limits
        self._redials = 0
        self._began_at: float | None = None
        self._connected_at: float | None = None

    def connected(self, now: float) -> None:
        """A dial succeeded, which by itself proves nothing.

        It may have been made while another connection served, whose health then counts.
        """
        self._credit(now)
        self._connected_at = now

    def progressed(self) -> None:
        """A turn was finished: whatever comes is another outage."""
        self._redials = 0
        self._began_at = None

    def lost(self, now: float, jitter: float) -> float | None:
        """A connection or a dial is lost.

        Args:
            now: Monotonic seconds.
            jitter: 0 to 1, by which the wait is multiplied.

        Returns:
            Seconds to wait before the next dial, or None to give up.
        """
        limits = self._limits
        self._credit(now)
        if self._began_at is None:
            self._began_at = now
        if limits.max_redials is not None and self._redials >= limits.max_redials:
            return None
        wait_s = 0.0
        if self._redials:
            wait_s = jitter * min(limits.cap_s, limits.base_s * 2.0 ** (self._redials - 1))
        if now + wait_s - self._began_at >= limits.deadline_s:
            return None
        self._redials += 1
        return wait_s

    def _credit(self, now: float) -> None:
        connected_at, self._connected_at = self._connected_at, None
        if connected_at is not None and now - connected_at >= self._limits.healthy_after_s:
            self.progressed()
