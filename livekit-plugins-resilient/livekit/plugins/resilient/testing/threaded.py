"""A simulated server on a thread of its own, as far away from its client as a process can put it.

A client that blocks its event loop holds up a simulator on the same loop too, so that nothing can
arrive meanwhile. On a thread the simulator goes on: what it sends waits in the sockets.

    async with ThreadedServer(lambda: GeminiLiveServer(["Hello."])) as threaded:
        model = RealtimeModel(**threaded.server.model_kwargs())
        ...
        await threaded.run(lambda: threaded.server.wait_for("toolResponse"))

Only for the real clock: a `VirtualTimeLoop` does not wait for a thread that it does not know; there
`VirtualTimeLoop.stall(seconds, but=server)` does the same.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, TypeVar

from .server import SimulatedServer

_T = TypeVar("_T")
ServerT = TypeVar("ServerT", bound=SimulatedServer)


class ThreadedServer(Generic[ServerT]):
    """Runs the server that `make` builds on an event loop of its own. Use it with `async with`.

    `server.recording` may be read from the client's thread; whatever waits or acts goes through
    `run`. The times in the recording are those of the same monotonic clock.
    """

    def __init__(self, make: Callable[[], ServerT]) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="simulated-server", daemon=True
        )
        self._server: ServerT | None = None

    @property
    def server(self) -> ServerT:
        """The running server. Raises RuntimeError outside of `async with`."""
        if self._server is None:
            raise RuntimeError("the server does not run; use it with 'async with'")
        return self._server

    async def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Await what `work` returns on the server's thread; its result or its error comes here."""

        async def there() -> _T:
            return await work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), self._loop))

    async def __aenter__(self) -> ThreadedServer[ServerT]:
        self._thread.start()
        try:
            self._server = await self.run(self._started)
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        server = self.server
        try:
            await self.run(lambda: server.__aexit__(exc_type, exc, traceback))
        finally:
            self._server = None
            self._end()

    async def _started(self) -> ServerT:
        server = self._make()
        await server.start()
        return server

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
