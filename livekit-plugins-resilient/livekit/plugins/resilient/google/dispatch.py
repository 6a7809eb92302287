"""Hands each message, the server's and ours, to the parts of a session that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

from ..core import facts as f
from ..runtime.log import logger
from .malformed import strip_malformed
from .turn_signs import speaks_of_the_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._vendor.google.api_proto import ClientEvents
    from ..runtime.driver import Driver
    from .activity import Activity
    from .engine import Engine
    from .generations import Generations
    from .heard_transcript import HeardTranscript
    from .inbound import InboundEvents
    from .late_results import LateResults
    from .mirror import Mirror
    from .outbound import SendQueue
    from .requests import Requests
    from .serving import Serving
    from .stale_content import StaleContentFilter
    from .tool_results import ToolResults
    from .tools import ToolCalls

__all__ = ["Dispatch"]


class Dispatch:
    """Follows the messages of one session, over all its connections.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets facts.
        serving: Which connection serves.
        inbound: Makes facts of what the server says.
        generations: Makes facts of its replies.
        activity: The caller's turns, where the application marks them.
        mirror: What the provider knows.
        requests: What the application asked for.
        queue: What is sent.
        tools: The calls of the model.
        results: Their results.
        late_results: What goes with the next request.
        stale_content: Drops what is not to be heard.
        transcript: Corrects what the model believes was heard.
        on_sign: Called for each message of the server.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        inbound: InboundEvents,
        generations: Generations,
        activity: Activity,
        mirror: Mirror,
        requests: Requests,
        queue: SendQueue,
        tools: ToolCalls,
        results: ToolResults,
        late_results: LateResults,
        stale_content: StaleContentFilter,
        transcript: HeardTranscript,
        on_sign: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._generations = generations
        self._activity = activity
        self._mirror = mirror
        self._requests = requests
        self._queue = queue
        self._tool_calls = tools
        self._results = results
        self._late_results = late_results
        self._stale_content = stale_content
        self._transcript = transcript
        self._on_sign = on_sign

    # -- the server's

    def received(self, message: types.LiveServerMessage) -> None:
        """A message came, which upstream handles next; takes out what it shall not handle."""
        if kinds := strip_malformed(message):
            logger.warning("message skipped", extra={"kinds": kinds})
        try:
            self._follow(message)
        except Exception as e:
            # Upstream is to have it all the same.
            logger.error("message not followed", extra={"error": type(e).__name__})

    def _follow(self, message: types.LiveServerMessage) -> None:
        generations, driver = self._generations, self._driver
        generations.message = message
        # What a server says about the connection is no sign that it hears or answers anybody.
        is_sign = speaks_of_the_call(message)
        driver.feed(f.MessageArrived(driver.now) if is_sign else f.NoticeArrived(driver.now))
        self._on_sign()
        self._mirror.take_handle(message)
        if message.voice_activity is not None:
            self._inbound.voice_heard(message.voice_activity)
        if self._engine.runs_calls:
            lost = self._tool_calls.strip(message, self._serving.number)
            if lost:
                self._results.answer_again(lost)
        self._activity.strip(message)
        generations.note_stop(message.server_content)
        generations.end_past_turn(message)
        self._stale_content.strip(message, spoke_at=self._inbound.spoke_at)

    # -- ours

    def sending(self, event: ClientEvents) -> ClientEvents | None:
        """An event is about to be queued; returns what is queued in its place, None for nothing."""
        if self._requests.holds(event):
            return None
        self._activity.sending(event)
        if isinstance(event, types.LiveClientContent) and event.turn_complete:
            self._generations.end_mere_captions()
            event = self._late_results.join(event)
            self._transcript.correct(event)
        if _asks(event):
            self._stale_content.next_turn()
        return None if self._queue.keeps(event) else event

    def sent(self, message: object) -> None:
        """A message of ours is written to a connection."""
        if _asks(message):
            self._inbound.asked()
        if (live := self._engine.live) is not None:
            self._mirror.sent(message, live)


def _asks(message: object) -> bool:
    """Whether a client message has the model take a turn, or go on with one."""
    match message:
        case types.LiveClientContent():
            return bool(message.turn_complete)
        case types.LiveClientRealtimeInput():
            return message.activity_end is not None
        case _:
            return isinstance(message, types.LiveClientToolResponse)
