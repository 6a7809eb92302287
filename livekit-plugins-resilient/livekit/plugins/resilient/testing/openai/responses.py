"""One response of the simulated model, from `response.created` to `response.done`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.connection import AudioSpan
from livekit.plugins.resilient.testing.script import Reply, ToolCall, Turn, Word
from livekit.plugins.resilient.testing.times import pause

from . import events
from .conversation import RATE, Item
from .script import Incomplete, parts_of
from .shapes import response_on_wire

if TYPE_CHECKING:
    from .connection import OpenAIConnection

STEP_S = 0.1
"""Audio per `response.output_audio.delta`."""

CancelReason = Literal["client_cancelled", "turn_detected"]


class Response:
    """A response in progress. Everything it sends goes through the connection's queue.

    Attributes:
        response_id: its id.
        metadata: the request's metadata, echoed in every event that shows the response.
        status: "in_progress", then "completed", "cancelled", "failed" or "incomplete".
        items: what it put out so far.
        began_at: loop time when it was announced.
    """

    def __init__(
        self,
        connection: OpenAIConnection,
        response_id: str,
        turn: Turn,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        request = request or {}
        self.connection = connection
        self.times = connection.server.times
        self.response_id = response_id
        self.turn = turn
        self.metadata: Mapping[str, Any] | None = request.get("metadata")
        self.spoken = "audio" in connection.session.modalities(request)
        self.status = "in_progress"
        self.items: list[Item] = []
        self.began_at = connection.loop.time()
        self._created = False
        self._open: list[Item] = []  # messages
        self._through: list[Item] = []  # those whose part is said to be complete
        self._late: Item | None = None  # said in full, but not to its listener yet
        self._open_call: Item | None = None
        self._work: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        """Whether it still goes on."""
        return self.status == "in_progress"

    def start(self) -> None:
        """Begin in a task of the connection."""
        self._work = self.connection.spawn(self._perform())

    def cancel(self, reason: CancelReason) -> None:
        """End now: what is open is closed with what was sent, then comes `response.done`."""
        if not self.active:
            return
        if self._work is not None:
            self._work.cancel()
        if self.connection.wedges:
            return
        self._announce()
        self._close_late()
        for item in tuple(self._open):
            self._close_item(item, "incomplete")
        if self._open_call is not None:
            self._end_call(self._open_call, "incomplete")
        self._finish("cancelled", {"type": "cancelled", "reason": reason})

    def stop(self) -> None:
        """End without a word: the connection is gone."""
        if self._work is not None:
            self._work.cancel()

    # The turn ------------------------------------------------------------------------------

    async def _perform(self) -> None:
        connection, times = self.connection, self.times
        await pause(connection.take_reply_delay() + times.created_s)
        self._announce()
        if (failure := connection.take_failure()) is not None:
            self._finish(
                "failed",
                {"type": "failed", "error": events.failure(failure.kind, failure.retry_in)},
            )
            return
        if not connection.take_empty_turn():
            await self._put_out(parts_of(self.turn))
        if isinstance(self.turn, Incomplete):
            self._finish("incomplete", {"type": "incomplete", "reason": self.turn.cause})
        else:
            self._finish("completed")

    async def _put_out(self, parts: list[Reply | ToolCall]) -> None:
        while parts:
            part = parts.pop(0)
            follows = parts[0] if parts else None
            if isinstance(part, Reply):
                await self._speak(part, follows)
                if isinstance(follows, ToolCall) and self.connection.dialect.interleaves:
                    parts.pop(0)
            else:
                if not self.items:
                    await pause(self.times.item_s)
                self._end_call(self._begin_call(part))

    async def _speak(self, reply: Reply, follows: Reply | ToolCall | None) -> None:
        """Say `reply`; where items interleave, a call that follows begins before its end."""
        interleaves = self.connection.dialect.interleaves
        calls = isinstance(follows, ToolCall)
        item, status = None, ""
        if reply.words:
            item, status = await self._say(reply, "commentary" if calls else "final_answer")
        if interleaves and isinstance(follows, Reply) and self.spoken:
            self._late = item
            return
        begun = self._begin_call(follows) if interleaves and isinstance(follows, ToolCall) else None
        if item is not None:
            self._end_sound(item)
            await pause(self.times.item_done_s)
            self._close_item(item, status)
        if begun is not None:
            self._end_call(begun)

    def _close_late(self) -> None:
        """End the message that was said in full, now that the next has begun to sound."""
        item, self._late = self._late, None
        if item is not None:
            self._close_item(item, "completed")

    async def _say(self, reply: Reply, phase: str) -> tuple[Item, str]:
        """Send the words and their sound; return the item and what becomes of it."""
        item = await self._think(reply, phase)
        pace = self.connection.server.pace
        end_s = reply.duration_s
        if isinstance(reply, Incomplete):
            end_s = min(end_s, reply.stop_at_s)
        status = "incomplete" if end_s < reply.duration_s else "completed"
        pcm = reply.pcm(RATE, self.connection.server.script.next_seed(self.connection.number))
        words = [w for w in reply.words if w.start_s < end_s - 1e-9]
        if not self.spoken:
            self._transcript(item, words)
            return item, status
        follow = self.connection.dialect.words_follow
        paused = reply.pause_at_s is None
        at_s = 0.0
        while at_s < end_s - 1e-9:
            if not paused and reply.pause_at_s is not None and at_s >= reply.pause_at_s - 1e-9:
                paused = True
                await pause(reply.pause_s)
            until_s = min(at_s + STEP_S, end_s)
            if follow:
                self._audio(item, pcm, at_s, until_s)
            words = self._transcript(item, words, self._words_until(reply, until_s))
            if not follow:
                self._audio(item, pcm, at_s, until_s)
            self._close_late()
            if pace is not None:
                await pause((until_s - at_s) / pace)
            at_s = until_s
        self._transcript(item, words)
        return item, status

    async def _think(self, reply: Reply, phase: str) -> Item:
        """Wait until the model speaks, and open its message."""
        times = self.times
        first = not self.items
        if reply.first_token_s is not None:
            await pause(reply.first_token_s)
            return self._open_message(phase)
        if first:
            await pause(times.item_s)
        item = self._open_message(phase)
        if first and self.spoken:
            await pause(times.sound_s)
        return item

    def _words_until(self, reply: Reply, until_s: float) -> float:
        """Place in the audio up to which the words are told when it is sent up to `until_s`."""
        lead_s = reply.transcript_lead_s
        if lead_s is None:
            lead_s = self.connection.transcript_lead_s or None
        if lead_s is not None:
            return until_s + lead_s
        if self.connection.dialect.words_follow:
            return until_s
        return self.times.words_ahead_s + until_s * self.times.words_pace

    def _transcript(
        self, item: Item, words: list[Word], until_s: float | None = None
    ) -> list[Word]:
        """Send the words that begin before `until_s`; return the others."""
        sent = 0
        for word in words:
            if until_s is not None and word.start_s >= until_s - 1e-9:
                break
            item.text += word.text
            item.words.append(word)
            extra: dict[str, Any] = {"delta": word.text}
            timed = self.connection.server.timed_transcript
            if self.spoken and (timed or self.connection.dialect.shape == "xai"):
                extra["start_time"] = round(word.start_s, 6)
            kind = "output_audio_transcript" if self.spoken else "output_text"
            self._emit_part(item, f"response.{kind}.delta", **extra)
            sent += 1
        return words[sent:]

    def _audio(self, item: Item, pcm: bytes, start_s: float, end_s: float) -> None:
        size = audio.BYTES_PER_SAMPLE
        piece = pcm[round(start_s * RATE) * size : round(end_s * RATE) * size]
        item.pcm += piece
        self._emit_part(
            item,
            "response.output_audio.delta",
            span=AudioSpan(start_s, end_s, piece),
            delta=audio.encode_audio(piece),
        )

    def _begin_call(self, call: ToolCall) -> Item:
        connection = self.connection
        item = Item(
            connection.new_id("item"),
            "function_call",
            "server",
            status="in_progress",
            call_id=call.call_id or connection.new_id("call"),
            name=call.name,
        )
        arguments = json.dumps(dict(call.args))
        self._add_item(item)
        self._open_call = item
        half = len(arguments) // 2
        pieces = [arguments[:half], arguments[half:]]
        for delta in [arguments] if connection.dialect.whole_arguments else pieces:
            self._emit_call(item, "response.function_call_arguments.delta", delta=delta)
        item.arguments = arguments
        return item

    def _end_call(self, item: Item, status: str = "completed") -> None:
        self._open_call = None
        self._emit_call(
            item,
            "response.function_call_arguments.done",
            arguments=item.arguments,
            name=item.name,
        )
        item.status = status
        self._item_done(item)

    def _emit_call(self, item: Item, event: str, **fields: Any) -> None:
        place: dict[str, Any] = {
            "output_index": self._index(item),
            "item_id": item.item_id,
            "call_id": item.call_id,
        }
        self._emit(event, **place, **fields)

    # Items and parts -----------------------------------------------------------------------

    def _announce(self) -> None:
        if self._created:
            return
        self._created = True
        self.began_at = self.connection.loop.time()
        self._emit("response.created", response=self._wire())

    def _open_message(self, phase: str) -> Item:
        item = Item(
            self.connection.new_id("item"),
            "message",
            "server",
            "assistant",
            "in_progress",
            spoken=self.spoken,
            phase=phase,
        )
        self._open.append(item)
        self._add_item(item)
        part = {"type": "audio", "transcript": ""} if self.spoken else {"type": "text", "text": ""}
        self._emit_part(item, "response.content_part.added", part=part)
        return item

    def _end_sound(self, item: Item) -> None:
        """Say that the audio, or the text, of a message is complete, if that was not said yet."""
        if item in self._through:
            return
        self._through.append(item)
        part: dict[str, Any]
        ends: list[tuple[str, dict[str, Any]]]
        if self.spoken:
            part = {"type": "audio", "transcript": item.text}
            ends = [
                ("response.output_audio.done", {}),
                ("response.output_audio_transcript.done", {"transcript": item.text}),
            ]
        else:
            part = {"type": "text", "text": item.text}
            ends = [("response.output_text.done", {"text": item.text})]
        ends.append(("response.content_part.done", {"part": part}))
        if self.connection.dialect.sound_ends_last:
            ends.append(ends.pop(0))
        for event, fields in ends:
            self._emit_part(item, event, **fields)

    def _close_item(self, item: Item, status: str) -> None:
        self._end_sound(item)
        self._open.remove(item)
        item.status = status
        self._item_done(item)

    def _add_item(self, item: Item) -> None:
        self.items.append(item)
        self._emit(
            "response.output_item.added",
            output_index=self._index(item),
            item=item.to_wire(self.connection.dialect),
        )
        self.connection.add_item(item, turn=self)

    def _item_done(self, item: Item) -> None:
        conversation = self.connection.session.conversation
        # As recorded: not the item that this one follows, which `added` names, but that before it.
        follows = conversation.get(conversation.before(item) or "")
        before = None if follows is None else conversation.before(follows)
        self.connection.item_done(item, before, turn=self)
        self._emit(
            "response.output_item.done",
            output_index=self._index(item),
            item=item.to_wire(self.connection.dialect),
        )

    def _finish(self, status: str, details: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self._emit("response.done", response=self._wire(details))
        self.connection.response_done(self)

    # Events --------------------------------------------------------------------------------

    def _emit(self, event: str, *, span: AudioSpan | None = None, **fields: Any) -> None:
        if "response" not in fields:
            fields = {"response_id": self.response_id, **fields}
        self.connection.send(event, turn=self, span=span, **fields)

    def _emit_part(
        self, item: Item, event: str, *, span: AudioSpan | None = None, **fields: Any
    ) -> None:
        place = {"item_id": item.item_id, "output_index": self._index(item), "content_index": 0}
        self._emit(event, span=span, **place, **fields)

    def _index(self, item: Item) -> int:
        return self.items.index(item)

    def _wire(self, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
        done = self.status != "in_progress"
        connection = self.connection
        response = {
            "object": "realtime.response",
            "id": self.response_id,
            "status": self.status,
            "status_details": details,
            "output": [item.to_wire(self.connection.dialect) for item in self.items],
            "conversation_id": connection.conversation_id,
            "output_modalities": ["audio" if self.spoken else "text"],
            "max_output_tokens": "inf",
            "metadata": self.metadata,
            "usage": connection.session.usage(self.items) if done else None,
        }
        return response_on_wire(connection.dialect, response, connection.session.voice)
