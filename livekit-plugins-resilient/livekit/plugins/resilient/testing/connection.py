"""One client connection of a simulator: the outgoing queue and the faults that act on it."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from websockets.exceptions import ConnectionClosed

from .faults import (
    HANDSHAKE_ACTIONS,
    Abort,
    Action,
    After,
    AtAudio,
    AtTime,
    Before,
    Blackhole,
    Close,
    Delay,
    Duplicate,
    EmptyTurns,
    Flap,
    IgnoreToolResponse,
    LateReply,
    Malformed,
    NoCloseAnswer,
    NoSetupAnswer,
    OnConnection,
    Received,
    Reorder,
    RepeatCall,
    Send,
    ShiftTranscript,
    Silence,
    SlowPong,
    Swallow,
    UnknownMessage,
    UserStarts,
    UserStops,
    Wedge,
)
from .recording import CloseInfo, FiredFault, Frame

if TYPE_CHECKING:
    from .clock import ClockTimer
    from .server import SimulatedServer
    from .wire import Wire

_YIELD_EVERY = 16  # messages written before other tasks get a turn


@dataclass(frozen=True, slots=True)
class AudioSpan:
    """The place of a piece of audio in its reply, and its samples."""

    start_s: float
    end_s: float
    pcm: bytes


@dataclass(slots=True)
class Outgoing:
    """A message in the queue. `turn` is whatever the provider groups its messages by."""

    kinds: tuple[str, ...]
    message: Mapping[str, Any] | str
    turn: object = None
    span: AudioSpan | None = None


class SimConnection(ABC):
    """What both providers' connections share. `number` counts dials from 1.

    Messages are queued by `emit` and written in order by one task, so that a fault at one event
    can hold up, drop or reorder what follows without the conversation's state knowing.
    """

    def __init__(self, server: SimulatedServer, wire: Wire) -> None:
        self.server = server
        self.wire = wire
        self.number = wire.number
        self.loop = asyncio.get_running_loop()
        self.closing = False
        self.answers_setup = True
        self.ignores_tool_responses = False
        self.wedges = False
        self.reply_delay_s = 0.0
        self.transcript_lead_s = server.transcript_lead_s
        self._empty_turns: int | None = 0  # None: all that follow
        self._muted_until: float = 0.0
        self._close_by: Literal["client", "server", "network"] | None = None
        self._queue: deque[Outgoing] = deque()
        self._queued = asyncio.Event()
        self._held: Outgoing | None = None
        # Ordered, so that two runs end them in the same order.
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timers: list[ClockTimer] = []

    # For the provider ----------------------------------------------------------------------

    @abstractmethod
    async def on_open(self) -> None:
        """The upgrade succeeded and the faults of the dial have been performed."""

    @abstractmethod
    def decode(self, raw: str | bytes) -> Frame:
        """Decode one client message into a frame for the recording.

        Raises:
            ProtocolViolation: the message is refused; the connection is closed with its code.
        """

    @abstractmethod
    async def on_frame(self, frame: Frame) -> None:
        """Act on one client message."""

    @abstractmethod
    def on_closed(self) -> None:
        """The connection is gone; stop what was going on."""

    @abstractmethod
    def repeat_call(self) -> None:
        """Send the latest tool call once more."""

    def perform_provider(self, action: Action) -> None:
        """Perform an action that only this provider has."""
        raise NotImplementedError(f"{type(action).__name__} is not performed by this server")

    # Sending -------------------------------------------------------------------------------

    def emit(
        self,
        kinds: str | tuple[str, ...],
        message: Mapping[str, Any],
        *,
        turn: object = None,
        span: AudioSpan | None = None,
    ) -> None:
        """Queue a message under the event names that faults and waiters know it by."""
        if self.closing:
            return
        names = (kinds,) if isinstance(kinds, str) else kinds
        self._queue.append(Outgoing(names, message, turn, span))
        self._queued.set()

    def discard(self, turn: object) -> None:
        """Drop what is still queued for `turn`: it was interrupted."""
        if turn is not None:
            self._queue = deque(item for item in self._queue if item.turn is not turn)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` until it ends or the connection does; its errors reach the test."""
        task = self.loop.create_task(self._guard(work))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        # A task that is cancelled before it ran has not taken its work over.
        task.add_done_callback(lambda _: work.close())
        return task

    def after(self, delay_s: float, callback: Callable[[], object]) -> None:
        """Run `callback` after `delay_s` of loop time unless the connection ends first."""

        async def wait() -> None:
            await asyncio.sleep(delay_s)
            callback()

        self.spawn(wait())

    def later(self, delay_s: float, callback: Callable[[], object]) -> None:
        """Run `callback` after `delay_s` unless the connection ends first; at once without one."""
        if delay_s:
            self.after(delay_s, callback)
        else:
            callback()

    def on_clock(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Run `callback` after `delay_s` on the server's clock unless the connection ends first."""
        self._timers.append(self.server.clock.call_later(delay_s, callback))

    def close(self, code: int, reason: str = "") -> None:
        """Close from the server's side once everything queued so far has been sent."""
        self.emit_control(Close(code, reason))

    def emit_control(self, action: Action) -> None:
        """Queue an action behind the messages that are already queued."""
        self._queue.append(Outgoing((), "", turn=action))
        self._queued.set()

    # Life ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the connection until it ends."""
        writer = self.spawn(self._write())
        try:
            await self._open()
            async for raw in self.wire:
                await self._receive(raw)
        except ConnectionClosed:
            pass
        finally:
            self.closing = True
            for timer in self._timers:
                timer.cancel()
            for task in tuple(self._tasks):
                task.cancel()
            self.on_closed()
            await asyncio.gather(writer, *self._tasks, return_exceptions=True)
            self.server.recording.add_close(self._close_info())

    async def _open(self) -> None:
        self.server.recording.note(("open",), self.number)
        faults = self.server.faults
        for trigger in faults.timers(self.number):
            self.on_clock(trigger.after_s, lambda due=trigger: self._fire_timer(due))  # type: ignore[misc]
        flap_s = self.server.next_flap()
        if flap_s is not None:
            self.after(flap_s, lambda: self.spawn(self.abort()))
        await self.perform_due(OnConnection, only=lambda a: type(a) not in HANDSHAKE_ACTIONS)
        if not self.closing:
            await self.on_open()

    async def _receive(self, raw: str | bytes) -> None:
        if self.closing:
            return
        try:
            frame = self.decode(raw)
        except ProtocolViolation as violation:
            self.server.recording.add_received(violation.frame)
            self.close(violation.code, violation.reason)
            return
        self.server.recording.add_received(frame)
        if self.server.faults.watches(Received):
            await self.perform_due(Received, lambda t: t.event in frame.kinds)
        if not self.closing:
            await self.on_frame(frame)

    def _close_info(self) -> CloseInfo:
        protocol = self.wire.protocol
        received = protocol.close_rcvd
        by = self._close_by
        if by is None:
            by = "client" if received is not None else "network"
        sent = protocol.close_sent
        close = sent if by == "server" and not self.wire.aborted and sent else received
        code, reason = (1006, "") if close is None else (close.code, close.reason)
        return CloseInfo(self.number, self.loop.time(), code, reason, by)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionClosed:
            pass
        except Exception as exc:
            self.server.errors.append(exc)
            self.wire.abort()

    # Writing -------------------------------------------------------------------------------

    async def _write(self) -> None:
        written = 0
        while True:
            while self._queue:
                await self._deliver(self._queue.popleft())
                written += 1
                if written % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            self._queued.clear()
            await self._queued.wait()

    async def _deliver(self, item: Outgoing) -> None:
        if not item.kinds:
            assert isinstance(item.turn, Action)
            await self.perform(item.turn)
            return
        faults, span = self.server.faults, item.span
        if span is not None and faults.watches(AtAudio):
            start_s, end_s = span.start_s - 1e-9, span.end_s - 1e-9
            await self.perform_due(AtAudio, lambda t: start_s <= t.position_s < end_s)
        copies = 1
        if faults.watches(Before):
            for _, action in faults.fire(Before, self.number, lambda t: t.event in item.kinds):
                if isinstance(action, Swallow):
                    self._note_fault(action)
                    copies = 0
                elif isinstance(action, Duplicate):
                    self._note_fault(action)
                    copies += 1
                elif isinstance(action, Reorder):
                    self._note_fault(action)
                    self._held = item
                    return
                else:
                    await self.perform(action)
        for _ in range(copies):
            await self._send(item)
        if self._held is not None:
            held, self._held = self._held, None
            await self._send(held)
        if copies and faults.watches(After):
            await self.perform_due(After, lambda t: t.event in item.kinds)

    async def _send(self, item: Outgoing) -> None:
        if self.closing or self.loop.time() < self._muted_until:
            return
        message = item.message
        text = message if isinstance(message, str) else json.dumps(message)
        span = item.span
        frame = Frame(
            self.number,
            self.loop.time(),
            item.kinds,
            message if span is None and not isinstance(message, str) else {},
            b"" if span is None else span.pcm,
            0.0 if span is None else span.end_s - span.start_s,
        )
        await self.wire.send(text)
        self.server.recording.add_sent(frame)

    # Faults --------------------------------------------------------------------------------

    async def perform_due(
        self,
        kind: Any,
        matches: Callable[[Any], bool] = lambda trigger: True,
        *,
        only: Callable[[Action], bool] = lambda action: True,
    ) -> None:
        """Count a match of the trigger `kind` and perform what falls due."""
        for _, action in self.server.faults.fire(kind, self.number, matches, only=only):
            await self.perform(action)

    async def user_started(self) -> None:
        """Tell the faults that the user was heard to begin."""
        await self.perform_due(UserStarts)

    async def user_stopped(self) -> None:
        """Tell the faults that the user was heard to end."""
        await self.perform_due(UserStops)

    def _fire_timer(self, trigger: AtTime) -> None:
        self.spawn(self.perform_due(AtTime, lambda t: t == trigger))

    def _note_fault(self, action: Action) -> None:
        self.server.recording.add_fault(FiredFault(self.number, self.loop.time(), action))

    async def perform(self, action: Action) -> None:
        """Perform one action on this connection now."""
        if self.closing:
            return
        self._note_fault(action)
        match action:
            case Abort():
                await self.abort()
            case Close(code=code, reason=reason):
                await self._close(code, reason)
            case NoSetupAnswer():
                self.answers_setup = False
            case Silence(duration_s=duration_s):
                self._muted_until = (
                    float("inf") if duration_s is None else self.loop.time() + duration_s
                )
            case Blackhole():
                self._close_by = "server"
                self.wire.freeze()
                self._muted_until = float("inf")
            case NoCloseAnswer(eof_after_s=eof_after_s):
                self.wire.hold_close(eof_after_s)
            case SlowPong(delay_s=delay_s):
                self.wire.delay_pongs(delay_s)
            case Flap(drops=drops, within_ms=within_ms):
                self.server.start_flap(drops - 1, within_ms / 1000 / drops)
                await self.abort()
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Malformed(text=text):
                await self._send(Outgoing(("malformed",), text))
            case UnknownMessage(message=message) | Send(message=message):
                await self._send(Outgoing(("injected",), message))
            case LateReply(seconds=seconds):
                self.reply_delay_s = seconds
            case EmptyTurns(count=count):
                self._empty_turns = count or None
            case ShiftTranscript(lead_s=lead_s):
                self.transcript_lead_s = lead_s
            case RepeatCall(on=on):
                if on == "this":
                    self.repeat_call()
                else:
                    self.server.repeats_call_on_next = True
            case IgnoreToolResponse():
                self.ignores_tool_responses = True
            case Wedge():
                self.wedges = True
            case Swallow() | Duplicate() | Reorder():
                raise ValueError(f"{type(action).__name__} acts on an event: use it with Before")
            case _:
                self.perform_provider(action)

    async def abort(self) -> None:
        """End TCP without a CLOSE frame, after what was written has left the process."""
        if self.closing:
            return
        self.closing = True
        self._close_by = self._close_by or "server"
        await self.wire.flush()
        self.wire.abort()

    async def _close(self, code: int, reason: str) -> None:
        self.closing = True
        self._close_by = self._close_by or "server"
        await self.wire.close(code, reason)

    def take_empty_turn(self) -> bool:
        """Whether the turn that now begins must stay empty."""
        if self._empty_turns is None:
            return True
        if self._empty_turns == 0:
            return False
        self._empty_turns -= 1
        return True

    def go_deaf(self) -> None:
        """Let all turns from now on be empty."""
        self._empty_turns = None

    def take_reply_delay(self) -> float:
        """Seconds that the turn which now begins must wait; counted once."""
        delay_s, self.reply_delay_s = self.reply_delay_s, 0.0
        return delay_s


class ProtocolViolation(Exception):
    """A client message that a real server would answer with a close."""

    def __init__(self, frame: Frame, code: int, reason: str) -> None:
        super().__init__(reason)
        self.frame = frame
        self.code = code
        self.reason = reason
