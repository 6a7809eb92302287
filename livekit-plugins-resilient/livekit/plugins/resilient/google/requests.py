"""The application's requests for a reply: none is lost, none is made twice (R11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from google.genai import types
from livekit.agents import llm, utils

from ..core import facts as f
from ..runtime.reply_timer import ReplyTimer
from ..wording import RedriveContext, redrive_text
from .reply_request import reply_request

if TYPE_CHECKING:
    from .._vendor.google.api_proto import ClientEvents
    from ..options import ResilienceOptions
    from ..runtime.driver import Driver
    from .activity import Activity
    from .engine import Engine
    from .inbound import InboundEvents
    from .late_results import LateResults
    from .serving import Serving
    from .stale_content import StaleContentFilter

__all__ = ["Requests"]

ReplyFuture: TypeAlias = "asyncio.Future[llm.GenerationCreatedEvent]"


class Requests:
    """What `generate_reply` of one session asked for and was not answered yet.

    The driver decides when a request is issued again; its future stays the same.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets facts.
        serving: Tells whether a connection serves.
        inbound: Told when the model was asked.
        activity: The caller's turns, where the application marks them.
        late_results: What waits until a reply, or the wait for one, is over.
        stale_content: Told of replies that come too late.
        options: The application's.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        inbound: InboundEvents,
        activity: Activity,
        late_results: LateResults,
        stale_content: StaleContentFilter,
        options: ResilienceOptions,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._activity = activity
        self._late_results = late_results
        self._stale_content = stale_content
        self._options = options
        self._composing: str | None = None
        # What each open request sent.
        self._sent: dict[str, types.LiveClientContent] = {}
        # The last one to which a reply began, and what it sent.
        self._begun: tuple[str, types.LiveClientContent] | None = None
        self._timer = ReplyTimer.idle(driver.timer)

    @property
    def newest(self) -> str | None:
        """The request that the next reply answers."""
        return next(reversed(self._sent), None)

    def is_open(self, request_id: str) -> bool:
        """Whether no reply to a request has begun."""
        return request_id in self._sent

    def content_of(self, request_id: str) -> types.LiveClientContent | None:
        """What a request sent; None where it is long over."""
        if self._begun is not None and self._begun[0] == request_id:
            return self._begun[1]
        return self._sent.get(request_id)

    def make(self, generate_reply: Callable[[], ReplyFuture]) -> ReplyFuture:
        """Have upstream compose a request, and follow it."""
        self._composing = request_id = utils.shortuuid("request_")
        try:
            future = generate_reply()
        finally:
            self._composing = None
        if request_id in self._sent:
            driver = self._driver
            driver.feed(f.ReplyRequested(driver.now, request_id))
            future.add_done_callback(partial(self._done, request_id))
        return future

    def holds(self, event: ClientEvents) -> bool:
        """Whether an event is a request that the driver issues on the next connection."""
        if self._composing is None or not isinstance(event, types.LiveClientContent):
            return False
        self._sent[self._composing] = event
        held = self._serving.in_gap
        if held:
            self._inbound.asked()  # after any handle, so no restored session can know of it
        return held

    def reissue(self, request_id: str) -> None:
        """Send a request again, unless it was settled.

        Where it was to answer words that are lost, it says so.
        """
        request, activity = self._sent.get(request_id), self._activity
        if request is None or activity.held:  # who holds the button is listened to
            return
        if activity.words_lost:
            activity.words_lost = False
            lost = RedriveContext("user_words_lost")
            text = redrive_text(lost, self._options.redrive_instructions)
            told = reply_request(self._engine.model_name, text).turns or []
            request = types.LiveClientContent(
                turns=[*told[:1], *(request.turns or [])], turn_complete=True
            )
        self._engine.send(request)
        activity.reissued()

    # -- the time in which a reply must begin counts while connected

    def start_timer(self, on_due: Callable[[], None]) -> ReplyTimer:
        """Begin the time-out of the newest request."""
        self._timer = timer = ReplyTimer(self._options.reply_timeout_s, on_due, self._driver.timer)
        if self._serving.connected:
            timer.resume()
        elif self._engine.is_over:
            asyncio.get_running_loop().call_soon(timer.expire)
        return timer

    def connected(self) -> None:
        self._timer.resume()

    def disconnected(self) -> None:
        self._timer.pause()

    def gave_up(self) -> None:
        """There will be no connection any more."""
        self._timer.expire()

    def close(self) -> None:
        self._timer.cancel()

    def _done(self, request_id: str, future: ReplyFuture) -> None:
        request = self._sent.pop(request_id, None)
        self._late_results.reply_over()
        driver = self._driver
        if future.cancelled():
            driver.feed(f.ReplyCancelled(driver.now, request_id))
        elif future.exception() is not None:
            if self._serving.connected and self._engine.transcribes_caller:
                self._stale_content.request_failed(driver.now)
            driver.feed(f.ReplyRequestTimedOut(driver.now, request_id))
        elif request is not None:
            self._begun = request_id, request
