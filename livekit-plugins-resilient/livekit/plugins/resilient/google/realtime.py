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
from ..core.poison import Poison
from ..events import GoAwayReceived, HandedOver, ReconnectMode, ResilienceEvent
from ..fallback import Fallback
from ..hooks import options_of
from ..provider_bounds import GEMINI
from ..runtime.agent_session import cancel_tool
from ..runtime.background import Background
from ..runtime.connection_log import ConnectionLog
from ..runtime.driver import Driver
from ..runtime.link_driver import Sign, link_limits
from ..runtime.log import logger
from ..runtime.notify import notify
from ..runtime.reply_timer import ReplyTimer
from ..runtime.runner import Runner
from ..runtime.speaker import SpeakerWatch
from ..runtime.telemetry import Telemetry
from ..upstream_classes import ModelBridge, SessionBridge, hide_newer
from . import set_up
from .activity import Activity
from .connection import Connector
from .errors import code_of
from .heard_transcript import HeardTranscript
from .history import SeedForm, seed_forms
from .inbound import InboundEvents
from .late_results import LateResults
from .live_connection import LiveConnection
from .malformed import strip_malformed
from .mirror import Mirror
from .outbound import SendQueue
from .pings import patient_pings
from .reply_request import reply_request
from .requests import Requests
from .seed import Seed
from .stale_content import StaleContentFilter
from .tools import ToolCalls
from .turn_signs import (
    can_be_interrupted,
    ending_of,
    holds_captions_only,
    speaks_of_the_call,
    thinks,
    thinks_aloud,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.genai.live import AsyncSession
    from livekit import rtc

    from .._vendor.google.api_proto import ClientEvents
    from ..core.decisions import FinaliseReason
    from ..options import ResilienceOptions
    from ..owed_reply import Left
    from ..runtime.driver import HedgeRequest
    from .live_connection import LiveSession

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
        self._resilience = options_of(realtime_model)
        self._connection_log = ConnectionLog()
        self._driver = Driver(
            self,
            self._resilience,
            self._resilience.bounds(GEMINI),
            Telemetry("google"),
        )
        self._spoken = HeardTranscript(self)
        self._speaker = SpeakerWatch(self._spoken.feed, lambda: self._driver.now)
        self._connected = self._turn_finished = False
        self._turns = InboundEvents(
            self._driver,
            may_pass_over=bool(realtime_model._opts.proactivity),
            speaks=realtime_model.capabilities.audio_output,
            interruptible=can_be_interrupted(realtime_model._opts),
        )
        self._thinks = thinks(realtime_model._opts)
        self._requests = Requests(self)
        self._redrive_id: str | None = None
        # The reply about to open joins on behind what is playing, so it is no barge-in.
        self._joins = False
        self._late = StaleContentFilter()
        self._late_results = LateResults(self)
        self._activity = Activity(self)
        self._calls = ToolCalls()
        self._stopping = Background()
        self._poison = Poison(seed_forms(realtime_model._opts.model), SeedForm.ANNOUNCED)
        self._context = Mirror(self)
        self._outgoing = SendQueue(self)
        # Number of the connection that serves.
        self._connection = 0
        # Whether the connection that is left for the next serves until that does; None for neither.
        self._overlaps: bool | None = None
        self._mode: ReconnectMode = "fresh"
        self._message: types.LiveServerMessage | None = None
        realtime_model._opts.http_options = patient_pings(
            realtime_model._opts.http_options, realtime_model._opts.conn_options.timeout
        )
        fallback, resilience = Fallback(self), self._resilience
        limits = link_limits(resilience, realtime_model._opts.conn_options)
        self._runner: Runner[LiveConnection, LiveConnection] = Runner(
            Connector(self),
            limits,
            self._driver,
            self._rest,
            fallback,
            resilience.bounds(GEMINI).hedge_notice_s,
        )
        super().__init__(realtime_model)
        self._main_atask.add_done_callback(lambda _: self._requests.gave_up())

    async def aclose(self) -> None:
        self._driver.close()
        self._runner.close()
        self._late_results.drop()
        self._requests.close()
        self._speaker.detach()
        self._spoken.detach()
        await self._stopping.aclose()
        await super().aclose()

    def emit(self, event: Any, *args: Any) -> None:
        if event == "generation_created":
            self._speaker.watch(args[0].response_id, args[0], self)
            self._spoken.begins(args[0].response_id, partial(super().emit, event, *args))
            return
        if event == "input_speech_started" and (self._joins or self._activity.released):
            return
        super().emit(event, *args)

    @property
    def _speaks(self) -> bool:
        """Whether replies are audio with a transcript, of which only so much may be heard."""
        transcribed = self._opts.output_audio_transcription is not None
        return self._realtime_model.capabilities.audio_output and transcribed

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """As upstream's; listens to it for speech as well."""
        self._driver.hear(frame, to_be_heard=not self._manual_activity_detection)
        super().push_audio(frame)

    # -- the connection

    @property
    def _session_resumption_handle(self) -> str | None:
        """Upstream's name for the token of the handle, which `core.resumption` keeps."""
        handle = self._context.resumption.handle
        return None if handle is None else handle.token

    @_session_resumption_handle.setter
    def _session_resumption_handle(self, token: str | None) -> None:
        self._context.resumption.handle_brought(token)

    async def _main_task(self) -> None:
        await self._runner.run()

    def _rest(self) -> Rest:
        handle_at = self._context.resumption.handle_at
        return Rest(self._driver.rests_from, self._turns.ended_at, handle_at)

    def _build_connect_config(self, beside: Seed | None = None) -> types.LiveConnectConfig:
        """The set-up of the next connection, or of a fresh one that is prepared `beside`."""
        if not self._connected:
            self._connection_log.dialling()
        config = super()._build_connect_config()
        if not self._poison.plain_set_up:
            set_up.extend(config, self._opts, self._tools)
        if beside is None:
            self._context.announce(config)
        else:
            beside.announce(config)
        return config

    async def _restore(self, live: LiveSession, *, resumed: bool) -> bool:
        """Tell a new connection what it does not know; whether it answers that by itself."""
        self._count_connection(resumed=resumed)
        return await self._context.restore(live, resumed=resumed)

    def _take_over(self, seed: Seed, *, answering: bool) -> None:
        """A fresh connection that was prepared beside, and told `seed`, serves from here on.

        The streams of the reply on the one before are closed already, and its queue sorted out.
        What the messages told that were read before must have gone to `seed.take_handle`; feed
        them once `_connection_began` was called.

        Args:
            seed: What it was told.
            answering: Whether its model is at an answer already.
        """
        self._count_connection(resumed=False)
        self._context.serves(seed, answering=answering)

    def _count_connection(self, *, resumed: bool) -> None:
        self._connection += 1
        self._mode = "resumed" if resumed else "replayed" if self._chat_ctx.items else "fresh"

    def _hedge_began(self, request: HedgeRequest) -> None:
        """A connection that was asked beside serves, and has begun to answer `request`."""
        # The reply to one of the application that nothing came of yet is that of its future.
        is_open = any(self._requests.is_open(request_id) for request_id in request.request_ids)
        self._redrive_id = None if is_open else request.hedge_id
        self._turns.asked()
        self._connection_began(answers=True, hedge_id=request.hedge_id)

    def _connection_began(self, *, answers: bool, hedge_id: str | None = None) -> None:
        """A connection is set up and holds the context; `hedge_id` as in `f.Connected`."""
        now, again = self._driver.now, self._connection_log.was_connected
        reconnected = self._connection_log.connected(now, self._mode)
        self._connected = True
        self._driver.tell(reconnected)
        overlapped, self._overlaps = self._overlaps, None
        if overlapped is not None:
            self._driver.tell(HandedOver(now, overlapped))
        self._outgoing.release(reconnected=again)
        looks_dead = self._runner.suspicion in ("silent", "failing")
        handle = self._context.resumption.handle
        fact = self._turns.connected(handle, suspected=looks_dead, answers=answers)
        fact = replace(self._activity.connected(fact), hedge_id=hedge_id)
        self._driver.feed(fact)
        if again:
            self.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())
        self._requests.connected()

    async def _recv_task(self, session: AsyncSession) -> None:
        live = cast("LiveSession", session)
        live.on_skipped = lambda: self._driver.feed(f.NoticeArrived(self._driver.now))
        await super()._recv_task(session)

    def _handing_over(self, *, overlapped: bool | None) -> None:
        """A connection is left for the next one, as planned, or with None for a hedge."""
        self._overlaps = overlapped
        self._late.next_turn()
        self._outgoing.sort_out()

    def _connection_ended(self, error: Exception | None) -> None:
        """No connection serves any more; without an error, because we left it."""
        if not self._connected:
            return
        self._connected = False
        self._late.next_turn()
        self._requests.disconnected()
        self._activity.disconnected()
        self._outgoing.sort_out()
        self._driver.feed(f.Disconnected(self._driver.now))
        if error is not None and self._resilience.playout_on_drop == "flush":
            generation = self._current_generation
            self._speaker.flush(None if generation is None else generation.response_id)
        code, now = None if error is None else code_of(error), self._driver.now
        self._driver.tell(self._connection_log.ended(now, cause=error, code=code))

    def _left(self) -> Left:
        """What is left to another model, should this session give up."""
        # Where the application says when the caller speaks, it asks for the answer as well.
        words_lost = not self._manual_activity_detection and self._turns.words_lost(suspected=False)
        left = self._driver.left(words_lost=words_lost)
        return replace(left, owed=None) if self._activity.held else left

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
        return self._requests.make(make)

    def _reply_timeout(self, on_due: Callable[[], None]) -> ReplyTimer:
        return self._requests.start_timer(on_due)

    def _send_client_event(self, event: ClientEvents) -> None:
        """Queue a message, unless no connection can take it now."""
        if self._requests.holds(event):
            return
        self._activity.sending(event)
        if isinstance(event, types.LiveClientContent) and event.turn_complete:
            self._end_mere_captions()
            event = self._late_results.join(event)
            self._spoken.correct(event)
        if _asks(event):
            self._late.next_turn()
        if not self._outgoing.keeps(event):
            super()._send_client_event(event)

    def _end_mere_captions(self) -> None:
        """Close what only captions of an earlier turn opened: upstream would put the reply that is
        now asked for into it, and fail the request."""
        generation = self._current_generation
        if generation is None or generation._done or self._driver.owes_open:
            return
        self._mark_current_generation_done()
        self._driver.feed(f.GenerationEnded(self._driver.now, generation.response_id))

    def _sent(self, message: object) -> None:
        """Sees every client message once upstream has sent it."""
        if _asks(message):
            self._turns.asked()
        if self._active_session is not None:
            self._context.sent(message, cast("LiveSession", self._active_session))

    def _sync_chat_ctx(
        self, chat_ctx: llm.ChatContext, *, known: llm.ChatContext | None = None
    ) -> None:
        self._context.update(chat_ctx)

    # -- what the server sends

    def _received(self, message: object) -> None:
        """Sees every server message before upstream does; takes out what it shall not handle."""
        assert isinstance(message, types.LiveServerMessage)
        if kinds := strip_malformed(message):
            logger.warning("message skipped", extra={"kinds": kinds})
        try:
            self._follow(message)
        except Exception as e:
            # Upstream is to have it all the same.
            logger.error("message not followed", extra={"error": type(e).__name__})

    def _follow(self, message: types.LiveServerMessage) -> None:
        self._message = message
        now = self._driver.now
        # What a server says about the connection is no sign that it hears or answers anybody.
        is_sign = speaks_of_the_call(message)
        self._driver.feed(f.MessageArrived(now) if is_sign else f.NoticeArrived(now))
        self._runner.sign_came()
        self._context.take_handle(message)
        if message.voice_activity is not None:
            self._turns.voice_heard(message.voice_activity)
        runs_calls = self._opts.tool_choice != "none"
        if runs_calls and (lost := self._calls.strip(message, self._connection)):
            self._context.answer_again(lost)
        self._activity.strip(message)
        self._note_stop(message.server_content)
        self._end_past_turn(message)
        self._late.strip(message, spoke_at=self._turns.spoke_at)

    def _note_stop(self, content: types.LiveServerContent | None) -> None:
        """Note what the server says of a turn that has not begun here, or is over already."""
        generation = self._current_generation
        if content is None or (generation is not None and not generation._done):
            return
        if content.interrupted:
            self._turns.stopped_unbegun()
        if content.turn_complete and (cut := self._turns.interrupted) is not None:
            self._driver.feed(f.GenerationEnded(self._driver.now, cut))

    def _end_past_turn(self, message: types.LiveServerMessage) -> None:
        """Close a reply without an end, interrupted or complete, once the next turn begins (R13).

        Upstream would put the next turn into the reply that nobody listens to any more, or drop
        it. After `interrupted` a server sends no more audio of that turn; after
        `generationComplete` only where it was given something new.
        """
        generation, content = self._current_generation, message.server_content
        if generation is None or generation._done:
            return
        reply = generation.response_id
        answers = bool(message.tool_call or (content is not None and content.model_turn))
        said = content.output_transcription if content is not None else None
        words = bool(said and said.text)
        words |= content is not None and content.input_transcription is not None
        if reply == self._turns.interrupted:
            begins = answers or words
        elif self._turns.is_overtaken(reply):
            # Words can be late ones of the turn before, and a new reply would stop this one.
            begins = answers or (words and self._driver.has_been_heard)
        else:
            begins = answers and self._turns.is_long_complete(reply)
        if begins:
            self._mark_current_generation_done()
            self._turns.left_unended(reply)
            self._driver.feed(f.GenerationEnded(self._driver.now, reply, "overtaken"))

    def _start_new_generation(self) -> None:
        pending = self._pending_generation_fut
        asked = pending is not None and not pending.done()
        content = self._message.server_content if self._message is not None else None
        unasked_turn = content is not None and content.input_transcription is not None
        request_id: str | None = None
        if asked:
            request_id = self._requests.newest
        elif not unasked_turn:
            request_id, self._redrive_id = self._redrive_id, None
            self._joins = request_id is not None
        try:
            super()._start_new_generation()
        finally:
            self._joins = False
        generation = self._current_generation
        assert generation is not None
        self._turns.opened(
            generation.response_id,
            request_id,
            by_caption=self._message is not None and holds_captions_only(self._message),
            works_unseen=self._works_unseen,
        )
        self._activity.opened(generation.response_id)

    @property
    def _works_unseen(self) -> bool:
        """Whether the provider may be at work for long without a sign."""
        runs_beside = self._opts.tool_behavior == types.Behavior.NON_BLOCKING
        return (
            self._thinks
            or bool(self._tools.provider_tools)
            or (runs_beside and bool(self._tools.function_tools))
        )

    def _handle_server_content(self, server_content: types.LiveServerContent) -> None:
        generation = self._current_generation
        self._thinks |= thinks_aloud(server_content)
        is_open = generation is not None and not generation._done
        if is_open and generation is not None:
            self._turns.received(
                generation.response_id,
                server_content,
                takes_audio=not generation.audio_ch.closed,
            )
        super()._handle_server_content(server_content)
        if server_content.turn_complete:
            self._turn_finished = True
            self._runner.turn_finished()
            now = self._driver.now
            if is_open and generation is not None:
                ending = ending_of(server_content)
                self._driver.feed(f.GenerationEnded(now, generation.response_id, ending))
            else:
                self._driver.feed(f.TurnPassedOver(now, interrupted=self._turns.take_stop()))

    def _mark_current_generation_done(self) -> None:
        generation = self._current_generation
        if generation is None or generation._done:
            return
        self._spoken.ends(generation)
        super()._mark_current_generation_done()
        self._turns.ended(generation.response_id)
        now = self._driver.now
        transcribed_at = self._turns.transcribed_at(generation.response_id)
        self._context.spoken(generation.input_id, now if transcribed_at is None else transcribed_at)
        self._context.spoken(generation.response_id, now)
        self._late_results.reply_over()

    def _handle_tool_calls(self, tool_call: types.LiveServerToolCall) -> None:
        generation = self._current_generation
        if generation is None:
            super()._handle_tool_calls(tool_call)
            return
        now, reply = self._driver.now, generation.response_id
        for call in tool_call.function_calls or []:
            call_id = self._calls.seen(call, self._connection)
            self._driver.feed(f.ToolCallOpened(now, reply, call_id))
        self._turns.completed(reply)
        super()._handle_tool_calls(tool_call)
        self._turns.called()
        if self._opts.tool_behavior != types.Behavior.NON_BLOCKING:
            self._late.tool_called()
        for call in tool_call.function_calls or []:
            self._context.called(call)
        self._driver.feed(f.GenerationEnded(now, reply))

    def _handle_tool_call_cancellation(
        self, tool_call_cancellation: types.LiveServerToolCallCancellation
    ) -> None:
        super()._handle_tool_call_cancellation(tool_call_cancellation)
        for call_id in tool_call_cancellation.ids or []:
            self._calls.cancel(call_id)
            self._stopping.start(cancel_tool(self, call_id))
            self._driver.feed(f.ToolCallCancelled(self._driver.now, call_id))

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        generation = self._current_generation
        if generation is not None and generation.response_id == generation_id:
            self._mark_current_generation_done()

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        self.close_streams(generation_id)
        self._turns.left_unended(generation_id)
        said_all = reason not in ("stalled", "silent")
        self._late.finalised(self._driver.now, said_all=said_all)

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self._redrive_id = redrive_id
        self._send_client_event(reply_request(self._opts.model, instructions))

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        # What was asked for cannot be taken back; the caller's turn stops it at the server.
        if generation_id is not None:
            self._spoken.stop(generation_id)

    def reissue(self, request_id: str) -> None:
        self._requests.reissue(request_id)

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return self._turns.spoken(generation_id, self._resilience.speech_rate_cps, audio_s)

    def replace_connection(self, *, speaks: bool = False) -> None:
        sign: Sign = "failing" if speaks else "silent"
        self._runner.suspect("stuck" if self._driver.is_stuck else sign)

    def notify(self, event: ResilienceEvent) -> None:
        notify(self, self._resilience, event)


def _asks(message: object) -> bool:
    """Whether a client message has the model take a turn, or go on with one."""
    match message:
        case types.LiveClientContent():
            return bool(message.turn_complete)
        case types.LiveClientRealtimeInput():
            return message.activity_end is not None
        case _:
            return isinstance(message, types.LiveClientToolResponse)
