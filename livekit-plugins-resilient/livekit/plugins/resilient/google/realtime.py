"""Gemini Live: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from google.genai import types
from google.genai.errors import APIError
from livekit.agents import llm, utils
from livekit.agents.types import NOT_GIVEN, NotGivenOr

from .._vendor.google import realtime_api as _impl
from ..connection_log import ConnectionLog
from ..core import facts as f
from ..core.limits import COVERAGE_GRACE_S, GEMINI_LIVENESS_TIMEOUT_S
from ..core.playout import ReplyProgress, TranscriptDelta
from ..driver import Driver
from ..errors import ConnectionSuspectedError
from ..events import ReconnectMode, ResilienceEvent
from ..hooks import options_of
from ..notify import notify
from ..speaker import SpeakerWatch
from ..telemetry import Telemetry
from .pings import patient_pings, send_pings
from .reply_request import reply_request
from .tool_schema import restore_schema_details

if TYPE_CHECKING:
    from google.genai.live import AsyncSession
    from livekit import rtc

    from .._vendor.google.api_proto import ClientEvents
    from ..options import ResilienceOptions

__all__ = ["RealtimeModel", "RealtimeSession"]

# Replies whose words a re-drive may still need: the one that was cut, and those still playing.
_REMEMBERED_REPLIES = 8


class RealtimeModel(_impl.RealtimeModel):
    """Gemini Live, as `livekit.plugins.google.realtime.RealtimeModel`, kept alive over drops.

    Takes every keyword of upstream's model with the same meaning, and `resilience`, a
    `ResilienceOptions`. Pass it to `AgentSession(llm=...)` or to
    `llm.RealtimeModelFallbackAdapter`.

    Raises:
        OptionError: `resilience` is not a `ResilienceOptions`.
        ValueError: Upstream refuses a keyword, for example a missing API key.
    """

    _resilience: ResilienceOptions

    def session(self, *, turn_detection_disabled: bool = False) -> RealtimeSession:
        """Open a session; must be called inside a running event loop."""
        session = RealtimeSession(self)
        self._sessions.add(session)
        return session


class RealtimeSession(_impl.RealtimeSession):
    """One conversation with Gemini Live over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, and
    "session_reconnected" after each reconnect.
    """

    def __init__(self, realtime_model: RealtimeModel) -> None:
        self._resilience = options_of(realtime_model)
        self._connection_log = ConnectionLog()
        self._driver = Driver(
            self,
            self._resilience,
            self._resilience.bounds(GEMINI_LIVENESS_TIMEOUT_S),
            Telemetry("google"),
        )
        self._speaker = SpeakerWatch(self._driver.feed, lambda: self._driver.now)
        self._connected = self._suspected = False
        self._progress: dict[str, ReplyProgress] = {}
        # The request being composed by `generate_reply`, and what each open one sent.
        self._composing: str | None = None
        self._requests: dict[str, types.LiveClientContent] = {}
        self._redrive_id: str | None = None
        # The reply about to open joins on behind what is playing, so it is no barge-in.
        self._joins = False
        self._interrupted: str | None = None
        # A finalised turn may still send its tail.
        self._tail_due = False
        self._message: types.LiveServerMessage | None = None
        # When what is to be answered reached the model, and when the newest handle came.
        self._asked_at = self._handle_at = self._understood_at = float("-inf")
        realtime_model._opts.http_options = patient_pings(
            realtime_model._opts.http_options, realtime_model._opts.conn_options.timeout
        )
        super().__init__(realtime_model)

    async def aclose(self) -> None:
        self._driver.close()
        self._speaker.detach()
        await super().aclose()

    def emit(self, event: Any, *args: Any) -> None:
        if event == "generation_created":
            self._speaker.watch(args[0].response_id, args[0], self)
        elif event == "input_speech_started" and self._joins:
            return
        super().emit(event, *args)

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        self._driver.hear(frame)
        super().push_audio(frame)

    # -- the connection

    def _build_connect_config(self) -> types.LiveConnectConfig:
        # Built once per dial, so it also counts them.
        self._connection_log.dialling()
        config = super()._build_connect_config()
        restore_schema_details(config.tools or [], self._tools)
        return config

    async def _recv_task(self, session: AsyncSession) -> None:
        # Runs exactly while a connection is set up and holds the context.
        now = self._driver.now
        reconnected = self._connection_log.connected(now, self._context_source())
        self._connected = True
        self._driver.tell(reconnected)
        self._driver.feed(f.Connected(now, self._knows_turn(), self._lost_words()))
        if reconnected is not None:
            self.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())
        pings = asyncio.create_task(send_pings(session, self._pong_arrived))
        try:
            await super()._recv_task(session)
        finally:
            pings.cancel()
            self._connection_ended()

    def _pong_arrived(self) -> None:
        self._driver.feed(f.PongArrived(self._driver.now))

    def _connection_ended(self) -> None:
        now = self._driver.now
        self._connected = False
        self._tail_due = False
        self._drop_queued_requests()
        self._driver.feed(f.Disconnected(now))
        suspected, self._suspected = self._suspected, False
        error = ConnectionSuspectedError() if suspected else self._session_error
        code = error.code if isinstance(error, APIError) else None
        self._driver.tell(self._connection_log.ended(now, cause=error, code=code))

    def _context_source(self) -> ReconnectMode:
        if self._session_resumption_handle is not None:
            return "resumed"
        return "replayed" if self._chat_ctx.items else "fresh"

    def _knows_turn(self) -> bool:
        """Whether the handle that was resumed is younger than what is to be answered."""
        return (
            self._session_resumption_handle is not None
            and self._handle_at >= self._asked_at + COVERAGE_GRACE_S
        )

    def _lost_words(self) -> bool:
        """Whether the caller audibly spoke and nothing told since that the model understood."""
        spoke_at = self._driver.heard_speech_at
        return spoke_at is not None and spoke_at > self._understood_at

    def _drop_queued_requests(self) -> None:
        """Keep requests that were not sent from following the reconnect; they are reissued."""
        kept = []
        while not self._msg_ch.empty():
            event = self._msg_ch.recv_nowait()
            if not (isinstance(event, types.LiveClientContent) and event.turn_complete):
                kept.append(event)
        for event in kept:
            super()._send_client_event(event)

    def _redials(self) -> bool:
        # The first dial of a session fails on what is wrong with it (key, model, set-up), a
        # later one on the network or the provider (bug report gap G1).
        return self._connection_log.was_connected

    # -- what the application asks for

    def generate_reply(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> asyncio.Future[llm.GenerationCreatedEvent]:
        """As upstream's; a request that a drop catches is sent again, with the same future."""
        self._composing = request_id = utils.shortuuid("request_")
        try:
            future = super().generate_reply(
                instructions=instructions, tool_choice=tool_choice, tools=tools
            )
        finally:
            self._composing = None
        if request_id in self._requests:
            self._driver.feed(f.ReplyRequested(self._driver.now, request_id))
            future.add_done_callback(partial(self._request_done, request_id))
        return future

    def _request_done(
        self, request_id: str, future: asyncio.Future[llm.GenerationCreatedEvent]
    ) -> None:
        self._requests.pop(request_id, None)
        now = self._driver.now
        if future.cancelled():
            self._driver.feed(f.ReplyCancelled(now, request_id))
        elif future.exception() is not None:
            self._driver.feed(f.ReplyRequestTimedOut(now, request_id))

    def _send_client_event(self, event: ClientEvents) -> None:
        if self._composing is not None and isinstance(event, types.LiveClientContent):
            self._requests[self._composing] = event
            if self._connection_log.was_connected and not self._connected:
                return  # the driver issues it on the next connection
            self._tail_due = False
        super()._send_client_event(event)
        if isinstance(event, types.LiveClientToolResponse):
            self._results_sent(event.function_responses or [])

    def _sent(self, message: object) -> None:
        """Sees every client message once upstream has sent it."""
        asks = isinstance(message, types.LiveClientContent) and message.turn_complete
        if asks or isinstance(message, types.LiveClientToolResponse):
            self._asked_at = self._driver.now

    def _results_sent(self, responses: list[types.FunctionResponse]) -> None:
        for response in responses:
            expects_reply = response.scheduling != types.FunctionResponseScheduling.SILENT
            call_id = response.id or response.name or ""
            self._driver.feed(f.ToolResultDelivered(self._driver.now, call_id, expects_reply))

    # -- what the server sends

    def _takes(self, message: object) -> bool:
        """Sees every server message before upstream does; False has it ignored."""
        assert isinstance(message, types.LiveServerMessage)
        now = self._driver.now
        self._message = message
        self._driver.feed(f.MessageArrived(now))
        update = message.session_resumption_update
        if update is not None and update.resumable and update.new_handle:
            self._handle_at = now
        self._end_interrupted_turn(message)
        return not (self._tail_due and self._is_tail(message))

    def _end_interrupted_turn(self, message: types.LiveServerMessage) -> None:
        """Close a reply that was interrupted once the next turn begins without its end.

        Upstream would put the next turn into the reply that nobody listens to any more. After
        `interrupted` a server sends no more audio of that turn.
        """
        generation, content = self._current_generation, message.server_content
        if generation is None or generation._done or generation.response_id != self._interrupted:
            return
        speaks = content is not None and (content.model_turn or content.input_transcription)
        if speaks or message.tool_call:
            self._mark_current_generation_done()
            self._driver.feed(f.GenerationEnded(self._driver.now, generation.response_id))

    def _is_tail(self, message: types.LiveServerMessage) -> bool:
        """Whether this still belongs to the turn that was finalised (R18)."""
        content = message.server_content
        if message.tool_call or (content and content.input_transcription):
            self._tail_due = False
            return False
        if content is None:
            return False
        if content.turn_complete:
            self._tail_due = False
        return True

    def _start_new_generation(self) -> None:
        pending = self._pending_generation_fut
        asked = pending is not None and not pending.done()
        content = self._message.server_content if self._message is not None else None
        unasked_turn = content is not None and content.input_transcription is not None
        request_id: str | None = None
        if asked:
            request_id = next(reversed(self._requests), None)
        elif not unasked_turn:
            request_id, self._redrive_id = self._redrive_id, None
            self._joins = request_id is not None
        try:
            super()._start_new_generation()
        finally:
            self._joins = False
        generation = self._current_generation
        assert generation is not None
        self._progress[generation.response_id] = ReplyProgress()
        if len(self._progress) > _REMEMBERED_REPLIES:
            del self._progress[next(iter(self._progress))]
        self._driver.feed(f.GenerationOpened(self._driver.now, generation.response_id, request_id))

    def _handle_server_content(self, server_content: types.LiveServerContent) -> None:
        generation = self._current_generation
        if generation is not None and not generation._done:
            self._note_content(generation, server_content)
        super()._handle_server_content(server_content)
        if generation is not None and server_content.turn_complete:
            self._driver.feed(f.GenerationEnded(self._driver.now, generation.response_id))

    def _note_content(
        self, generation: _impl._ResponseGeneration, content: types.LiveServerContent
    ) -> None:
        now, reply = self._driver.now, generation.response_id
        progress = self._progress[reply]
        heard = content.input_transcription
        if heard is not None and heard.text:
            self._understood_at = now
            if not progress.has_output:
                self._asked_at = now
                self._driver.feed(f.UserTurnEnded(now))
        for part in (content.model_turn.parts or []) if content.model_turn else []:
            data = part.inline_data.data if part.inline_data else None
            if data and not generation.audio_ch.closed:
                seconds = len(data) / 2 / _impl.OUTPUT_AUDIO_SAMPLE_RATE
                self._understood_at = now
                progress.received(seconds)
                self._driver.feed(f.AudioReceived(now, reply, seconds))
        said = content.output_transcription
        if said is not None and said.text:
            progress.transcribed(TranscriptDelta(said.text))
            self._driver.feed(f.TextReceived(now, reply))
        if content.generation_complete:
            self._driver.feed(f.OutputCompleted(now, reply))
        if content.interrupted:
            self._interrupted = reply
            self._driver.feed(f.Interrupted(now, reply))

    def _handle_tool_calls(self, tool_call: types.LiveServerToolCall) -> None:
        generation = self._current_generation
        if generation is None:
            super()._handle_tool_calls(tool_call)
            return
        now, reply = self._driver.now, generation.response_id
        for call in tool_call.function_calls or []:
            self._driver.feed(f.ToolCallOpened(now, reply, call.id or call.name or ""))
        super()._handle_tool_calls(tool_call)
        self._driver.feed(f.GenerationEnded(now, reply))

    def _handle_tool_call_cancellation(
        self, tool_call_cancellation: types.LiveServerToolCallCancellation
    ) -> None:
        super()._handle_tool_call_cancellation(tool_call_cancellation)
        for call_id in tool_call_cancellation.ids or []:
            self._driver.feed(f.ToolCallCancelled(self._driver.now, call_id))

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        generation = self._current_generation
        if generation is not None and generation.response_id == generation_id:
            self._mark_current_generation_done()

    def finalise(self, generation_id: str) -> None:
        self.close_streams(generation_id)
        self._tail_due = True

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self._redrive_id = redrive_id
        self._tail_due = False
        super()._send_client_event(reply_request(self._opts.model, instructions))

    def reissue(self, request_id: str) -> None:
        if request_id in self._requests:
            super()._send_client_event(self._requests[request_id])

    def words_of(self, generation_id: str, audio_s: float) -> str:
        progress = self._progress.get(generation_id)
        rate_cps = self._resilience.speech_rate_cps
        return progress.spoken(rate_cps, audio_s) if progress is not None else ""

    def replace_connection(self) -> None:
        socket = getattr(self._active_session, "_ws", None)
        if socket is None:
            return
        # A restart of our own is no error to tell the application of; and an orderly close would
        # wait for an answer that a dead peer never gives.
        self._suspected = True
        self._mark_restart_needed(on_error=True)
        socket.transport.abort()

    def notify(self, event: ResilienceEvent) -> None:
        notify(self, self._resilience, event)
