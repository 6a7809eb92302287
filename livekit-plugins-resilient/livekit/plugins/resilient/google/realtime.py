"""Gemini Live: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from google.genai import types
from livekit.agents import llm
from livekit.agents.types import NOT_GIVEN, NotGivenOr
from livekit.plugins.google.realtime import realtime_api as _upstream

from .._vendor.google import realtime_api as _impl
from ..core import facts as f
from ..core.handover import Rest
from ..events import GoAwayReceived, ResilienceEvent
from ..fallback import Fallback
from ..hooks import options_of
from ..provider_bounds import GEMINI
from ..runtime.agent_session import cancel_tool
from ..runtime.background import Background
from ..runtime.driver import Driver
from ..runtime.link_driver import Sign, link_limits
from ..runtime.notify import notify
from ..runtime.reply_timer import ReplyTimer
from ..runtime.runner import Runner
from ..runtime.telemetry import Telemetry
from ..upstream_classes import ModelBridge, SessionBridge, hide_newer
from . import set_up
from .engine import Engine
from .parts import Parts
from .pings import patient_pings
from .reply_request import reply_request
from .serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.genai.live import AsyncSession
    from livekit import rtc

    from .._vendor.google.api_proto import ClientEvents
    from ..core.decisions import FinaliseReason
    from ..options import ResilienceOptions
    from ..owed_reply import Left
    from .live_connection import LiveConnection
    from .live_session import LiveSession

__all__ = ["RealtimeModel", "RealtimeSession"]


@hide_newer
class RealtimeModel(_impl.RealtimeModel, ModelBridge, _upstream.RealtimeModel):  # type: ignore[misc]
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


@hide_newer
class RealtimeSession(_impl.RealtimeSession, SessionBridge, _upstream.RealtimeSession):  # type: ignore[misc]
    """One conversation with Gemini Live over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, and
    "session_reconnected" after each reconnect.
    """

    def __init__(self, realtime_model: RealtimeModel) -> None:
        self._resilience = resilience = options_of(realtime_model)
        bounds = resilience.bounds(GEMINI)
        self._engine = Engine(self, realtime_model)
        self._driver = Driver(self, resilience, bounds, Telemetry("google"))
        self._serving = Serving()
        self._parts = Parts(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            options=resilience,
            runner=lambda: self._runner,
        )
        self._stopping = Background()
        realtime_model._opts.http_options = patient_pings(
            realtime_model._opts.http_options, realtime_model._opts.conn_options.timeout
        )
        self._runner: Runner[LiveConnection, LiveConnection] = Runner(
            self._parts.connector(left=self._left),
            link_limits(resilience, realtime_model._opts.conn_options),
            self._driver,
            self._rest,
            Fallback(self),
            bounds.hedge_notice_s,
        )
        super().__init__(realtime_model)
        self._main_atask.add_done_callback(lambda _: self._parts.requests.gave_up())

    async def aclose(self) -> None:
        self._driver.close()
        self._runner.close()
        self._parts.late_results.drop()
        self._parts.requests.close()
        self._parts.speaker.detach()
        self._parts.transcript.detach()
        await self._stopping.aclose()
        await super().aclose()

    def emit(self, event: Any, *args: Any) -> None:
        if event == "generation_created":
            reply_id = args[0].response_id
            self._parts.speaker.watch(reply_id, args[0], self)
            self._parts.transcript.begins(self, reply_id, partial(super().emit, event, *args))
            return
        if event == "input_speech_started" and (
            self._parts.generations.joins or self._parts.activity.released
        ):
            return  # it is none of the caller's
        super().emit(event, *args)

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """As upstream's; listens to it for speech as well."""
        self._driver.hear(frame, to_be_heard=not self._manual_activity_detection)
        super().push_audio(frame)

    # -- the connection

    @property
    def _session_resumption_handle(self) -> str | None:
        """Upstream's name for the token of the handle, which `core.resumption` keeps."""
        handle = self._parts.mirror.resumption.handle
        return None if handle is None else handle.token

    @_session_resumption_handle.setter
    def _session_resumption_handle(self, token: str | None) -> None:
        self._parts.mirror.resumption.handle_brought(token)

    async def _main_task(self) -> None:
        await self._runner.run()

    def _rest(self) -> Rest:
        handle_at = self._parts.mirror.resumption.handle_at
        return Rest(self._driver.rests_from, self._parts.inbound.ended_at, handle_at)

    def _build_connect_config(self) -> types.LiveConnectConfig:
        """As upstream's, with what it leaves out, unless that may be what a server refused."""
        config = super()._build_connect_config()
        if not self._parts.poison.plain_set_up:
            set_up.extend(config, self._opts, self._tools)
        return config

    async def _recv_task(self, session: AsyncSession) -> None:
        live = cast("LiveSession", session)
        live.on_skipped = lambda: self._driver.feed(f.NoticeArrived(self._driver.now))
        await super()._recv_task(session)

    def _left(self) -> Left:
        """What is left to another model, should this session give up."""
        # Where the application says when the caller speaks, it asks for the answer as well.
        marks = self._manual_activity_detection
        words_lost = not marks and self._parts.inbound.words_lost(suspected=False)
        left = self._driver.left(words_lost=words_lost)
        return replace(left, owed=None) if self._parts.activity.held else left

    def _mark_restart_needed(self, on_error: bool = False) -> None:
        self._session_should_close.set()

    def _handle_go_away(self, go_away: types.LiveServerGoAway) -> None:
        time_left_s = set_up.seconds_of(go_away.time_left)
        if time_left_s is not None:
            self._runner.ends_in(time_left_s)
            self._driver.tell(GoAwayReceived(self._driver.now, time_left_s))

    # -- what the application asks for

    def generate_reply(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> asyncio.Future[llm.GenerationCreatedEvent]:
        """As upstream's; a request that a drop catches is sent again, with the same future."""
        make = partial(
            super().generate_reply, instructions=instructions, tool_choice=tool_choice, tools=tools
        )
        return self._parts.requests.make(make)

    def _reply_timeout(self, on_due: Callable[[], None]) -> ReplyTimer:
        return self._parts.requests.start_timer(on_due)

    def _send_client_event(self, event: ClientEvents) -> None:
        """Queue a message, unless no connection can take it now."""
        queued = self._parts.dispatch.sending(event)
        if queued is not None:
            super()._send_client_event(queued)

    def _sent(self, message: object) -> None:
        """Sees every client message once upstream has sent it."""
        self._parts.dispatch.sent(message)

    def _sync_chat_ctx(
        self, chat_ctx: llm.ChatContext, *, known: llm.ChatContext | None = None
    ) -> None:
        self._parts.mirror.update(chat_ctx)

    # -- what the server sends

    def _received(self, message: object) -> None:
        """Sees every server message before upstream does; takes out what it shall not handle."""
        assert isinstance(message, types.LiveServerMessage)
        self._parts.dispatch.received(message)

    def _start_new_generation(self) -> None:
        with self._parts.generations.opening():
            super()._start_new_generation()

    def _handle_server_content(self, server_content: types.LiveServerContent) -> None:
        reply_id = self._parts.generations.receiving(server_content)
        super()._handle_server_content(server_content)
        self._parts.generations.received(server_content, reply_id)

    def _mark_current_generation_done(self) -> None:
        reply = self._engine.open_reply
        if reply is None:
            return
        self._parts.transcript.ends(reply)
        super()._mark_current_generation_done()
        self._parts.generations.ended(reply)

    def _handle_tool_calls(self, tool_call: types.LiveServerToolCall) -> None:
        if self._current_generation is None:
            super()._handle_tool_calls(tool_call)
            return
        self._parts.generations.calling(tool_call)
        super()._handle_tool_calls(tool_call)
        self._parts.generations.called(tool_call)

    def _handle_tool_call_cancellation(
        self, tool_call_cancellation: types.LiveServerToolCallCancellation
    ) -> None:
        super()._handle_tool_call_cancellation(tool_call_cancellation)
        for call_id in tool_call_cancellation.ids or []:
            self._parts.tool_calls.cancel(call_id)
            self._stopping.start(cancel_tool(self, call_id, self._driver.timer))
            self._driver.feed(f.ToolCallCancelled(self._driver.now, call_id))

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        self._parts.generations.close_streams(generation_id)

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        self._parts.generations.finalise(generation_id, reason)

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self._parts.generations.redriving(redrive_id)
        self._send_client_event(reply_request(self._opts.model, instructions))

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        # What was asked for cannot be taken back; the caller's turn stops it at the server.
        if generation_id is not None:
            self._parts.transcript.stop(generation_id)

    def reissue(self, request_id: str) -> None:
        self._parts.requests.reissue(request_id)

    def words_of(self, generation_id: str, audio_s: float) -> str:
        rate_cps = self._resilience.speech_rate_cps
        return self._parts.inbound.spoken(generation_id, rate_cps, audio_s)

    def replace_connection(self, *, speaks: bool = False) -> None:
        sign: Sign = "failing" if speaks else "silent"
        self._runner.suspect("stuck" if self._driver.is_stuck else sign)

    def notify(self, event: ResilienceEvent) -> None:
        notify(self, self._resilience, event)
