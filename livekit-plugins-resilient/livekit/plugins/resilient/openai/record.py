"""Keeps upstream's record of the conversation complete and true for the next replay (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.agents import llm

from .._vendor.openai import realtime_model as _impl

if TYPE_CHECKING:
    from .realtime import RealtimeSession

__all__ = ["UNTRANSCRIBED", "Record"]

UNTRANSCRIBED = "[spoken, transcript lost]"
"""Stands in the record for audio that arrived without any transcript."""


class Record:
    """The mirror of the server's items that upstream replays into a new connection."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        # Items of the last replay that the server has not confirmed, with their predecessor.
        self._unconfirmed: dict[str, tuple[str | None, llm.ChatItem]] = {}
        # What the last replay restored: as text, whatever it was before.
        self._replayed: frozenset[str] = frozenset()
        # What the caller heard of messages that were cut; empty for a message never played.
        self._cuts: dict[str, str] = {}
        # Of these, restored ones that the server must still be told of, or is being told of.
        self._to_correct: set[str] = set()
        self._replacing: set[str] = set()
        # Deleted here, before the server confirms it.
        self._deleting: set[str] = set()

    @property
    def replays_something(self) -> bool:
        """Whether the replay under way carries any item that is not confirmed yet."""
        return bool(self._unconfirmed)

    def added(self, item_id: str) -> None:
        """The server told of an item that is now in the conversation, and in the mirror."""
        self._unconfirmed.pop(item_id, None)
        if item_id in self._to_correct:
            self._correct(item_id)
        else:
            self._replacing.discard(item_id)
            self._cuts.pop(item_id, None)

    def deleted(self, item_id: str) -> bool:
        """The server told of an item that is gone; False where the mirror knows already."""
        self._unconfirmed.pop(item_id, None)
        if item_id not in self._replacing:
            self._cuts.pop(item_id, None)
        if item_id not in self._deleting:
            return True
        self._deleting.discard(item_id)
        return False

    def cut(self, item_id: str, heard: str) -> bool:
        """Note what the caller heard of a message; nothing for a message that never played.

        Returns:
            Whether that is all there is to do: False where the connection that serves still holds
            the message's audio, which is then to be truncated or deleted there.
        """
        self._cuts[item_id] = heard
        if self._session._in_gap:
            # Goes into the record before the replay, or after one that is on its way.
            self._to_correct.add(item_id)
            return True
        if item_id not in self._replayed:
            return False
        self._to_correct.add(item_id)
        if self._session._remote_chat_ctx.get(item_id) is not None:
            self._correct(item_id)
        return True

    def forget(self, item_id: str) -> None:
        """Take back a message that never played, from the mirror and from the server."""
        if self.cut(item_id, "") or self._session._remote_chat_ctx.get(item_id) is None:
            return
        # Not later, or an update of the context in between deletes it a second time.
        self._session._remote_chat_ctx.delete(item_id)
        self._deleting.add(item_id)
        self._session.send_event({"type": "conversation.item.delete", "item_id": item_id})

    def _correct(self, item_id: str) -> None:
        self._to_correct.discard(item_id)
        self._replacing.add(item_id)
        self._session._replace_text(item_id, self._cuts[item_id])

    def complete(self) -> None:
        """Make the record ready for a replay; doing so again changes nothing."""
        self._restore_unconfirmed()
        self.keep_cut_reply()
        self._apply_cuts()
        previous_id: str | None = None
        self._unconfirmed = {}
        for item in self._session._remote_chat_ctx.to_chat_ctx().items:
            self._unconfirmed[item.id] = (previous_id, item)
            previous_id = item.id
        self._replayed = frozenset(self._unconfirmed)

    def _apply_cuts(self) -> None:
        for item_id, heard in self._cuts.items():
            if heard:
                self._put(item_id, heard)
            elif self._session._remote_chat_ctx.get(item_id) is not None:
                self._session._remote_chat_ctx.delete(item_id)
        self._cuts.clear()
        self._to_correct.clear()
        self._replacing.clear()
        self._deleting.clear()

    def _restore_unconfirmed(self) -> None:
        """Bring back what the last replay sent and a second drop kept from being confirmed.

        Upstream starts each replay with an empty record and refills it from confirmations.
        """
        mirror = self._session._remote_chat_ctx
        for item_id, (previous_id, item) in self._unconfirmed.items():
            if mirror.get(item_id) is None:
                if previous_id is not None and mirror.get(previous_id) is None:
                    previous_id = mirror.tail_id
                mirror.insert(previous_id, item)

    def keep_cut_reply(self) -> None:
        """Put what the open reply said so far into the record.

        Upstream fills in a reply's text when its response is done, so a reply that was cut is
        an empty item, and the replay leaves empty items out.
        """
        generation = self._session._current_generation
        if not isinstance(generation, _impl._ResponseGeneration):
            return
        for item_id in generation.messages:
            progress = self._session._server_events.progress_of(item_id)
            if progress is not None and progress.audio_s:
                text = progress.spoken(self._session._resilience.speech_rate_cps)
                self._put(item_id, text or UNTRANSCRIBED)

    def _put(self, item_id: str, text: str) -> None:
        mirror = self._session._remote_chat_ctx
        node = mirror.get(item_id)
        if node is None:
            # The server's confirmation of the item was lost with the connection.
            message = llm.ChatMessage(id=item_id, role="assistant", content=[])
            mirror.insert(mirror.tail_id, message)
        elif isinstance(node.item, llm.ChatMessage):
            message = node.item
        else:
            return
        message.content = [text]
        message.interrupted = True
