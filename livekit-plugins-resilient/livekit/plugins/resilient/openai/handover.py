"""Moves a session to a new connection while the old one still serves (R16, R17)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from aiohttp import WSServerHandshakeError
from livekit.agents import APIConnectionError

from ..awake import within
from ..background import Background
from ..core import link_facts as f
from ..core.link import DialBeside, GiveUp, Leave
from ..log import logger
from .standby import Standby
from .told import Told
from .wire import LeaveReason, Wire, close_socket

if TYPE_CHECKING:
    from ..link_driver import LinkDriver
    from .realtime import RealtimeSession

__all__ = ["Handover"]


# A conflict, or one session more than there may be.
_REFUSED_OVERLAP = frozenset({409, 429})


class _FalseAlarmError(Exception):
    """The connection that looked dead is alive."""


class _OverlapRefusedError(APIConnectionError):
    """The provider does not serve two connections at once."""


class _ReplayRefusedError(APIConnectionError):
    """The provider would not have what the new connection was told."""


class Handover:
    """The handovers of one session. Run `serve` beside each connection that serves.

    Args:
        session: Whose connections they are.
        link: Of the session.
    """

    def __init__(self, session: RealtimeSession, link: LinkDriver) -> None:
        self._session = session
        self._driver = session._driver
        self._link = link
        self._urgent: LeaveReason | None = None
        self._closing = Background()

    def call(self, reason: LeaveReason) -> None:
        """Leave the connection now, whatever is under way."""
        if self._urgent is None:
            self._urgent = reason
            self._link.suspect()

    async def serve(self, wire: Wire) -> None:
        """Replace the connection when that is due, again and again, until cancelled."""
        self._urgent = None
        while wire.left_for is None:
            match await self._link.decided():
                case DialBeside(leave_by):
                    await self._beside(wire, leave_by)
                case Leave() if self._urgent is None:
                    await wire.leave()
                case Leave():
                    wire.abort(self._urgent)
                case decision:
                    assert isinstance(decision, GiveUp)
                    self._link.put_back(decision)
                    wire.abort(self._urgent)

    async def close(self) -> None:
        """Wait until the connections that were left are closed, which takes a moment at most."""
        await self._closing.finished()

    async def _beside(self, wire: Wire, leave_by: float) -> None:
        received = wire.received
        try:
            await self._move(wire, leave_by)
        except _FalseAlarmError:
            logger.info("the connection that looked dead is alive and stays")
            self._stays()
            self._link.feed(f.SuccessorFailed(self._driver.now))
        except Exception as e:
            self._failed(e, alive=wire.received != received)

    def _stays(self) -> None:
        """It looked dead and is alive, or as good as any other."""
        self._urgent = None
        self._link.feed(f.SuspicionCleared(self._driver.now))

    def _failed(self, error: Exception, *, alive: bool) -> None:
        logger.warning(
            "no new connection beside the one that serves",
            extra={"reason": self._urgent or "planned", "error": type(error).__name__},
        )
        refused = isinstance(error, _ReplayRefusedError)
        hopeless = refused and not self._tell_less()
        if refused and self._urgent == "suspected" and alive:
            self._stays()  # it costs nothing to keep the connection
        overlap = isinstance(error, _OverlapRefusedError)
        now = self._driver.now
        self._link.feed(f.SuccessorFailed(now, refuses_overlap=overlap, hopeless=hopeless))

    def _tell_less(self) -> bool:
        """Leave out of the next connection what may be why the last was refused, if anything is
        left; else it was not the history, and the connection that serves is the best there is."""
        limit = self._session._replay_limit
        if limit.refused(Told(self._session).size):
            return True
        limit.reset()
        return False

    # -- one handover

    async def _move(self, wire: Wire, leave_by: float) -> None:
        received, pongs, reason = wire.received, wire.pongs, self._urgent
        # A pong proves nothing where pings were answered all the time and only messages lacked.
        mute = self._is_mute(wire)
        standby = await self._dial()
        try:
            await self._bring_up_to_date(standby, leave_by)
            came = wire.received != received or (mute and wire.pongs != pongs)
            if reason == "suspected" and came:
                raise _FalseAlarmError
            if reason == "stuck" and not self._driver.is_stuck:
                raise _FalseAlarmError
        except BaseException as e:
            await standby.close()
            if standby.refuses_replay and isinstance(e, APIConnectionError):
                raise _ReplayRefusedError("a new connection was refused") from e
            raise
        if self._link.may_switch():
            self._switch(wire, standby)
        else:
            await standby.close()

    def _is_mute(self, wire: Wire) -> bool:
        """Whether not even pings are answered any more."""
        timeout_s = self._session._liveness_timeout_s
        return timeout_s is not None and self._driver.now - wire.sign_at > timeout_s / 2

    async def _dial(self) -> Standby:
        """A connection that was told the session and has answered.

        Raises:
            APIError: The dial failed.
        """
        timeout_s = self._link.connect_timeout_s
        dial_by = self._driver.now + timeout_s
        try:
            socket = await within(self._session._create_ws_conn(), timeout_s)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("the dial took too long") from e
        except APIConnectionError as e:
            refusal = e.__cause__
            if isinstance(refusal, WSServerHandshakeError) and refusal.status in _REFUSED_OVERLAP:
                raise _OverlapRefusedError("a second connection was refused") from e
            raise
        standby = Standby(self._session, socket)
        try:
            await standby.send(standby.told.news())
            await standby.settled(dial_by - self._driver.now)
        except BaseException as e:
            refused = standby.lost
            await standby.close()
            if standby.refuses_replay and isinstance(e, APIConnectionError):
                raise _ReplayRefusedError("a new connection was refused") from e
            if refused and isinstance(e, APIConnectionError):
                raise _OverlapRefusedError("a second connection was closed") from e
            raise
        return standby

    async def _bring_up_to_date(self, standby: Standby, leave_by: float) -> None:
        """Wait for a moment of rest in which the new connection knows all, or for `leave_by`.

        Raises:
            APIConnectionError: The new connection was lost meanwhile.
        """
        edges, driver = self._session._edges, self._driver
        changing = self._session._update_chat_ctx_lock
        while True:
            resting = await self._rest(leave_by)
            if resting and changing.locked():
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(_passed(changing), max(0.0, leave_by - driver.now))
                resting = driver.rests
                if resting and changing.locked() and driver.now < leave_by:
                    continue
            if standby.lost:
                raise APIConnectionError("the new connection was closed")
            news = edges.news_for(standby.told)
            try:
                await standby.send(news)
                if not news or not resting:
                    return
                await standby.settled(self._link.connect_timeout_s)
            finally:
                edges.told_all()

    async def _rest(self, leave_by: float) -> bool:
        """Wait for a moment of rest, but not on a connection that is to be left at once."""
        return await self._driver.rest(leave_by, unless=lambda: self._urgent is not None)

    def _switch(self, wire: Wire, standby: Standby) -> None:
        """From here on the new connection serves; nothing is awaited, so nothing is lost."""
        self._urgent = None
        old = wire.switch(standby)
        self._session._edges.handed_over(standby)
        self._link.feed(f.Switched(self._driver.now))
        self._closing.start(close_socket(old))


async def _passed(lock: asyncio.Lock) -> None:
    """Wait until the lock is free."""
    async with lock:
        pass
