"""Dials, restores the context and dials again, until the session ends (R2, R3, R7, R8)."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import TYPE_CHECKING

from livekit.agents import APIConnectionError, utils
from websockets.exceptions import InvalidStatus

from ..awake import within
from ..background import Background
from ..core.handover import HANDOVER_NEVER, Notice, handover_at
from ..core.limits import HANDLE_WAIT_S, OVERLAP_RETRY_S, POISONED_WITHIN_S
from ..core.reconnect import Redial
from ..dialling import Dialling, Outages
from ..errors import ConnectionSuspectedError
from ..events import ContinuationRejected, GoAwayReceived
from ..fallback import Fallback
from ..log import logger
from .failures import Verdict, classify, code_of
from .history import SeedForm
from .line import Line, dial

if TYPE_CHECKING:
    from .realtime import RealtimeSession

__all__ = ["Supervisor"]

# Deaths soon after resuming that make a handle a bad one.
_POISONED_AFTER = 2


class _EndedError(Exception):
    """The connection ended without an error."""


class Supervisor:
    """Keeps one session connected. Reads and writes the session's own connection state."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        dialling = Dialling.of(session._resilience, session._opts.conn_options)
        self._connect_timeout_s = dialling.connect_timeout_s
        self._fallback = Fallback(session)
        self._outages = Outages(dialling, self._fallback)
        # A server that is drained announces the end of every new connection as well.
        self._moves = Redial(dataclasses.replace(dialling.limits, max_redials=None))
        self._now = asyncio.get_running_loop().time
        self._line: Line | None = None
        self._resumes = False
        self._early_deaths = self._seed_deaths = 0
        # Refusals of fresh sessions that were told nothing.
        self._bare_refusals = 0
        self._refused_since: float | None = None
        self._notice: Notice | None = None
        self._to_leave = asyncio.Event()
        self._refuses_overlap = False
        self._leaving = Background()

    async def run(self) -> None:
        """Serve the session until it is closed.

        Raises:
            APIConnectionError: It cannot be connected; the application was told.
        """
        session = self._session
        try:
            while not session._msg_ch.closed:
                session._session_should_close.clear()
                self._line = None
                self._resumes = session._session_resumption_handle is not None
                try:
                    self._line = await self._dial(self._outages.dialling(self._now()))
                    await self._serve()
                    self._credit_turn()  # to the connection that was left, not to the next dial
                except Exception as error:
                    if session._msg_ch.closed:
                        return
                    await self._recover(error)
        finally:
            await self._leaving.aclose()

    # -- one connection after the other

    async def _dial(self, timeout_s: float) -> Line:
        session = self._session
        began_at = self._now()
        config = session._build_connect_config()
        line = await dial(session._client, session._opts.model, config, timeout_s)
        session._report_connection_acquired(self._now() - began_at)
        return line

    async def _serve(self) -> None:
        """Serve on the connection that was dialled, and on those that it hands over to."""
        session = self._session
        while self._line is not None:
            line = self._line
            try:
                await self._begin(line)
                self._line = await self._carry(line)
            except Exception as error:
                session._connection_ended(error)
                raise
            finally:
                await self._leave(line)

    def _credit_turn(self) -> None:
        """Where a turn was finished, whatever comes now is another outage."""
        if self._session._turn_finished:
            self._outages.progressed()
            self._moves.progressed()
        self._session._turn_finished = False

    async def _begin(self, line: Line) -> None:
        session = self._session
        self._credit_turn()
        self._resumes = line.resumed
        self._notice = None
        self._to_leave.clear()
        self._outages.connected(line.set_up_at)
        self._moves.connected(line.set_up_at)
        async with session._session_lock:
            session._active_session = line.live
            restoring = session._restore(line.live, resumed=line.resumed)
            answers = await within(restoring, self._connect_timeout_s)
        session._connection_began(answers=answers)

    async def _carry(self, line: Line) -> Line | None:
        """Carry messages until the connection ends or is to be left.

        Returns:
            The connection that takes over at once; None where it must be dialled first.

        Raises:
            Exception: The connection was lost.
        """
        session = self._session
        carrying = [
            asyncio.create_task(session._send_task(line.live), name="resilient-gemini-send"),
            asyncio.create_task(session._recv_task(line.live), name="resilient-gemini-recv"),
        ]
        closing = asyncio.create_task(self._restart(), name="resilient-gemini-restart")
        moving = asyncio.create_task(self._successor(), name="resilient-gemini-move")
        successor: Line | None = None
        error: Exception | None = None
        planned = restarts = False
        try:
            await asyncio.wait([*carrying, closing, moving], return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in carrying if task.done()]
            error, session._session_error = session._session_error, None
            error = error or _error_of(ended)
            # A restart that the application asked for ends the carrying tasks too.
            restarts = session._session_should_close.is_set()
            planned = error is None and (restarts or not ended)
            # It makes the successor's set-up an old one.
            if planned and moving.done() and not restarts:
                successor = moving.result()
        finally:
            await utils.aio.cancel_and_wait(*carrying, closing, moving)
            if successor is None and not moving.cancelled():
                await _close_unused(moving)
        if not planned and error is None and not session._msg_ch.closed:
            error = _EndedError()
        if error is not None:
            raise error
        if successor is not None:
            session._handing_over(overlapped=True)
            return successor
        session._connection_ended(None)
        if not restarts and not session._msg_ch.closed:
            session._handing_over(overlapped=False)
        return None

    async def _leave(self, line: Line) -> None:
        session = self._session
        if session._active_session is line.live:
            session._active_session = None
        if session._suspected:
            line.live.abort()
        # Where a provider refuses a second connection, the next dial waits for its end.
        if session._msg_ch.closed or self._refuses_overlap:
            await line.close()
        else:
            self._leaving.start(line.close())

    async def _restart(self) -> None:
        """Wait until the application has the connection replaced, and for the handle of a turn
        that is just over (R5); until then the connection serves on."""
        session, turns = self._session, self._session._turns
        wanted, driver = session._session_should_close, session._driver
        await wanted.wait()
        while (
            turns.ended_at is not None
            and (turns.handle_at or 0.0) < turns.ended_at
            and self._now() < (until := turns.ended_at + HANDLE_WAIT_S)
            and driver.rests_from is not None
            and not session._msg_ch.closed
        ):
            wanted.clear()  # upstream sends nothing while it is set
            await driver.next_fact(until)
        wanted.set()

    # -- a planned move (R8, R17)

    def go_away(self, time_left_s: float) -> None:
        """The server announced the end of the connection, in so many seconds."""
        session, now = self._session, self._now()
        notice = Notice(now, now + max(0.0, time_left_s - session._resilience.goaway_margin_s))
        self._notice = notice.sooner(self._notice)
        self._to_leave.set()
        session._driver.tell(GoAwayReceived(now, time_left_s))

    def suspect(self) -> None:
        """The connection looks dead."""
        self._to_leave.set()

    def _move_at(self) -> float:
        session = self._session
        if session._suspected:
            return self._now()
        return handover_at(
            self._notice,
            rests_from=session._driver.rests_from,
            turn_ended_at=session._turns.ended_at,
            handle_at=session._turns.handle_at,
        )

    async def _successor(self) -> Line | None:
        """Wait until the connection is to be left, and dial the next one beside it.

        Returns:
            None where the provider does not have both.
        """
        driver = self._session._driver
        await self._to_leave.wait()
        await self._pace()
        while True:
            while (move_at := self._move_at()) > self._now():
                await driver.next_fact(move_at)
            if self._refuses_overlap:
                return None
            try:
                line = await self._dial(self._connect_timeout_s)
            except Exception as error:
                if code_of(error) is not None and not isinstance(error, InvalidStatus):
                    # Some providers refuse a handle whose connection is open (sip-to-ai#14).
                    self._refuses_overlap = True
                if self._refuses_overlap or self._is_pressing():
                    return None
                logger.warning("handover failed", extra={"error": type(error).__name__})
                await asyncio.sleep(OVERLAP_RETRY_S)
                continue
            if self._move_at() <= self._now():
                return line
            await line.close()  # something began meanwhile, of which it does not know

    async def _pace(self) -> None:
        """Keep a connection for a while that came right after others which were left."""
        session = self._session
        if session._suspected:
            return
        wait_s = self._moves.lost(self._now(), random.random())
        # In the end it is kept until the server ends it, which is bounded as a loss.
        until = HANDOVER_NEVER if wait_s is None else self._now() + wait_s
        while self._now() < until and not session._suspected:
            await session._driver.next_fact(until)

    def _is_pressing(self) -> bool:
        return self._notice is not None and self._notice.leave_by <= self._now()

    # -- after a loss

    async def _recover(self, error: Exception) -> None:
        session, now = self._session, self._now()
        if session._turn_finished:
            self._outages.progressed()
            session._context.limit = None
        verdict = classify(
            error,
            was_connected=session._connection_log.was_connected,
            resumed=self._resumes,
        )
        hopeless = verdict == "fatal" or not self._leave_out(error, verdict, now)
        hopeless |= self._line is None and session._connection_log.failed(error)
        # Upstream's session gives up where its first dial fails.
        at_once = verdict == "retry" and not session._connection_log.was_connected
        wait_s = None if hopeless else self._outages.lost(now, random.random(), at_once=at_once)
        if wait_s is None:
            if await self._fallback.hears():
                self._fallback.leave(
                    session._left(), lambda: session._emit_error(error, recoverable=False)
                )
            raise APIConnectionError("Gemini Live cannot be connected") from error
        logger.warning(
            "connection lost",
            extra={"error": type(error).__name__, "verdict": verdict, "redial_in_s": wait_s},
        )
        session._turn_finished = False
        await asyncio.sleep(wait_s)
        # After the wait, so that whoever reacts to it meets a redial (R4).
        if not isinstance(error, ConnectionSuspectedError):
            session._emit_error(error, recoverable=True)

    def _is_stuck(self, error: Exception, set_up_at: float | None, now: float) -> bool:
        """Whether the server has closed every dial with this handle for a while, for no reason of
        the handle's: it may take the connection before for open still, which it never will again.
        """
        code = code_of(error)
        if not self._resumes or set_up_at is not None:
            self._refused_since = None
        elif code is not None and code != 1006 and not isinstance(error, InvalidStatus):
            if self._refused_since is None:
                self._refused_since = now
            return now - self._refused_since >= POISONED_WITHIN_S
        return False

    def _leave_out(self, error: Exception, verdict: Verdict, now: float) -> bool:
        """Drop what may have caused the loss; False if there is nothing left to drop."""
        session, context = self._session, self._session._context
        set_up_at = self._line.set_up_at if self._line is not None else None
        if session._turn_finished or (
            set_up_at is not None and now - set_up_at >= POISONED_WITHIN_S
        ):
            self._early_deaths = self._seed_deaths = self._bare_refusals = 0
            healthy = True
        else:
            self._early_deaths += self._resumes and set_up_at is not None
            self._seed_deaths += not self._resumes and set_up_at is not None
            healthy = False
        if verdict == "invalid":
            session._outgoing.spoilt = True
        refused = verdict in ("handle_refused", "invalid") and not healthy
        refused |= self._is_stuck(error, set_up_at, now)
        if self._resumes:
            if refused or self._early_deaths >= _POISONED_AFTER:
                self._early_deaths = 0
                context.forget_handle()
                session._driver.tell(ContinuationRejected(now, code_of(error)))
            return True
        if set_up_at is None:
            return verdict != "invalid" or self._simplify_set_up()
        if session._turns.understood_at > set_up_at:
            return True  # it took what it was told, so it was something that came after
        if verdict == "invalid" and (refused or context.seeded):
            # It was the history, or the audio, or else the set-up itself; what handle it may have
            # issued stands for nothing.
            context.forget_handle()
            if context.seeded:
                context.tell_less()
                return True
            return self._simplify_set_up()
        closed = code_of(error) not in (None, 1006)
        if self._seed_deaths >= _POISONED_AFTER and context.seeded and closed:
            self._seed_deaths = 0
            context.next_form()
        return True

    def _simplify_set_up(self) -> bool:
        """A fresh session was refused that was told nothing yet: drop what we put into its set-up.

        Returns:
            Whether there was anything, or the same was taken before and may be once more.
        """
        session, context = self._session, self._session._context
        if context.form is SeedForm.ANNOUNCED and context.next_form():
            return True
        if not context.plain_set_up:
            context.plain_set_up = True
            return True
        if context.in_set_up:
            context.tell_less()
            return True
        self._bare_refusals += 1
        return session._connection_log.was_connected and self._bare_refusals == 1


def _error_of(tasks: list[asyncio.Task[None]]) -> Exception | None:
    failed = [task.exception() for task in tasks if not task.cancelled()]
    return next((error for error in failed if isinstance(error, Exception)), None)


async def _close_unused(moving: asyncio.Task[Line | None]) -> None:
    if moving.exception() is None and (line := moving.result()) is not None:
        await line.close()
