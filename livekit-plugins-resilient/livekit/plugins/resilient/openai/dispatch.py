"""Hands each event, the server's and ours, to the parts of a session that follow it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..runtime.log import logger
from .errors import FailureStreak, error_of, handling_of_error, is_complaint, retry_after_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from openai.types.realtime import RealtimeError

    from ..runtime.driver import Driver
    from .engine import Engine
    from .inbound import InboundEvents
    from .microphone import InputBuffer, Microphone
    from .mirror import Mirror
    from .outbound import SendQueue
    from .replay_limit import ReplayLimit
    from .requests import Requests
    from .serving import Serving
    from .tools import ToolCalls

__all__ = ["Dispatch"]

# Models that reason unless told otherwise.
_REASONS = re.compile(r"gpt-realtime-[2-9]")


class Dispatch:
    """Follows the events of one session, over all its connections.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets facts.
        serving: Notes that a session is too old.
        inbound: Makes facts of the server's events.
        mirror: What the provider knows.
        requests: Replies that were asked for.
        queue: What is sent.
        tools: The calls of the model.
        microphone: Frames for a server that finds turns by itself.
        input_buffer: Audio of an application that commits turns.
        limit: How much a new connection is told.
        on_turn_finished: Called when the model has finished a turn.
        on_failing: Called when the session gives no replies any more.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        inbound: InboundEvents,
        mirror: Mirror,
        requests: Requests,
        queue: SendQueue,
        tools: ToolCalls,
        microphone: Microphone,
        input_buffer: InputBuffer,
        limit: ReplayLimit,
        on_turn_finished: Callable[[], None],
        on_failing: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._mirror = mirror
        self._requests = requests
        self._queue = queue
        self._tool_calls = tools
        self._microphone = microphone
        self._input_buffer = input_buffer
        self._limit = limit
        self._on_turn_finished = on_turn_finished
        self._on_failing = on_failing
        self._streak = FailureStreak()

    def sent(self, event: dict[str, Any]) -> None:
        """An event of ours is written to a connection."""
        if not self._engine.detects_turns:
            self._input_buffer.sent(event)
        item = event.get("item") or {}
        if self._mirror.replaying:
            self._mirror.telling(event.get("event_id", ""), item.get("id", ""))
        self._queue.sent(event.get("event_id", ""))
        if item.get("type") == "function_call_output":
            self._tool_calls.answered(item["call_id"])

    def received(self, event: dict[str, Any]) -> None:
        """An event of the server came, which upstream handles next."""
        if event.get("type") == "response.created":
            client_id = (event["response"].get("metadata") or {}).get("client_event_id")
            self._requests.answered(client_id)
            if client_id in self._engine.withdrawn:
                self._driver.feed(f.MessageArrived(self._driver.now))
                return
        self._inbound.receive(
            event,
            answers_turns=self._engine.answers_turns,
            interrupts=self._engine.interrupts,
            works_unseen=self._works_unseen,
        )
        match event.get("type"):
            case "response.output_item.added":
                self._limit.model_spoke()
            case "response.done" if not self._inbound.is_late(event["response"].get("id")):
                self._mirror.response_ends()
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
        engine = self._engine
        reasons = engine.is_told_to_reason or _REASONS.search(engine.model_name) is not None
        return reasons or engine.has_provider_tools

    def _response_ended(self, response: dict[str, Any]) -> None:
        if response.get("status") == "completed":
            self._on_turn_finished()
            self._limit.turn_finished()
        error = error_of(response)
        if (wait_s := retry_after_s(error)) is not None:
            self._driver.feed(f.WaitStated(self._driver.now, wait_s))
        if self._streak.ended(response.get("status"), error.get("type")):
            logger.warning("a session whose responses fail is left")
            self._on_failing()
        self._requests.response_ended()

    def reported(self, error: RealtimeError) -> bool:
        """An error came; returns whether upstream is to handle it. May change which event it is
        about."""
        event_id = error.event_id or ""
        if not event_id and is_complaint({"type": error.type, "code": error.code}):
            self._limit.complained()
        self._queue.refused(event_id)
        self._mirror.refused(event_id)
        if error.code == "input_audio_buffer_commit_empty":
            self._input_buffer.refused("commit")
        # An item's waiter is settled by upstream, which then tells nobody.
        if event_id in self._engine.item_waiters:
            return True
        match handling_of_error(error.code):
            case "report":
                return True
            case "renew":
                self._serving.expired = True
            case "ask_again":
                self._requests.refused(event_id or None)
            case "defer":
                return not self._requests.defer(error)
            case "ignore":
                pass
        return False
