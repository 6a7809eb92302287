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

    @property
    def replays_something(self) -> bool:
        """Whether the replay under way carries any item that is not confirmed yet."""
        return bool(self._unconfirmed)

    def confirmed(self, item_id: str) -> None:
        """The server told of an item, added or deleted."""
        self._unconfirmed.pop(item_id, None)

    def complete(self) -> None:
        """Make the record ready for a replay; doing so again changes nothing."""
        self._restore_unconfirmed()
        self.keep_cut_reply()
        previous_id: str | None = None
        self._unconfirmed = {}
        for item in self._session._remote_chat_ctx.to_chat_ctx().items:
            self._unconfirmed[item.id] = (previous_id, item)
            previous_id = item.id

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
