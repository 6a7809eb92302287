"""How many sessions of a process may hedge at a time (R24). No I/O, no clock.

Accounts limit how many sessions are open at once, and a provider that is slow for one caller is
slow for many: without a bound, all would ask it a second time in the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .limits import HEDGE_RETRY_S, HEDGING_OFF_S, SESSIONS_PER_HEDGE

__all__ = ["HedgeAllowance", "Hedging", "Seat"]


class HedgeAllowance:
    """Shared by all sessions of a process: one in ten of them, at least one, hedges at a time.

    `join` it with each session. All of them are to tell the time by the same clock.
    """

    def __init__(self) -> None:
        self._sessions = 0
        self._hedging = 0
        self._off_until = float("-inf")

    @property
    def sessions(self) -> int:
        """Sessions that joined and did not leave (count)."""
        return self._sessions

    @property
    def hedging(self) -> int:
        """Hedges under way (count)."""
        return self._hedging

    def join(self) -> Seat:
        """Count a session in; call `Seat.leave` once it is over."""
        self._sessions += 1
        return Seat(self)


class Seat:
    """The part of one session in a `HedgeAllowance`; made by `HedgeAllowance.join`."""

    def __init__(self, allowance: HedgeAllowance) -> None:
        self._allowance = allowance
        self._hedges = self._left = False

    @property
    def hedges(self) -> bool:
        """Whether this session has a hedge under way."""
        return self._hedges

    def take(self, now: float) -> bool:
        """Begin a hedge, if there is a place for it; then call `give_back` however it ends.

        Returns:
            Whether there is. If not, look again at `free_at`.
        """
        of = self._allowance
        most = max(1, of._sessions // SESSIONS_PER_HEDGE)
        if self._left or self._hedges or now < of._off_until or of._hedging >= most:
            return False
        self._hedges = True
        of._hedging += 1
        return True

    def free_at(self, now: float) -> float:
        """When to look for a place again, in monotonic seconds."""
        return max(now + HEDGE_RETRY_S, self._allowance._off_until)

    def give_back(self) -> None:
        """The hedge is over. Saying so twice is harmless."""
        if self._hedges:
            self._hedges = False
            self._allowance._hedging -= 1

    def refused(self, now: float) -> None:
        """The provider refused it for quota or rate: no session hedges for a while."""
        self._allowance._off_until = max(self._allowance._off_until, now + HEDGING_OFF_S)

    def leave(self) -> None:
        """The session is over, and its hedge with it. Saying so twice is harmless."""
        self.give_back()
        if not self._left:
            self._left = True
            self._allowance._sessions -= 1


@dataclass(frozen=True, slots=True)
class Hedging:
    """What a `Link` needs in order to hedge.

    Attributes:
        at: Tells from when on a hedge is due: `TurnMachine.hedge_at`.
        notice_s: Seconds that lie at least between what makes one due and its time:
            `Bounds.hedge_notice_s`.
        seat: Of the session.
    """

    at: Callable[[], float | None]
    notice_s: float
    seat: Seat
