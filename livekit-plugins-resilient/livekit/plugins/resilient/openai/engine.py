"""Upstream's session as our parts use it: the one place that reads its private names.

Only `realtime.py`, which inherits them, reads them as well. Each is declared in
`patches/openai/relies-on.toml`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from livekit.agents import llm
from livekit.agents.llm.remote_chat_context import RemoteChatContext
from livekit.agents.types import NOT_GIVEN, NotGivenOr

from .._vendor.openai import realtime_model as _impl
from .._vendor.openai.utils import _shorten_call_id
from ..runtime.queues import drain

if TYPE_CHECKING:
    import aiohttp
    from livekit import rtc
    from openai.types.realtime import RealtimeClientEvent

    from .websocket import SwappableSocket

__all__ = ["ClientEvent", "Engine", "ReplyFuture", "short_call_id"]

ReplyFuture: TypeAlias = "asyncio.Future[llm.GenerationCreatedEvent]"
ClientEvent: TypeAlias = "RealtimeClientEvent | dict[str, Any]"


class Engine:
    """What our parts ask of upstream's session, and have it do. Decides nothing.

    Args:
        session: Of our own class, made or about to be: nothing of it is read before it is needed.
    """

    def __init__(self, session: _impl.RealtimeSession) -> None:
        self._session = session
        self.dials_unheard = False
        """Whether a dial is under way of which the application is to notice nothing."""

    # -- the session

    @property
    def provider_label(self) -> str:
        """How upstream calls the provider in its errors."""
        return self._session._realtime_model._provider_label

    @property
    def speaks(self) -> bool:
        """Whether the model gives audio; else somebody else speaks its text."""
        return self._session._realtime_model.capabilities.audio_output

    @property
    def is_over(self) -> bool:
        """Whether the session's main task has ended."""
        return self._session._main_atask.done()

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        """Tell the application of an error, in upstream's form."""
        self._session._emit_error(error, recoverable=recoverable)

    def emit_reconnected(self) -> None:
        """Tell the application that another connection took over."""
        self._session.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())

    # -- the options

    @property
    def model_name(self) -> str:
        """The model, as the application named it."""
        return self._session._opts.model

    @property
    def detects_turns(self) -> bool:
        """Whether the server finds the caller's turns by itself."""
        return self._session._opts.turn_detection is not None

    @property
    def answers_turns(self) -> bool:
        """Whether it answers them by itself as well."""
        turns = self._session._opts.turn_detection
        return turns is not None and turns.create_response is not False

    @property
    def interrupts(self) -> bool:
        """Whether it cancels its response when the caller speaks."""
        turns = self._session._opts.turn_detection
        return turns is not None and turns.interrupt_response is not False

    @property
    def is_told_to_reason(self) -> bool:
        """Whether the application has the model reason."""
        return self._session._opts.reasoning is not None

    @property
    def has_provider_tools(self) -> bool:
        """Whether the provider may be busy with tools of its own."""
        return bool(self._session._tools.provider_tools)

    @property
    def instructions(self) -> str | None:
        """The session's instructions."""
        return self._session._instructions

    # -- connections

    async def dial(self, *, unheard: bool = False) -> aiohttp.ClientWebSocketResponse:
        """Make a connection with upstream's own call.

        Args:
            unheard: Of which the application is to notice nothing, before `report_dialled`.

        Raises:
            APIConnectionError: It cannot be made; others come through as they are.
        """
        self.dials_unheard = unheard
        try:
            return await self._session._create_ws_conn()
        finally:
            self.dials_unheard = False

    def report_dialled(self, seconds: float) -> None:
        """Tell the application of a connection that was dialled unheard."""
        self._session._report_connection_acquired(seconds)

    async def run(self, connection: SwappableSocket) -> None:
        """Run upstream's loops on a connection, until it ends."""
        await self._session._run_ws(cast("aiohttp.ClientWebSocketResponse", connection))

    # -- what is sent

    def send(self, event: ClientEvent) -> None:
        """Send an event as the application would."""
        self._session.send_event(event)

    def enqueue(self, event: ClientEvent) -> None:
        """Queue an event that was taken note of before."""
        _impl.RealtimeSession.send_event(self._session, event)

    def put_back(self, event: ClientEvent) -> None:
        """Queue an event again that was taken from the queue, which may not be closed."""
        self._session._msg_ch.send_nowait(event)

    def take_queued(self) -> list[ClientEvent]:
        """Empty the queue; returns what was in it, oldest first."""
        return drain(self._session._msg_ch)

    def emit_sent(self, event: dict[str, Any]) -> None:
        """Tell listeners of an event that goes to a connection past the queue."""
        self._session.emit("openai_client_event_queued", event)

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """Queue a microphone frame that was taken note of before."""
        _impl.RealtimeSession.push_audio(self._session, frame)

    def drop_partial_audio(self) -> None:
        """Drop the audio that waits to fill a message."""
        self._session._bstream.clear()

    def forget_turn(self) -> None:
        """End what was heard of the caller's turn: it ends with its connection."""
        self._session._reset_input_turn_state()

    # -- who waits

    @property
    def requests(self) -> dict[str, ReplyFuture]:
        """By their event ids, the requests for a reply that no reply has begun for."""
        return self._session._response_created_futures

    @property
    def withdrawn(self) -> set[str]:
        """The event ids of requests whose replies are not to be heard."""
        return self._session._discarded_event_ids

    @property
    def item_waiters(self) -> dict[str, asyncio.Future[Any]]:
        """By event ids, who waits for a change of the mirror to be confirmed."""
        return self._session._chat_ctx_event_futures

    @property
    def update_lock(self) -> asyncio.Lock:
        """Held while the application changes the history."""
        return self._session._update_chat_ctx_lock

    # -- the history

    @property
    def remote_items(self) -> RemoteChatContext:
        """The mirror: upstream's copy of the provider's items."""
        return self._session._remote_chat_ctx

    @property
    def chat_ctx(self) -> llm.ChatContext:
        """The mirror as a context of its own."""
        return self._session.chat_ctx

    @property
    def tools(self) -> list[llm.Tool]:
        """The application's tools."""
        return self._session._tools.flatten()

    def settings_event(self) -> Any:
        """The event that tells the session's options."""
        return self._session._create_session_update_event()

    def tools_event(self, tools: list[llm.Tool]) -> Any:
        """The event that tells the tools."""
        return self._session._create_tools_update_event(tools)

    def history_events(self, history: llm.ChatContext, known: RemoteChatContext) -> list[Any]:
        """The events by which a provider that knows `known` comes to know `history`."""
        session = self._session
        # Upstream compares with what its own mirror says that the server has.
        mirror, session._remote_chat_ctx = session._remote_chat_ctx, known
        try:
            return list(session._create_update_chat_ctx_events(history))
        finally:
            session._remote_chat_ctx = mirror

    def to_dialect(self, event: dict[str, Any]) -> None:
        """Change an event in place to what the provider's version of the protocol calls it."""
        options = self._session._opts
        if options.is_azure and options.api_version:
            _impl._normalize_azure_client_event(event)

    # -- the open reply

    @property
    def open_reply(self) -> _impl._ResponseGeneration | None:
        """The reply that is open; None for none, and for one that is not to be heard."""
        reply = self._session._current_generation
        return reply if isinstance(reply, _impl._ResponseGeneration) else None

    @property
    def discards_reply(self) -> bool:
        """Whether a response is under way that is not to be heard."""
        return isinstance(self._session._current_generation, _impl._DiscardedGeneration)

    def discard_reply(self) -> None:
        """Have upstream skip whatever still comes for the response that is under way."""
        self._session._current_generation = _impl._DiscardedGeneration()

    def close_reply(self) -> None:
        """Close the streams of the open reply, if there is any."""
        self._session._close_current_generation()

    # -- items at the provider

    def replace_text(self, item_id: str, text: str) -> None:
        """Have the provider hold another text for a message that it knows as text."""
        self._truncate(item_id, ["text"], 0, text)

    def delete_item(self, item_id: str) -> None:
        """Have the provider forget a message that was never played."""
        self._truncate(item_id, ["audio"], 0)

    def truncate_audio(self, item_id: str, audio_s: float) -> None:
        """Have the provider hold no more of a message than its first `audio_s` seconds."""
        self._truncate(item_id, ["audio"], int(audio_s * 1000))

    def _truncate(
        self,
        item_id: str,
        modalities: list[Literal["text", "audio"]],
        audio_ms: int,
        text: NotGivenOr[str] = NOT_GIVEN,
    ) -> None:
        _impl.RealtimeSession.truncate(
            self._session,
            message_id=item_id,
            modalities=modalities,
            audio_end_ms=audio_ms,
            audio_transcript=text,
        )


def short_call_id(call_id: str) -> str:
    """The id of a call as upstream answers with it: at most 32 characters."""
    return _shorten_call_id(call_id)
