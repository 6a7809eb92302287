"""OpenAI Realtime and Azure OpenAI: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.agents import llm, utils
from livekit.agents.types import NOT_GIVEN, NotGivenOr
from livekit.plugins.openai import realtime as _upstream

from .._vendor.openai import realtime_model as _impl
from ..core import facts as f
from ..core.handover import RenewalLimits, Rest
from ..core.limits import OTHER_RENEWAL_WAIT_S, RENEWAL_RETRY_S
from ..events import ResilienceEvent
from ..fallback import Fallback
from ..hooks import duration_of, options_of
from ..provider_bounds import OPENAI
from ..runtime.driver import Driver
from ..runtime.link_driver import Sign, link_limits
from ..runtime.log import logger
from ..runtime.notify import notify
from ..runtime.reply_timer import ReplyTimer
from ..runtime.runner import Runner
from ..runtime.telemetry import Telemetry
from ..upstream_classes import ModelBridge, SessionBridge, hide_newer
from .caps import Host, renewal_limits
from .engine import Engine
from .parts import Parts
from .requests import Requests
from .serving import Serving
from .stand_in import AnyHttpModel
from .websocket import end_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from livekit import rtc
    from openai.types.realtime import (
        ConversationItemAdded,
        ConversationItemDeletedEvent,
        RealtimeClientEvent,
        RealtimeConversationItemFunctionCall,
        RealtimeErrorEvent,
        ResponseDoneEvent,
    )

    from ..core.decisions import FinaliseReason
    from ..options import ResilienceOptions
    from ..owed_reply import Left
    from .standby import StandbyConnection
    from .websocket import SwappableSocket

__all__ = ["RealtimeModel", "RealtimeSession"]

# By which upstream's limit of a dial, which counts while the loop is blocked, is longer than ours.
_UPSTREAM_LATER_S = 60.0

# Of the one second of R21; the rest is for what is cancelled then.
_CLOSE_WITHIN_S = 0.8

Modalities: TypeAlias = 'list[Literal["text", "audio"]]'
TextIfKnown: TypeAlias = NotGivenOr[str]


@hide_newer
class RealtimeModel(AnyHttpModel, ModelBridge, _upstream.RealtimeModel):  # type: ignore[misc]
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


@hide_newer
class RealtimeSession(_impl.RealtimeSession, SessionBridge, _upstream.RealtimeSession):  # type: ignore[misc]
    """One conversation with OpenAI Realtime over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, besides upstream's.
    """

    _provider = "openai"
    """Whose calls the metrics count."""

    def __init__(
        self, realtime_model: _impl.RealtimeModel, *, turn_detection_disabled: bool = False
    ) -> None:
        self._resilience = options_of(realtime_model)
        self._bounds = self._resilience.bounds(OPENAI)
        self._engine = Engine(self)
        self._driver = Driver(self, self._resilience, self._bounds, Telemetry(self._provider))
        self._serving = Serving()
        self._requests = self._make_requests()
        self._parts = Parts(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            requests=self._requests,
            options=self._resilience,
            speaks=realtime_model.capabilities.audio_output,
            runner=lambda: self._runner,
        )
        # The response that upstream's current generation is of.
        self._generation_id: str | None = None
        super().__init__(realtime_model, turn_detection_disabled=turn_detection_disabled)
        # Upstream has made its main task, which has not begun to run.
        self._runner = self._make_runner()

    async def aclose(self) -> None:
        """Close the session: within a second, whatever the server does, and without raising."""
        self._driver.close()
        self._runner.close()
        self._parts.speaker.detach()
        self._parts.transcript.detach()
        self._requests.close()
        is_idle = self._serving.connection is None
        await end_within(_CLOSE_WITHIN_S, super().aclose(), self._main_atask, is_idle)

    def emit(self, event: Any, *args: Any) -> None:
        if event == "openai_server_event_received":
            try:
                self._server_event(args[0])
            except Exception as e:
                # Upstream is to have it all the same.
                kinds = {"kind": args[0]["type"], "error": type(e).__name__}
                logger.error("an event could not be followed", extra=kinds)
        elif event == "openai_client_event_queued":
            self._client_event(args[0])
        elif event == "generation_created":
            self._generation_id = args[0].response_id
            self._parts.speaker.watch(args[0].response_id, args[0], self)
            emit = super().emit
            self._parts.transcript.announce(self, args[0].response_id, lambda: emit(event, *args))
            return
        super().emit(event, *args)

    if TYPE_CHECKING:
        # Upstream's type lists the events there are; ours has one more.
        def on(self, event: str, callback: Callable[..., Any] | None = None) -> Callable[..., Any]:
            """As upstream's; also takes "resilience"."""

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """As upstream's; in an outage the frame is kept for the next connection."""
        detects = self._opts.turn_detection is not None
        serves = self._serving.connection is not None
        speaks = self._driver.hear(frame, to_be_heard=detects)
        # Without turn detection the application commits what it pushed, in order.
        if not detects or self._parts.microphone.takes(frame, speaks=speaks, serves=serves):
            super().push_audio(frame)

    # -- the connection

    async def _main_task(self) -> None:
        try:
            await self._runner.run()
        finally:
            self._settle()

    def _settle(self) -> None:
        """The session is over: nobody is left waiting."""
        self._engine.close_reply()
        self._requests.close()
        for waiter in self._engine.item_waiters.values():
            if not waiter.done():
                waiter.set_exception(llm.RealtimeError("the session is over"))

    def _make_runner(self) -> Runner[SwappableSocket, StandbyConnection]:
        given = self._opts.conn_options
        limits = link_limits(self._resilience, given, retry_s=RENEWAL_RETRY_S)
        limits = replace(limits, renewal=self._renewal_limits())
        # Upstream has its own limit of a dial, and its own timer of a connection's age.
        least_s = limits.budget.connect_timeout_s + _UPSTREAM_LATER_S
        self._opts.conn_options = replace(given, timeout=least_s)
        self._opts.max_session_duration = None
        connector = self._parts.connector(
            connect_timeout_s=limits.budget.connect_timeout_s,
            liveness_timeout_s=self._bounds.liveness_timeout_s,
            settle=self._settle,
            left=self._left,
        )
        return Runner(
            connector,
            limits,
            self._driver,
            lambda: Rest(self._driver.rests_and_heard_from),
            Fallback(self),
            self._bounds.hedge_notice_s,
        )

    def _report_connection_acquired(self, acquire_time: float) -> None:
        """As upstream's; of one that is dialled unheard the application hears once it serves."""
        if not self._engine.dials_unheard:
            super()._report_connection_acquired(acquire_time)

    def _renewal_limits(self) -> RenewalLimits:
        limits, given = renewal_limits(self._host()), duration_of(self._realtime_model)
        if utils.is_given(given):
            limits = RenewalLimits(after_s=given, wait_s=OTHER_RENEWAL_WAIT_S)
        wait_s = self._resilience.renewal_wait_s
        return limits if wait_s == "provider" else replace(limits, wait_s=wait_s)

    def _make_requests(self) -> Requests:
        return Requests(engine=self._engine, driver=self._driver, serving=self._serving)

    def _host(self) -> Host:
        return Host(self._opts.model, azure=self._opts.is_azure)

    def _left(self) -> Left:
        """What is left to another model, should this session give up."""
        # The audio that another connection of this session would be told goes with it.
        detects = self._opts.turn_detection is not None
        said = detects and (
            self._parts.microphone.holds_utterance or self._parts.microphone.words_missed
        )
        return self._driver.left(words_lost=said)

    # -- what the application asks for

    def generate_reply(
        self,
        *,
        instructions: NotGivenOr[str] = NOT_GIVEN,
        tool_choice: NotGivenOr[llm.ToolChoice] = NOT_GIVEN,
        tools: NotGivenOr[list[llm.Tool]] = NOT_GIVEN,
    ) -> asyncio.Future[llm.GenerationCreatedEvent]:
        """As upstream's; a request that a drop catches is sent again, with the same future."""
        ask = super().generate_reply
        return self._requests.make(
            lambda: ask(instructions=instructions, tool_choice=tool_choice, tools=tools)
        )

    def _reply_timeout(self, on_due: Callable[[], None]) -> ReplyTimer:
        return self._requests.start_timer(on_due)

    def send_event(self, event: RealtimeClientEvent | dict[str, Any]) -> None:
        """As upstream's: queue an event, unless it would follow a replay that tells the same."""
        in_gap = self._serving.in_gap and not self._parts.mirror.replaying
        if self._requests.takes(event) and self._parts.send_queue.takes(event, in_gap=in_gap):
            super().send_event(event)

    def truncate(
        self,
        *,
        message_id: str,
        modalities: Modalities,
        audio_end_ms: int,
        audio_transcript: TextIfKnown = NOT_GIVEN,
    ) -> None:
        """As upstream's; a message that a new connection knows as text is replaced instead."""
        progress = self._parts.inbound.progress_of(message_id)
        if "audio" in modalities and progress is not None:
            # An output's clock can run beyond the audio that there was.
            audio_end_ms = min(audio_end_ms, int(progress.audio_s * 1000))
            heard = progress.heard(self._resilience.speech_rate_cps, audio_end_ms / 1000)
            self._parts.transcript.cut(message_id, heard)
            self._parts.mirror.forget_after(message_id)
            if self._parts.mirror.cut(message_id, heard):
                return
        super().truncate(
            message_id=message_id,
            modalities=modalities,
            audio_end_ms=audio_end_ms,
            audio_transcript=audio_transcript,
        )

    def interrupt(self) -> None:
        super().interrupt()
        response_id = self._parts.inbound.response_id
        # An AgentSession may come late with it, when the next reply is open already.
        if response_id is None or self._parts.transcript.plays_on(response_id):
            return
        self._parts.mirror.response_is_over(response_id)
        self._driver.feed(f.Interrupted(self._driver.now, response_id))

    # -- events

    def _client_event(self, event: dict[str, Any]) -> None:
        self._parts.dispatch.sent(event)

    def _server_event(self, event: dict[str, Any]) -> None:
        self._parts.dispatch.received(event)

    def _handle_response_done(self, event: ResponseDoneEvent) -> None:
        # Upstream ends whatever is open.
        if self._engine.discards_reply or not self._parts.inbound.is_late(event.response.id):
            super()._handle_response_done(event)

    def _handle_error(self, event: RealtimeErrorEvent) -> None:
        if self._parts.dispatch.reported(event.error):
            super()._handle_error(event)

    def _handle_conversion_item_added(self, event: ConversationItemAdded) -> None:
        item_id = event.item.id or ""
        own = not self._parts.send_queue.creates(item_id)
        event.previous_item_id = self._parts.send_queue.place_of(
            item_id
        ) or self._parts.mirror.place_after(event.previous_item_id)
        self._parts.send_queue.confirmed("create", item_id)
        if self._parts.mirror.knows(item_id):
            return  # the replay told of it
        super()._handle_conversion_item_added(event)
        if own:
            self._parts.mirror.added(event.item)

    def _handle_conversion_item_deleted(self, event: ConversationItemDeletedEvent) -> None:
        if not event.item_id:  # xAI does not say which
            event.item_id = next(iter(self._item_delete_future), "")
        self._parts.send_queue.confirmed("delete", event.item_id)
        if self._parts.mirror.knows(event.item_id) or event.item_id in self._item_delete_future:
            super()._handle_conversion_item_deleted(event)

    def _handle_function_call(self, item: RealtimeConversationItemFunctionCall) -> None:
        if not self._parts.tool_calls.came(item.call_id or ""):
            logger.warning("a tool call came again and is not run again")
            return
        super()._handle_function_call(item)

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        if self._is_current(generation_id):
            self._parts.mirror.keep_cut_reply()
            self._engine.close_reply()

    def _is_current(self, generation_id: str) -> bool:
        """Whether upstream's current generation is that one; another may have begun."""
        return self._engine.open_reply is not None and self._generation_id == generation_id

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        if self._is_current(generation_id):
            self.close_streams(generation_id)
            # Upstream skips whatever still comes for a response that it holds as discarded.
            self._engine.discard_reply()
        self._parts.inbound.discard(generation_id)
        self.send_event({"type": "response.cancel", "response_id": generation_id})
        self._parts.mirror.ends_here(generation_id)

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self.send_event(self._requests.redriving(redrive_id, instructions))

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        if generation_id is None:
            self._requests.take_back(redrive_id)
        elif (
            not self._parts.transcript.stop(generation_id)
            and generation_id == self._parts.inbound.response_id
        ):
            self.send_event({"type": "response.cancel", "response_id": generation_id})

    def reissue(self, request_id: str) -> None:
        self._requests.reissue(request_id)

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return self._parts.inbound.words_of(
            generation_id, audio_s, self._resilience.speech_rate_cps
        )

    def replace_connection(self, *, speaks: bool = False) -> None:
        sign: Sign = "failing" if speaks else "silent"
        self._runner.suspect(
            "stuck" if self._driver.is_stuck else sign, pongs_prove=self._answers_no_ping
        )

    @property
    def _answers_no_ping(self) -> bool:
        """Whether not even pings are answered any more. Else a pong proves nothing."""
        timeout_s, connection = self._bounds.liveness_timeout_s, self._serving.connection
        if timeout_s is None or connection is None:
            return False
        return self._driver.now - connection.sign_at > timeout_s / 2

    def notify(self, event: ResilienceEvent) -> None:
        notify(self, self._resilience, event)
