"""What a connection has been told of a session, and what it lacks: settings, tools, history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from livekit.agents import llm
from livekit.agents.llm.remote_chat_context import RemoteChatContext
from pydantic import BaseModel

from .._vendor.openai.utils import livekit_item_to_openai_item
from ..runtime.log import logger
from ..tellable import mended, sendable, tellable
from .replay_limit import answers_of, older_than_newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .engine import Engine
    from .mirror import Mirror

__all__ = ["Event", "ReplayState", "is_blank"]

Event: TypeAlias = "dict[str, Any]"

# What no server item stands for, and empty messages, whose content never came.
_NOT_TOLD: dict[str, Any] = dict.fromkeys(
    ("exclude_empty_message", "exclude_handoff", "exclude_config_update"), True
)


class ReplayState:
    """One connection's knowledge of the session, from nothing.

    Args:
        engine: Holds settings, tools and history.
        mirror: Of the session.
        limit: How many items of the history it is told, the newest; None for all. Whatever comes
            later it is told as well.
    """

    def __init__(self, *, engine: Engine, mirror: Mirror, limit: int | None) -> None:
        self._engine = engine
        self._mirror = mirror
        self._limit = limit
        self._left_out: set[str] | None = None
        self._blank: set[str] = set()
        self._settings: list[Event] = []
        self._told_tools = False
        self.items = RemoteChatContext()
        """The history as this connection knows it."""

    def difference(self) -> list[Event]:
        """The events that it lacks, as they go on the wire; they count as told from now on.

        What cannot be told is left out: it would be so on every connection.
        """
        return [*self._new_settings(), *self._new_items()]

    @property
    def size(self) -> int:
        """How many items of the history it is to know."""
        return len(self._history().items)

    @property
    def left_out(self) -> set[str]:
        """The items that it is not told."""
        return (self._left_out or set()) | self._blank

    def refused(self, item_id: str) -> None:
        """The server would not have an item."""
        if self.items.get(item_id) is not None:
            self.items.delete(item_id)

    def _new_settings(self) -> list[Event]:
        engine = self._engine
        tools = engine.tools
        makers: list[Callable[[], Any]] = [engine.settings_event]
        if tools or self._told_tools:
            self._told_tools = True
            makers.append(lambda: engine.tools_event(tools))
        events = [event for make in makers for event in self._made(make)]
        settings = [{**event, "event_id": None} for event in events]
        if settings == self._settings:
            return []
        self._settings = settings
        return events

    def _made(self, make: Callable[[], Any]) -> list[Event]:
        try:
            return self._wire_form([make()])
        except Exception as e:
            logger.warning("settings cannot be told", extra={"error": type(e).__name__})
            return []

    def _new_items(self) -> list[Event]:
        history = self._history()
        try:
            events = self._updates(history)
        except Exception:
            history.items = tellable(history.items, self._told_alone)
            self._leave_out_but(history)
            events = self._updates(history)
        if events:
            self.items = _copy_of(history)
        return events

    def _updates(self, history: llm.ChatContext) -> list[Event]:
        return self._wire_form(self._engine.history_events(history, self.items))

    def _told_alone(self, item: llm.ChatItem) -> None:
        json.dumps(self._wire_form([livekit_item_to_openai_item(item)]))

    def _leave_out_but(self, history: llm.ChatContext) -> None:
        kept = {item.id for item in history.items}
        self._left_out = {
            item.id for item in self._engine.chat_ctx.items if item.id not in kept
        } | (self._left_out or set())
        unanswerable = answers_of(self._engine.chat_ctx.items, self._left_out)
        self._left_out |= unanswerable
        history.items = [item for item in history.items if item.id not in unanswerable]

    def _history(self) -> llm.ChatContext:
        history = self._engine.chat_ctx.copy(**_NOT_TOLD)
        if self._left_out is None:
            self._left_out = older_than_newest(history.items, self._limit)
        self._left_out |= self._mirror.explanations
        self._left_out |= answers_of(history.items, self._left_out)
        self._blank = {item.id for item in self._engine.chat_ctx.items if is_blank(item)}
        history.items = [mended(item) for item in history.items if item.id not in self.left_out]
        return history

    def _wire_form(self, events: Iterable[Any]) -> list[Event]:
        wired: list[Event] = []
        for event in events:
            is_model = isinstance(event, BaseModel)
            told = event.model_dump(exclude_unset=True, by_alias=True) if is_model else event
            wired.append(sendable(told))
            self._engine.to_dialect(wired[-1])
        return wired


def is_blank(item: llm.ChatItem) -> bool:
    """Whether it is a message without a word: of a caller whom the server has not transcribed.

    xAI has an item of what the caller says from its first sound on, with an empty transcript.
    """
    return isinstance(item, llm.ChatMessage) and not any(item.content or ())


def _copy_of(history: llm.ChatContext) -> RemoteChatContext:
    """A copy of its own: upstream goes on filling in the items of the mirror."""
    copy = RemoteChatContext()
    previous_id: str | None = None
    for item in history.items:
        kept = item.model_copy()
        if isinstance(kept, llm.ChatMessage):
            kept.content = list(kept.content)
        copy.insert(previous_id, kept)
        previous_id = item.id
    return copy
