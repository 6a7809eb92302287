"""One response of the simulated model, from `response.created` to `response.done`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.connection import AudioSpan
from livekit.plugins.resilient.testing.script import Reply, ToolCall, ToolCalls, Turn, Word

from . import events
from .conversation import RATE, Item
from .script import Incomplete, Messages

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
        self.response_id = response_id
        self.turn = turn
        self.metadata: Mapping[str, Any] | None = request.get("metadata")
        self.spoken = "audio" in connection.session.modalities(request)
        self.status = "in_progress"
        self.items: list[Item] = []
        self.began_at = connection.loop.time()
        self._created = False
        self._open: Item | None = None
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
        self._announce()
        self._close_item("incomplete")
        self._finish("cancelled", {"type": "cancelled", "reason": reason})

    def stop(self) -> None:
        """End without a word: the connection is gone."""
        if self._work is not None:
            self._work.cancel()

    # The turn ------------------------------------------------------------------------------

    async def _perform(self) -> None:
        connection = self.connection
        await _pause(connection.take_reply_delay())
        self._announce()
        if (failure := connection.take_failure()) is not None:
            self._finish(
                "failed",
                {"type": "failed", "error": events.failure(failure.kind, failure.retry_in)},
            )
            return
        if not connection.take_empty_turn():
            for part in _parts(self.turn):
                if isinstance(part, Reply):
                    await self._speak(part)
                else:
                    self._call(part)
        if isinstance(self.turn, Incomplete):
            self._finish("incomplete", {"type": "incomplete", "reason": self.turn.cause})
        else:
            self._finish("completed")

    async def _speak(self, reply: Reply) -> None:
        if not reply.words:
            return
        connection = self.connection
        await _pause(reply.first_token_s)
        item = self._open_message()
        pace = connection.server.pace
        lead_s = connection.transcript_lead_s
        if reply.transcript_lead_s is not None:
            lead_s = reply.transcript_lead_s
        end_s = reply.duration_s
        if isinstance(reply, Incomplete):
            end_s = min(end_s, reply.stop_at_s)
        pcm = reply.pcm(RATE, connection.server.script.next_seed())
        words = [w for w in reply.words if w.start_s < end_s - 1e-9]
        if not self.spoken:
            self._transcript(item, words)
            self._close_item("incomplete" if end_s < reply.duration_s else "completed")
            return
        paused = reply.pause_at_s is None
        at_s = 0.0
        while at_s < end_s - 1e-9:
            if not paused and reply.pause_at_s is not None and at_s >= reply.pause_at_s - 1e-9:
                paused = True
                await _pause(reply.pause_s)
            until_s = min(at_s + STEP_S, end_s)
            words = self._transcript(item, words, until_s + lead_s)
            self._audio(item, pcm, at_s, until_s)
            if pace is not None:
                await _pause((until_s - at_s) / pace)
            at_s = until_s
        self._transcript(item, words)
        self._close_item("incomplete" if end_s < reply.duration_s else "completed")

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
            if self.spoken and self.connection.server.timed_transcript:
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

    def _call(self, call: ToolCall) -> None:
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
        previous = self._add_item(item)
        for delta in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            self._emit(
                "response.function_call_arguments.delta",
                output_index=self._index(item),
                item_id=item.item_id,
                call_id=item.call_id,
                delta=delta,
            )
        item.arguments, item.status = arguments, "completed"
        self._emit(
            "response.function_call_arguments.done",
            arguments=arguments,
            name=item.name,
            output_index=self._index(item),
            item_id=item.item_id,
            call_id=item.call_id,
        )
        self._item_done(item, previous)

    @property
    def _modality(self) -> str:
        return "audio" if self.spoken else "text"

    # Items and parts -----------------------------------------------------------------------

    def _announce(self) -> None:
        if self._created:
            return
        self._created = True
        self.began_at = self.connection.loop.time()
        self._emit("response.created", response=self._wire())
        self._emit("rate_limits.updated", rate_limits=self.connection.session.rate_limits())

    def _open_message(self) -> Item:
        item = Item(
            self.connection.new_id("item"),
            "message",
            "server",
            "assistant",
            "in_progress",
            spoken=self.spoken,
        )
        self._open = item
        self._previous = self._add_item(item)
        part = {"type": "audio", "transcript": ""} if self.spoken else {"type": "text", "text": ""}
        self._emit_part(item, "response.content_part.added", part=part)
        return item

    def _close_item(self, status: str) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        item.status = status
        part: dict[str, Any]
        if self.spoken:
            self._emit_part(item, "response.output_audio.done")
            self._emit_part(item, "response.output_audio_transcript.done", transcript=item.text)
            part = {"type": "audio", "transcript": item.text}
        else:
            self._emit_part(item, "response.output_text.done", text=item.text)
            part = {"type": "text", "text": item.text}
        self._emit_part(item, "response.content_part.done", part=part)
        self._item_done(item, self._previous)

    def _add_item(self, item: Item) -> str | None:
        self.items.append(item)
        self._emit(
            "response.output_item.added", output_index=self._index(item), item=self._item(item)
        )
        return self.connection.add_item(item, turn=self)

    def _item_done(self, item: Item, previous: str | None) -> None:
        self.connection.item_done(item, previous, turn=self)
        self._emit(
            "response.output_item.done", output_index=self._index(item), item=self._item(item)
        )

    def _finish(self, status: str, details: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self._emit("response.done", response=self._wire(details))
        self.connection.response_done(self)

    # Events --------------------------------------------------------------------------------

    def _emit(self, event: str, *, span: AudioSpan | None = None, **fields: Any) -> None:
        if event != "rate_limits.updated" and "response" not in fields:
            fields = {"response_id": self.response_id, **fields}
        self.connection.send(event, turn=self, span=span, **fields)

    def _emit_part(
        self, item: Item, event: str, *, span: AudioSpan | None = None, **fields: Any
    ) -> None:
        place = {"item_id": item.item_id, "output_index": self._index(item), "content_index": 0}
        self._emit(event, span=span, **place, **fields)

    def _index(self, item: Item) -> int:
        return self.items.index(item)

    def _item(self, item: Item) -> dict[str, Any]:
        return item.to_wire(legacy=self.connection.legacy)

    def _wire(self, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
        done = self.status != "in_progress"
        legacy = self.connection.legacy
        modalities = ["audio", "text"] if self.spoken and legacy else [self._modality]
        return {
            "object": "realtime.response",
            "id": self.response_id,
            "status": self.status,
            "status_details": details,
            "output": [self._item(item) for item in self.items],
            "conversation_id": "conv_simulated",
            "modalities" if legacy else "output_modalities": modalities,
            "max_output_tokens": "inf",
            "metadata": self.metadata,
            "usage": self.connection.session.usage(self.items) if done else None,
        }


def _parts(turn: Turn) -> list[Reply | ToolCall]:
    if isinstance(turn, Messages):
        return list(turn.replies())
    if isinstance(turn, Reply):
        return [turn]
    if isinstance(turn, ToolCall):
        said = [Reply(turn.say_first)] if turn.say_first else []
        trailing = [Reply(turn.trailing_text)] if turn.trailing_text else []
        return [*said, turn, *trailing]
    if isinstance(turn, ToolCalls):
        said = [Reply(turn.say_first)] if turn.say_first else []
        calls = [part for call in turn.calls for part in _parts(call)]
        return [*said, *calls]
    return []


async def _pause(seconds: float) -> None:
    # Not even one turn of the loop where there is nothing to wait for: a reply is one burst.
    if seconds > 0:
        await asyncio.sleep(seconds)
