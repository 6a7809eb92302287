"""What becomes of each request of the application for a reply: sent, held over a drop, asked again.

A reply that was asked for is spoken once, with the same future, however many connections that
takes (R11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from livekit.agents import llm
from pydantic import BaseModel

from ..core import facts as f
from ..core.limits import OPENAI_REPLY_TIMEOUT_S, TIMES_PUT_OFF, TRACKED_GENERATIONS
from ..runtime.reply_timer import ReplyTimer
from .errors import retry_after_s
from .outbound import asks_for_reply, dies_with_connection

if TYPE_CHECKING:
    from openai.types.realtime import RealtimeError

    from ..runtime.driver import Driver, HedgeRequest
    from ..runtime.timer import Deadline
    from .engine import ClientEvent, Engine, ReplyFuture
    from .serving import Serving

__all__ = ["Requests"]


class Requests:
    """The requests of one session. Reads and writes upstream's table of their futures.

    Args:
        engine: Holds that table, and sends.
        driver: Of the session.
        serving: Tells whether a connection serves.
    """

    def __init__(self, *, engine: Engine, driver: Driver, serving: Serving) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        # What `generate_reply` sent, by its event id, and the futures that a drop caught.
        self._composing = False
        self._sent: dict[str, ClientEvent] = {}
        self._held: dict[str, ReplyFuture] = {}
        # The newest whose reply began, which may still come to nothing.
        self._begun: dict[str, ClientEvent] = {}
        # What the server was asked for and has not answered, in order; whether it is a re-drive.
        self._unanswered: dict[str, bool] = {}
        # What a running response kept from being answered, until that is over; likewise.
        self._refused: dict[str, bool] = {}
        # Requests that the server wants later, from when on, and what sends them then.
        self._deferrals: Counter[str] = Counter()
        self._deferred_until: dict[str, float] = {}
        self._waits_stated: dict[str, Deadline] = {}
        # The time in which a reply must begin, by request.
        self._timeouts: dict[str, ReplyTimer] = {}

    def make(self, ask: Callable[[], ReplyFuture]) -> ReplyFuture:
        """Follow the request that `ask` makes; returns its future."""
        self._composing = True
        try:
            future = ask()
        finally:
            self._composing = False
        request_id = next(reversed(self._sent))
        if self._engine.is_over:
            future.set_exception(llm.RealtimeError("the session is over"))
        elif self._serving.in_gap:
            self._held[request_id] = future
        driver = self._driver
        driver.feed(f.ReplyRequested(driver.now, request_id))
        future.add_done_callback(partial(self._done, request_id))
        return future

    def takes(self, event: ClientEvent) -> bool:
        """Note an event that is about to be queued; False keeps it from following a replay."""
        if self._composing and asks_for_reply(event):
            event_id = event["event_id"] if isinstance(event, dict) else event.event_id
            assert event_id is not None
            self._sent[event_id] = event
            self._unanswered[event_id] = False
        # The driver issues requests on the next connection.
        return not (self._serving.in_gap and dies_with_connection(event))

    def start_timer(self, on_due: Callable[[], None]) -> ReplyTimer:
        """Begin the time-out of the request that is being made."""
        self._timeouts[next(reversed(self._sent))] = timer = ReplyTimer(
            OPENAI_REPLY_TIMEOUT_S, on_due, self._driver.timer
        )
        if self._serving.connection is not None:
            timer.resume()
        return timer

    def hold(self) -> None:
        """No connection serves: time-outs do not run, and upstream must not fail what is pending
        when the replay is through."""
        for timer in self._timeouts.values():
            timer.pause()
        pending = self._engine.requests
        self._held.update(pending)
        pending.clear()

    def release(self) -> None:
        """A connection serves again: what was held can be answered."""
        held, self._held = self._held, {}
        self._engine.requests.update(
            {key: future for key, future in held.items() if not future.done()}
        )
        for request_id, timer in self._timeouts.items():
            if not self._waits(request_id):
                timer.resume()

    def reissue(self, request_id: str) -> None:
        """Send a request again, on another connection or once the server is willing, unless it
        was given up."""
        if request_id in self._sent:
            if self._waits(request_id):
                self._send_later(request_id)
                driver = self._driver
                left_s = self._deferred_until[request_id] - driver.now
                driver.feed(f.WaitStated(driver.now, left_s))
            else:
                # The last connection may have taken most of the time to prove dead.
                self._ask(request_id, OPENAI_REPLY_TIMEOUT_S / 2)
        elif request_id in self._begun:
            self._engine.send(self._unheld(request_id, self._begun[request_id]))

    def _ask(self, request_id: str, time_s: float) -> None:
        self._unanswered[request_id] = False
        self._timeouts[request_id].resume(time_s)
        self._engine.send(self._sent[request_id])

    def redriving(self, redrive_id: str, instructions: str) -> ClientEvent:
        """The event that asks for a reply that the application did not ask for; it is sent now."""
        return self._unheld(redrive_id, self._asking_for(redrive_id, instructions))

    def beside(self, request: HedgeRequest) -> list[dict[str, Any]]:
        """The events by which another connection is asked for what is owed."""
        if not request.request_ids:
            return [self._asking_for(request.hedge_id, request.instructions)]
        events = [self._event_of(request_id) for request_id in request.request_ids]
        return [event for event in events if event is not None]

    def _asking_for(self, redrive_id: str, instructions: str) -> dict[str, Any]:
        if self._engine.instructions:
            # A response's instructions replace the session's.
            instructions = f"{self._engine.instructions}\n{instructions}"
        # The server echoes the metadata, which tells this response from others.
        response = {"instructions": instructions, "metadata": {"client_event_id": redrive_id}}
        return {"type": "response.create", "event_id": redrive_id, "response": response}

    def _unheld(self, redrive_id: str, event: ClientEvent) -> ClientEvent:
        """Note a request for which no future of the application waits, and which is sent now."""
        self._engine.withdrawn.discard(redrive_id)  # taken back before
        self._unanswered[redrive_id] = True
        return event

    def _event_of(self, request_id: str) -> dict[str, Any] | None:
        """The event that made a request, as it goes on the wire; None for one that was settled."""
        made = self._sent.get(request_id) or self._begun.get(request_id)
        if isinstance(made, BaseModel):
            return made.model_dump(exclude_unset=True, by_alias=True)
        return made

    def answered(self, request_id: str | None) -> None:
        """A response begins, to a request or without one."""
        self._unanswered.pop(request_id or "", None)
        if self._refused.pop(request_id or "", None) is not None:
            self.refused(None)  # so it was another one

    def caller_speaks(self) -> None:
        """A re-drive whose response has not begun would talk over the caller, and keep the server
        from answering what they say."""
        driver = self._driver
        for redrive_id in [key for key, redrives in self._unanswered.items() if redrives]:
            self.take_back(redrive_id)
            driver.feed(f.ReplyRefused(driver.now, redrive_id))

    def take_back(self, redrive_id: str) -> None:
        """Nobody waits for a re-drive any more whose response has not begun."""
        self._unanswered.pop(redrive_id, None)
        self._refused.pop(redrive_id, None)
        # Upstream cancels the response when it begins.
        self._engine.withdrawn.add(redrive_id)

    def refused(self, event_id: str | None) -> None:
        """The server did not answer a request, or the caller, because a response was running."""
        driver = self._driver
        if (request_id := self._meant_by(event_id)) is not None:
            self._refused[request_id] = self._unanswered.pop(request_id)
            self._pause(request_id)
        elif event_id is None:
            driver.feed(f.ReplyRefused(driver.now, None))

    def defer(self, error: RealtimeError) -> bool:
        """The server wants a request later; False where it does not get it, or it is none. The
        error names it then, so that upstream has it fail."""
        request_id, driver = self._meant_by(error.event_id), self._driver
        wait_s = retry_after_s({"code": error.code, "message": error.message})
        if wait_s is None:
            return False
        driver.feed(f.WaitStated(driver.now, wait_s))
        if request_id is None:
            if error.event_id is None:
                # If anything, it is the answer to the caller's turn.
                driver.feed(f.ReplyRefused(driver.now, None, wait_s))
            return False
        if self._unanswered.pop(request_id):
            driver.feed(f.ReplyRefused(driver.now, request_id, wait_s))
            return True
        if self._deferrals[request_id] >= TIMES_PUT_OFF:
            error.event_id = request_id
            return False
        self._deferrals[request_id] += 1
        self._deferred_until[request_id] = driver.now + wait_s
        self._pause(request_id)
        self._send_later(request_id)
        return True

    def _waits(self, request_id: str) -> bool:
        """Whether the wait that the server stated is not over."""
        until = self._deferred_until.get(request_id)
        return until is not None and self._driver.now < until

    def _send_later(self, request_id: str) -> None:
        if (deadline := self._waits_stated.get(request_id)) is not None:
            deadline.cancel()
        is_over = partial(self._wait_is_over, request_id)
        self._waits_stated[request_id] = self._driver.timer.at(
            self._deferred_until[request_id], is_over
        )

    def _wait_is_over(self, request_id: str) -> None:
        del self._waits_stated[request_id], self._deferred_until[request_id]
        self._ask(request_id, OPENAI_REPLY_TIMEOUT_S)

    def _pause(self, request_id: str) -> None:
        """Nothing is to be expected of a request for now."""
        if (timer := self._timeouts.get(request_id)) is not None:
            timer.pause()

    def _meant_by(self, event_id: str | None) -> str | None:
        """What an error is about: servers do not always say, but they answer in order."""
        if event_id is None:
            return next(iter(self._unanswered), None)
        return event_id if event_id in self._unanswered else None

    def response_ended(self) -> None:
        """No response runs any more, so what was refused for it is asked again."""
        driver = self._driver
        refused, self._refused = self._refused, {}
        for request_id, redrives in refused.items():
            if redrives:
                driver.feed(f.ReplyRefused(driver.now, request_id))
            else:
                self._ask(request_id, OPENAI_REPLY_TIMEOUT_S)

    def connection_ended(self) -> None:
        """What a connection was asked for dies with it; the driver asks the next one."""
        self._unanswered.clear()
        self._refused.clear()
        self._cancel_waits()

    def close(self) -> None:
        """Settle what is pending: the session is over."""
        self._cancel_waits()
        self.hold()
        for future in list(self._held.values()):
            if not future.done():
                future.set_exception(llm.RealtimeError("the session is over"))
        self._held.clear()

    def _cancel_waits(self) -> None:
        for deadline in self._waits_stated.values():
            deadline.cancel()
        self._waits_stated.clear()

    def _done(self, request_id: str, future: ReplyFuture) -> None:
        event = self._sent.pop(request_id)
        self._unanswered.pop(request_id, None)
        self._refused.pop(request_id, None)
        self._deferrals.pop(request_id, None)
        self._deferred_until.pop(request_id, None)
        self._timeouts.pop(request_id, None)
        if (deadline := self._waits_stated.pop(request_id, None)) is not None:
            deadline.cancel()
        driver = self._driver
        if future.cancelled():
            driver.feed(f.ReplyCancelled(driver.now, request_id))
        elif future.exception() is not None:
            driver.feed(f.ReplyRequestTimedOut(driver.now, request_id))
        else:
            self._begun[request_id] = event
            if len(self._begun) > TRACKED_GENERATIONS:
                del self._begun[next(iter(self._begun))]
