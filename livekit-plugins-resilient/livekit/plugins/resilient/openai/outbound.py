"""What becomes of each item that is created or deleted: every event has one fate.

Queued, then sent, then confirmed or refused by the server. What a drop catches before that is done
in the mirror instead, which the replay then carries: nothing is lost, nothing goes twice, nothing
follows the replay late, and whoever waits for it goes on at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.agents import llm
from livekit.agents.utils import shortuuid
from openai.types.realtime import ConversationItemCreateEvent, ConversationItemDeleteEvent
from pydantic import ValidationError

from .._vendor.openai.utils import openai_item_to_livekit_item
from ..runtime.queues import drain

if TYPE_CHECKING:
    from openai.types.realtime import RealtimeClientEvent

    from .realtime import RealtimeSession

__all__ = ["Outbox"]

ItemEvent: TypeAlias = "ConversationItemCreateEvent | ConversationItemDeleteEvent"
Kind = Literal["create", "delete"]


@dataclass(frozen=True)
class _Pending:
    """An event that the server has not answered yet, as queued and as read."""

    queued: RealtimeClientEvent | dict[str, Any]
    event: ItemEvent
    kind: Kind
    item_id: str
    item: llm.ChatItem | None = None
    sent: bool = False
    after: str | None = None
    """The item that it was to follow, where that is none that the server knows."""


class Outbox:
    """The creates and deletes of one session, from `takes` to the server's answer.

    Call `fold` when a connection is lost, also one that could not be told the conversation; where
    one takes over from another that still serves, send what `unanswered` returns to it instead.
    """

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._pending: list[_Pending] = []
        # The picture that was shown last without a connection; older ones are of no use.
        self._picture_id: str | None = None

    def takes(self, event: RealtimeClientEvent | dict[str, Any], *, in_gap: bool) -> bool:
        """Note an event that is about to be queued.

        Args:
            event: Any event of the client.
            in_gap: No connection serves, and no replay is being written.

        Returns:
            False if it was done in the mirror and must not be queued.
        """
        pending = _read(event)
        if pending is None:
            return True
        if pending.event.event_id is None:
            _name(event, pending.event)
        record = self._session._record
        if in_gap or record.leaves_out(pending.item_id, pending.item):
            self._fold(pending)
            return False
        self._pending.append(self._anchored(pending))
        return True

    def sent(self, event_id: str) -> None:
        """An event is written to the connection."""
        self._pending = [
            replace(p, sent=True) if p.event.event_id == event_id else p for p in self._pending
        ]

    def unanswered(self) -> list[RealtimeClientEvent | dict[str, Any]]:
        """What the connection was sent and has not answered, in order; it counts as unsent now."""
        events = [pending.queued for pending in self._pending if pending.sent]
        self._pending = [self._anchored(replace(p, sent=False)) for p in self._pending]
        return events

    def creates(self, item_id: str) -> bool:
        """Whether the server was asked to create this item and has not answered."""
        return any(p.item_id == item_id and p.kind == "create" for p in self._pending)

    def place_of(self, item_id: str) -> str | None:
        """The item that one is to follow in the mirror, where the server was told another."""
        return next((p.after for p in self._pending if p.item_id == item_id and p.after), None)

    def confirmed(self, kind: Kind, item_id: str) -> None:
        """The server did what was asked."""
        for pending in self._pending:
            if pending.item_id == item_id and pending.kind == kind:
                self._pending.remove(pending)
                return

    def refused(self, event_id: str) -> None:
        """The server did not do what was asked."""
        self._pending = [p for p in self._pending if p.event.event_id != event_id]

    def fold(self) -> None:
        """Do in the mirror what is pending, and settle who waits for it."""
        if not self._pending:
            return
        queue = self._session._msg_ch
        for event in drain(queue):
            if not any(pending.queued is event for pending in self._pending):
                queue.send_nowait(event)
        pending, self._pending = self._pending, []
        for one in pending:
            self._fold(one)

    def _fold(self, pending: _Pending) -> None:
        mirror = self._session._remote_chat_ctx
        node = mirror.get(pending.item_id)
        if isinstance(pending.event, ConversationItemCreateEvent):
            item = pending.item
            assert item is not None
            if node is not None:
                node.item = item
            else:
                previous_id = pending.after or pending.event.previous_item_id
                mirror.insert(self._predecessor(previous_id), item)
            self._drop_older_picture(item)
        elif node is not None:
            mirror.delete(pending.item_id)
        self._settle(pending)

    def _anchored(self, pending: _Pending) -> _Pending:
        """Have the event name an item that the server knows, and note which it named."""
        event, queued = pending.event, pending.queued
        if isinstance(event, ConversationItemDeleteEvent):
            return pending
        after = pending.after or event.previous_item_id
        if after is None or after == "root":
            return pending
        anchor = self._session._record.anchor_of(after) or "root"
        event.previous_item_id = anchor
        if isinstance(queued, dict):
            queued["previous_item_id"] = anchor
        return replace(pending, after=None if anchor == after else after)

    def _predecessor(self, previous_id: str | None) -> str | None:
        if previous_id == "root":
            return None
        mirror = self._session._remote_chat_ctx
        known = previous_id is not None and mirror.get(previous_id) is not None
        return previous_id if known else mirror.tail_id

    def _drop_older_picture(self, item: llm.ChatItem) -> None:
        if item.type != "message" or item.role != "user" or item.raw_text_content:
            return
        mirror, older_id = self._session._remote_chat_ctx, self._picture_id
        self._picture_id = item.id
        if older_id not in (None, item.id) and mirror.get(older_id) is not None:
            mirror.delete(older_id)

    def _settle(self, pending: _Pending) -> None:
        waiter = self._session._chat_ctx_event_futures.get(pending.event.event_id or "")
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _read(event: RealtimeClientEvent | dict[str, Any]) -> _Pending | None:
    """The event, if it creates or deletes an item of a kind that the mirror can hold."""
    read = _parsed(event) if isinstance(event, dict) else event
    if isinstance(read, ConversationItemDeleteEvent):
        return _Pending(event, read, "delete", read.item_id)
    if isinstance(read, ConversationItemCreateEvent) and read.item.id:
        try:
            item = openai_item_to_livekit_item(read.item)
        except (AssertionError, ValueError):
            return None
        return _Pending(event, read, "create", item.id, item)
    return None


def _name(queued: RealtimeClientEvent | dict[str, Any], event: ItemEvent) -> None:
    """Give an event of the application an id, by which it is known when it is sent."""
    event.event_id = event_id = shortuuid("item_event_")
    if isinstance(queued, dict):
        queued["event_id"] = event_id


def _parsed(event: dict[str, Any]) -> ItemEvent | None:
    try:
        match event.get("type"):
            case "conversation.item.create":
                return ConversationItemCreateEvent.model_validate(event)
            case "conversation.item.delete":
                return ConversationItemDeleteEvent.model_validate(event)
            case _:
                return None
    except ValidationError:
        return None  # the server will say what is wrong with it
