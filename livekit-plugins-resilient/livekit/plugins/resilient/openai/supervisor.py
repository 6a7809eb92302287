"""Dials, restores the conversation and dials again, until the session ends (R1 to R4)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from livekit.agents import APIConnectionError, APIError

from .. import awake
from ..awake import Meter, within
from ..core import link_facts as f
from ..core.handover import Rest
from ..core.limits import RENEWAL_RETRY_S
from ..core.link import Dial, GiveUp
from ..errors import ConnectionSuspectedError
from ..fallback import Fallback
from ..link_driver import LinkDriver, link_limits
from ..log import logger
from .failures import fate_of_close, final_refusal, is_refusal
from .handover import Handover
from .pings import ping_interval_s
from .told import Told
from .wire import LeaveReason, Wire

if TYPE_CHECKING:
    from .realtime import RealtimeSession

__all__ = ["Supervisor"]

_CANCEL_AGAIN_S = 0.1

# By which upstream's limit of a dial, which counts while the loop is blocked, is longer than ours.
_UPSTREAM_LATER_S = 60.0


class Supervisor:
    """Keeps one session connected. Reads and writes the session's own connection state."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        given = session._opts.conn_options
        limits = link_limits(session._resilience, given, retry_s=RENEWAL_RETRY_S)
        limits = replace(limits, renewal=session._renewal_limits())
        driver, self._fallback = session._driver, Fallback(session)
        self._link = LinkDriver(
            limits, driver, lambda: Rest(driver.rests_and_heard_from), self._fallback
        )
        self._handover = Handover(session, self._link)
        # Upstream has its own limit of a dial, and its own timer of a connection's age.
        least_s = self._link.connect_timeout_s + _UPSTREAM_LATER_S
        session._opts.conn_options = replace(given, timeout=least_s)
        session._opts.max_session_duration = None
        self._loop = asyncio.get_running_loop()
        self._served = False

    def replace(self, reason: LeaveReason) -> None:
        """Have another connection take over from the one that serves, if one does."""
        self._handover.call(reason)

    def turn_finished(self) -> None:
        """The model finished a turn: the connection is a good one."""
        self._link.progressed()
        self._session._replay_limit.turn_finished()

    async def run(self) -> None:
        """Serve the session until it is closed.

        Raises:
            APIConnectionError: It cannot be connected; the application was told.
        """
        session = self._session
        error: Exception | None = None
        self._link.opened()
        while not session._msg_ch.closed:
            match await self._link.decided():
                case Dial(within_s):
                    # Replacing a connection that looked dead is no error to tell the application
                    # of. Others are told after the wait, so that whoever reacts to it meets a
                    # redial (R4).
                    if error is not None and not isinstance(error, ConnectionSuspectedError):
                        session._emit_error(error, recoverable=True)
                    error = await self._attempt(within_s)
                case decision:
                    assert isinstance(decision, GiveUp)
                    await self._give_up(error)

    async def _attempt(self, within_s: float) -> Exception | None:
        """Serve over one connection, or what takes its place; returns what ended it, if that is a
        failure."""
        try:
            await self._connection(within_s)
        except Exception as error:
            if not self._session._msg_ch.closed:
                self._lost(error)
            return error
        self._link.left()
        return None

    # -- one connection

    async def _connection(self, timeout_s: float) -> None:
        """Serve over one connection, or what takes its place; returns where that is no failure."""
        began_at = self._loop.time()
        meter = Meter()
        try:
            wire = Wire(await self._dial(timeout_s), self._session._driver.feed)
        finally:
            meter.stop()
        self._link.feed(f.DialAnswered(self._loop.time()))
        answer_by = began_at + timeout_s + meter.slept_s
        try:
            # The first connection is told all by what upstream has queued.
            if self._served:
                await self._restore(wire, answer_by)
        except BaseException as e:
            self._session._edges.gave_up()
            await wire.close()
            refused = isinstance(e, APIConnectionError) and is_refusal(wire.close_code)
            if refused or _is_own(e):
                self._tell_less(e)
            raise
        self._served = True
        try:
            await self._serve(wire, answer_by)
        except APIConnectionError as e:
            limit, now = self._session._replay_limit, self._loop.time()
            if wire.left_for is None and limit.refuses(now, wire.close_code):
                self._tell_less(e)
            raise

    async def _dial(self, timeout_s: float) -> Any:
        log = self._session._connection_log
        log.dialling()
        try:
            return await within(self._session._create_ws_conn(), timeout_s)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("the dial took too long") from e
        # Upstream wraps what aiohttp raises, and not what the standard library does.
        except (APIConnectionError, ValueError, ImportError) as e:
            hopeless = log.failed(e)
            final = final_refusal(e, was_connected=log.was_connected, hopeless=hopeless)
            if final is None:
                raise
            raise final from e.__cause__ or e

    async def _restore(self, wire: Wire, answer_by: float) -> None:
        try:
            await within(self._tell(wire), answer_by - self._loop.time())
        except asyncio.TimeoutError as e:
            raise APIConnectionError("a new connection was not answered in time") from e
        except ConnectionError as e:
            await wire.last_words()
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

    async def _serve(self, wire: Wire, answer_by: float) -> None:
        session = self._session
        session._edges.begins(wire)
        began_at = self._loop.time()
        self._link.feed(f.Restored(began_at))
        patience = _give_up_unanswered(wire, answer_by - began_at)
        beside = [
            asyncio.create_task(patience, name="resilient-openai-patience"),
            asyncio.create_task(self._handover.serve(wire), name="resilient-openai-handover"),
        ]
        if (timeout_s := session._liveness_timeout_s) is not None:
            pings = wire.send_pings(ping_interval_s(timeout_s))
            beside.append(asyncio.create_task(pings, name="resilient-openai-pings"))
        cause: Exception | None = None
        try:
            await session._run_ws(cast("aiohttp.ClientWebSocketResponse", wire))
        except Exception as e:
            failure = self._failure(e, wire, began_at)
            cause = None if wire.left_for == "planned" else failure or e
            if failure is not None:
                raise failure from e
        finally:
            session._edges.ended(wire, cause)
            for task in beside:
                await _end(task)
            await self._handover.close()

    def _failure(self, error: Exception, wire: Wire, began_at: float) -> Exception | None:
        """What a connection's end is to us; None where it had served its time."""
        session = self._session
        if wire.left_for == "planned":
            return None
        if wire.left_for is not None:
            return ConnectionSuspectedError()
        fate = fate_of_close(wire.close_code, expired=session._expired)
        healthy = self._loop.time() - began_at >= session._resilience.healthy_after_s
        if fate == "renew" and healthy and isinstance(error, APIConnectionError):
            return None
        return error

    # -- after it

    def _tell_less(self, cause: BaseException) -> None:
        """Leave out of the next connection what may be why the last one was refused, or why we
        could not tell it.

        Raises:
            APIConnectionError: There is nothing left to leave out.
        """
        session, limit = self._session, self._session._replay_limit
        if not limit.refused(Told(session).size, audio=session._edges.risked_audio):
            label = session._realtime_model._provider_label
            raise APIConnectionError(
                f"{label} refuses a session that has no history", retryable=False
            ) from cause
        if not limit.with_audio:
            session._edges.leave_out_audio()
        logger.warning(
            "a new connection could not be told all, the next one is told less",
            extra={
                "error": type(cause).__name__,
                "items": limit.items,
                "audio": limit.with_audio,
            },
        )

    def _lost(self, error: Exception) -> None:
        final = isinstance(error, APIError) and not error.retryable
        goes_on = self._link.lost(final=final)
        logger.warning("connection lost", extra={"error": type(error).__name__, "redials": goes_on})

    async def _give_up(self, error: Exception | None) -> None:
        """End the session: nothing that is dialled helps.

        Raises:
            APIConnectionError: Always.
        """
        session, label = self._session, self._session._realtime_model._provider_label
        if self._fallback.is_swapping:
            session._settle()  # the swap may wait for an answer that does not come any more
        heard = await self._fallback.hears()
        lost = APIConnectionError(f"{label} cannot be connected")
        if error is None or isinstance(error, ConnectionSuspectedError):
            lost = APIConnectionError(f"{label} is connected and does not answer")
        # What the provider said is worth more to the application than what we make of it.
        known = error if isinstance(error, APIError) else lost
        if heard:
            self._fallback.leave(
                session._left(), lambda: session._emit_error(known, recoverable=False)
            )
        raise lost from error


def _is_own(error: BaseException) -> bool:
    """Whether an error is neither the network's nor the provider's, so that dialling cures it not:
    we could not make what a new connection is told."""
    foreign = (APIError, OSError, asyncio.TimeoutError, aiohttp.ClientError)
    return isinstance(error, Exception) and not isinstance(error, foreign)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task until it ends: `asyncio.wait_for`, by which upstream dials, can swallow a
    cancellation in Python before 3.12."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_AGAIN_S)


async def _give_up_unanswered(wire: Wire, after_s: float) -> None:
    await awake.sleep(after_s)
    if not wire.received:
        wire.abort()
