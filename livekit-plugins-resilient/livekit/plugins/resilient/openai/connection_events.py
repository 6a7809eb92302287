"""What becomes of a session's state when a connection begins to serve, is lost, or is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ..core import facts as f
from ..events import AudioDropped, HandedOver, ReconnectMode

if TYPE_CHECKING:
    from livekit import rtc

    from ..runtime.driver import Driver
    from .engine import Engine
    from .history import Event, ReplayState
    from .inbound import InboundEvents
    from .microphone import InputBuffer, Microphone
    from .mirror import Mirror
    from .outbound import SendQueue
    from .replay_limit import ReplayLimit
    from .requests import Requests
    from .serving import Serving
    from .standby import StandbyConnection
    from .websocket import SwappableSocket

__all__ = ["ConnectionEvents"]


class ConnectionEvents:
    """What each part of one session is told when its connections come and go. Nothing here waits.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets the facts, and tells the application.
        serving: Which connection serves.
        inbound: What arrived.
        mirror: What the provider knows.
        requests: Replies that were asked for.
        queue: What is sent.
        microphone: Frames for a server that finds turns by itself.
        input_buffer: Audio of an application that commits turns.
        limit: How much a new connection is told.
        playout_on_drop: See `ResilienceOptions`.
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
        microphone: Microphone,
        input_buffer: InputBuffer,
        limit: ReplayLimit,
        playout_on_drop: Literal["finish", "flush"],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._mirror = mirror
        self._requests = requests
        self._queue = queue
        self._microphone = microphone
        self._input_buffer = input_buffer
        self._limit = limit
        self._flushes = playout_on_drop == "flush"
        self._replacing = False
        self._sent_again = False
        self.risked_audio = False
        """Whether the connection that ended last was sent audio that the next one would be."""

    # -- while a new connection is told

    def difference_for(self, replay: ReplayState) -> list[Event]:
        """What a new connection lacks, with the mirror complete. Call `replay_written`,
        `on_connected` or `on_replay_failed` afterwards."""
        # What this settles belongs in the mirror that is told.
        self._engine.forget_turn()
        self._mirror.complete()
        return replay.difference()

    def replay_written(self) -> None:
        """What `difference_for` gave was sent to a standby connection, or given up."""
        self._mirror.told()

    def on_replay_failed(self) -> None:
        """A new connection could not be told, and the next one is to know what came meanwhile."""
        self._mirror.told()
        self._queue.apply_locally()
        self.risked_audio = False

    def leave_out_audio(self) -> None:
        """What the lost connection was sent of the caller's audio is not sent again."""
        # The microphone's own goes once a connection serves.
        for event in self._queue.drop_queued(with_audio=True):
            self._engine.put_back(event)

    def on_replayed(self) -> None:
        """A new connection was told what came before the drop."""
        self._engine.withdrawn.clear()
        self._engine.close_reply()
        self._engine.emit_reconnected()

    # -- the three events

    def on_connected(self, connection: SwappableSocket) -> None:
        """A connection serves; the one before it is gone."""
        driver, microphone = self._driver, self._microphone
        now = driver.now
        mode: ReconnectMode = "replayed" if self._mirror.replays_something else "fresh"
        reconnected = self._serving.log.connected(now, mode)
        self._serving.connection = connection
        self._mirror.told()
        self._requests.release()
        driver.tell(reconnected)
        if self._replacing:
            self._replacing = False
            driver.tell(HandedOver(now, overlapped=False))
        if microphone.holds_utterance:
            self._engine.drop_partial_audio()  # its rest is part of the utterance
        unheard = microphone.for_new_connection()
        dropped_s = microphone.take_dropped_s()
        if not self._limit.with_audio:
            dropped_s += sum(frame.duration for frame in unheard)
            unheard = []
        self._sent_again = bool(unheard)
        self._limit.began(now)
        self._push_again(unheard)
        if dropped_s:
            driver.tell(AudioDropped(now, dropped_s))
        self._feed_connected()

    def on_lost(
        self, connection: SwappableSocket, cause: Exception | None, *, replacing: bool
    ) -> None:
        """The connection that served is gone.

        Args:
            connection: It.
            cause: The error that ended it; None where we did, as planned.
            replacing: Whether it is left for the next one.
        """
        driver, requests, queue = self._driver, self._requests, self._queue
        now = driver.now
        code = connection.close_code
        self._replacing = replacing and cause is None
        self._serving.connection = None
        self._serving.expired = False
        requests.connection_ended()
        requests.hold()
        # Requests that were not sent do not follow the replay; the driver issues them again.
        holds_utterance = self._microphone.holds_utterance
        queued = queue.drop_queued(with_audio=holds_utterance)
        uncommitted = self._input_buffer.for_new_connection()
        self.risked_audio = self._sent_again or holds_utterance or bool(uncommitted)
        for event in [*uncommitted, *queued]:
            self._engine.enqueue(event)
        queue.apply_locally()
        driver.feed(f.Disconnected(now))
        if cause is not None and self._flushes:
            self._mirror.flush()
        self._inbound.connection_ended()
        driver.tell(
            self._serving.log.ended(now, cause=cause, code=None if code is None else int(code))
        )

    def on_handed_over(self, standby: StandbyConnection) -> None:
        """Another connection took over, which knows all that the one before it knew."""
        engine, driver, requests = self._engine, self._driver, self._requests
        now = driver.now
        for item_id in standby.refused:
            if engine.remote_items.get(item_id) is not None:
                engine.remote_items.delete(item_id)
        self._serving.expired = False
        engine.withdrawn.clear()
        requests.connection_ended()
        self._limit.began(now)
        unheard = self._microphone.for_handover()
        self._sent_again = bool(unheard)
        if unheard:
            engine.drop_partial_audio()
        # What changed while the last of it was told, then what only the old connection was told.
        self._mirror.keep_cut_reply()
        queued = self._queue.drop_queued(with_audio=bool(unheard))
        untold = standby.replay.difference()
        self._mirror.leave_out(standby.replay.left_out)
        for event in untold:
            engine.send(event)
        uncommitted = self._input_buffer.for_new_connection()
        for waiting in [*self._queue.unanswered(), *uncommitted, *queued]:
            engine.enqueue(waiting)
        self._push_again(unheard)
        if standby.request is None:
            driver.tell(HandedOver(now, overlapped=True))
        else:  # that is told of as what became of the hedge
            engine.report_dialled(standby.dialled_in_s)
        self._inbound.connection_ended()
        self._feed_connected(None if standby.request is None else standby.request.hedge_id)
        engine.close_reply()
        engine.emit_reconnected()

    def _feed_connected(self, hedge_id: str | None = None) -> None:
        driver = self._driver
        # A replayed session answers nothing by itself.
        words_lost = self._inbound.words_lost or self._microphone.words_dropped
        driver.feed(f.Connected(driver.now, words_lost=words_lost, hedge_id=hedge_id))

    def _push_again(self, frames: list[rtc.AudioFrame]) -> None:
        for frame in frames:
            self._microphone.sent(frame)
            self._engine.push_audio(frame)
