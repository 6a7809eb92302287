"""Finds upstream's `RealtimeModelFallbackAdapter` around a realtime session, and what it would do.

There is no public way from a session to the adapter that made it. Where this stops working,
nothing breaks: a session then behaves as one that no adapter holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from livekit import rtc

from .owed_reply import Left, OwedReply
from .runtime.timer import Timer

__all__ = ["Fallback", "GivenUp", "seconds_until_taken_over"]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An outage that one model left to the next.

    Attributes:
        since: When the line was lost, in monotonic seconds.
        at: When it was left to the next model.
    """

    since: float
    at: float


# By the adapter's own session, which outlives those of its models.
_given_up: WeakKeyDictionary[Any, GivenUp | None] = WeakKeyDictionary()


class Fallback:
    """Upstream's fallback adapter around one session, if there is any.

    Args:
        session: One of ours.
    """

    def __init__(self, session: rtc.EventEmitter[Any]) -> None:
        self._session = session

    def other_model_in_s(self) -> float | None:
        """Seconds until the adapter would take another model, should this one give up.

        Returns:
            0 for at once; None where it would take none, or this one again, or where that is not
            known.
        """
        holder = self._holder()
        if holder is None:
            return None
        try:
            return seconds_until_taken_over(
                holder._active_index,
                holder._available,
                holder._cooldown_deadline,
                cooldown_s=holder._adapter._cooldown,
                now=time.time(),  # the adapter's clock
            )
        except Exception:  # another make of adapter
            return None

    async def hears(self) -> bool:
        """Wait until the adapter acts on a final error: one that comes while it swaps models is
        lost, and with it the call.

        Returns:
            False where the swap was cancelled, because the call is being closed.
        """
        while (swap := self._swap()) is not None:
            await asyncio.wait({swap})
            if swap.cancelled():
                return False
        return True

    @property
    def is_swapping(self) -> bool:
        """Whether a final error would be lost just now; see `hears`."""
        return self._swap() is not None

    def _swap(self) -> asyncio.Task[Any] | None:
        swap = getattr(self._holder(), "_swap_task", None)
        return swap if isinstance(swap, asyncio.Task) and not swap.done() else None

    def leave(self, left: Left, emit: Callable[[], None], timer: Timer) -> None:
        """Emit the session's final error, and have the model that takes over asked for what is
        owed.

        Args:
            left: What the session leaves behind.
            emit: Emits the error, on which the adapter lets go of the session.
            timer: Of the session.
        """
        reply: OwedReply | None = None
        if (holder := self._holder()) is not None:
            with contextlib.suppress(Exception):  # another make of adapter
                reply = OwedReply(holder, left, timer)
        emit()
        if reply is not None:
            with contextlib.suppress(Exception):
                reply.follow()

    @property
    def given_up(self) -> GivenUp | None:
        """The outage that the adapter's model before this one left; None once it is over."""
        holder = self._holder()
        return None if holder is None else _given_up.get(holder)

    @given_up.setter
    def given_up(self, outage: GivenUp | None) -> None:
        if (holder := self._holder()) is not None:
            _given_up[holder] = outage

    def _holder(self) -> Any:
        """The adapter's session that listens to this one."""
        with contextlib.suppress(Exception):
            for listener in tuple(self._session._events.get("error", ())):
                owner = getattr(listener, "__self__", None)
                if getattr(owner, "_active", None) is self._session and hasattr(owner, "_adapter"):
                    return owner
        return None


def seconds_until_taken_over(
    active: int,
    available: Sequence[bool],
    cooled_down_at: Sequence[float],
    *,
    cooldown_s: float,
    now: float,
) -> float | None:
    """How long until the adapter would take another model, should the active one give up.

    It takes the first that is available, after it has barred the one that failed.

    Args:
        active: Index of the model that serves.
        available: Of each model, whether it may be taken.
        cooled_down_at: Of each that may not, when it may again.
        cooldown_s: How long a failed one may not.
        now: By the clock of `cooled_down_at`.

    Returns:
        None where there is no other, or where it would take the active one again.
    """
    waits = [
        0.0 if free else max(0.0, at - now)
        for free, at in zip(available, cooled_down_at, strict=True)
    ]
    others = [index for index in range(len(waits)) if index != active]
    if not others:
        return None
    soonest_s = min(waits[index] for index in others)
    other = next(index for index in others if waits[index] <= soonest_s)
    again = cooldown_s <= 0 if available[active] else waits[active] <= soonest_s
    return None if again and active < other else soonest_s
