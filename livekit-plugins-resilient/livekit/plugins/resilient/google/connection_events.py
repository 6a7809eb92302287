"""What becomes of a session's state when a connection begins to serve, is lost, or is replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from ..core import facts as f
from ..events import HandedOver
from .errors import code_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtime.driver import Driver, HedgeRequest
    from ..runtime.link_driver import Sign
    from ..runtime.speaker import SpeakerWatch
    from .activity import Activity
    from .engine import Engine
    from .generations import Generations
    from .inbound import InboundEvents
    from .live_connection import LiveConnection
    from .mirror import Mirror
    from .outbound import SendQueue
    from .requests import Requests
    from .serving import Serving
    from .stale_content import StaleContentFilter

__all__ = ["ConnectionEvents"]


class ConnectionEvents:
    """What each part of one session is told when its connections come and go. Nothing here waits.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets the facts, and tells the application.
        serving: Which connection serves.
        inbound: What arrived.
        generations: The replies.
        activity: The caller's turns, where the application marks them.
        mirror: What the provider knows.
        requests: What the application asked for.
        queue: What is sent.
        stale_content: Drops what is not to be heard.
        speaker: What is played.
        suspicion: Why the connection that served before was left, if it looked dead.
        playout_on_drop: See `ResilienceOptions`.
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
        stale_content: StaleContentFilter,
        speaker: SpeakerWatch,
        suspicion: Callable[[], Sign | None],
        playout_on_drop: Literal["finish", "flush"],
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
        self._stale_content = stale_content
        self._speaker = speaker
        self._suspicion = suspicion
        self._flushes = playout_on_drop == "flush"
        # Whether the connection that is left for the next serves until that does; None for neither.
        self._overlaps: bool | None = None

    def on_restoring(self, *, resumed: bool) -> None:
        """A connection is about to be told what it does not know."""
        has_history = bool(self._engine.record.items)
        self._serving.restoring("resumed" if resumed else "replayed" if has_history else "fresh")

    def on_connected(self, connection: LiveConnection) -> None:
        """A connection is set up and holds the context."""
        hedge, connection.hedge = connection.hedge, None
        answers, hedge_id = connection.answers, None
        if hedge is not None:
            self._takes_over(hedge.request)
            answers, hedge_id = True, hedge.request.hedge_id
        serving, driver = self._serving, self._driver
        now, again = driver.now, serving.log.was_connected
        reconnected = serving.log.connected(now, serving.mode)
        serving.connected = True
        driver.tell(reconnected)
        overlapped, self._overlaps = self._overlaps, None
        if overlapped is not None:
            driver.tell(HandedOver(now, overlapped))
        self._queue.release(reconnected=again)
        looks_dead = self._suspicion() in ("silent", "failing")
        handle = self._mirror.resumption.handle
        fact = self._inbound.connected(handle, suspected=looks_dead, answers=answers)
        fact = replace(self._activity.connected(fact), hedge_id=hedge_id)
        driver.feed(fact)
        if again:
            self._engine.emit_reconnected()
        self._requests.connected()

    def _takes_over(self, request: HedgeRequest) -> None:
        """A connection that was asked beside has begun to answer `request`."""
        # The reply to one of the application that nothing came of yet is that of its future.
        is_open = any(self._requests.is_open(request_id) for request_id in request.request_ids)
        self._generations.redriving(None if is_open else request.hedge_id)
        self._inbound.asked()

    def on_lost(self, cause: Exception | None) -> None:
        """No connection serves any more; without a cause, because we left it."""
        driver, serving = self._driver, self._serving
        if not serving.connected:
            return
        serving.connected = False
        self._stale_content.next_turn()
        self._requests.disconnected()
        self._activity.disconnected()
        self._queue.sort_out()
        driver.feed(f.Disconnected(driver.now))
        if cause is not None and self._flushes:
            self._speaker.flush(self._engine.newest_reply_id)
        code = None if cause is None else code_of(cause)
        driver.tell(serving.log.ended(driver.now, cause=cause, code=code))

    def on_left(self, *, overlapped: bool | None) -> None:
        """A connection is left for the next one, as planned.

        Args:
            overlapped: Whether it serves until then; None for a hedge, which is told of as such.
        """
        self._overlaps = overlapped
        self._stale_content.next_turn()
        self._queue.sort_out()
