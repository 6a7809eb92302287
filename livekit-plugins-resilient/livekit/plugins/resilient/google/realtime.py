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
from ..core.limits import GEMINI_LIVENESS_TIMEOUT_S
from ..driver import Driver
from ..errors import ConnectionSuspectedError
from ..events import AudioDropped, ResilienceEvent
from ..gap_audio import GapAudio
from ..hooks import options_of
from ..notify import notify
from ..speaker import SpeakerWatch
from ..telemetry import Telemetry
from .late_content import LateContent
from .pings import patient_pings, send_pings
from .reply_request import reply_request
from .reply_timer import ReplyTimer
from .set_up import compress_by_default
from .supervisor import Supervisor, context_source
from .tool_calls import ToolCalls
from .tool_schema import restore_schema_details
from .turn_log import TurnLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.genai.live import AsyncSession
    from livekit import rtc

    from .._vendor.google.api_proto import ClientEvents
    from ..options import ResilienceOptions

__all__ = ["RealtimeModel", "RealtimeSession"]


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
        self._turns = TurnLog(self._driver)
        # The request being composed by `generate_reply`, and what each open one sent.
        self._composing: str | None = None
        self._requests: dict[str, types.LiveClientContent] = {}
        self._redrive_id: str | None = None
        # The reply about to open joins on behind what is playing, so it is no barge-in.
        self._joins = False
        self._late = LateContent()
        self._calls = ToolCalls()
        self._gap_audio: GapAudio[ClientEvents] = GapAudio(self._resilience.gap_audio_s)
        self._dials = 0
        self._turn_finished = self._gap_audio_spoilt = False
        self._reply_timer = ReplyTimer.idle()
        self._message: types.LiveServerMessage | None = None
        realtime_model._opts.http_options = patient_pings(
            realtime_model._opts.http_options, realtime_model._opts.conn_options.timeout
        )
        super().__init__(realtime_model)
        self._main_atask.add_done_callback(lambda _: self._reply_timer.expire())

    async def aclose(self) -> None:
        self._driver.close()
        self._reply_timer.cancel()
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

    async def _main_task(self) -> None:
        await Supervisor(self).run()

    def _build_connect_config(self) -> types.LiveConnectConfig:
        # Built once per dial, so it also counts them.
        self._dials += 1
        self._connection_log.dialling()
        config = super()._build_connect_config()
        restore_schema_details(config.tools or [], self._tools)
        compress_by_default(config, self._opts)
        return config

    async def _recv_task(self, session: AsyncSession) -> None:
        # Runs exactly while a connection is set up and holds the context.
        now = self._driver.now
        reconnected = self._connection_log.connected(now, context_source(self))
        self._connected = True
        self._driver.tell(reconnected)
        self._send_gap_audio()
        self._driver.feed(self._turns.connected(suspected=self._suspected))
        self._suspected = False
        if reconnected is not None:
            self.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())
        self._reply_timer.resume()
        pings = asyncio.create_task(send_pings(session, self._turns.pong_came))
        try:
            await super()._recv_task(session)
        finally:
            pings.cancel()
            self._connection_ended()

    def _connection_ended(self) -> None:
        now = self._driver.now
        self._connected = False
        self._late.next_turn()
        self._reply_timer.pause()
        self._empty_queue()
        self._driver.feed(f.Disconnected(now))
        error = ConnectionSuspectedError() if self._suspected else self._session_error
        code = error.code if isinstance(error, APIError) else None
        self._driver.tell(self._connection_log.ended(now, cause=error, code=code))

    def _empty_queue(self) -> None:
        """Keep what was not sent from following the reconnect, where it is sent another way."""
        kept = []
        while not self._msg_ch.empty():
            event = self._msg_ch.recv_nowait()
            if not (isinstance(event, types.LiveClientContent) and event.turn_complete):
                kept.append(event)
        for event in kept:
            if not self._keeps_for_later(event):
                super()._send_client_event(event)

    def _keeps_for_later(self, event: ClientEvents) -> bool:
        """Whether this is microphone audio that no connection can take now (R15)."""
        audio = event.audio if isinstance(event, types.LiveClientRealtimeInput) else None
        if audio is None or self._connected:
            return False
        samples = len(audio.data or b"") / 2
        self._gap_audio.keep(event, samples / _impl.INPUT_AUDIO_SAMPLE_RATE)
        return True

    def _send_gap_audio(self) -> None:
        # Without its activity, or what may have been refused with a 1007.
        if self._gap_audio_spoilt or (
            self._manual_activity_detection and not self._in_user_activity
        ):
            self._gap_audio.discard()
        self._gap_audio_spoilt = False
        for event in self._gap_audio.release():
            self._send_client_event(event)
        dropped_s = self._gap_audio.take_dropped_s()
        if dropped_s:
            self._driver.tell(AudioDropped(self._driver.now, dropped_s))

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
            if self._connected and self._opts.input_audio_transcription is not None:
                self._late.request_failed()
            self._driver.feed(f.ReplyRequestTimedOut(now, request_id))

    def _reply_timeout(self, on_due: Callable[[], None]) -> ReplyTimer:
        self._reply_timer = timer = ReplyTimer(self._resilience.reply_timeout_s, on_due)
        if self._connected:
            timer.resume()
        elif self._main_atask.done():
            asyncio.get_running_loop().call_soon(timer.expire)
        return timer

    def _send_client_event(self, event: ClientEvents) -> None:
        if self._composing is not None and isinstance(event, types.LiveClientContent):
            self._requests[self._composing] = event
            if self._connection_log.was_connected and not self._connected:
                return  # the driver issues it on the next connection
            self._late.next_turn()
        if isinstance(event, types.LiveClientToolResponse):
            self._send_results(event)
        elif not self._keeps_for_later(event):
            super()._send_client_event(event)

    def _sent(self, message: object) -> None:
        """Sees every client message once upstream has sent it."""
        asks = isinstance(message, types.LiveClientContent) and message.turn_complete
        if asks or isinstance(message, types.LiveClientToolResponse):
            self._turns.asked()

    def _send_results(self, event: types.LiveClientToolResponse) -> None:
        """Send the results of calls that were not cancelled (R10)."""
        responses = self._calls.wanted(event.function_responses or [])
        if not responses:
            if isinstance(event, _impl._ChatCtxToolResponse):
                self._unsent_item_ids -= event.item_ids  # a handle may stand for them
            return
        event.function_responses = responses
        self._late.next_turn()
        super()._send_client_event(event)
        self._calls.answered(responses, self._dials)
        for response in responses:
            expects_reply = response.scheduling != types.FunctionResponseScheduling.SILENT
            call_id = response.id or response.name or ""
            self._driver.feed(f.ToolResultDelivered(self._driver.now, call_id, expects_reply))

    # -- what the server sends

    def _takes(self, message: object) -> bool:
        """Sees every server message before upstream does; False has it ignored."""
        assert isinstance(message, types.LiveServerMessage)
        self._message = message
        self._driver.feed(f.MessageArrived(self._driver.now))
        update = message.session_resumption_update
        if update is not None and update.resumable and update.new_handle:
            self._turns.handle_came()
        runs_calls = self._opts.tool_choice != "none"
        if runs_calls and (lost := self._calls.strip(message, self._dials)):
            self._send_client_event(types.LiveClientToolResponse(function_responses=lost))
        self._end_interrupted_turn(message)
        self._late.strip(message)
        return True

    def _end_interrupted_turn(self, message: types.LiveServerMessage) -> None:
        """Close a reply that was interrupted once the next turn begins without its end.

        Upstream would put the next turn into the reply that nobody listens to any more. After
        `interrupted` a server sends no more audio of that turn.
        """
        generation, content = self._current_generation, message.server_content
        if generation is None or generation._done:
            return
        if generation.response_id != self._turns.interrupted:
            return
        speaks = content is not None and (content.model_turn or content.input_transcription)
        if speaks or message.tool_call:
            self._mark_current_generation_done()
            self._driver.feed(f.GenerationEnded(self._driver.now, generation.response_id))

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
        self._turns.opened(generation.response_id, request_id)

    def _handle_server_content(self, server_content: types.LiveServerContent) -> None:
        generation = self._current_generation
        if generation is not None and not generation._done:
            self._turns.received(
                generation.response_id,
                server_content,
                takes_audio=not generation.audio_ch.closed,
            )
        super()._handle_server_content(server_content)
        self._turn_finished |= bool(server_content.turn_complete)
        if generation is not None and server_content.turn_complete:
            self._driver.feed(f.GenerationEnded(self._driver.now, generation.response_id))

    def _handle_tool_calls(self, tool_call: types.LiveServerToolCall) -> None:
        generation = self._current_generation
        if generation is None:
            super()._handle_tool_calls(tool_call)
            return
        now, reply = self._driver.now, generation.response_id
        for call in tool_call.function_calls or []:
            self._driver.feed(f.ToolCallOpened(now, reply, call.id or call.name or ""))
        super()._handle_tool_calls(tool_call)
        if self._opts.tool_behavior != types.Behavior.NON_BLOCKING:
            self._late.tool_called()
        self._driver.feed(f.GenerationEnded(now, reply))

    def _handle_tool_call_cancellation(
        self, tool_call_cancellation: types.LiveServerToolCallCancellation
    ) -> None:
        super()._handle_tool_call_cancellation(tool_call_cancellation)
        for call_id in tool_call_cancellation.ids or []:
            self._calls.cancel(call_id)
            self._driver.feed(f.ToolCallCancelled(self._driver.now, call_id))

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        generation = self._current_generation
        if generation is not None and generation.response_id == generation_id:
            self._mark_current_generation_done()

    def finalise(self, generation_id: str) -> None:
        self.close_streams(generation_id)
        self._late.finalised()

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self._redrive_id = redrive_id
        self._late.next_turn()
        super()._send_client_event(reply_request(self._opts.model, instructions))

    def reissue(self, request_id: str) -> None:
        if request_id in self._requests:
            self._late.next_turn()
            super()._send_client_event(self._requests[request_id])

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return self._turns.spoken(generation_id, self._resilience.speech_rate_cps, audio_s)

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
