"""Makes, tells, serves and closes connections to OpenAI; see `runtime.connector.Connector`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, cast

import aiohttp
from aiohttp import WSServerHandshakeError
from livekit.agents import APIConnectionError, APIError

from ..core import link_facts as f
from ..runtime.awake import within
from ..runtime.connector import Loss, UntoldError
from ..runtime.log import logger
from .errors import fate_of_close, final_refusal, is_quota, is_refusal
from .history import Told, is_blank
from .pings import ping_interval_s
from .standby import NoAnswerError, Standby
from .websocket import LeftSocket, Wire

if TYPE_CHECKING:
    from ..owed_reply import Left
    from ..runtime.driver import HedgeRequest
    from .realtime import RealtimeSession

__all__ = ["Connector"]

# A conflict, or one session more than there may be.
_REFUSED_OVERLAP = frozenset({409, 429})


class _OverlapRefusedError(APIConnectionError):
    """The provider does not serve two connections at once."""


class _ReplayRefusedError(APIConnectionError):
    """The provider would not have what the new connection was told."""


class Connector:
    """The connections of one session."""

    # The server's first event comes once the dial is over, in answer to nothing.
    greets = False
    switches_in_place = True
    foreign = (APIError, OSError, asyncio.TimeoutError, aiohttp.ClientError)
    informative = APIError

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._now = asyncio.get_running_loop().time
        self._served = False
        self._began_at: float | None = None
        self._expired = False

    @property
    def label(self) -> str:
        return self._session._realtime_model._provider_label

    @property
    def ping_every_s(self) -> float | None:
        timeout_s = self._session._liveness_timeout_s
        return None if timeout_s is None else ping_interval_s(timeout_s)

    @property
    def is_closed(self) -> bool:
        return self._session._msg_ch.closed

    @property
    def knows_words(self) -> bool:
        session = self._session
        said = [item for item in session.chat_ctx.messages() if item.role == "user"]
        return not (session._microphone.words_dropped or (said and is_blank(said[-1])))

    # -- one connection

    async def dial(self) -> Wire:
        self._began_at = None
        log = self._session._connection_log
        log.dialling()
        try:
            connected = await self._session._create_ws_conn()
        # Upstream wraps what aiohttp raises, and not what the standard library does.
        except (APIConnectionError, ValueError, ImportError) as e:
            hopeless = log.failed(e)
            final = final_refusal(e, was_connected=log.was_connected, hopeless=hopeless)
            if final is None:
                raise
            raise final from e.__cause__ or e
        return Wire(connected, self._session._driver.feed, self._session._runner.sign_came)

    async def restore(self, connection: Wire) -> None:
        # The first connection is told all by what upstream has queued.
        if not self._served:
            return
        try:
            await self._tell(connection)
        except ConnectionError as e:
            await connection.last_words()
            raise APIConnectionError("a new connection was lost at once") from e
        self._session._edges.replayed()

    async def _tell(self, wire: Wire) -> None:
        session, told = self._session, Told(self._session)
        news = session._edges.news_for(told)
        session._record.leave_out(told.left_out)
        for event in news:
            session.emit("openai_client_event_queued", event)
            await wire.send_str(json.dumps(event))
        await wire.first_answer()

    def serves(self, connection: Wire) -> None:
        self._served = True
        self._session._edges.begins(connection)
        self._began_at = self._now()

    async def serve(self, connection: Wire) -> None:
        await self._session._run_ws(cast("aiohttp.ClientWebSocketResponse", connection))

    async def ping(self, connection: Wire) -> None:
        await connection.send_ping()

    def ended(self, connection: Wire, error: Exception | None, *, left: bool) -> None:
        self._expired = self._session._expired
        self._session._edges.ended(connection, error, left=left)

    # -- one beside it

    async def dial_beside(self, timeout_s: float) -> Standby:
        return await self._standby(timeout_s)

    async def _standby(self, timeout_s: float, *, unheard: bool = False) -> Standby:
        began_at = self._now()
        self._session._dials_unheard = unheard
        try:
            socket = await within(self._session._create_ws_conn(), timeout_s)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("the dial took too long") from e
        except APIConnectionError as e:
            refusal = e.__cause__
            if isinstance(refusal, WSServerHandshakeError) and refusal.status in _REFUSED_OVERLAP:
                raise _OverlapRefusedError("a second connection was refused") from e
            raise
        finally:
            self._session._dials_unheard = False
        dialled_in_s = self._now() - began_at
        standby = Standby(self._session, socket, dialled_in_s, unheard=unheard)
        try:
            await standby.send(standby.told.news())
            await standby.settled(began_at + timeout_s - self._now())
        except BaseException as e:
            closed = standby.lost
            await standby.close()
            if isinstance(e, APIConnectionError) and standby.refuses_replay:
                raise _ReplayRefusedError("a new connection was refused") from e
            if isinstance(e, APIConnectionError) and closed:
                raise _OverlapRefusedError("a second connection was closed") from e
            raise
        return standby

    async def dial_hedge(self, request: HedgeRequest, timeout_s: float) -> Standby:
        hedge = await self._standby(timeout_s, unheard=True)
        try:
            await hedge.ask(request, self._session._requests_beside(request))
        except BaseException:
            await hedge.close()
            raise
        return hedge

    async def answered(self, hedge: Standby) -> None:
        await hedge.answered()

    def refuses_for_quota(self, error: Exception) -> bool:
        if isinstance(error, NoAnswerError):
            return is_quota(error.refusal)
        return isinstance(error, _OverlapRefusedError)

    async def bring_up_to_date(self, successor: Standby, leave_by: float) -> None:
        session, driver = self._session, self._session._driver
        edges, changing = session._edges, session._update_chat_ctx_lock
        while True:
            resting = await self._rest(leave_by)
            if resting and changing.locked():
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(_passed(changing), max(0.0, leave_by - driver.now))
                resting = driver.rests
                if resting and changing.locked() and driver.now < leave_by:
                    continue
            if successor.lost:
                raise APIConnectionError("the new connection was closed")
            news = edges.news_for(successor.told)
            try:
                await successor.send(news)
                if not news or not resting:
                    return
                await successor.settled(session._runner.connect_timeout_s)
            finally:
                edges.told_all()

    async def _rest(self, leave_by: float) -> bool:
        """Wait for a moment of rest, but not on a connection that is to be left at once."""
        session = self._session
        return await session._driver.rest(
            leave_by, unless=lambda: session._runner.suspicion is not None
        )

    def beside_failed(self, successor: Standby | None, error: Exception) -> f.SuccessorFailed:
        refused = isinstance(error, _ReplayRefusedError) or (
            successor is not None
            and successor.refuses_replay
            and isinstance(error, APIConnectionError)
        )
        overlap = isinstance(error, _OverlapRefusedError)
        hopeless = refused and not self._tell_less_beside()
        return f.SuccessorFailed(self._now(), refuses_overlap=overlap, hopeless=hopeless)

    def _tell_less_beside(self) -> bool:
        """Leave out of the next connection what may be why the last was refused, if anything is
        left; else it was not the history, and the connection that serves is the best there is."""
        limit = self._session._replay_limit
        if limit.refused(Told(self._session).size):
            return True
        limit.reset()
        return False

    def switch(self, connection: Wire, successor: Standby) -> LeftSocket:
        """From here on the new connection serves; nothing is awaited, so nothing is lost."""
        left = connection.switch(successor)
        self._session._edges.handed_over(successor)
        return left

    # -- after a loss

    def lost(self, connection: Wire | None, error: Exception) -> Loss | None:
        session, began_at = self._session, self._began_at
        code = None if connection is None else connection.close_code
        if connection is not None and began_at is None:
            session._edges.gave_up()
            if isinstance(error, UntoldError) or (
                isinstance(error, APIConnectionError) and is_refusal(code)
            ):
                return self._tell_less(error)
        elif connection is not None and began_at is not None:
            if session._replay_limit.refuses(self._now(), code):
                return self._tell_less(error)
            fate = fate_of_close(code, expired=self._expired)
            healthy = self._now() - began_at >= session._resilience.healthy_after_s
            if fate == "renew" and healthy and isinstance(error, APIConnectionError):
                return None
        return Loss(error, final=isinstance(error, APIError) and not error.retryable)

    def _tell_less(self, cause: Exception) -> Loss:
        """Leave out of the next connection what may be why the last one was refused, or why we
        could not tell it."""
        session, limit = self._session, self._session._replay_limit
        if not limit.refused(Told(session).size, audio=session._edges.risked_audio):
            final = APIConnectionError(
                f"{self.label} refuses a session that has no history", retryable=False
            )
            final.__cause__ = cause
            return Loss(final, final=True)
        if not limit.with_audio:
            session._edges.leave_out_audio()
        logger.warning(
            "the next connection is told less",
            extra={"items": limit.items, "audio": limit.with_audio},
        )
        return Loss(cause)

    def settle(self) -> None:
        self._session._settle()

    def left(self) -> Left:
        return self._session._left()

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        self._session._emit_error(error, recoverable=recoverable)


async def _passed(lock: asyncio.Lock) -> None:
    """Wait until the lock is free."""
    async with lock:
        pass
