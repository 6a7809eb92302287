"""What the pytest fixtures give, and their types for annotations.

Each fixture is a function that takes the arguments of a class and returns it opened. A test opens
as many as it likes; after it they are closed, newest first, so that a call hangs up before its
server stops. An error inside a server fails the test.

    async def test_hello(gemini_live_server: StartGemini, headless_call: StartCall) -> None:
        server = await gemini_live_server(["Hello."])
        call = await headless_call(RealtimeModel(**server.model_kwargs()))

Installing the package is enough for pytest to find them. Where plugins are not loaded by
themselves, name this module: `pytest -p livekit.plugins.resilient.testing.pytest_plugin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TypeVar

from typing_extensions import ParamSpec

from .call import HeadlessCall
from .gemini import GeminiLiveServer
from .openai import OpenAIRealtimeServer

pytest_plugins = ("livekit.plugins.resilient_pytest",)

_T = TypeVar("_T")
_P = ParamSpec("_P")

StartGemini = Callable[..., Awaitable[GeminiLiveServer]]
"""The fixture `gemini_live_server`: takes the arguments of `GeminiLiveServer`."""

StartOpenAI = Callable[..., Awaitable[OpenAIRealtimeServer]]
"""The fixture `openai_realtime_server`: takes the arguments of `OpenAIRealtimeServer`."""

StartCall = Callable[..., Awaitable[HeadlessCall]]
"""The fixture `headless_call`: takes the arguments of `HeadlessCall`."""


class Opened:
    """Servers and calls that a test has opened; leaving it closes them, newest first."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Opened:
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def opener(
        self, build: Callable[_P, AbstractAsyncContextManager[_T]]
    ) -> Callable[_P, Awaitable[_T]]:
        """Return a function that builds with its arguments, opens, and keeps what it opened.

        It raises what building and opening raise, and RuntimeError on another event loop than that
        of the fixture, where nothing would run.
        """

        async def open_one(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if asyncio.get_running_loop() is not self._loop:
                raise RuntimeError(
                    "the test runs on another event loop than its fixtures; set "
                    "asyncio_default_fixture_loop_scope to the loop_scope of the test"
                )
            return await self._stack.enter_async_context(build(*args, **kwargs))

        return open_one
