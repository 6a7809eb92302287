"""Which items of a conversation the server knows, and which a handle stands for (R5, R6).

No I/O, no clock, no provider types: an item is its id. What a resumption handle stands for is kept
as what it does *not* stand for, so that a new handle costs as much as is new since the last one,
however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from .limits import COVERAGE_GRACE_S

__all__ = ["Coverage"]

_ALWAYS = float("-inf")


@dataclass(slots=True)
class _Item:
    """An item that the newest handle does not stand for.

    `since` is when the server had it for sure; None while it is on no connection yet. `index` is
    the number of the client message that carried it, where those are counted.
    """

    since: float | None = None
    index: int | None = None


class Coverage:
    """The items of one session over all its connections.

    Times are monotonic seconds. Call `queued` for what is about to be sent, `sent` once it was,
    `spoken` for what came from the server itself, `handle_issued` for each handle, and for a new
    connection `resumed` or `seeded`, which say what it knows.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._open: dict[str, _Item] = {}
        self._handle_at = _ALWAYS

    def knows(self, item_id: str) -> bool:
        """Whether the item was queued for the server, sent, or came from it."""
        return item_id in self._known

    @property
    def open_items(self) -> Collection[str]:
        """The known items that the newest handle does not stand for, oldest first."""
        return self._open.keys()

    def adopt(self, item_ids: Iterable[str]) -> None:
        """Take items as part of a handle that the application brought along."""
        self._known.update(item_ids)

    def queued(self, item_ids: Iterable[str]) -> None:
        """Items are about to be sent; until they are, no handle stands for them."""
        for item_id in item_ids:
            self._known.add(item_id)
            self._open[item_id] = _Item()

    def withdrawn(self, item_ids: Iterable[str]) -> None:
        """Items are not to be sent after all, on no connection."""
        for item_id in item_ids:
            self._known.add(item_id)
            self._open.pop(item_id, None)

    def sent(self, item_ids: Iterable[str], at: float, index: int | None = None) -> None:
        """Items were handed to the connection, as client message number `index`."""
        for item_id in item_ids:
            item = self._open.get(item_id)
            if item is not None:
                item.since, item.index = at + COVERAGE_GRACE_S, index

    def spoken(self, item_id: str, at: float) -> None:
        """The server itself brought the item up, at the latest at `at`.

        Its handles come on the same wire, so one that came later stands for it without a grace.
        """
        self._known.add(item_id)
        if at >= self._handle_at:
            self._open[item_id] = _Item(since=at)

    def handle_issued(self, at: float, consumed: int | None = None) -> None:
        """A handle arrived.

        Args:
            at: When.
            consumed: Number of the last client message that it stands for, where the server says
                so; that is exact, and else `core.limits.COVERAGE_GRACE_S` allows for a handle
                that was on its way already when an item was sent.
        """
        self._handle_at = at
        covered = [name for name, item in self._open.items() if _covers(item, at, consumed)]
        for item_id in covered:
            del self._open[item_id]

    def resumed(self) -> list[str]:
        """A new connection was restored from the newest handle; it must be told what is returned.

        Those items count as not sent again until `sent` says so.
        """
        for item in self._open.values():
            item.since = item.index = None
        return list(self._open)

    def seeded(self, item_ids: Iterable[str], at: float, index: int | None = None) -> None:
        """A fresh connection was told these items, in client message `index`, and no others."""
        since = at + COVERAGE_GRACE_S
        self._open = {item_id: _Item(since, index) for item_id in item_ids}
        self._known = set(self._open)
        self._handle_at = _ALWAYS


def _covers(item: _Item, at: float, consumed: int | None) -> bool:
    if consumed is not None and item.index is not None:
        return item.index <= consumed
    return item.since is not None and item.since <= at
