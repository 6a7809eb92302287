"""What is sent: the queue, what of it dies with its connection, and the delivery of each item.

An event that creates or deletes an item is queued, then sent, then confirmed or refused by the
server. What a drop catches before that is applied to the mirror instead, which the replay then
carries: nothing is lost, nothing goes twice, nothing follows the replay late, and whoever waits for
it goes on at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.agents import llm
from livekit.agents.utils import shortuuid
from openai.types.realtime import ConversationItemCreateEvent, ConversationItemDeleteEvent
from pydantic import ValidationError

from .._vendor.openai.utils import openai_item_to_livekit_item
from .engine import ClientEvent

if TYPE_CHECKING:
    from .engine import Engine
    from .mirror import Mirror

__all__ = [
    "SendQueue",
    "asks_for_reply",
    "brings_audio",
    "dies_with_connection",
    "says_line",
]

ItemEvent: TypeAlias = "ConversationItemCreateEvent | ConversationItemDeleteEvent"
Kind = Literal["create", "delete"]


@dataclass(frozen=True)
class _Pending:
    """An event that the server has not answered yet, as queued and as read."""

    queued: ClientEvent
    event: ItemEvent
    kind: Kind
    item_id: str
    item: llm.ChatItem | None = None
    sent: bool = False
    after: str | None = None
    """The item that it was to follow, where that is none that the server knows."""


class SendQueue:
    """What one session sends, and each create and delete from `takes` to the server's answer.

    Call `apply_locally` when a connection is lost, also one that could not be told the
    conversation; where one takes over from another that still serves, send what `unanswered`
    returns to it instead.

    Args:
        engine: Whose queue it is.
        mirror: Of the session.
    """

    def __init__(self, *, engine: Engine, mirror: Mirror) -> None:
        self._engine = engine
        self._mirror = mirror
        self._pending: list[_Pending] = []
        # The picture that was shown last without a connection; older ones are of no use.
        self._picture_id: str | None = None

    def takes(self, event: ClientEvent, *, in_gap: bool) -> bool:
        """Note an event that is about to be queued.

        Args:
            event: Any event of the client.
            in_gap: No connection serves, and no replay is being written.

        Returns:
            False if it was applied to the mirror and must not be queued.
        """
        pending = _read(event)
        if pending is None:
            return True
        if pending.event.event_id is None:
            _name(event, pending.event)
        if in_gap or self._mirror.leaves_out(pending.item_id, pending.item):
            self._apply(pending)
            return False
        self._pending.append(self._anchored(pending))
        return True

    def sent(self, event_id: str) -> None:
        """An event is written to the connection."""
        self._pending = [
            replace(p, sent=True) if p.event.event_id == event_id else p for p in self._pending
        ]

    def unanswered(self) -> list[ClientEvent]:
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

    def drop_queued(self, *, with_audio: bool) -> list[ClientEvent]:
        """Empty the queue of a lost connection; returns what the next one is to be sent.

        Args:
            with_audio: Microphone audio is dropped too, because it is sent another way.
        """
        return [
            event
            for event in self._engine.take_queued()
            if not dies_with_connection(event) and not (with_audio and brings_audio(event))
        ]

    def apply_locally(self) -> None:
        """Apply to the mirror what is pending, and settle who waits for it."""
        if not self._pending:
            return
        for event in self._engine.take_queued():
            if not any(pending.queued is event for pending in self._pending):
                self._engine.put_back(event)
        pending, self._pending = self._pending, []
        for one in pending:
            self._apply(one)

    def _apply(self, pending: _Pending) -> None:
        mirror = self._engine.remote_items
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
        anchor = self._mirror.anchor_of(after) or "root"
        event.previous_item_id = anchor
        if isinstance(queued, dict):
            queued["previous_item_id"] = anchor
        return replace(pending, after=None if anchor == after else after)

    def _predecessor(self, previous_id: str | None) -> str | None:
        if previous_id == "root":
            return None
        mirror = self._engine.remote_items
        known = previous_id is not None and mirror.get(previous_id) is not None
        return previous_id if known else mirror.tail_id

    def _drop_older_picture(self, item: llm.ChatItem) -> None:
        if item.type != "message" or item.role != "user" or item.raw_text_content:
            return
        mirror, older_id = self._engine.remote_items, self._picture_id
        self._picture_id = item.id
        if older_id not in (None, item.id) and mirror.get(older_id) is not None:
            mirror.delete(older_id)

    def _settle(self, pending: _Pending) -> None:
        waiter = self._engine.item_waiters.get(pending.event.event_id or "")
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _read(event: ClientEvent) -> _Pending | None:
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


def _name(queued: ClientEvent, event: ItemEvent) -> None:
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


def dies_with_connection(event: ClientEvent) -> bool:
    """Whether an event is of no use on another connection: it is about a reply on its own."""
    kind = event["type"] if isinstance(event, dict) else event.type
    about_a_reply = kind in ("response.cancel", "conversation.item.truncate")
    return about_a_reply or asks_for_reply(event)


def asks_for_reply(event: ClientEvent) -> bool:
    """Whether the server begins a response because of an event."""
    if not isinstance(event, dict):
        return event.type == "response.create"
    return event["type"] == "response.create" or says_line(event)


def says_line(event: dict[str, Any]) -> bool:
    """Whether an event has xAI speak a line that the application gave."""
    if event["type"] != "conversation.item.create":
        return False
    return (event.get("item") or {}).get("type") == "force_message"


def brings_audio(event: ClientEvent) -> bool:
    """Whether an event carries microphone audio."""
    return (event["type"] if isinstance(event, dict) else event.type) == "input_audio_buffer.append"
