"""An event loop whose clock jumps to the next timer as soon as there is nothing else to do.

`VirtualTimeLoop` runs unmodified asyncio programs: transports on loopback, TLS, aiohttp and
websockets work, because what one end writes there is readable at the other end at once; between a
client and a server of the same loop `local_sockets` sees to that. Only timers are virtual, so that
a call of one minute takes as long as its CPU work, and goes the same way on a busy machine.

What it cannot show: the time that code needs to run, what TCP does with a connection, and anything
that looks at `time.monotonic()` instead of the loop's clock. A socket that was dialled with
`sock_connect` is to be given to `create_connection`: `sock_recv` and `sock_sendall` do not work on
it where the server is on the same loop.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from selectors import SelectorKey
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import TypeVarTuple, Unpack

from . import owned_tasks
from .local_sockets import LocalSockets, hands_over_at_once

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Base: Any = asyncio.SelectorEventLoop  # with methods that its type stubs leave out

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

START_S = 1_000.0
"""First reading of the clock. Not zero, so that code which takes 0 for "never" is not flattered."""

HANG_LIMIT_S = 5.0
"""Seconds of waiting without I/O, timers and threads after which the loop is declared dead."""

RUN_LIMIT_S = 120.0
"""Seconds that one run of the loop may work and wait: the guard against waiting for ever beside a
timer that keeps re-arming itself (a microphone does)."""

_THREAD_GRACE_S = 5.0  # a thread that works longer than this is taken to be parked for good
_WRITE_GRACE_S = 0.02  # a loopback peer that reads makes room in far less
_POLL_S = 0.001  # epoll's resolution
_LIMIT_EVERY = 1024  # rounds of the loop: in a process with threads the time of one can take 1 ms

# The loop's patience is not for the time in which the machine let the process stand: of one wait no
# more is counted than was asked for, and of work only the processor's time.
_LONGEST_WAIT_S = 0.1

# Data in flight on loopback normally arrives within the call that sent it, but the kernel may hand
# it to a background thread. A short jump would be wrong by little; before a long one it pays to
# look again: (jump at least this long, real seconds to wait).
_SETTLE: tuple[tuple[float, float], ...] = ((1.0, 0.004), (0.1, _POLL_S))


class VirtualTimeHang(RuntimeError):
    """The loop can never continue, or took more real time than allowed; names what was waiting."""


class _JumpingSelector(selectors.BaseSelector):
    """Delegates to the platform's selector; where that would sleep, it moves the loop's clock."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._inner = selectors.DefaultSelector()
        self._loop = loop
        self._write_grace_s: dict[int, float] = {}
        self._slow: set[int] = set()  # what may be written to it is not there at once

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> SelectorKey:
        key = self._inner.register(fileobj, events, data)
        if not hands_over_at_once(key.fd):
            self._slow.add(key.fd)
        self._note_writer(key)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> SelectorKey:
        key = self._inner.unregister(fileobj)
        self._write_grace_s.pop(key.fd, None)
        self._slow.discard(key.fd)
        return key

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> SelectorKey:
        key = self._inner.modify(fileobj, events, data)
        self._note_writer(key)
        return key

    def get_map(self) -> Mapping[FileDescriptorLike, SelectorKey]:
        return self._inner.get_map()

    def get_key(self, fileobj: FileDescriptorLike) -> SelectorKey:
        return self._inner.get_key(fileobj)

    def close(self) -> None:
        self._inner.close()

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._loop._check_run_limit()
        events = self._inner.select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        events = self._wait_for_threads() or self._wait_for_writers()
        if events:
            return events
        if timeout is None:
            return self._wait_or_raise()
        for jump_s, settle_s in _SETTLE:
            if self._slow and timeout >= jump_s:
                events = self._wait(settle_s)
                break
        if not events:
            self._loop._advance(timeout)
        return events

    def peek(self) -> list[tuple[SelectorKey, int]]:
        """What is ready now."""
        return self._inner.select(0)

    def _note_writer(self, key: SelectorKey) -> None:
        if key.events & selectors.EVENT_WRITE:
            self._write_grace_s.setdefault(key.fd, _WRITE_GRACE_S)
        else:
            self._write_grace_s.pop(key.fd, None)

    def _wait(self, seconds: float) -> list[tuple[SelectorKey, int]]:
        """Wait for I/O, and count the time."""
        seconds = min(seconds, _LONGEST_WAIT_S)
        began_at = time.monotonic()
        events = self._inner.select(seconds)
        self._loop._waited_s += min(time.monotonic() - began_at, seconds)
        return events

    def _wait_for_threads(self) -> list[tuple[SelectorKey, int]]:
        while (remaining_s := self._loop._thread_grace_left()) > 0:
            if events := self._wait(remaining_s):
                return events
        return []

    def _wait_for_writers(self) -> list[tuple[SelectorKey, int]]:
        # A peer that has stopped reading never makes room: each writer is waited for only once.
        while waiting := [fd for fd, left_s in self._write_grace_s.items() if left_s > 0]:
            if events := self._wait(_POLL_S):
                return events
            for fd in waiting:
                self._write_grace_s[fd] -= _POLL_S
        return []

    def _wait_or_raise(self) -> list[tuple[SelectorKey, int]]:
        limit_s = self._loop.hang_limit_s
        give_up_at = self._loop._waited_s + limit_s
        while (left_s := give_up_at - self._loop._waited_s) > 0:
            if events := self._wait(left_s):
                return events
        raise VirtualTimeHang(
            f"nothing is ready and no timer is set; gave up after {limit_s:g} real seconds. "
            f"Waiting: {describe_tasks(self._loop)}"
        )


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector event loop on virtual time.

    `time()` starts at `START_S`, stands still while callbacks run, and moves to the next timer when
    no socket is ready and no executor thread is at work. It never goes backward.

    `hang_limit_s` and `run_limit_s` are real seconds (see `HANG_LIMIT_S`, `RUN_LIMIT_S`) in which
    the loop worked or waited, whatever else the machine did meanwhile; None for `run_limit_s` takes
    that guard away. Both raise `VirtualTimeHang` out of the running loop.
    """

    # Of asyncio's base loop; its type stubs leave them out.
    _ready: deque[Any]
    _scheduled: list[Any]

    def __new__(
        cls, *, hang_limit_s: float = HANG_LIMIT_S, run_limit_s: float | None = RUN_LIMIT_S
    ) -> VirtualTimeLoop:
        # Here and not in __init__: a half-built event loop complains when it is collected.
        if hang_limit_s <= 0:
            raise ValueError(f"hang_limit_s must be positive, not {hang_limit_s!r}")
        if run_limit_s is not None and run_limit_s <= 0:
            raise ValueError(f"run_limit_s must be positive or None, not {run_limit_s!r}")
        return super().__new__(cls)

    def __init__(
        self, *, hang_limit_s: float = HANG_LIMIT_S, run_limit_s: float | None = RUN_LIMIT_S
    ) -> None:
        self.hang_limit_s = hang_limit_s
        self.run_limit_s = run_limit_s
        self._virtual_now = START_S
        self._waited_s = 0.0
        self._rounds = 0
        self._run_deadline: float | None = None
        self._threads: dict[asyncio.Future[Any], float] = {}
        self._jumping = _JumpingSelector(self)
        self._local = LocalSockets()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual_now

    def stall(self, seconds: float, *, but: object | None = None) -> None:
        """Let `seconds` pass in which nothing runs: what `time.sleep` in a callback, a collection
        of garbage or a stopped process does to an ordinary loop.

        Call it from a callback or a task of this loop. Afterwards everything that fell due comes
        late and at once, in the order of its timers.

        Args:
            seconds: how long, from 0.
            but: what goes on meanwhile, as on another machine: a simulated server, which then fills
                the sockets that nobody reads. None: everything on this loop is held up.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a stall does not run backwards: {seconds!r}")
        end = self._virtual_now + seconds
        if but is not None:
            task = asyncio.current_task(self)
            if task is not None:
                asyncio.tasks._leave_task(self, task)
            try:
                self._run_only(but, until=end)
            finally:
                if task is not None:
                    asyncio.tasks._enter_task(self, task)
        self._advance(end - self._virtual_now)

    def _run_only(self, owner: object, *, until: float) -> None:
        """Run what belongs to `owner`, in the middle of a step of the loop."""
        scheduled = self._scheduled
        while True:
            own = [timer for timer in scheduled if _belongs(timer, owner)]
            for timer in sorted(timer for timer in own if timer.when() <= self._virtual_now):
                scheduled.remove(timer)
                timer._scheduled = False
                self._ready.append(timer)
            heapq.heapify(scheduled)
            for key, events in self._jumping.peek():
                reader, writer = key.data
                for mask, handle in (
                    (selectors.EVENT_READ, reader),
                    (selectors.EVENT_WRITE, writer),
                ):
                    if events & mask and handle is not None and _belongs(handle, owner):
                        self._ready.append(handle)
            if not self._run_ready(owner):
                next_at = min(
                    (t.when() for t in own if t.when() > self._virtual_now), default=until
                )
                if next_at >= until:
                    return
                self._advance(next_at - self._virtual_now)

    def _run_ready(self, owner: object) -> bool:
        """Run what is ready and belongs to `owner`; whether there was any."""
        ready = [place for place, handle in enumerate(self._ready) if _belongs(handle, owner)]
        for place in ready:
            handle = self._ready[place]
            # The step of the loop that goes on has counted its handles: each place must stay.
            done = asyncio.Handle(_nothing, (), self)
            done.cancel()
            self._ready[place] = done
            handle._run()
        return bool(ready)

    def run_forever(self) -> None:
        if self.run_limit_s is not None:
            self._run_deadline = self._spent_s() + self.run_limit_s
        super().run_forever()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: Unpack[_Ts]
    ) -> asyncio.Future[_T]:
        future = super().run_in_executor(executor, func, *args)
        self._threads[future] = self._waited_s + _THREAD_GRACE_S
        future.add_done_callback(lambda done: self._threads.pop(done, None))
        return future

    def close(self) -> None:
        super().close()
        self._local.close()

    # Overrides of asyncio's own methods: what both ends of a connection are made of. ---------

    def _start_serving(
        self, protocol_factory: Any, sock: socket.socket, *args: Any, **options: Any
    ) -> None:
        self._local.listens(sock)
        _Base._start_serving(self, protocol_factory, sock, *args, **options)

    def _stop_serving(self, sock: socket.socket) -> None:
        self._local.stops(sock)
        _Base._stop_serving(self, sock)

    def _accept_connection2(
        self, protocol_factory: Any, conn: socket.socket, extra: Any, *args: Any, **options: Any
    ) -> Coroutine[Any, Any, None]:
        self._local.accepts(extra["peername"])
        accepting: Coroutine[Any, Any, None] = _Base._accept_connection2(
            self, protocol_factory, conn, extra, *args, **options
        )
        return accepting

    def _sock_connect(self, fut: asyncio.Future[None], sock: socket.socket, address: Any) -> None:
        _Base._sock_connect(self, fut, sock, address)
        # At once: the server may accept before the dial returns.
        self._local.dials(sock, address)

        def dialled(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._local.fails(sock)

        fut.add_done_callback(dialled)

    def _make_socket_transport(
        self, sock: socket.socket, protocol: Any, waiter: Any = None, **options: Any
    ) -> asyncio.Transport:
        sock = self._local.end_for(sock, (options.get("extra") or {}).get("peername"))
        made: asyncio.Transport = _Base._make_socket_transport(
            self, sock, protocol, waiter, **options
        )
        return made

    def _make_ssl_transport(
        self, rawsock: socket.socket, protocol: Any, *args: Any, **options: Any
    ) -> asyncio.Transport:
        sock = self._local.end_for(rawsock, (options.get("extra") or {}).get("peername"))
        made: asyncio.Transport = _Base._make_ssl_transport(self, sock, protocol, *args, **options)
        return made

    def _advance(self, seconds: float) -> None:
        self._virtual_now += max(seconds, 0.0)

    def _thread_grace_left(self) -> float:
        if not self._threads:
            return 0.0
        return max(self._threads.values()) - self._waited_s

    def _spent_s(self) -> float:
        return time.thread_time() + self._waited_s

    def _check_run_limit(self) -> None:
        self._rounds += 1
        if self._rounds % _LIMIT_EVERY:
            return
        if self._run_deadline is not None and self._spent_s() > self._run_deadline:
            self._run_deadline = None  # raise once, so that the loop can still be cleaned up
            raise VirtualTimeHang(
                f"the run took more than {self.run_limit_s:g} real seconds "
                f"({self._virtual_now - START_S:.1f} virtual). Waiting: {describe_tasks(self)}"
            )


def _belongs(handle: Any, owner: object) -> bool:
    return not handle.cancelled() and owned_tasks.owner_in(handle._context) is owner


def _nothing() -> None:
    """The place of a callback that was run out of turn."""


def describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    """One line that names every unfinished task of `loop` and the line it waits at."""
    described = []
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        stack = task.get_stack()
        where = "not started"
        if stack:
            code = stack[-1].f_code
            where = f"{code.co_name}, {code.co_filename.rpartition('/')[2]}:{stack[-1].f_lineno}"
        described.append(f"{task.get_name()} ({where})")
    return "; ".join(described) or "no task"


def run(
    main: Coroutine[Any, Any, _T],
    *,
    hang_limit_s: float = HANG_LIMIT_S,
    run_limit_s: float | None = RUN_LIMIT_S,
) -> _T:
    """Run `main` on a new `VirtualTimeLoop`, as `asyncio.run` would, and return its result.

    Raises VirtualTimeHang when nothing can ever happen again, or when the run takes more than
    `run_limit_s` real seconds; otherwise whatever `main` raises.
    """
    loop = VirtualTimeLoop(hang_limit_s=hang_limit_s, run_limit_s=run_limit_s)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
