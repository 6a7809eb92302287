"""Keeps the mirror of the provider's items complete and true for the next replay (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.agents import llm

from ..core.playout import UNTRANSCRIBED
from ..runtime.log import logger
from .replay_limit import anchor_of, answers_of, place_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai.types.realtime import ConversationItem

    from ..runtime.speaker import SpeakerWatch
    from .engine import Engine
    from .inbound import InboundEvents
    from .serving import Serving
    from .tools import ToolCalls

__all__ = ["Mirror"]


class Mirror:
    """Upstream's copy of the provider's items, from which a new connection is told the history.

    Without a connection the mirror is what the next one is to be told. From the replay on it is
    what the server was told, confirmed or not; what changes then is sent behind the replay.

    Args:
        engine: Holds the items.
        serving: Tells whether a connection serves.
        inbound: Knows what arrived of each reply.
        tools: The calls of the session.
        speaker: Knows what of it was played.
        on_cut: Called with the id of a message of which not everything is heard, and what is, for
            the `AgentSession`'s transcript.
        rate_cps: How fast an untimed transcript is spoken, in characters a second.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        serving: Serving,
        inbound: InboundEvents,
        tools: ToolCalls,
        speaker: SpeakerWatch,
        on_cut: Callable[[str, str], None],
        rate_cps: float,
    ) -> None:
        self._engine = engine
        self._serving = serving
        self._inbound = inbound
        self._tool_calls = tools
        self._speaker = speaker
        self._on_cut = on_cut
        self._rate_cps = rate_cps
        # What the last replay restored: as text, whatever it was before.
        self._replayed: frozenset[str] = frozenset()
        # What the caller heard of messages that were cut and whose response is still open.
        self._cuts: dict[str, str] = {}
        # The calls of the open response, by item id.
        self._calls: dict[str, str] = {}
        # The open response, once no more of it will be played.
        self._over: str | None = None
        # The replay under way, by event id.
        self._told: dict[str, str] = {}
        self.replaying = False
        """A replay is being written: what is queued now follows it."""
        self._left_out: set[str] = set()
        self.explanations: set[str] = set()
        """What a server said to its model by itself, which no other session is told."""

    @property
    def replays_something(self) -> bool:
        """Whether the last replay carried any item."""
        return bool(self._replayed - self._left_out)

    # -- the replay

    def complete(self) -> None:
        """The mirror is about to be replayed; doing so again changes nothing."""
        try:
            self.keep_cut_reply()
        except Exception as e:
            # Without these words the next connection knows less; without that there is none.
            logger.error("a cut reply could not be kept", extra={"error": type(e).__name__})
        items = self._engine.remote_items.to_chat_ctx().items
        self._replayed = frozenset(item.id for item in items)
        self.explanations &= self._replayed
        self._told = {}
        self.replaying = True

    def telling(self, event_id: str, item_id: str) -> None:
        """An event of the replay is about to be written."""
        if item_id:
            self._told[event_id] = item_id

    def told(self) -> None:
        """The replay was written, or given up."""
        self.replaying = False

    def refused(self, event_id: str) -> None:
        """The server refused an event; what it was not told must not be taken for known."""
        item_id = self._told.pop(event_id, None)
        if item_id is not None and self._engine.remote_items.get(item_id) is not None:
            self._engine.remote_items.delete(item_id)

    # -- what the connection is not told

    def leave_out(self, item_ids: set[str]) -> None:
        """The connection that is to serve does not know these items; they stay in the mirror."""
        self._left_out = item_ids
        for item in self._items if item_ids else ():
            if (
                item.id in item_ids
                and item.type == "function_call_output"
                and self._tool_calls.waits_for(item.call_id)
            ):
                self._tool_calls.answered(item.call_id)

    def leaves_out(self, item_id: str, item: llm.ChatItem | None) -> bool:
        """Whether what becomes of an item is no business of the connection's: it does not know the
        item, or not the call whose result that is."""
        if not self._left_out:
            return False
        if (
            item is not None
            and item.type == "function_call_output"
            and item.id in answers_of([*self._items, item], self._left_out)
        ):
            self._left_out.add(item.id)
            self._tool_calls.answered(item.call_id)
        return item_id in self._left_out

    def anchor_of(self, item_id: str) -> str | None:
        """The item that the connection knows, after which it is to put what follows `item_id`."""
        return anchor_of(self._items, item_id, self._left_out) if self._left_out else item_id

    def place_after(self, item_id: str | None) -> str | None:
        """Where in the mirror something belongs that the connection put after `item_id`."""
        return place_after(self._items, item_id, self._left_out) if self._left_out else item_id

    @property
    def _items(self) -> list[llm.ChatItem]:
        return self._engine.remote_items.to_chat_ctx().items

    # -- what the server confirms

    def knows(self, item_id: str) -> bool:
        """Whether the mirror holds an item."""
        return self._engine.remote_items.get(item_id) is not None

    def added(self, item: ConversationItem) -> None:
        """The server put an item of its own into the conversation."""
        if item.type == "message" and item.role == "system":
            self.explanations.add(item.id or "")
        response_id = self._inbound.response_id
        if response_id is None:
            return
        if item.type == "function_call":
            self._calls[item.id or ""] = item.call_id or ""
        elif item.type == "message" and item.role == "assistant" and response_id == self._over:
            self.forget(item.id or "")

    # -- replies that were cut

    def cut(self, item_id: str, heard: str) -> bool:
        """Note what the caller heard of a message; nothing for a message never played.

        Returns:
            Whether that is all there is to do: False where the connection that serves still holds
            the message's audio, which is then to be truncated or deleted there.
        """
        if self._serving.in_gap and not self.replaying:
            self._put(item_id, heard)
            return True
        if item_id in self._replayed:
            if not self.knows(item_id):
                return True
            if heard:
                self._engine.replace_text(item_id, heard)
            else:
                self._engine.delete_item(item_id)
            return True
        self._cuts[item_id] = heard
        if heard and self.knows(item_id):
            self._put(item_id, heard)
        return False

    def forget(self, item_id: str) -> None:
        """Take back a message that never played, from the mirror and from the server."""
        if self.cut(item_id, "") or not self.knows(item_id):
            return
        # Not later, or an update of the context in between deletes it a second time.
        self._engine.remote_items.delete(item_id)
        self._engine.delete_item(item_id)

    def forget_after(self, item_id: str) -> None:
        """Take back the messages that follow one in its response: they will not be played."""
        events = self._inbound
        self._forget_unplayed(events.after(item_id))
        if events.response_id is not None and item_id in events.messages_of(events.response_id):
            self._over = events.response_id

    def response_is_over(self, response_id: str) -> None:
        """The `AgentSession` plays nothing more of a response, and may have played nothing."""
        self._forget_unplayed(self._inbound.messages_of(response_id))
        if response_id == self._inbound.response_id:
            self._over = response_id

    def ends_here(self, response_id: str) -> None:
        """No more of a response is taken: what the server sends on is taken back there."""
        self._over = response_id
        for item_id in self._inbound.messages_of(response_id):
            progress = self._inbound.progress_of(item_id)
            if progress is not None and progress.audio_s and not progress.is_complete:
                self._engine.truncate_audio(item_id, progress.audio_s)

    def _forget_unplayed(self, item_ids: list[str]) -> None:
        for item_id in item_ids:
            if not self._speaker.has_begun(item_id):
                self.forget(item_id)

    def played_to_its_end(self, item_id: str) -> None:
        """The `AgentSession` recorded a message, and plays nothing more of its response.

        It takes no notice of messages that it did not begin: the caller cut in before them.
        """
        if self._inbound.progress_of(item_id) is not None:
            self.forget_after(item_id)

    def flush(self) -> None:
        """Stop what is playing, and end both records there; call it after a drop."""
        events, speaker = self._inbound, self._speaker
        response_id = events.response_id
        for item_id in events.messages_of(response_id) if response_id is not None else ():
            if not speaker.has_sounded(item_id):
                self._stopped(item_id, 0.0)
        speaker.flush(response_id, self._stopped)

    def _stopped(self, item_id: str, heard_s: float) -> None:
        progress = self._inbound.progress_of(item_id)
        if progress is not None and progress.audio_s:
            heard = progress.heard(self._rate_cps, heard_s)
            self._on_cut(item_id, heard)
            self.cut(item_id, heard)

    def response_ends(self) -> None:
        """A response is done: upstream adds its transcripts to the mirror now."""
        if (reply := self._engine.open_reply) is not None:
            for item_id, message in reply.messages.items():
                node = self._engine.remote_items.get(item_id)
                if node is not None and node.item.type == "message":
                    node.item.content = []
                    message.audio_transcript = self._cuts.get(item_id, message.audio_transcript)
        self._cuts.clear()
        self._calls.clear()

    def keep_cut_reply(self) -> None:
        """Put what the open reply said so far into the mirror, and leave out its open calls.

        Upstream fills in a reply's text when its response is done, so a reply that was cut is
        an empty item, and the replay leaves empty items out.
        """
        if (reply := self._engine.open_reply) is None:
            return
        for item_id, message in reply.messages.items():
            if item_id in self._cuts:
                self._put(item_id, self._cuts[item_id])
                continue
            heard, whole = self._text_of(item_id)
            self._put(item_id, heard)
            if not whole:
                self._on_cut(item_id, heard)
            if heard == UNTRANSCRIBED and not message.text_ch.closed:
                # Without text a message is not recorded at all.
                message.text_ch.send_nowait(heard)
        for item_id, call_id in self._calls.items():
            # Its arguments never came to their end, so no tool ran and no result will come.
            if not self._tool_calls.has_begun(call_id):
                self._put(item_id, "")
        self._cuts.clear()
        self._calls.clear()

    def _text_of(self, item_id: str) -> tuple[str, bool]:
        """What the caller hears of a message of which no more will come; whether that is all."""
        progress = self._inbound.progress_of(item_id)
        if progress is None:
            return "", True
        if not self._engine.speaks:
            return progress.text, True  # somebody else speaks it, to its end
        return progress.heard(self._rate_cps), progress.is_complete

    def _put(self, item_id: str, text: str) -> None:
        """Have the mirror hold exactly `text` for a message; without text, not the item at all."""
        mirror = self._engine.remote_items
        node = mirror.get(item_id)
        if not text:
            if node is not None:
                mirror.delete(item_id)
            return
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
