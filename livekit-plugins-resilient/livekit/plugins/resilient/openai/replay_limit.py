"""How much of the conversation a new connection is told, where providers refuse it (R3).

No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from livekit.agents import llm

from ..core.limits import POISONED_WITHIN_S
from .errors import is_refusal

__all__ = ["ReplayLimit", "anchor_of", "answers_of", "older_than_newest", "place_after"]


class ReplayLimit:
    """What the next connection is not told, because it may be why the last one was closed.

    Call `began` for each connection that serves and tell what happens on it. When it ends, and
    `refuses` says so, call `refused`; likewise for a connection that was not to serve at all.
    """

    def __init__(self) -> None:
        self.items: int | None = None
        """How many items are told, the newest; None for all."""
        self.with_audio = True
        """Whether the caller's audio is sent again."""
        self._began_at: float | None = None
        self._complained = False
        self._refusals = 0
        # The connection that serves was told under another limit.
        self._untried = False

    def began(self, now: float) -> None:
        """A connection serves that was told under this limit."""
        self._began_at = now
        self._complained = self._untried = False

    def model_spoke(self) -> None:
        """The model understood what the connection was told: anything of a reply came."""
        self._began_at = None

    def complained(self) -> None:
        """The server called something invalid and did not say what."""
        self._complained = True

    def turn_finished(self) -> None:
        """A turn came to its end: the next connection is told everything again."""
        self.model_spoke()
        if not self._untried:
            self.reset()

    def reset(self) -> None:
        """Leave nothing out any more."""
        self.items, self.with_audio = None, True
        self._refusals = 0

    def refuses(self, now: float, code: int | None) -> bool:
        """Whether the server closed the connection that served because of what it was told.

        Args:
            now: When; monotonic seconds.
            code: The WebSocket close code; None where none was received.
        """
        fresh = self._began_at is not None and now - self._began_at < POISONED_WITHIN_S
        return fresh and (self._complained or is_refusal(code))

    def refused(self, told: int, *, audio: bool = False) -> bool:
        """Leave out more: the audio first, then the older half of the items.

        Args:
            told: Items that the next connection would be told.
            audio: The connection was sent audio that the next one would be sent again.

        Returns:
            False if there is nothing left to leave out. Where there never was anything, one more
            connection is worth a try: it may have been what the caller was just saying.
        """
        self._refusals += 1
        self._untried = True
        if audio and self.with_audio:
            self.with_audio = False
        elif told:
            self.items = told // 2
        else:
            return self._refusals == 1
        return True


def older_than_newest(items: Sequence[llm.ChatItem], count: int | None) -> set[str]:
    """The ids of all but the newest items, and of the results of calls among these."""
    if count is None:
        return set()
    older = items[: max(0, len(items) - count)]
    left_out = {item.id for item in older}
    return left_out | answers_of(items, left_out)


def answers_of(items: Iterable[llm.ChatItem], left_out: Collection[str]) -> set[str]:
    """The ids of the results whose calls are left out: a server refuses one without the other."""
    items = list(items)
    calls = {item.call_id for item in items if item.type == "function_call" and item.id in left_out}
    return {
        item.id for item in items if item.type == "function_call_output" and item.call_id in calls
    }


def anchor_of(items: Sequence[llm.ChatItem], item_id: str, left_out: Collection[str]) -> str | None:
    """The item after which a server is to put what follows `item_id`; None for its start."""
    known: str | None = None
    for item in items:
        if item.id not in left_out:
            known = item.id
        if item.id == item_id:
            return known
    return item_id


def place_after(
    items: Sequence[llm.ChatItem], item_id: str | None, left_out: Collection[str]
) -> str | None:
    """Where in the whole history something belongs that a server put after `item_id`."""
    place, passed = item_id, item_id is None
    for item in items:
        if passed and item.id not in left_out:
            break
        passed = passed or item.id == item_id
        if passed:
            place = item.id
    return place
