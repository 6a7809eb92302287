"""The server that both simulators are built on: sockets, faults, recording, waiting."""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal, TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from . import audio, owned_tasks
from .clock import Clock
from .connection import SimConnection
from .errors import PortInUseError, SettingError, check_choice, check_number
from .fault_plan import FaultEngine, Vocabulary
from .faults import HANDSHAKE_ACTIONS, Action, Fault, HangHandshake, OnConnection, Refuse
from .recording import Dial, FiredFault, Recording, redact_headers, redact_path
from .script import Script, TurnSource
from .wire import Wire

Pace = float | Literal["realtime"] | None
"""Audio seconds sent per second of loop time; "realtime" is 1.0; None sends a reply at once."""

_logger = logging.getLogger(__name__)
_CLOSE_TIMEOUT_S = 1.0  # a client that does not answer our CLOSE is cut off, as real servers do

_Server = TypeVar("_Server", bound="SimulatedServer")


class SimulatedServer(ABC):
    """A provider's realtime endpoint on loopback. Use it with `async with`.

    Args:
        replies: what the model says, in order; see `script.Script`.
        default_reply: what it says when `replies` is empty.
        faults: the fault plan; more can be added with `inject`.
        clock: for the provider's long limits; None takes a new `Clock`.
        pace: how fast a reply's audio is sent; None sends it at once, which is the fastest that a
            real server does.
        transcript_lead_s: how far the output transcript runs ahead of the audio; negative lags.
        strict: answer what a real server would refuse as a real server does.
        speech_threshold: root mean square from which the model hears speech and not noise.
        host: address to listen on.
        port: 0 takes a free port.

    Raises:
        FaultPlanError: a fault names an event or action that this provider does not have.
        ScriptError: something in `replies`, or `default_reply`, is no turn.
        SettingError: another argument is out of its range; the message names it.
        PortInUseError: on entering, when `port` is taken.
    """

    vocabulary: ClassVar[Vocabulary]

    def __init__(
        self,
        replies: Iterable[TurnSource] = (),
        *,
        default_reply: TurnSource = "Hello, this is the simulated model speaking.",
        faults: Iterable[Fault] = (),
        clock: Clock | None = None,
        pace: Pace = None,
        transcript_lead_s: float = 0.0,
        strict: bool = False,
        speech_threshold: float = audio.SPEECH_THRESHOLD,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if isinstance(pace, str):
            check_choice("pace", pace, ["realtime", "times"])  # the provider knows its times
        elif pace is not None:
            check_number("pace", pace, least=0, above=True)
        if not isinstance(port, int) or not 0 <= port <= 65_535:
            raise SettingError(f"port must be a whole number from 0 to 65535, not {port!r}")
        if clock is not None and not isinstance(clock, Clock):
            raise SettingError(f"clock must be of type Clock, not {type(clock).__name__}")
        check_number("transcript_lead_s", transcript_lead_s)
        check_number("speech_threshold", speech_threshold, least=0)
        self.script = Script(replies, default_reply)
        self.faults = FaultEngine(self.vocabulary, faults)
        self.clock = clock if clock is not None else Clock()
        self._owns_clock = clock is None
        self.pace: float | None = 1.0 if isinstance(pace, str) else pace
        self.transcript_lead_s = transcript_lead_s
        self.strict = strict
        self.speech_threshold = speech_threshold
        self.host = host
        self.port = port
        self.recording = Recording()
        self.connections: dict[int, SimConnection] = {}
        self.errors: list[Exception] = []
        self.repeats_call_on_next = False
        self._dials = 0
        self._flaps_left = 0
        self._flap_s = 0.0
        self._listener: Server | None = None
        self._wires: weakref.WeakSet[Wire] = weakref.WeakSet()
        self._stopping = asyncio.Event()

    # For the provider ----------------------------------------------------------------------

    @abstractmethod
    def make_connection(self, wire: Wire) -> SimConnection:
        """Build the connection for a client whose upgrade succeeded."""

    def tls(self) -> ssl.SSLContext | None:
        """The server's TLS context; None serves plain TCP."""
        return None

    def check_request(self, path: str) -> tuple[int, str] | None:
        """Status and body to refuse a request path with, or None to accept it."""
        return None

    def check_headers(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Status and body to refuse a request's headers with, or None to accept them."""
        return None

    # Life ----------------------------------------------------------------------------------

    async def __aenter__(self: _Server) -> _Server:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
        if exc is None and self.errors:
            raise self.errors[0]

    async def start(self) -> None:
        """Listen. Afterwards `port` is the real port.

        Raises:
            PortInUseError: the requested port is taken.
        """
        loop = asyncio.get_running_loop()
        # In a context of its own, so that `VirtualTimeLoop.stall` can tell it from its clients.
        listening = owned_tasks.context_of(self).run(loop.create_task, self._listen())
        try:
            self._listener = await listening
        except OSError as exc:
            if exc.errno != errno.EADDRINUSE:
                raise
            raise PortInUseError(
                f"port {self.port} on {self.host} is in use; port=0 takes a free one"
            ) from None
        self.port = next(iter(self._listener.sockets)).getsockname()[1]

    async def _listen(self) -> Server:
        return await serve(
            self._serve,
            self.host,
            self.port,
            ssl=self.tls(),
            process_request=self._process_request,
            create_connection=self._new_wire,  # type: ignore[arg-type]  # any factory will do
            compression=None,
            max_size=None,
            max_queue=None,
            open_timeout=None,
            ping_interval=None,
            close_timeout=_CLOSE_TIMEOUT_S,
            logger=_logger,
        )

    async def stop(self) -> None:
        """Stop listening and cut every connection off. May be called twice."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._stopping.set()
        if self._owns_clock:
            self.clock.stop()
        for wire in tuple(self._wires):
            wire.abort()
        listener.close(close_connections=False)
        await listener.wait_closed()

    # Faults --------------------------------------------------------------------------------

    def inject(self, *faults: Fault) -> None:
        """Arm more faults while the server runs.

        Raises:
            FaultPlanError: this provider lacks an event or action.
        """
        for fault in faults:
            self.faults.add(fault)

    async def do(self, *actions: Action, connection: int | None = None) -> None:
        """Perform actions now, on the newest connection or on the given one.

        Raises:
            LookupError: there is no such connection.
        """
        if not self.connections or (connection is not None and connection not in self.connections):
            raise LookupError(f"no connection {connection}; open so far: {list(self.connections)}")
        number = max(self.connections) if connection is None else connection
        for action in actions:
            self.vocabulary.check(Fault(OnConnection(number), action))
            await self.connections[number].perform(action)

    def start_flap(self, drops: int, each_s: float) -> None:
        """Abort the next `drops` connections, each `each_s` after it opened."""
        self._flaps_left, self._flap_s = drops, each_s

    def next_flap(self) -> float | None:
        """Seconds after which the connection that has just opened must drop, if it must."""
        if self._flaps_left == 0:
            return None
        self._flaps_left -= 1
        return self._flap_s

    # Script and recording ------------------------------------------------------------------

    @property
    def replies(self) -> deque[TurnSource]:
        """What the model says next: `server.replies.append(Reply("..."))`."""
        return self.script.replies

    def user_says(self, *texts: str) -> None:
        """Queue transcripts for the next utterances that are heard."""
        self.script.user_says(*texts)

    def dials(self) -> list[Dial]:
        """Every dial, refused ones included."""
        return self.recording.dials()

    async def wait_for(
        self,
        kind: str,
        *,
        connection: int | None = None,
        count: int = 1,
        timeout_s: float = 10.0,
    ) -> None:
        """Wait for a message of either side, or "dial", "open", "close", "fault".

        Raises:
            ServerTimeoutError: it did not happen `count` times within `timeout_s`.
        """
        await self.recording.wait_for(kind, connection=connection, count=count, timeout_s=timeout_s)

    async def wait_until(
        self,
        condition: Callable[[], bool],
        *,
        timeout_s: float = 10.0,
        what: str = "the condition",
    ) -> None:
        """Wait until `condition` holds; it is looked at after each recorded event.

        Raises:
            ServerTimeoutError: it did not within `timeout_s`.
        """
        await self.recording.wait_until(condition, timeout_s=timeout_s, what=what)

    # Sockets -------------------------------------------------------------------------------

    def _new_wire(self, *args: Any, **kwargs: Any) -> Wire:
        wire = Wire(*args, **kwargs)
        self._wires.add(wire)
        return wire

    async def _process_request(self, wire: ServerConnection, request: Request) -> Response | None:
        assert isinstance(wire, Wire)
        self._dials += 1
        number = wire.number = self._dials
        headers = redact_headers(dict(request.headers.raw_items()))
        at, path = asyncio.get_running_loop().time(), redact_path(request.path)
        due = self.faults.fire(
            OnConnection, number, only=lambda action: type(action) in HANDSHAKE_ACTIONS
        )
        refused = None
        if not due:
            refused = self.check_request(request.path) or self.check_headers(request.headers)
        for _, action in due:
            self.recording.add_fault(FiredFault(number, at, action))
            if isinstance(action, HangHandshake):
                self.recording.add_dial(Dial(number, at, path, headers, 0))
                await self._hang(wire, action.duration_s)
            elif isinstance(action, Refuse):
                refused = (action.status, action.body)
        status = 101 if refused is None else refused[0]
        self.recording.add_dial(Dial(number, at, path, headers, status))
        if refused is None:
            return None
        return wire.refuse(*refused)

    async def _hang(self, wire: Wire, duration_s: float | None) -> None:
        stopped = asyncio.ensure_future(self._stopping.wait())
        gone = asyncio.ensure_future(wire.wait_closed())
        try:
            await asyncio.wait(
                {stopped, gone}, timeout=duration_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopped.cancel()
            gone.cancel()

    async def _serve(self, wire: ServerConnection) -> None:
        assert isinstance(wire, Wire)
        connection = self.make_connection(wire)
        self.connections[connection.number] = connection
        try:
            await connection.run()
        except Exception as exc:
            self.errors.append(exc)
