"""What a connection has been told of a session, and what it lacks: settings, tools, history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from livekit.agents import llm
from livekit.agents.llm.remote_chat_context import RemoteChatContext
from pydantic import BaseModel

from .._vendor.openai import realtime_model as _impl
from .replay_limit import answers_of, older_than_newest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .realtime import RealtimeSession

__all__ = ["Event", "Told"]

Event: TypeAlias = "dict[str, Any]"

# What no server item stands for, and empty messages, whose content never came.
_NOT_TOLD: dict[str, Any] = dict.fromkeys(
    ("exclude_empty_message", "exclude_handoff", "exclude_config_update"), True
)


class Told:
    """One connection's knowledge of the session, from nothing."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        # Later news are of items that this connection is to know.
        self._limit = session._replay_limit.items
        self._left_out: set[str] | None = None
        self._settings: list[Event] = []
        self._told_tools = False
        self.items = RemoteChatContext()
        """The history as this connection knows it."""

    def news(self) -> list[Event]:
        """The events that it lacks, as they go on the wire; they count as told from now on."""
        return [*self._news_of_settings(), *self._news_of_items()]

    @property
    def size(self) -> int:
        """How many items of the history it is to know."""
        return len(self._history().items)

    @property
    def left_out(self) -> set[str]:
        """The items that it is not told."""
        return set(self._left_out or ())

    def refused(self, item_id: str) -> None:
        """The server would not have an item."""
        if self.items.get(item_id) is not None:
            self.items.delete(item_id)

    def _news_of_settings(self) -> list[Event]:
        session = self._session
        tools = session._tools.flatten()
        updates: list[Any] = [session._create_session_update_event()]
        if tools or self._told_tools:
            self._told_tools = True
            updates.append(session._create_tools_update_event(tools))
        events = self._wire(updates)
        settings = [{**event, "event_id": None} for event in events]
        if settings == self._settings:
            return []
        self._settings = settings
        return events

    def _news_of_items(self) -> list[Event]:
        session = self._session
        history = self._history()
        # Upstream compares with what its own record says that the server has.
        record, session._remote_chat_ctx = session._remote_chat_ctx, self.items
        try:
            events = session._create_update_chat_ctx_events(history)
        finally:
            session._remote_chat_ctx = record
        if events:
            self.items = _record_of(history)
        return self._wire(events)

    def _history(self) -> llm.ChatContext:
        history = self._session.chat_ctx.copy(**_NOT_TOLD)
        if self._left_out is None:
            self._left_out = older_than_newest(history.items, self._limit)
        self._left_out |= self._session._record.explanations
        self._left_out |= answers_of(history.items, self._left_out)
        history.items = [item for item in history.items if item.id not in self._left_out]
        return history

    def _wire(self, events: Iterable[Any]) -> list[Event]:
        opts = self._session._opts
        legacy_azure = opts.is_azure and opts.api_version
        wired: list[Event] = []
        for event in events:
            is_model = isinstance(event, BaseModel)
            wired.append(event.model_dump(exclude_unset=True, by_alias=True) if is_model else event)
            if legacy_azure:
                _impl._normalize_azure_client_event(wired[-1])
        return wired


def _record_of(history: llm.ChatContext) -> RemoteChatContext:
    """A record of its own: upstream goes on filling in the items of the one that it keeps."""
    record = RemoteChatContext()
    previous_id: str | None = None
    for item in history.items:
        kept = item.model_copy()
        if isinstance(kept, llm.ChatMessage):
            kept.content = list(kept.content)
        record.insert(previous_id, kept)
        previous_id = item.id
    return record
