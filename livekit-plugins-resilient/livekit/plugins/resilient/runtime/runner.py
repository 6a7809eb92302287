"""Dials, restores, serves, switches and closes: one loop for the connections of every provider."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Generic

from livekit.agents import APIConnectionError

from ..core import link_facts as f
from ..core.handover import Rest
from ..core.link import Dial, DialBeside, DropSuccessor, GiveUp, Hedge, Leave, LinkLimits
from ..errors import ConnectionSuspectedError
from ..fallback import Fallback
from .awake import Meter, sleep, within
from .background import Background
from .connector import Connection, ConnectionT, Connector, EndedError, SuccessorT, UntoldError
from .driver import Driver, HedgeRequest
from .link_driver import LinkDriver, Sign
from .log import logger

__all__ = ["Runner"]

# For a task that swallowed its cancellation, as `asyncio.wait_for` can in Python before 3.12.
_CANCEL_AGAIN_S = 0.1


class Runner(Generic[ConnectionT, SuccessorT]):
    """Keeps one session connected, until it is closed or given up.

    Await `run`; tell it what shows on the connection that serves.

    Args:
        connector: The provider's part.
        limits: Of the line.
        driver: Of the session.
        rest: Tells whether the conversation rests.
        fallback: Of the session.
        hedge_notice_s: See `Bounds.hedge_notice_s`.
    """

    def __init__(
        self,
        connector: Connector[ConnectionT, SuccessorT],
        limits: LinkLimits,
        driver: Driver,
        rest: Callable[[], Rest],
        fallback: Fallback,
        hedge_notice_s: float | None = None,
    ) -> None:
        self._connector = connector
        self._driver = driver
        self._within = partial(within, timer=driver.timer)
        self._fallback = fallback
        self._link = LinkDriver(
            limits, driver, rest, fallback, hedge_notice_s, lambda: connector.knows_words
        )
        self._connection: ConnectionT | None = None
        self._serving = False
        self._closing = Background()

    # -- what shows on the connection that serves

    @property
    def connect_timeout_s(self) -> float:
        """Seconds for one dial, up to the provider's first answer."""
        return self._link.connect_timeout_s

    @property
    def suspicion(self) -> Sign | None:
        """Why the connection that serves is to be left, if it is."""
        return self._link.suspicion

    def suspect(self, sign: Sign, *, pongs_prove: bool = False) -> None:
        """The connection that serves looks dead, is stuck, or fails; none serves: no matter.

        Args:
            sign: What shows it.
            pongs_prove: Whether a pong shows life: where not even pings were answered.
        """
        if self._serving:
            self._link.suspect(sign, pongs_prove=pongs_prove)

    def sign_came(self, pong: bool = False) -> None:
        """The server sent a message, or answered a ping."""
        self._link.sign_came(pong=pong)

    def ends_in(self, seconds: float) -> None:
        """The server said when the connection ends."""
        self._link.ends_in(seconds)

    def turn_finished(self) -> None:
        """The model finished a turn: the connection is a good one."""
        self._link.progressed()

    # -- one connection after the other

    async def run(self) -> None:
        """Serve the session until it is closed.

        Raises:
            APIConnectionError: It cannot be connected; the application was told.
        """
        connector, error = self._connector, None
        self._link.opened()
        try:
            while not self._link.is_closed:
                match await self._link.decided():
                    case Dial(within_s):
                        # After the wait, so that whoever reacts to it meets a redial (R4). That a
                        # connection which looked dead is replaced is no error to tell of.
                        if error is not None and not isinstance(error, ConnectionSuspectedError):
                            connector.emit_error(error, recoverable=True)
                        error = await self._attempt(within_s)
                    case decision:
                        assert isinstance(decision, GiveUp)
                        await self._give_up(error)
        finally:
            self.close()
            await self._closing.finished()

    def close(self) -> None:
        """The application closed the session. Saying so twice is harmless."""
        self._link.closed()

    async def _attempt(self, within_s: float) -> Exception | None:
        """Serve over one connection, and those that take its place; returns what ended it, where
        that is a failure."""
        self._connection = None
        try:
            await self._over_one(within_s)
        except ConnectionSuspectedError:
            return ConnectionSuspectedError()
        except Exception as error:
            if self._link.is_closed:
                return error
            loss = self._connector.lost(self._connection, error)
            if loss is not None:
                goes_on = self._link.lost(final=loss.final, at_once=loss.at_once)
                kind = type((isinstance(error, UntoldError) and error.__cause__) or error).__name__
                logger.warning("connection lost", extra={"error": kind, "redials": goes_on})
                return loss.error
        if not self._link.is_closed:
            self._link.left()
        return None

    async def _over_one(self, within_s: float) -> None:
        """Dial, restore and serve one connection, and those that take over from it, until one ends
        with no other in its place."""
        connector, driver = self._connector, self._driver
        began_at, meter = driver.now, Meter(driver.timer)
        try:
            connection: ConnectionT | None = await self._dial(within_s)
        finally:
            meter.stop()
        answer_by = began_at + within_s + meter.slept_s
        self._link.feed(f.DialAnswered(driver.now))
        is_first = True
        while connection is not None:
            self._connection = connection
            limit_s = self._link.connect_timeout_s
            if not connector.greets:
                limit_s = answer_by - driver.now
            try:
                await self._restore(connection, limit_s)
                connector.serves(connection)
                self._link.feed(f.Restored(driver.now) if is_first else f.Switched(driver.now))
                successor = await self._serve(connection, answer_by)
            finally:
                await self._put_away(connection)
            connection, is_first = successor, False

    async def _dial(self, within_s: float) -> ConnectionT:
        try:
            return await self._within(self._connector.dial(), within_s, _close)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("the dial took too long") from e

    async def _restore(self, connection: ConnectionT, limit_s: float) -> None:
        try:
            await self._within(self._connector.restore(connection), limit_s)
        except asyncio.TimeoutError as e:
            raise APIConnectionError("a new connection was not answered in time") from e
        except self._connector.foreign:
            raise
        except Exception as e:
            raise UntoldError from e

    async def _put_away(self, connection: ConnectionT) -> None:
        # Where a provider refuses a second connection, the next dial waits for its end.
        if self._link.is_closed or not self._link.overlaps:
            await connection.close()
        else:
            self._closing.start(connection.close())

    async def _give_up(self, error: Exception | None) -> None:
        """End the session: nothing that is dialled helps.

        Raises:
            APIConnectionError: Always.
        """
        connector = self._connector
        if self._fallback.is_swapping:
            connector.settle()  # the swap may wait for an answer that does not come any more
        heard = await self._fallback.hears()
        lost = APIConnectionError(f"{connector.label} cannot be connected")
        if error is None or isinstance(error, ConnectionSuspectedError):
            lost = APIConnectionError(f"{connector.label} is connected and does not answer")
            error = None
        # What the provider said is worth more to the application than what we make of it.
        known = error if isinstance(error, connector.informative) else lost
        if heard:
            self._fallback.leave(
                connector.left(),
                lambda: connector.emit_error(known, recoverable=False),
                self._driver.timer,
            )
        raise lost from error

    # -- while one serves

    async def _serve(self, connection: ConnectionT, answer_by: float) -> ConnectionT | None:
        """Serve until the connection ends or is left.

        Returns:
            The one that takes over; None where it must be dialled first.

        Raises:
            Exception: The connection was lost.
        """
        connector = self._connector
        serving = asyncio.create_task(connector.serve(connection), name="resilient-serve")
        replacing = asyncio.create_task(self._hand_over(connection), name="resilient-replace")
        beside = [asyncio.create_task(self._ping(connection), name="resilient-ping")]
        if not connection.has_answered:
            patience = self._wait_for_answer(connection, answer_by)
            beside.append(asyncio.create_task(patience, name="resilient-patience"))
        self._serving = True
        error: Exception | None = None
        successor: SuccessorT | None = None
        left = looks_dead = False
        try:
            looks_dead = await self._until_over(connection, serving, replacing)
            if serving.done():
                error = _error_of(serving)
            elif (error := _error_of(replacing)) is None:
                successor, left = replacing.result(), True
            await _end(serving)
        finally:
            if successor is None:
                cause = ConnectionSuspectedError() if left and looks_dead else error
                connector.ended(connection, cause, left=left)
            for task in (serving, replacing, *beside):
                await _end(task)
            if successor is None:
                await _close_unused(replacing)
        if error is not None:
            raise error
        if successor is None:
            return None
        connector.switch(connection, successor)
        return successor  # type: ignore[return-value]  # of one kind, where not in place

    async def _until_over(
        self,
        connection: ConnectionT,
        serving: asyncio.Task[None],
        replacing: asyncio.Task[SuccessorT | None],
    ) -> bool:
        """Wait until the connection ends or is left; returns whether it looks dead.

        One that does is cut, so that its end waits for no answer of the server.
        """
        try:
            await asyncio.wait({serving, replacing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._serving = False
            error = _error_of(replacing) if replacing.done() else None
            looks_dead = self._link.is_suspected or isinstance(error, ConnectionSuspectedError)
            if looks_dead:
                connection.abort()
        return looks_dead

    async def _hand_over(self, connection: ConnectionT) -> SuccessorT | None:
        """Wait until the connection is to be left, and make the next one beside it, again and again
        where it takes over in place.

        Returns:
            None where the next one is to be made after it.

        Raises:
            ConnectionSuspectedError: The line is over.
        """
        connector = self._connector
        while True:
            successor: SuccessorT | None
            match await self._link.decided():
                case DialBeside(leave_by):
                    successor = await self._beside(leave_by)
                case Hedge():
                    successor = await self._hedge()
                case DropSuccessor():
                    successor = None  # it is closed already
                case Leave():
                    return None
                case decision:
                    assert isinstance(decision, GiveUp)
                    self._link.put_back(decision)
                    raise ConnectionSuspectedError
            if successor is None:
                continue
            if not connector.switches_in_place:
                return successor
            old = connector.switch(connection, successor)
            self._link.feed(f.Switched(self._driver.now))
            self._closing.start(old.close())

    async def _beside(self, leave_by: float) -> SuccessorT | None:
        """A connection that is to take over at once; None where none is."""
        successor: SuccessorT | None = None
        try:
            successor = await self._connector.dial_beside(self._link.connect_timeout_s)
            await self._connector.bring_up_to_date(successor, leave_by)
        except Exception as error:
            if successor is not None:
                await successor.close()
            logger.warning("no new connection beside", extra={"error": type(error).__name__})
            self._link.feed(self._connector.beside_failed(successor, error))
            return None
        except BaseException:
            if successor is not None:
                await successor.close()
            raise
        if self._link.may_switch():
            return successor
        await successor.close()  # something began meanwhile, of which it does not know
        return None

    async def _hedge(self) -> SuccessorT | None:
        """A connection that was asked for what is owed, and gives output of it before the one that
        serves does (R24); None where that one does, or nobody waits for it any more."""
        if (request := self._driver.begin_hedge()) is None:
            self._link.hedge_failed(refused_for_quota=False)
            return None
        work = self._answer_beside(request)
        answering = asyncio.create_task(work, name="resilient-hedge")
        deciding = asyncio.create_task(self._link.decided(), name="resilient-hedge-decided")
        hedge: SuccessorT | None = None
        try:
            await asyncio.wait({answering, deciding}, return_when=asyncio.FIRST_COMPLETED)
            await _end(deciding)
            if not deciding.cancelled():
                if not isinstance(decision := deciding.result(), DropSuccessor):
                    self._link.put_back(decision)
            elif (error := _error_of(answering)) is not None:
                logger.warning("no answer from beside", extra={"error": type(error).__name__})
                refused = self._connector.refuses_for_quota(error)
                self._link.hedge_failed(refused_for_quota=refused)
            elif self._link.may_switch(hedge=True):
                hedge = answering.result()
        finally:
            await _end(deciding)
            await _end(answering)
            if hedge is None:
                await _close_unused(answering)
        return hedge

    async def _answer_beside(self, request: HedgeRequest) -> SuccessorT:
        hedge = await self._connector.dial_hedge(request, self._link.connect_timeout_s)
        try:
            await self._connector.answered(hedge)
        except BaseException:
            await hedge.close()
            raise
        return hedge

    async def _ping(self, connection: ConnectionT) -> None:
        every_s, timer = self._connector.ping_every_s, self._driver.timer
        while every_s is not None:
            await self._connector.ping(connection)
            await timer.until(timer.now + every_s)

    async def _wait_for_answer(self, connection: ConnectionT, answer_by: float) -> None:
        await sleep(answer_by - self._driver.now, self._driver.timer)
        if not connection.has_answered:
            connection.abort()


async def _close(connection: Connection) -> None:
    await connection.close()


def _error_of(task: asyncio.Task[object]) -> Exception | None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, Exception):
        return error
    return EndedError() if task.cancelled() or error is not None else None


async def _end(task: asyncio.Task[object]) -> None:
    """Cancel a task until it ends."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_AGAIN_S)


async def _close_unused(made: asyncio.Task[SuccessorT | None]) -> None:
    if made.cancelled() or made.exception() is not None:
        return
    if (successor := made.result()) is not None:
        with contextlib.suppress(Exception):
            await successor.close()
