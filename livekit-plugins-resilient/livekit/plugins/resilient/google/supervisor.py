"""Dials, restores the context and dials again, until the session ends (R2, R3, R7, R8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from google.genai.errors import APIError
from livekit.agents import APIConnectionError, utils
from websockets.exceptions import InvalidStatus, WebSocketException

from ..awake import within
from ..background import Background
from ..core import link_facts as f
from ..core.handover import Rest
from ..core.limits import HANDLE_WAIT_S, POISONED_WITHIN_S
from ..core.link import Dial, DialBeside, GiveUp, Leave
from ..errors import ConnectionSuspectedError
from ..events import ContinuationRejected, GoAwayReceived
from ..fallback import Fallback
from ..link_driver import LinkDriver, link_limits
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


class _GaveNothingError(APIConnectionError):
    """One connection after the other was made, and none gave what was owed."""

    def __init__(self) -> None:
        super().__init__("Gemini Live is connected and does not answer")


class _UntoldError(Exception):
    """We could not make what a new connection is to be told: no dial cures that."""


class Supervisor:
    """Keeps one session connected. Reads and writes the session's own connection state."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._fallback = Fallback(session)
        limits = link_limits(session._resilience, session._opts.conn_options)
        self._link = LinkDriver(limits, session._driver, self._rest, self._fallback)
        self._now = asyncio.get_running_loop().time
        self._line: Line | None = None
        self._resumes = False
        self._early_deaths = self._seed_deaths = 0
        # Refusals of fresh sessions that were told nothing.
        self._bare_refusals = 0
        self._refused_since: float | None = None
        self._leaving = Background()

    def _rest(self) -> Rest:
        turns = self._session._turns
        return Rest(self._session._driver.rests_from, turns.ended_at, turns.handle_at)

    async def run(self) -> None:
        """Serve the session until it is closed.

        Raises:
            APIConnectionError: It cannot be connected; the application was told.
        """
        session = self._session
        error: Exception | None = None
        self._link.opened()
        try:
            while not session._msg_ch.closed:
                match await self._link.decided():
                    case Dial(within_s):
                        # After the wait, so that whoever reacts to it meets a redial (R4).
                        if error is not None and not isinstance(error, ConnectionSuspectedError):
                            session._emit_error(error, recoverable=True)
                        error = await self._connection(within_s)
                    case decision:
                        assert isinstance(decision, GiveUp)
                        await self._give_up(error or _GaveNothingError())
        finally:
            await self._leaving.aclose()

    async def _connection(self, within_s: float) -> Exception | None:
        """Serve on one connection, and on those that it hands over to; returns what ended them."""
        session = self._session
        session._session_should_close.clear()
        session._turn_finished = False
        self._line = None
        self._resumes = session._session_resumption_handle is not None
        try:
            self._line = await self._dial(within_s)
            self._link.feed(f.DialAnswered(self._now()))
            await self._serve()
        except _GaveNothingError:
            return None  # it is given up already
        except Exception as error:
            if not session._msg_ch.closed:
                self._lost(error)
            return error
        if not session._msg_ch.closed:
            self._link.left()
        return None

    # -- one connection after the other

    async def _dial(self, timeout_s: float) -> Line:
        session = self._session
        began_at = self._now()
        try:
            config = session._build_connect_config()
        except Exception as e:
            raise _UntoldError from e
        line = await dial(session._client, session._opts.model, config, timeout_s)
        session._report_connection_acquired(self._now() - began_at)
        return line

    async def _serve(self) -> None:
        """Serve on the connection that was dialled, and on those that it hands over to."""
        session = self._session
        is_first = True
        while self._line is not None:
            line = self._line
            try:
                await self._begin(line)
                now = self._now()
                self._link.feed(f.Restored(now) if is_first else f.Switched(now))
                is_first = False
                self._line = await self._carry(line)
            except Exception as error:
                session._connection_ended(error)
                raise
            finally:
                await self._leave(line)

    def turn_finished(self) -> None:
        """The model finished a turn: the connection is a good one."""
        self._link.progressed()

    async def _begin(self, line: Line) -> None:
        session = self._session
        session._turn_finished = False
        self._resumes = line.resumed
        async with session._session_lock:
            session._active_session = line.live
            restoring = session._restore(line.live, resumed=line.resumed)
            try:
                answers = await within(restoring, self._link.connect_timeout_s)
            except (APIError, WebSocketException, OSError, asyncio.TimeoutError):
                raise
            except Exception as e:
                raise _UntoldError from e
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
        if session._msg_ch.closed or not self._link.overlaps:
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
        self._link.ends_in(time_left_s)
        self._session._driver.tell(GoAwayReceived(self._now(), time_left_s))

    def suspect(self) -> None:
        """The connection looks dead."""
        self._link.suspect()

    def see_sign(self) -> None:
        """A connection that looked dead may have shown life, or one that was stuck has gone on."""
        if self._link.is_suspected and not self._session._suspected:
            self._link.feed(f.SuspicionCleared(self._now()))

    async def _successor(self) -> Line | None:
        """Wait until the connection is to be left, and dial the next one beside it.

        Returns:
            None where the provider does not have both.
        """
        while True:
            match await self._link.decided():
                case DialBeside():
                    try:
                        line = await self._dial(self._link.connect_timeout_s)
                    except Exception as error:
                        self._not_beside(error)
                        continue
                    self.see_sign()
                    if self._link.may_switch():
                        return line
                    await line.close()  # something began meanwhile, of which it does not know
                case Leave():
                    return None
                case decision:
                    assert isinstance(decision, GiveUp)
                    self._link.put_back(decision)
                    raise _GaveNothingError

    def _not_beside(self, error: Exception) -> None:
        # Some providers refuse a handle whose connection is open (sip-to-ai#14).
        refuses = code_of(error) is not None and not isinstance(error, InvalidStatus)
        logger.warning("handover failed", extra={"error": type(error).__name__})
        self._link.feed(f.SuccessorFailed(self._now(), refuses_overlap=refuses))

    # -- after a loss

    def _lost(self, error: Exception) -> None:
        session, now = self._session, self._now()
        if session._turn_finished:
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
        goes_on = self._link.lost(final=hopeless, at_once=at_once)
        untold = isinstance(error, _UntoldError)
        logger.warning(
            "a new connection could not be told all" if untold else "connection lost",
            extra={
                "error": type((untold and error.__cause__) or error).__name__,
                "verdict": verdict,
                "redials": goes_on,
            },
        )

    async def _give_up(self, error: Exception) -> None:
        session = self._session
        if await self._fallback.hears():
            self._fallback.leave(
                session._left(), lambda: session._emit_error(error, recoverable=False)
            )
        raise APIConnectionError("Gemini Live cannot be connected") from error

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
        if isinstance(error, _UntoldError):
            context.forget_handle()
            return context.tell_less_of_it()
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
