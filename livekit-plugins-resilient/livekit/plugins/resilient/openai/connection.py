"""Makes, tells, serves and closes connections to OpenAI; see `runtime.connector.Connector`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import WSServerHandshakeError
from livekit.agents import APIConnectionError, APIError

from ..core import link_facts as f
from ..runtime.awake import within
from ..runtime.connector import Loss, UntoldError
from ..runtime.log import logger
from .errors import final_refusal, handling_of_close, is_quota, is_refusal
from .history import ReplayState, is_blank
from .pings import ping_interval_s
from .standby import NoAnswerError, StandbyConnection
from .websocket import ReplacedSocket, SwappableSocket, close_socket

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..owed_reply import Left
    from ..runtime.driver import Driver, HedgeRequest
    from .connection_events import ConnectionEvents
    from .engine import Engine
    from .microphone import Microphone
    from .mirror import Mirror
    from .replay_limit import ReplayLimit
    from .requests import Requests
    from .serving import Serving

__all__ = ["Connector"]

# A conflict, or one session more than there may be.
_REFUSED_OVERLAP = frozenset({409, 429})


class _OverlapRefusedError(APIConnectionError):
    """The provider does not serve two connections at once."""


class _ReplayRefusedError(APIConnectionError):
    """The provider would not have what the new connection was told."""


class Connector:
    """The connections of one session.

    Args:
        engine: Of the session, as the parts that follow.
        driver: Gets facts, and knows when the conversation rests.
        serving: Which connection serves.
        events: Told when connections come and go.
        mirror: What the provider knows.
        requests: Replies that were asked for.
        microphone: Knows whether words were lost.
        limit: How much a new connection is told.
        liveness_timeout_s: Seconds of silence that make a connection suspect; None for none.
        connect_timeout_s: Seconds for one dial, up to the first answer.
        healthy_after_s: See `ResilienceOptions`.
        on_sign: Called for each message, and with True for each pong.
        is_suspected: Whether the connection that serves is to be left at once.
        settle: Leaves nobody waiting.
        left: What is left to another model.
    """

    # The server's first event comes once the dial is over, in answer to nothing.
    greets = False
    switches_in_place = True
    foreign = (APIError, OSError, asyncio.TimeoutError, aiohttp.ClientError)
    informative = APIError

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        events: ConnectionEvents,
        mirror: Mirror,
        requests: Requests,
        microphone: Microphone,
        limit: ReplayLimit,
        liveness_timeout_s: float | None,
        connect_timeout_s: float,
        healthy_after_s: float,
        on_sign: Callable[[bool], None],
        is_suspected: Callable[[], bool],
        settle: Callable[[], None],
        left: Callable[[], Left],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._within = partial(within, timer=driver.timer)
        self._serving = serving
        self._events = events
        self._mirror = mirror
        self._requests = requests
        self._microphone = microphone
        self._limit = limit
        self._liveness_timeout_s = liveness_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._healthy_after_s = healthy_after_s
        self._on_sign = on_sign
        self._is_suspected = is_suspected
        self._settle = settle
        self._left = left
        self._now = asyncio.get_running_loop().time
        self._served = False
        self._began_at: float | None = None
        self._expired = False

    @property
    def label(self) -> str:
        return self._engine.provider_label

    @property
    def ping_every_s(self) -> float | None:
        timeout_s = self._liveness_timeout_s
        return None if timeout_s is None else ping_interval_s(timeout_s)

    @property
    def knows_words(self) -> bool:
        said = [item for item in self._engine.chat_ctx.messages() if item.role == "user"]
        return not (self._microphone.words_dropped or (said and is_blank(said[-1])))

    # -- one connection

    async def dial(self) -> SwappableSocket:
        self._began_at = None
        log = self._serving.log
        log.dialling()
        try:
            connected = await self._engine.dial()
        # Upstream wraps what aiohttp raises, and not what the standard library does.
        except (APIConnectionError, ValueError, ImportError) as e:
            hopeless = log.failed(e)
            final = final_refusal(e, was_connected=log.was_connected, hopeless=hopeless)
            if final is None:
                raise
            raise final from e.__cause__ or e
        return SwappableSocket(connected, self._driver.feed, self._on_sign)

    async def restore(self, connection: SwappableSocket) -> None:
        # The first connection is told all by what upstream has queued.
        if not self._served:
            return
        try:
            await self._tell(connection)
        except ConnectionError as e:
            await connection.last_words()
            raise APIConnectionError("a new connection was lost at once") from e
        self._events.on_replayed()

    async def _tell(self, connection: SwappableSocket) -> None:
        replay = self._new_replay()
        events = self._events.difference_for(replay)
        self._mirror.leave_out(replay.left_out)
        for event in events:
            self._engine.emit_sent(event)
            await connection.send_str(json.dumps(event))
        await connection.first_answer()

    def _new_replay(self) -> ReplayState:
        """What a new connection knows: nothing yet."""
        return ReplayState(engine=self._engine, mirror=self._mirror, limit=self._limit.items)

    def serves(self, connection: SwappableSocket) -> None:
        self._served = True
        self._events.on_connected(connection)
        self._began_at = self._now()

    async def serve(self, connection: SwappableSocket) -> None:
        await self._engine.run(connection)

    async def ping(self, connection: SwappableSocket) -> None:
        await connection.send_ping()

    def ended(self, connection: SwappableSocket, error: Exception | None, *, left: bool) -> None:
        self._expired = self._serving.expired
        self._events.on_lost(connection, error, replacing=left)

    # -- one beside it

    async def dial_beside(self, timeout_s: float) -> StandbyConnection:
        return await self._standby(timeout_s)

    async def _standby(self, timeout_s: float, *, unheard: bool = False) -> StandbyConnection:
        began_at = self._now()
        try:
            dialling = self._engine.dial(unheard=unheard)
            socket = await self._within(dialling, timeout_s, close_socket)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("the dial took too long") from e
        except APIConnectionError as e:
            refusal = e.__cause__
            if isinstance(refusal, WSServerHandshakeError) and refusal.status in _REFUSED_OVERLAP:
                raise _OverlapRefusedError("a second connection was refused") from e
            raise
        standby = StandbyConnection(
            socket=socket,
            replay=self._new_replay(),
            dialled_in_s=self._now() - began_at,
            on_sent=None if unheard else self._engine.emit_sent,
            timer=self._driver.timer,
        )
        try:
            await standby.send(standby.replay.difference())
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

    async def dial_hedge(self, request: HedgeRequest, timeout_s: float) -> StandbyConnection:
        hedge = await self._standby(timeout_s, unheard=True)
        try:
            await hedge.ask(request, self._requests.beside(request))
        except BaseException:
            await hedge.close()
            raise
        return hedge

    async def answered(self, hedge: StandbyConnection) -> None:
        await hedge.answered()

    def refuses_for_quota(self, error: Exception) -> bool:
        if isinstance(error, NoAnswerError):
            return is_quota(error.refusal)
        return isinstance(error, _OverlapRefusedError)

    async def bring_up_to_date(self, successor: StandbyConnection, leave_by: float) -> None:
        driver, changing = self._driver, self._engine.update_lock
        while True:
            resting = await self._rest(leave_by)
            if resting and changing.locked():
                with contextlib.suppress(asyncio.TimeoutError):
                    await self._within(_passed(changing), max(0.0, leave_by - driver.now))
                resting = driver.rests
                if resting and changing.locked() and driver.now < leave_by:
                    continue
            if successor.lost:
                raise APIConnectionError("the new connection was closed")
            lacking = self._events.difference_for(successor.replay)
            try:
                await successor.send(lacking)
                if not lacking or not resting:
                    return
                await successor.settled(self._connect_timeout_s)
            finally:
                self._events.replay_written()

    async def _rest(self, leave_by: float) -> bool:
        """Wait for a moment of rest, but not on a connection that is to be left at once."""
        return await self._driver.rest(leave_by, unless=self._is_suspected)

    def beside_failed(
        self, successor: StandbyConnection | None, error: Exception
    ) -> f.SuccessorFailed:
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
        if self._limit.refused(self._new_replay().size):
            return True
        self._limit.reset()
        return False

    def switch(self, connection: SwappableSocket, successor: StandbyConnection) -> ReplacedSocket:
        """From here on the new connection serves; nothing is awaited, so nothing is lost."""
        left = connection.switch(successor)
        self._events.on_handed_over(successor)
        return left

    # -- after a loss

    def lost(self, connection: SwappableSocket | None, error: Exception) -> Loss | None:
        began_at = self._began_at
        code = None if connection is None else connection.close_code
        if connection is not None and began_at is None:
            self._events.on_replay_failed()
            if isinstance(error, UntoldError) or (
                isinstance(error, APIConnectionError) and is_refusal(code)
            ):
                return self._tell_less(error)
        elif connection is not None and began_at is not None:
            if self._limit.refuses(self._now(), code):
                return self._tell_less(error)
            handling = handling_of_close(code, expired=self._expired)
            healthy = self._now() - began_at >= self._healthy_after_s
            if handling == "renew" and healthy and isinstance(error, APIConnectionError):
                return None
        return Loss(error, final=isinstance(error, APIError) and not error.retryable)

    def _tell_less(self, cause: Exception) -> Loss:
        """Leave out of the next connection what may be why the last one was refused, or why we
        could not tell it."""
        limit, events = self._limit, self._events
        if not limit.refused(self._new_replay().size, audio=events.risked_audio):
            final = APIConnectionError(
                f"{self.label} refuses a session that has no history", retryable=False
            )
            final.__cause__ = cause
            return Loss(final, final=True)
        if not limit.with_audio:
            events.leave_out_audio()
        logger.warning(
            "the next connection is told less",
            extra={"items": limit.items, "audio": limit.with_audio},
        )
        return Loss(cause)

    def settle(self) -> None:
        self._settle()

    def left(self) -> Left:
        return self._left()

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        self._engine.emit_error(error, recoverable=recoverable)


async def _passed(lock: asyncio.Lock) -> None:
    """Wait until the lock is free."""
    async with lock:
        pass
