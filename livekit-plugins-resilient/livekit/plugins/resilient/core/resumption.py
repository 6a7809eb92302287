"""The handle that the next session is resumed from, and what it stands for (R5, R6, R9).

No I/O, no clock, no provider types: an item or a call is its id. What a handle stands for is kept
as what it does *not* stand for, so that a new handle costs as much as is new since the last one,
however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from .limits import COVERAGE_GRACE_S

__all__ = ["Handle", "Resumption"]


@dataclass(frozen=True, slots=True)
class Handle:
    """What a session can be resumed from.

    Attributes:
        token: The server's name for it; a secret, so never part of the repr.
        came_at: When it came, in monotonic seconds; None where the application brought it along,
            so that it is older than all that happened here.
        open_calls: The calls that a session which is resumed from it still waits to be answered.
    """

    token: str = field(repr=False)
    came_at: float | None = None
    open_calls: frozenset[str] = frozenset()

    def came_since(self, at: float) -> bool:
        """Whether it came at `at` or later, so that it knows of a turn that was over then."""
        return self.came_at is not None and self.came_at >= at

    def knows_of_sent(self, at: float) -> bool:
        """Whether it stands for what was sent at `at`; it was not on its way already."""
        return self.came_since(at + COVERAGE_GRACE_S)


@dataclass(slots=True)
class _Item:
    """An item that the newest handle does not stand for.

    `since` is when the server had it for sure; None while it is on no connection yet. `index` is
    the number of the client message that carried it, where those are counted.
    """

    since: float | None = None
    index: int | None = None


class Resumption:
    """The newest handle of one session, and what of the conversation the server knows.

    Times are monotonic seconds. Call `queued` for what is about to be sent, `sent` once it was,
    `spoken` and `called` for what came from the server itself, and `handle_issued` for each handle.
    For a connection that is resumed call `resumed`, which says what it is to be told; one that is
    set up fresh begins a `Resumption` of its own with `seeded`, which takes the place of this one
    once it serves.
    """

    def __init__(self) -> None:
        self._handle: Handle | None = None
        self._known: set[str] = set()
        self._open: dict[str, _Item] = {}

    # -- the handle

    @property
    def handle(self) -> Handle | None:
        """The newest handle; None where the next session is a fresh one."""
        return self._handle

    @property
    def handle_at(self) -> float | None:
        """When the newest handle came; None for none, or one that the application brought."""
        return None if self._handle is None else self._handle.came_at

    def knows_of_turn(self, ended_at: float) -> bool:
        """Whether the newest handle came after a turn that was over at `ended_at`."""
        return self._handle is not None and self._handle.came_since(ended_at)

    def handle_brought(self, token: str | None) -> None:
        """The application brought a handle along, or none."""
        self._handle = Handle(token) if token else None

    def handle_issued(
        self,
        token: str,
        at: float,
        *,
        open_calls: Iterable[str] = (),
        consumed: int | None = None,
    ) -> None:
        """A handle arrived.

        Args:
            token: The server's name for it.
            at: When.
            open_calls: The calls that its session waits to be answered.
            consumed: Number of the last client message that it stands for, where the server says
                so; that is exact, and else `core.limits.COVERAGE_GRACE_S` allows for a handle
                that was on its way already when an item was sent.
        """
        self._handle = Handle(token, at, frozenset(open_calls))
        covered = [name for name, item in self._open.items() if _covers(item, at, consumed)]
        for item_id in covered:
            del self._open[item_id]

    def forget_handle(self) -> None:
        """The next session is a fresh one."""
        self._handle = None

    # -- what the server knows

    def knows(self, item_id: str) -> bool:
        """Whether the item was queued for the server, sent, or came from it."""
        return item_id in self._known

    @property
    def open_items(self) -> Collection[str]:
        """The known items that the newest handle does not stand for, oldest first."""
        return self._open.keys()

    def adopt(self, item_ids: Iterable[str]) -> None:
        """Take items as known, and part of any handle."""
        self._known.update(item_ids)

    def hold_open(self, call_ids: Iterable[str]) -> None:
        """The session of the handle that the application brought along waits for these calls."""
        if self._handle is not None:
            self._handle = replace(self._handle, open_calls=frozenset(call_ids))

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
        if self.handle_at is None or at >= self.handle_at:
            self._open[item_id] = _Item(since=at)

    def called(self, call_id: str) -> None:
        """The model made a call, of which a handle that is there already knows nothing: what it
        holds open under that id was another call."""
        if self._handle is not None and call_id in self._handle.open_calls:
            self._handle = replace(self._handle, open_calls=self._handle.open_calls - {call_id})

    # -- a new connection

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
        self._handle = None


def _covers(item: _Item, at: float, consumed: int | None) -> bool:
    if consumed is not None and item.index is not None:
        return item.index <= consumed
    return item.since is not None and item.since <= at
