"""What becomes of each `response.create` of the application: sent, held over a drop, asked again.

A reply that was asked for is spoken once, with the same future, however many connections that
takes (R11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from livekit.agents import llm
from openai.types.realtime import ResponseCreateEvent

from ..core import facts as f
from .wire import brings_audio, dies_with_connection

if TYPE_CHECKING:
    from openai.types.realtime import RealtimeClientEvent

    from .realtime import RealtimeSession

__all__ = ["ReplyFuture", "Requests"]

ReplyFuture: TypeAlias = "asyncio.Future[llm.GenerationCreatedEvent]"


class Requests:
    """The requests of one session. Reads and writes upstream's table of their futures."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        # What `generate_reply` sent, by its event id, and the futures that a drop caught.
        self._composing = False
        self._sent: dict[str, ResponseCreateEvent] = {}
        self._held: dict[str, ReplyFuture] = {}
        # Requests that a running response kept from being answered, before they are made again.
        self._refused: list[str] = []

    def make(self, ask: Callable[[], ReplyFuture]) -> ReplyFuture:
        """Follow the request that `ask` makes; returns its future."""
        self._composing = True
        try:
            future = ask()
        finally:
            self._composing = False
        request_id = next(reversed(self._sent))
        if self._session._main_atask.done():
            future.set_exception(llm.RealtimeError("the session is over"))
        elif self._session._in_gap:
            self._held[request_id] = future
        driver = self._session._driver
        driver.feed(f.ReplyRequested(driver.now, request_id))
        future.add_done_callback(partial(self._done, request_id))
        return future

    def takes(self, event: RealtimeClientEvent | dict[str, Any]) -> bool:
        """Note an event that is about to be queued; False keeps it from following a replay."""
        if isinstance(event, ResponseCreateEvent) and self._composing:
            assert event.event_id is not None
            self._sent[event.event_id] = event
        # The driver issues requests on the next connection.
        return not (self._session._in_gap and dies_with_connection(event))

    def hold(self) -> None:
        """Keep upstream from failing what is pending when the replay is through."""
        pending = self._session._response_created_futures
        self._held.update(pending)
        pending.clear()

    def release(self) -> None:
        """A connection serves again: what was held can be answered."""
        held, self._held = self._held, {}
        self._session._response_created_futures.update(
            {key: future for key, future in held.items() if not future.done()}
        )

    def drop_queued(self, *, with_audio: bool) -> list[RealtimeClientEvent | dict[str, Any]]:
        """Empty the queue of a lost connection; returns what the next one is to be sent.

        Args:
            with_audio: Microphone audio is dropped too, because it is sent another way.
        """
        queue = self._session._msg_ch
        kept = []
        while not queue.empty():
            event = queue.recv_nowait()
            if not dies_with_connection(event) and not (with_audio and brings_audio(event)):
                kept.append(event)
        return kept

    def reissue(self, request_id: str) -> None:
        """Send a request again, unless it was settled."""
        if request_id in self._sent:
            self._session.send_event(self._sent[request_id])

    def refused(self, request_id: str) -> None:
        """The server did not answer a request because a response was running."""
        self._refused.append(request_id)

    def response_ended(self) -> None:
        """No response runs any more, so what was refused for it is asked again."""
        while self._refused:
            self.reissue(self._refused.pop())

    def close(self) -> None:
        """Settle what is pending: the session is over."""
        self.hold()
        for future in list(self._held.values()):
            if not future.done():
                future.set_exception(llm.RealtimeError("the session is over"))
        self._held.clear()

    def _done(self, request_id: str, future: ReplyFuture) -> None:
        self._sent.pop(request_id, None)
        driver = self._session._driver
        if future.cancelled():
            driver.feed(f.ReplyCancelled(driver.now, request_id))
        elif future.exception() is not None:
            driver.feed(f.ReplyRequestTimedOut(driver.now, request_id))
