"""What becomes of a session's state when a connection begins to serve, ends, or is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.agents import llm

from .._vendor.openai import realtime_model as _impl
from ..core import facts as f
from ..events import AudioDropped, HandedOver, ReconnectMode

if TYPE_CHECKING:
    from livekit import rtc

    from .history import Event, Told
    from .realtime import RealtimeSession
    from .standby import Standby
    from .websocket import Wire

__all__ = ["Edges"]


class Edges:
    """The edges of one session's connections. Nothing here waits."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._moving = False
        self._sent_again = False
        self.risked_audio = False
        """Whether the connection that ended last was sent audio that the next one would be."""

    def news_for(self, told: Told) -> list[Event]:
        """What a new connection lacks, with the record complete. Call `told_all`, `begins` or
        `gave_up` afterwards."""
        session = self._session
        # What this settles belongs in the record that is told.
        session._reset_input_turn_state()
        session._record.complete()
        return told.news()

    def told_all(self) -> None:
        """What `news_for` gave was sent to a connection beside the one that serves, or given up."""
        self._session._record.told()

    def gave_up(self) -> None:
        """A new connection could not be told, and the next one is to know what came meanwhile."""
        self._session._record.told()
        self._session._outbox.fold()
        self.risked_audio = False

    def leave_out_audio(self) -> None:
        """What the ended connection was sent of the caller's audio is not sent again."""
        # The microphone's own goes once a connection serves.
        for event in self._session._requests.drop_queued(with_audio=True):
            self._session._msg_ch.send_nowait(event)

    def replayed(self) -> None:
        """A new connection was told what came before the drop."""
        session = self._session
        session._discarded_event_ids.clear()
        session._close_current_generation()
        session.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())

    def begins(self, wire: Wire) -> None:
        """A connection serves; the one before it is gone."""
        session, driver = self._session, self._session._driver
        now = driver.now
        mode: ReconnectMode = "replayed" if session._record.replays_something else "fresh"
        reconnected = session._connection_log.connected(now, mode)
        session._wire = wire
        session._record.told()
        session._requests.release()
        driver.tell(reconnected)
        if self._moving:
            self._moving = False
            driver.tell(HandedOver(now, overlapped=False))
        if session._microphone.holds_utterance:
            session._bstream.clear()  # its rest is part of the utterance
        unheard = session._microphone.for_new_connection()
        dropped_s = session._microphone.take_dropped_s()
        if not session._replay_limit.with_audio:
            dropped_s += sum(frame.duration for frame in unheard)
            unheard = []
        self._sent_again = bool(unheard)
        session._replay_limit.began(now)
        self._push_again(unheard)
        if dropped_s:
            driver.tell(AudioDropped(now, dropped_s))
        self._connected()

    def ended(self, wire: Wire, cause: Exception | None, *, left: bool) -> None:
        """The connection that served is gone.

        Args:
            wire: It.
            cause: The error that ended it; None where we did, as planned.
            left: Whether it is left for the next one.
        """
        session, driver = self._session, self._session._driver
        now = driver.now
        code = wire.close_code
        self._moving = left and cause is None
        session._wire = None
        session._expired = False
        session._requests.connection_ended()
        session._requests.hold()
        # Requests that were not sent do not follow the replay; the driver issues them again.
        holds_utterance = session._microphone.holds_utterance
        queued = session._requests.drop_queued(with_audio=holds_utterance)
        uncommitted = session._input_buffer.for_new_connection()
        self.risked_audio = self._sent_again or holds_utterance or bool(uncommitted)
        for event in [*uncommitted, *queued]:
            _impl.RealtimeSession.send_event(session, event)
        session._outbox.fold()
        driver.feed(f.Disconnected(now))
        if cause is not None and session._resilience.playout_on_drop == "flush":
            session._record.flush()
        session._server_events.connection_ended()
        driver.tell(
            session._connection_log.ended(
                now, cause=cause, code=None if code is None else int(code)
            )
        )

    def handed_over(self, standby: Standby) -> None:
        """Another connection took over, which knows all that the one before it knew."""
        session, driver = self._session, self._session._driver
        now = driver.now
        for item_id in standby.refused:
            if session._remote_chat_ctx.get(item_id) is not None:
                session._remote_chat_ctx.delete(item_id)
        session._expired = False
        session._discarded_event_ids.clear()
        session._requests.connection_ended()
        session._replay_limit.began(now)
        unheard = session._microphone.for_handover()
        self._sent_again = bool(unheard)
        if unheard:
            session._bstream.clear()
        # What changed while the last of it was told, then what only the old connection was told.
        session._record.keep_cut_reply()
        queued = session._requests.drop_queued(with_audio=bool(unheard))
        untold = standby.told.news()
        session._record.leave_out(standby.told.left_out)
        for news in untold:
            session.send_event(news)
        uncommitted = session._input_buffer.for_new_connection()
        for event in [*session._outbox.unanswered(), *uncommitted, *queued]:
            _impl.RealtimeSession.send_event(session, event)
        self._push_again(unheard)
        if standby.request is None:
            driver.tell(HandedOver(now, overlapped=True))
        else:  # that is told of as what became of the hedge
            session._report_connection_acquired(standby.dialled_in_s)
        session._server_events.connection_ended()
        self._connected(None if standby.request is None else standby.request.hedge_id)
        session._close_current_generation()
        session.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())

    def _connected(self, hedge_id: str | None = None) -> None:
        driver = self._session._driver
        # A replayed session answers nothing by itself.
        session = self._session
        words_lost = session._server_events.words_lost or session._microphone.words_dropped
        driver.feed(f.Connected(driver.now, words_lost=words_lost, hedge_id=hedge_id))

    def _push_again(self, frames: list[rtc.AudioFrame]) -> None:
        for frame in frames:
            self._session._microphone.sent(frame)
            _impl.RealtimeSession.push_audio(self._session, frame)
