"""OpenAI Realtime and Azure OpenAI: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from livekit.agents import llm

from .._vendor.openai import realtime_model as _impl
from ..connection_log import ConnectionLog
from ..core.playout import ReplyProgress, TranscriptDelta
from ..events import ReconnectMode
from ..hooks import options_of
from ..notify import notify

if TYPE_CHECKING:
    import aiohttp
    from openai.types.realtime import (
        ConversationItemAdded,
        ConversationItemDeletedEvent,
        ResponseAudioDeltaEvent,
        ResponseCreatedEvent,
    )

    from ..options import ResilienceOptions

__all__ = ["RealtimeModel", "RealtimeSession"]

# The engine decodes output audio as 16-bit mono.
_BYTES_PER_SAMPLE = 2

UNTRANSCRIBED = "[spoken, transcript lost]"
"""Stands in the record for audio that arrived without any transcript."""


class RealtimeModel(_impl.RealtimeModel):
    """OpenAI Realtime, as `livekit.plugins.openai.realtime.RealtimeModel`, kept alive over drops.

    Takes every keyword of upstream's model with the same meaning, and `resilience`, a
    `ResilienceOptions`; so does `with_azure`. Pass it to `AgentSession(llm=...)` or to
    `llm.RealtimeModelFallbackAdapter`.

    Raises:
        OptionError: `resilience` is not a `ResilienceOptions`.
        ValueError: Upstream refuses a keyword, for example a missing API key.
    """

    _resilience: ResilienceOptions

    def session(self, *, turn_detection_disabled: bool = False) -> RealtimeSession:
        """Open a session; must be called inside a running event loop."""
        session = RealtimeSession(self, turn_detection_disabled=turn_detection_disabled)
        self._sessions.add(session)
        return session


class RealtimeSession(_impl.RealtimeSession):
    """One conversation with OpenAI Realtime over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, besides upstream's.
    """

    def __init__(
        self, realtime_model: _impl.RealtimeModel, *, turn_detection_disabled: bool = False
    ) -> None:
        self._resilience = options_of(realtime_model)
        self._connection_log = ConnectionLog()
        self._progress: dict[str, ReplyProgress] = {}
        # Items of the last replay that the server has not confirmed, with their predecessor.
        self._unconfirmed: dict[str, tuple[str | None, llm.ChatItem]] = {}
        super().__init__(realtime_model, turn_detection_disabled=turn_detection_disabled)

    async def _create_ws_conn(self) -> aiohttp.ClientWebSocketResponse:
        self._connection_log.dialling()
        return await super()._create_ws_conn()

    async def _run_ws(self, ws_conn: aiohttp.ClientWebSocketResponse) -> None:
        # Starts once the conversation has been replayed into the connection.
        loop = asyncio.get_running_loop()
        source: ReconnectMode = "replayed" if self._remote_chat_ctx.tail_id else "fresh"
        notify(self, self._resilience, self._connection_log.connected(loop.time(), source))
        cause: Exception | None = None
        try:
            await super()._run_ws(ws_conn)
        except Exception as e:
            cause = e
            raise
        finally:
            ended = self._connection_log.ended(loop.time(), cause=cause, code=ws_conn.close_code)
            notify(self, self._resilience, ended)

    def _handle_conversion_item_added(self, event: ConversationItemAdded) -> None:
        self._unconfirmed.pop(event.item.id or "", None)
        super()._handle_conversion_item_added(event)

    def _handle_conversion_item_deleted(self, event: ConversationItemDeletedEvent) -> None:
        self._unconfirmed.pop(event.item_id, None)
        super()._handle_conversion_item_deleted(event)

    def _handle_response_created(self, event: ResponseCreatedEvent) -> None:
        self._progress.clear()
        super()._handle_response_created(event)

    def _handle_response_audio_transcript_delta(self, event: dict[str, Any]) -> None:
        delta = TranscriptDelta(event["delta"], event.get("start_time"))
        self._progress_of(event["item_id"]).transcribed(delta)
        super()._handle_response_audio_transcript_delta(event)

    def _handle_response_audio_delta(self, event: ResponseAudioDeltaEvent) -> None:
        # Four base64 characters carry three bytes; padding is two at most, under a sample.
        samples = len(event.delta) * 3 // 4 // _BYTES_PER_SAMPLE
        self._progress_of(event.item_id).received(samples / _impl.SAMPLE_RATE)
        super()._handle_response_audio_delta(event)

    def _progress_of(self, item_id: str) -> ReplyProgress:
        return self._progress.setdefault(item_id, ReplyProgress())

    def _flush_before_replay(self) -> None:
        """Complete the record that is about to be replayed.

        Runs once per attempt to reconnect, and gives the same record however many it takes.
        """
        self._restore_unconfirmed()
        self._record_cut_reply()
        previous_id: str | None = None
        self._unconfirmed = {}
        for item in self._remote_chat_ctx.to_chat_ctx().items:
            self._unconfirmed[item.id] = (previous_id, item)
            previous_id = item.id

    def _restore_unconfirmed(self) -> None:
        """Bring back what the last replay sent and a second drop kept from being confirmed.

        Upstream starts each replay with an empty record and refills it from confirmations.
        """
        mirror = self._remote_chat_ctx
        for item_id, (previous_id, item) in self._unconfirmed.items():
            if mirror.get(item_id) is None:
                if previous_id is not None and mirror.get(previous_id) is None:
                    previous_id = mirror.tail_id
                mirror.insert(previous_id, item)

    def _record_cut_reply(self) -> None:
        """Put what the cut reply said into the record.

        Upstream fills in a reply's text when its response is done, so a reply that was cut is
        an empty item, and the replay leaves empty items out.
        """
        generation = self._current_generation
        if not isinstance(generation, _impl._ResponseGeneration):
            return
        for item_id in generation.messages:
            progress = self._progress.get(item_id)
            if progress is not None and progress.audio_s:
                text = progress.spoken(self._resilience.speech_rate_cps)
                self._record_reply(item_id, text or UNTRANSCRIBED)

    def _record_reply(self, item_id: str, text: str) -> None:
        node = self._remote_chat_ctx.get(item_id)
        if node is None:
            # The server's confirmation of the item was lost with the connection.
            message = llm.ChatMessage(id=item_id, role="assistant", content=[])
            self._remote_chat_ctx.insert(self._remote_chat_ctx.tail_id, message)
        else:
            if not isinstance(node.item, llm.ChatMessage):
                return
            message = node.item
        message.content = [text]
        message.interrupted = True
