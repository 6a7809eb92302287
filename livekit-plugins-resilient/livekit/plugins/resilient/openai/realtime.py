"""OpenAI Realtime and Azure OpenAI: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.agents import llm, utils
from livekit.agents.types import NOT_GIVEN, NotGivenOr
from livekit.plugins.openai import realtime as _upstream

from .._vendor.openai import realtime_model as _impl
from .._vendor.openai.utils import _shorten_call_id
from ..core import facts as f
from ..core.handover import RenewalLimits, Rest
from ..core.limits import OTHER_RENEWAL_WAIT_S, REMEMBERED_CALLS, RENEWAL_RETRY_S
from ..events import ResilienceEvent
from ..fallback import Fallback
from ..hooks import duration_of, options_of
from ..newest import Newest
from ..provider_bounds import OPENAI
from ..runtime.agent_record import AgentRecord
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
from .caps import Host, renewal_limits
from .connection import Connector
from .connection_events import Edges
from .errors import FailureStreak, error_of, fate_of_error, is_complaint, retry_after_s
from .inbound import ServerEvents
from .microphone import InputBuffer, Microphone
from .mirror import Record
from .outbound import Outbox
from .replay_limit import ReplayLimit
from .requests import Requests
from .stand_in import AnyHttpModel
from .standby import Standby
from .websocket import Wire, end_within

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
    from ..runtime.driver import HedgeRequest

__all__ = ["RealtimeModel", "RealtimeSession"]

# Models that reason unless told otherwise.
_REASONS = re.compile(r"gpt-realtime-[2-9]")

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
        self._connection_log = ConnectionLog()
        self._driver = Driver(
            self,
            self._resilience,
            self._resilience.bounds(OPENAI),
            Telemetry(self._provider),
        )
        self._speaker = SpeakerWatch(self._driver.feed, lambda: self._driver.now)
        self._server_events = ServerEvents(
            self._driver, speaks=realtime_model.capabilities.audio_output
        )
        self._record = Record(self)
        self._agent_record = AgentRecord(
            self._record.played_to_its_end, self._record.response_is_over
        )
        self._replay_limit = ReplayLimit()
        self._outbox = Outbox(self)
        self._wire: Wire | None = None
        self._edges = Edges(self)
        self._microphone = Microphone(
            self._resilience.gap_audio_s, resends=self._resilience.resend_utterance
        )
        self._input_buffer = InputBuffer(resends=self._resilience.resend_utterance)
        self._expired = self._dials_unheard = False
        self._streak = FailureStreak()
        self._requests = self._make_requests()
        # The newest tool calls, by the id that upstream answers with, and those whose results
        # went. xAI's ids have 43 characters; upstream shortens those of more than 32.
        self._called: Newest[str, str] = Newest(REMEMBERED_CALLS)
        self._answered: Newest[str, None] = Newest(REMEMBERED_CALLS)
        # The response that upstream's current generation is of.
        self._generation_id: str | None = None
        super().__init__(realtime_model, turn_detection_disabled=turn_detection_disabled)
        # Upstream has made its main task, which has not begun to run.
        self._runner = self._make_runner()

    async def aclose(self) -> None:
        """Close the session: within a second, whatever the server does, and without raising."""
        self._driver.close()
        self._runner.close()
        self._speaker.detach()
        self._agent_record.detach()
        self._requests.close()
        await end_within(_CLOSE_WITHIN_S, super().aclose(), self._main_atask, self._wire is None)

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
            self._speaker.watch(args[0].response_id, args[0], self)
            emit = super().emit
            self._agent_record.announce(self, args[0].response_id, lambda: emit(event, *args))
            return
        super().emit(event, *args)

    if TYPE_CHECKING:
        # Upstream's type lists the events there are; ours has one more.
        def on(self, event: str, callback: Callable[..., Any] | None = None) -> Callable[..., Any]:
            """As upstream's; also takes "resilience"."""

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        """As upstream's; in an outage the frame is kept for the next connection."""
        detects = self._opts.turn_detection is not None
        serves = self._wire is not None
        speaks = self._driver.hear(frame, to_be_heard=detects)
        # Without turn detection the application commits what it pushed, in order.
        if not detects or self._microphone.takes(frame, speaks=speaks, serves=serves):
            super().push_audio(frame)

    # -- the connection

    async def _main_task(self) -> None:
        try:
            await self._runner.run()
        finally:
            self._settle()

    def _settle(self) -> None:
        """The session is over: nobody is left waiting."""
        self._close_current_generation()
        self._requests.close()
        for waiter in self._chat_ctx_event_futures.values():
            if not waiter.done():
                waiter.set_exception(llm.RealtimeError("the session is over"))

    def _make_runner(self) -> Runner[Wire, Standby]:
        given, driver = self._opts.conn_options, self._driver
        limits = link_limits(self._resilience, given, retry_s=RENEWAL_RETRY_S)
        limits = replace(limits, renewal=self._renewal_limits())
        notice_s = self._resilience.bounds(OPENAI).hedge_notice_s
        runner: Runner[Wire, Standby] = Runner(
            Connector(self), limits, driver, self._rest, Fallback(self), notice_s
        )
        # Upstream has its own limit of a dial, and its own timer of a connection's age.
        least_s = runner.connect_timeout_s + _UPSTREAM_LATER_S
        self._opts.conn_options = replace(given, timeout=least_s)
        self._opts.max_session_duration = None
        return runner

    def _rest(self) -> Rest:
        return Rest(self._driver.rests_and_heard_from)

    def _report_connection_acquired(self, acquire_time: float) -> None:
        """As upstream's; of one that is dialled unheard the application hears once it serves."""
        if not self._dials_unheard:
            super()._report_connection_acquired(acquire_time)

    def _renewal_limits(self) -> RenewalLimits:
        limits, given = renewal_limits(self._host()), duration_of(self._realtime_model)
        if utils.is_given(given):
            limits = RenewalLimits(after_s=given, wait_s=OTHER_RENEWAL_WAIT_S)
        wait_s = self._resilience.renewal_wait_s
        return limits if wait_s == "provider" else replace(limits, wait_s=wait_s)

    def _make_requests(self) -> Requests:
        return Requests(self)

    def _host(self) -> Host:
        return Host(self._opts.model, azure=self._opts.is_azure)

    @property
    def _liveness_timeout_s(self) -> float | None:
        return self._resilience.bounds(OPENAI).liveness_timeout_s

    @property
    def _in_gap(self) -> bool:
        return self._wire is None and self._connection_log.was_connected

    def _left(self) -> Left:
        """What is left to another model, should this session give up."""
        # The audio that another connection of this session would be told goes with it.
        detects = self._opts.turn_detection is not None
        said = detects and (self._microphone.holds_utterance or self._microphone.words_missed)
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
        in_gap = self._in_gap and not self._record.replaying
        if self._requests.takes(event) and self._outbox.takes(event, in_gap=in_gap):
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
        progress = self._server_events.progress_of(message_id)
        if "audio" in modalities and progress is not None:
            # An output's clock can run beyond the audio that there was.
            audio_end_ms = min(audio_end_ms, int(progress.audio_s * 1000))
            heard = progress.heard(self._resilience.speech_rate_cps, audio_end_ms / 1000)
            self._agent_record.cut(message_id, heard)
            self._record.forget_after(message_id)
            if self._record.cut(message_id, heard):
                return
        super().truncate(
            message_id=message_id,
            modalities=modalities,
            audio_end_ms=audio_end_ms,
            audio_transcript=audio_transcript,
        )

    def _replace_text(self, item_id: str, text: str) -> None:
        super().truncate(
            message_id=item_id, modalities=["text"], audio_end_ms=0, audio_transcript=text
        )

    def _delete_item(self, item_id: str) -> None:
        super().truncate(message_id=item_id, modalities=["audio"], audio_end_ms=0)

    def _truncate(self, item_id: str, audio_s: float) -> None:
        super().truncate(message_id=item_id, modalities=["audio"], audio_end_ms=int(audio_s * 1000))

    def interrupt(self) -> None:
        super().interrupt()
        response_id = self._server_events.response_id
        # An AgentSession may come late with it, when the next reply is open already.
        if response_id is None or self._agent_record.plays_on(response_id):
            return
        self._record.response_is_over(response_id)
        self._driver.feed(f.Interrupted(self._driver.now, response_id))

    def _client_event(self, event: dict[str, Any]) -> None:
        if self._opts.turn_detection is None:
            self._input_buffer.sent(event)
        item = event.get("item") or {}
        if self._record.replaying:
            self._record.telling(event.get("event_id", ""), item.get("id", ""))
        self._outbox.sent(event.get("event_id", ""))
        if item.get("type") == "function_call_output":
            self._tool_answered(item["call_id"])

    def _waits_for(self, answered_id: str) -> bool:
        """Whether the result of a call of this session did not go to a server; old ones did."""
        call_id = self._called.get(_shorten_call_id(answered_id))
        return call_id is not None and call_id not in self._answered

    def _tool_answered(self, answered_id: str) -> None:
        call_id = self._called.get(answered_id, answered_id)
        self._answered[call_id] = None
        # The application asks for the reply to it by itself.
        self._driver.feed(f.ToolResultDelivered(self._driver.now, call_id, expects_reply=False))

    # -- what the server sends

    def _server_event(self, event: dict[str, Any]) -> None:
        if event.get("type") == "response.created":
            client_id = (event["response"].get("metadata") or {}).get("client_event_id")
            self._requests.answered(client_id)
            if client_id in self._discarded_event_ids:
                self._driver.feed(f.MessageArrived(self._driver.now))
                return
        turns = self._opts.turn_detection
        self._server_events.receive(
            event,
            answers_turns=turns is not None and turns.create_response is not False,
            interrupts=turns is not None and turns.interrupt_response is not False,
            works_unseen=self._works_unseen,
        )
        match event.get("type"):
            case "response.output_item.added":
                self._replay_limit.model_spoke()
            case "response.done" if not self._server_events.is_late(event["response"].get("id")):
                self._record.response_ends()
                self._response_ended(event["response"])
            case "input_audio_buffer.speech_started":
                self._microphone.speech_started()
                self._requests.caller_speaks()
            case "input_audio_buffer.committed":
                self._microphone.turn_committed()
                self._input_buffer.settled("commit")
            case "input_audio_buffer.cleared":
                self._microphone.turn_committed()
                self._input_buffer.settled("clear")
            case _:
                self._microphone.server_alive()

    @property
    def _works_unseen(self) -> bool:
        """Whether the model may be at work for long within a response without a sign."""
        reasons = self._opts.reasoning is not None or _REASONS.search(self._opts.model) is not None
        return reasons or bool(self._tools.provider_tools)

    def _response_ended(self, response: dict[str, Any]) -> None:
        if response.get("status") == "completed":
            self._runner.turn_finished()
            self._replay_limit.turn_finished()
        error = error_of(response)
        if (wait_s := retry_after_s(error)) is not None:
            self._driver.feed(f.WaitStated(self._driver.now, wait_s))
        if self._streak.ended(response.get("status"), error.get("type")):
            logger.warning("a session whose responses fail is left")
            self._runner.suspect("failing")
        self._requests.response_ended()

    def _handle_response_done(self, event: ResponseDoneEvent) -> None:
        # Upstream ends whatever is open.
        discards = isinstance(self._current_generation, _impl._DiscardedGeneration)
        if discards or not self._server_events.is_late(event.response.id):
            super()._handle_response_done(event)

    def _handle_error(self, event: RealtimeErrorEvent) -> None:
        fate = fate_of_error(event.error.code)
        event_id = event.error.event_id or ""
        if not event_id and is_complaint({"type": event.error.type, "code": event.error.code}):
            self._replay_limit.complained()
        self._outbox.refused(event_id)
        self._record.refused(event_id)
        if event.error.code == "input_audio_buffer_commit_empty":
            self._input_buffer.refused("commit")
        # An item's waiter is settled by upstream, which then tells nobody.
        if fate == "report" or event_id in self._chat_ctx_event_futures:
            super()._handle_error(event)
        elif fate == "renew":
            self._expired = True
        elif fate == "ask_again":
            self._requests.refused(event_id or None)
        elif fate == "put_off" and not self._requests.put_off(event.error):
            super()._handle_error(event)

    def _handle_conversion_item_added(self, event: ConversationItemAdded) -> None:
        item_id = event.item.id or ""
        own = not self._outbox.creates(item_id)
        event.previous_item_id = self._outbox.place_of(item_id) or self._record.place_after(
            event.previous_item_id
        )
        self._outbox.confirmed("create", item_id)
        if self._record.knows(item_id):
            return  # the replay told of it
        super()._handle_conversion_item_added(event)
        if own:
            self._record.added(event.item)

    def _handle_conversion_item_deleted(self, event: ConversationItemDeletedEvent) -> None:
        if not event.item_id:  # xAI does not say which
            event.item_id = next(iter(self._item_delete_future), "")
        self._outbox.confirmed("delete", event.item_id)
        if self._record.knows(event.item_id) or event.item_id in self._item_delete_future:
            super()._handle_conversion_item_deleted(event)

    def _handle_function_call(self, item: RealtimeConversationItemFunctionCall) -> None:
        # A replayed conversation can have the model make a call again whose tool ran or runs.
        call_id = item.call_id or ""
        if _shorten_call_id(call_id) in self._called:
            logger.warning("a tool call came again and is not run again")
            if call_id in self._answered:
                self._driver.feed(f.ToolResultDelivered(self._driver.now, call_id, False))
            return
        self._called[_shorten_call_id(call_id)] = call_id
        super()._handle_function_call(item)

    # -- what the driver decides

    def close_streams(self, generation_id: str) -> None:
        if self._is_current(generation_id):
            self._record.keep_cut_reply()
            self._close_current_generation()

    def _is_current(self, generation_id: str) -> bool:
        """Whether upstream's current generation is that one; another may have begun."""
        is_open = isinstance(self._current_generation, _impl._ResponseGeneration)
        return is_open and self._generation_id == generation_id

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        if self._is_current(generation_id):
            self.close_streams(generation_id)
            # Upstream skips whatever still comes for a response that it holds as discarded.
            self._current_generation = _impl._DiscardedGeneration()
        self._server_events.discard(generation_id)
        self.send_event({"type": "response.cancel", "response_id": generation_id})
        self._record.ends_here(generation_id)

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self._requests.redrive(redrive_id, self._reply_request(redrive_id, instructions))

    def _reply_request(self, redrive_id: str, instructions: str) -> dict[str, Any]:
        if self._instructions:
            # A response's instructions replace the session's.
            instructions = f"{self._instructions}\n{instructions}"
        # The server echoes the metadata, which tells this response from others.
        response = {"instructions": instructions, "metadata": {"client_event_id": redrive_id}}
        return {"type": "response.create", "event_id": redrive_id, "response": response}

    def _requests_beside(self, request: HedgeRequest) -> list[dict[str, Any]]:
        """The events by which another connection is asked for what is owed."""
        if not request.request_ids:
            return [self._reply_request(request.hedge_id, request.instructions)]
        events = [self._requests.event_of(request_id) for request_id in request.request_ids]
        return [event for event in events if event is not None]

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        if generation_id is None:
            self._requests.take_back(redrive_id)
        elif (
            not self._agent_record.stop(generation_id)
            and generation_id == self._server_events.response_id
        ):
            self.send_event({"type": "response.cancel", "response_id": generation_id})

    def reissue(self, request_id: str) -> None:
        self._requests.reissue(request_id)

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return self._server_events.words_of(
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
        timeout_s, wire = self._liveness_timeout_s, self._wire
        if timeout_s is None or wire is None:
            return False
        return self._driver.now - wire.sign_at > timeout_s / 2

    def notify(self, event: ResilienceEvent) -> None:
        notify(self, self._resilience, event)
