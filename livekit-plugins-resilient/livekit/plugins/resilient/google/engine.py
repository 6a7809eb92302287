"""Upstream's session as our parts use it: the one place that reads its private names.

Only `realtime.py`, which inherits them, reads them as well. Each is declared in
`patches/google/relies-on.toml`, or in `overrides.toml` beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from google.genai import types
from livekit.agents import llm

from .._vendor.google import realtime_api as _impl
from ..runtime.queues import drain

if TYPE_CHECKING:
    from google.genai import Client

    from .._vendor.google.api_proto import ClientEvents
    from .live_session import LiveSession

__all__ = ["Engine", "Options", "Reply", "inline_instructions", "needs_placeholder"]

Options: TypeAlias = _impl._RealtimeOptions
"""What the application asked of the model."""

Reply: TypeAlias = _impl._ResponseGeneration
"""A reply as upstream receives it."""


class Engine:
    """What our parts ask of upstream's session, and have it do. Decides nothing.

    Args:
        session: Of our own class, made or about to be: nothing of it is read before it is needed.
        model: Its model.
    """

    def __init__(self, session: _impl.RealtimeSession, model: _impl.RealtimeModel) -> None:
        self._session = session
        self._model = model

    # -- the session

    @property
    def speaks(self) -> bool:
        """Whether the model gives audio; else somebody else speaks its text."""
        return self._model.capabilities.audio_output

    @property
    def is_closed(self) -> bool:
        """Whether the application has closed the session."""
        return self._session._msg_ch.closed

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
    def options(self) -> Options:
        """All of them."""
        return self._model._opts

    @property
    def model_name(self) -> str:
        """The model, as the application named it."""
        return self.options.model

    @property
    def transcribes_caller(self) -> bool:
        """Whether the server tells the caller's words."""
        return self.options.input_audio_transcription is not None

    @property
    def captions_replies(self) -> bool:
        """Whether replies are audio with a transcript, of which only so much may be heard."""
        return self.speaks and self.options.output_audio_transcription is not None

    @property
    def runs_calls(self) -> bool:
        """Whether the model's calls are run; else upstream refuses them."""
        return self.options.tool_choice != "none"

    @property
    def runs_tools_beside(self) -> bool:
        """Whether the model goes on while its tools run."""
        return self.options.tool_behavior == types.Behavior.NON_BLOCKING

    @property
    def can_be_silent(self) -> bool:
        """Whether a result can ask for no reply; Vertex ignores that, blocking tools have none."""
        return self.runs_tools_beside and not self.options.vertexai

    @property
    def tools(self) -> llm.ToolContext:
        """The application's tools."""
        return self._session._tools

    # -- the caller's turns, where the application marks them

    @property
    def marks_activity(self) -> bool:
        """Whether the application says when the caller speaks, and the server does not."""
        return self._session._manual_activity_detection

    @property
    def in_activity(self) -> bool:
        """Whether it has said that the caller speaks."""
        return self._session._in_user_activity

    # -- connections

    @property
    def client(self) -> Client:
        """The session's own, by which it dials."""
        return self._session._client

    def set_up(self) -> types.LiveConnectConfig:
        """The set-up of the next connection, without the history; a handle in it is resumed."""
        return self._session._build_connect_config()

    def report_connection(self, seconds: float) -> None:
        """Tell the application of a connection that took so long to make."""
        self._session._report_connection_acquired(seconds)

    @property
    def lock(self) -> asyncio.Lock:
        """Held while another connection is put in place."""
        return self._session._session_lock

    @property
    def live(self) -> LiveSession | None:
        """The connection that upstream's loops talk to."""
        live: Any = self._session._active_session
        return live  # type: ignore[no-any-return]  # ours dialled it

    @live.setter
    def live(self, live: LiveSession | None) -> None:
        self._session._active_session = live

    def send_loop(self, live: LiveSession) -> Coroutine[Any, Any, None]:
        """Upstream's loop that empties the queue into a connection, until that ends."""
        return self._session._send_task(live)

    def receive_loop(self, live: LiveSession) -> Coroutine[Any, Any, None]:
        """Upstream's loop that takes what comes on a connection, until that ends."""
        return self._session._recv_task(live)

    @property
    def restart_wanted(self) -> asyncio.Event:
        """Set where the application wants another connection, or one of the loops has failed."""
        return self._session._session_should_close

    def take_error(self) -> Exception | None:
        """Why one of the loops has failed; None for none. Asked again, it is none."""
        error, self._session._session_error = self._session._session_error, None
        return error

    # -- what is sent

    def send(self, event: ClientEvents) -> None:
        """Send an event as the application would."""
        self._session._send_client_event(event)

    def enqueue(self, event: ClientEvents) -> None:
        """Queue an event that was taken note of before."""
        _impl.RealtimeSession._send_client_event(self._session, event)

    def put_back(self, event: ClientEvents) -> None:
        """Queue an event again that was taken from the queue, which may not be closed."""
        self._session._msg_ch.send_nowait(event)

    def take_queued(self) -> list[ClientEvents]:
        """Empty the queue; returns what was in it, oldest first."""
        return drain(self._session._msg_ch)

    # -- replies

    @property
    def awaits_reply(self) -> bool:
        """Whether the application waits for a reply that has not begun."""
        pending = self._session._pending_generation_fut
        return pending is not None and not pending.done()

    @property
    def open_reply(self) -> Reply | None:
        """The reply that is open, if any."""
        reply = self._session._current_generation
        return None if reply is None or reply._done else reply

    @property
    def newest_reply_id(self) -> str | None:
        """The id of the reply that began last, open or not."""
        reply = self._session._current_generation
        return None if reply is None else reply.response_id

    def close_reply(self) -> None:
        """Close the streams of the open reply, if there is any, and record it."""
        self._session._mark_current_generation_done()

    # -- the record

    @property
    def record(self) -> llm.ChatContext:
        """The conversation, to which upstream adds what is spoken."""
        return self._session._chat_ctx

    @record.setter
    def record(self, record: llm.ChatContext) -> None:
        self._session._chat_ctx = record

    @property
    def waiting_record(self) -> llm.ChatContext | None:
        """What the application gave in its place while there was no connection."""
        return self._session._pending_chat_ctx

    def drop_waiting_record(self) -> None:
        """It was adopted."""
        self._session._pending_chat_ctx = None

    @property
    def brought_record(self) -> llm.ChatContext | None:
        """What a handle that the application brought along stands for, where it says so."""
        return self._session._resumption_chat_ctx


def needs_placeholder(model: str) -> bool:
    """Whether a model must be sent a turn of the caller before it replies."""
    return _impl._needs_reply_placeholder(model)


def inline_instructions(instructions: str) -> str:
    """Instructions as part of a turn of the caller."""
    template: str = vars(_impl)["_DEFAULT_INLINE_INSTRUCTIONS_TEMPLATE"]
    return template.format(content=instructions)
