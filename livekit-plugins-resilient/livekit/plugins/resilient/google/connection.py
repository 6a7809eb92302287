"""Makes, tells, serves and closes connections to Gemini; see `runtime.connector.Connector`."""

from __future__ import annotations

import asyncio
from functools import partial
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
    from collections.abc import Callable, Iterator

    from google.genai import types

    from ..core.poison import Poison
    from ..owed_reply import Left
    from ..runtime.driver import Driver, HedgeRequest
    from .connection_events import ConnectionEvents
    from .engine import Engine
    from .history import SeedForm
    from .inbound import InboundEvents
    from .mirror import Mirror
    from .outbound import SendQueue
    from .requests import Requests
    from .seed import Seed
    from .serving import Serving

__all__ = ["Connector"]

# What a verdict gives as the reason; others give none.
_BLAMES: dict[Verdict, Blame] = {"handle_refused": "handle", "invalid": "something"}


class Connector:
    """The connections of one session.

    Args:
        engine: Of the session, as the parts that follow.
        driver: Gets facts, and knows when the conversation rests.
        serving: Which connection serves.
        events: Told when connections come and go.
        inbound: Knows whether words were lost.
        mirror: What the provider knows.
        poison: What of a new connection may be why the last ones died.
        requests: Replies that were asked for.
        queue: What is sent.
        settle: Leaves nobody waiting.
        left: What is left to another model.
    """

    label = "Gemini Live"
    greets = True
    # Upstream's loops are of one connection, and the next is told the difference first.
    switches_in_place = False
    foreign = (APIError, WebSocketException, OSError, asyncio.TimeoutError)
    informative = Exception
    ping_every_s = PING_EVERY_S

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        events: ConnectionEvents,
        inbound: InboundEvents,
        mirror: Mirror,
        poison: Poison[SeedForm],
        requests: Requests,
        queue: SendQueue,
        settle: Callable[[], None],
        left: Callable[[], Left],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._events = events
        self._inbound = inbound
        self._mirror = mirror
        self._poison = poison
        self._requests = requests
        self._queue = queue
        self._settle = settle
        self._left = left
        self._now = asyncio.get_running_loop().time
        self._within = partial(within, timer=driver.timer)
        self._resumes = False

    @property
    def is_closed(self) -> bool:
        return self._engine.is_closed

    @property
    def knows_words(self) -> bool:
        # Without transcripts a fresh session would be told one side of the conversation.
        return self._engine.transcribes_caller and not self._inbound.words_lost(suspected=False)

    # -- one connection

    async def dial(self) -> LiveConnection:
        self._engine.restart_wanted.clear()
        self._serving.turn_finished = False
        self._resumes = self._mirror.resumption.handle is not None
        return await self._dial()

    async def dial_beside(self, timeout_s: float) -> LiveConnection:
        return await self._within(self._dial(), timeout_s, LiveConnection.close)

    async def _dial(self) -> LiveConnection:
        began_at = self._now()
        connection = await self._set_up()
        self._engine.report_connection(self._now() - began_at)
        return connection

    async def _set_up(self, beside: Seed | None = None) -> LiveConnection:
        engine = self._engine
        if not self._serving.connected:
            self._serving.log.dialling()
        try:
            config = engine.set_up()
            if beside is None:
                self._mirror.announce(config)
            else:
                beside.announce(config)
        except Exception as e:
            raise UntoldError from e
        return await dial(engine.client, engine.model_name, config)

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
            await self._within(self._ask(request, made), timeout_s)
        except BaseException:
            for connection in made:
                await connection.close()
            raise
        return made[0]

    async def _ask(self, request: HedgeRequest, made: list[LiveConnection]) -> None:
        """Make a connection, put it into `made`, tell it the call and ask it."""
        seed, began_at = self._mirror.fresh_hedge(), self._now()
        asked = list(self._asked_for(request))
        if not asked:
            raise UnansweredError("there is nothing to ask a hedge")
        connection = await self._set_up(seed)
        made.append(connection)
        connection.hedge = Hedge(seed, request, self._now() - began_at)
        await seed.tell(connection.live)
        for content in asked:
            await connection.live.send_client_content(turns=content.turns, turn_complete=True)

    def _asked_for(self, request: HedgeRequest) -> Iterator[types.LiveClientContent]:
        if not request.request_ids:
            yield reply_request(self._engine.model_name, request.instructions)
        for request_id in request.request_ids:
            if (content := self._requests.content_of(request_id)) is not None:
                yield content

    async def answered(self, hedge: LiveConnection) -> None:
        assert hedge.hedge is not None
        await hedge.hedge.answered(hedge.live, speaks=self._engine.speaks)

    def refuses_for_quota(self, error: Exception) -> bool:
        return refuses_for_quota(error)

    # -- the one that serves

    def switch(self, connection: LiveConnection, successor: LiveConnection) -> LiveConnection:
        # That of a hedge is told of as such.
        self._events.on_left(overlapped=None if successor.hedge is not None else True)
        return connection

    async def restore(self, connection: LiveConnection) -> None:
        engine, mirror = self._engine, self._mirror
        self._serving.turn_finished = False
        self._resumes = connection.resumed
        async with engine.lock:
            engine.live = connection.live
            self._events.on_restoring(resumed=connection.resumed)
            if (hedge := connection.hedge) is not None:
                engine.report_connection(hedge.dialled_in_s)
                mirror.serves(hedge.seed, answering=True)
                return
            connection.answers = await mirror.restore(connection.live, resumed=connection.resumed)

    def serves(self, connection: LiveConnection) -> None:
        self._events.on_connected(connection)

    async def serve(self, connection: LiveConnection) -> None:
        engine, live = self._engine, connection.live
        loops = [
            asyncio.create_task(engine.send_loop(live), name="resilient-gemini-send"),
            asyncio.create_task(engine.receive_loop(live), name="resilient-gemini-recv"),
        ]
        closing = asyncio.create_task(self._restart(), name="resilient-gemini-restart")
        try:
            await asyncio.wait([*loops, closing], return_when=asyncio.FIRST_COMPLETED)
            error = engine.take_error() or _error_of(loops)
        finally:
            await utils.aio.cancel_and_wait(*loops, closing)
        if error is not None:
            raise error
        # A restart that the application asked for ends the loops too.
        if not engine.restart_wanted.is_set() and not self.is_closed:
            raise EndedError

    async def _restart(self) -> None:
        """Wait until the application has the connection replaced, and for the handle of a turn
        that is just over (R5); until then the connection serves on."""
        inbound, wanted, driver = self._inbound, self._engine.restart_wanted, self._driver
        await wanted.wait()
        while (
            inbound.ended_at is not None
            and not self._mirror.resumption.knows_of_turn(inbound.ended_at)
            and self._now() < (until := inbound.ended_at + HANDLE_WAIT_S)
            and driver.rests_from is not None
            and not self.is_closed
        ):
            wanted.clear()  # upstream sends nothing while it is set
            await driver.next_fact(until)
        wanted.set()

    async def ping(self, connection: LiveConnection) -> None:
        await connection.live.ping(self._inbound.pong_came)

    def ended(self, connection: LiveConnection, error: Exception | None, *, left: bool) -> None:
        self._events.on_lost(error)
        if self._engine.live is connection.live:
            self._engine.live = None
        if left:
            self._events.on_left(overlapped=False)

    # -- after a loss

    def lost(self, connection: LiveConnection | None, error: Exception) -> Loss:
        log = self._serving.log
        verdict = classify(error, was_connected=log.was_connected, resumed=self._resumes)
        final = verdict == "fatal" or not self._leave_out(connection, error, verdict)
        final |= connection is None and log.failed(error)
        # Upstream's session gives up where its first dial fails.
        at_once = verdict == "retry" and not log.was_connected
        return Loss(error, final, at_once)

    def _leave_out(
        self, connection: LiveConnection | None, error: Exception, verdict: Verdict
    ) -> bool:
        """Drop what may have caused the loss; False if there is nothing left to drop."""
        mirror, now = self._mirror, self._now()
        fact: ConnectionEnded | HistoryUntold
        if isinstance(error, UntoldError):
            fact = HistoryUntold(len(self._engine.record.items))
        else:
            set_up_at = None if connection is None else connection.set_up_at
            fact = ConnectionEnded(
                at=now,
                resumed=self._resumes,
                set_up_at=set_up_at,
                blames=_BLAMES.get(verdict, "nothing"),
                closed=closed_by_server(error),
                finished=self._serving.turn_finished,
                understood=set_up_at is not None and self._inbound.understood_at > set_up_at,
                was_connected=self._serving.log.was_connected,
                told=mirror.told,
                in_set_up=mirror.in_set_up,
                announced=mirror.announced,
            )
        left_out = self._poison.receive(fact)
        if left_out.audio:
            self._queue.spoilt = True
        if left_out.handle:
            mirror.forget_handle()
        if left_out.rejected:
            self._driver.tell(ContinuationRejected(now, code_of(error)))
        return not left_out.hopeless

    def settle(self) -> None:
        self._settle()

    def left(self) -> Left:
        return self._left()

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        self._engine.emit_error(error, recoverable=recoverable)


def _error_of(tasks: list[asyncio.Task[None]]) -> Exception | None:
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    failed = [task.exception() for task in ended]
    return next((error for error in failed if isinstance(error, Exception)), None)
