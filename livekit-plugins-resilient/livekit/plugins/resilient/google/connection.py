"""Makes, tells, serves and closes connections to Gemini; see `runtime.connector.Connector`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from google.genai.errors import APIError
from livekit.agents import utils
from websockets.exceptions import InvalidStatus, WebSocketException

from ..core import link_facts as f
from ..core.limits import HANDLE_WAIT_S
from ..core.poison import Blame, ConnectionEnded, HistoryUntold
from ..events import ContinuationRejected
from ..runtime.awake import within
from ..runtime.connector import EndedError, Loss, UntoldError
from .errors import Verdict, classify, closed_by_server, code_of, refuses_for_quota
from .hedge import Hedge, UnansweredError
from .live_connection import LiveConnection, dial
from .pings import PING_EVERY_S
from .reply_request import reply_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.genai import types

    from ..owed_reply import Left
    from ..runtime.driver import HedgeRequest
    from .realtime import RealtimeSession
    from .seed import Seed

__all__ = ["Connector"]

# What a verdict gives as the reason; others give none.
_BLAMES: dict[Verdict, Blame] = {"handle_refused": "handle", "invalid": "something"}


class Connector:
    """The connections of one session."""

    label = "Gemini Live"
    greets = True
    # What carries messages is of one connection, and the next is told the difference first.
    switches_in_place = False
    foreign = (APIError, WebSocketException, OSError, asyncio.TimeoutError)
    informative = Exception
    ping_every_s = PING_EVERY_S

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._now = asyncio.get_running_loop().time
        self._resumes = False

    @property
    def is_closed(self) -> bool:
        return self._session._msg_ch.closed

    @property
    def knows_words(self) -> bool:
        session = self._session
        # Without transcripts a fresh session would be told one side of the conversation.
        transcribed = session._opts.input_audio_transcription is not None
        return transcribed and not session._turns.words_lost(suspected=False)

    # -- one connection

    async def dial(self) -> LiveConnection:
        session = self._session
        session._session_should_close.clear()
        session._turn_finished = False
        self._resumes = session._context.resumption.handle is not None
        return await self._dial()

    async def dial_beside(self, timeout_s: float) -> LiveConnection:
        return await within(self._dial(), timeout_s, LiveConnection.close)

    async def _dial(self) -> LiveConnection:
        began_at = self._now()
        line = await self._set_up()
        self._session._report_connection_acquired(self._now() - began_at)
        return line

    async def _set_up(self, beside: Seed | None = None) -> LiveConnection:
        session = self._session
        try:
            config = session._build_connect_config(beside)
        except Exception as e:
            raise UntoldError from e
        return await dial(session._client, session._opts.model, config)

    async def bring_up_to_date(self, successor: LiveConnection, leave_by: float) -> None:
        """What the handle does not know is told once it serves."""

    def beside_failed(
        self, successor: LiveConnection | None, error: Exception
    ) -> f.SuccessorFailed:
        # Some providers refuse a handle whose connection is open (sip-to-ai#14).
        refuses = code_of(error) is not None and not isinstance(error, InvalidStatus)
        return f.SuccessorFailed(self._now(), refuses_overlap=refuses)

    # -- one that is asked beside

    async def dial_hedge(self, request: HedgeRequest, timeout_s: float) -> LiveConnection:
        made: list[LiveConnection] = []
        try:
            await within(self._ask(request, made), timeout_s)
        except BaseException:
            for line in made:
                await line.close()
            raise
        return made[0]

    async def _ask(self, request: HedgeRequest, made: list[LiveConnection]) -> None:
        """Make a connection, put it into `made`, tell it the call and ask it."""
        seed, began_at = self._session._context.fresh_hedge(), self._now()
        asked = list(self._asked_for(request))
        if not asked:
            raise UnansweredError("there is nothing to ask a hedge")
        line = await self._set_up(seed)
        made.append(line)
        line.hedge = Hedge(seed, request, self._now() - began_at)
        await seed.tell(line.live)
        for content in asked:
            await line.live.send_client_content(turns=content.turns, turn_complete=True)

    def _asked_for(self, request: HedgeRequest) -> Iterator[types.LiveClientContent]:
        session = self._session
        if not request.request_ids:
            yield reply_request(session._opts.model, request.instructions)
        for request_id in request.request_ids:
            if (content := session._requests.content_of(request_id)) is not None:
                yield content

    async def answered(self, hedge: LiveConnection) -> None:
        assert hedge.hedge is not None
        speaks = self._session._realtime_model.capabilities.audio_output
        await hedge.hedge.answered(hedge.live, speaks=speaks)

    def refuses_for_quota(self, error: Exception) -> bool:
        return refuses_for_quota(error)

    # -- the one that serves

    def switch(self, connection: LiveConnection, successor: LiveConnection) -> LiveConnection:
        # That of a hedge is told of as such.
        self._session._handing_over(overlapped=None if successor.hedge is not None else True)
        return connection

    async def restore(self, connection: LiveConnection) -> None:
        session = self._session
        session._turn_finished = False
        self._resumes = connection.resumed
        async with session._session_lock:
            session._active_session = connection.live
            if (hedge := connection.hedge) is not None:
                session._report_connection_acquired(hedge.dialled_in_s)
                session._take_over(hedge.seed, answering=True)
                return
            connection.answers = await session._restore(connection.live, resumed=connection.resumed)

    def serves(self, connection: LiveConnection) -> None:
        if (hedge := connection.hedge) is not None:
            connection.hedge = None
            self._session._hedge_began(hedge.request)
        else:
            self._session._connection_began(answers=connection.answers)

    async def serve(self, connection: LiveConnection) -> None:
        session = self._session
        carrying = [
            asyncio.create_task(session._send_task(connection.live), name="resilient-gemini-send"),
            asyncio.create_task(session._recv_task(connection.live), name="resilient-gemini-recv"),
        ]
        closing = asyncio.create_task(self._restart(), name="resilient-gemini-restart")
        try:
            await asyncio.wait([*carrying, closing], return_when=asyncio.FIRST_COMPLETED)
            error, session._session_error = session._session_error, None
            error = error or _error_of(carrying)
        finally:
            await utils.aio.cancel_and_wait(*carrying, closing)
        if error is not None:
            raise error
        # A restart that the application asked for ends the carrying tasks too.
        if not session._session_should_close.is_set() and not self.is_closed:
            raise EndedError

    async def _restart(self) -> None:
        """Wait until the application has the connection replaced, and for the handle of a turn
        that is just over (R5); until then the connection serves on."""
        session, turns = self._session, self._session._turns
        wanted, driver = session._session_should_close, session._driver
        await wanted.wait()
        while (
            turns.ended_at is not None
            and not session._context.resumption.knows_of_turn(turns.ended_at)
            and self._now() < (until := turns.ended_at + HANDLE_WAIT_S)
            and driver.rests_from is not None
            and not session._msg_ch.closed
        ):
            wanted.clear()  # upstream sends nothing while it is set
            await driver.next_fact(until)
        wanted.set()

    async def ping(self, connection: LiveConnection) -> None:
        await connection.live.ping(self._session._turns.pong_came)

    def ended(self, connection: LiveConnection, error: Exception | None, *, left: bool) -> None:
        session = self._session
        session._connection_ended(error)
        if session._active_session is connection.live:
            session._active_session = None
        if left:
            session._handing_over(overlapped=False)

    # -- after a loss

    def lost(self, connection: LiveConnection | None, error: Exception) -> Loss:
        session = self._session
        was_connected = session._connection_log.was_connected
        verdict = classify(error, was_connected=was_connected, resumed=self._resumes)
        final = verdict == "fatal" or not self._leave_out(connection, error, verdict)
        final |= connection is None and session._connection_log.failed(error)
        # Upstream's session gives up where its first dial fails.
        at_once = verdict == "retry" and not was_connected
        return Loss(error, final, at_once)

    def _leave_out(
        self, connection: LiveConnection | None, error: Exception, verdict: Verdict
    ) -> bool:
        """Drop what may have caused the loss; False if there is nothing left to drop."""
        session, context, now = self._session, self._session._context, self._now()
        fact: ConnectionEnded | HistoryUntold
        if isinstance(error, UntoldError):
            fact = HistoryUntold(len(session._chat_ctx.items))
        else:
            set_up_at = None if connection is None else connection.set_up_at
            fact = ConnectionEnded(
                at=now,
                resumed=self._resumes,
                set_up_at=set_up_at,
                blames=_BLAMES.get(verdict, "nothing"),
                closed=closed_by_server(error),
                finished=session._turn_finished,
                understood=set_up_at is not None and session._turns.understood_at > set_up_at,
                was_connected=session._connection_log.was_connected,
                told=context.told,
                in_set_up=context.in_set_up,
                announced=context.announced,
            )
        left_out = session._poison.receive(fact)
        if left_out.audio:
            session._outgoing.spoilt = True
        if left_out.handle:
            context.forget_handle()
        if left_out.rejected:
            session._driver.tell(ContinuationRejected(now, code_of(error)))
        return not left_out.hopeless

    def settle(self) -> None:
        self._session._requests.gave_up()

    def left(self) -> Left:
        return self._session._left()

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        self._session._emit_error(error, recoverable=recoverable)


def _error_of(tasks: list[asyncio.Task[None]]) -> Exception | None:
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    failed = [task.exception() for task in ended]
    return next((error for error in failed if isinstance(error, Exception)), None)
