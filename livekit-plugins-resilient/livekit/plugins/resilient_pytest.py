"""The pytest plugin of `livekit.plugins.resilient.testing`: three fixtures and a mark.

It stands beside the package and not in it, because pytest imports every installed plugin when it
starts and the package brings all of livekit-agents along: here everything heavy is imported when a
test asks for it. See `livekit.plugins.resilient.testing.pytest_plugin` for what the fixtures give.
"""

from __future__ import annotations

import inspect
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

try:  # costs nothing: where it is installed, pytest has loaded it by now
    import pytest_asyncio
except ModuleNotFoundError:
    pytest_asyncio = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from livekit.plugins.resilient.testing.pytest_plugin import (
        Opened,
        StartCall,
        StartGemini,
        StartOpenAI,
    )

VIRTUAL_TIME = "virtual_time"
_HOOK = "pytest_asyncio_loop_factories"
_INSTALL = "pip install livekit-plugins-resilient[testing]"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{VIRTUAL_TIME}: run this async test on an event loop whose clock jumps to the next timer",
    )


class _VirtualTime:
    """Answers pytest-asyncio for one marked test; an answer for others would change their loop."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_asyncio_loop_factories(
        self,
    ) -> Mapping[str, Callable[[], AbstractEventLoop]]:
        from livekit.plugins.resilient.testing.virtual_time import VirtualTimeLoop

        return {"virtual": VirtualTimeLoop}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    marked = metafunc.definition.get_closest_marker(VIRTUAL_TIME) is not None
    if not marked or not inspect.iscoroutinefunction(metafunc.function):
        return (yield)
    if not hasattr(metafunc.config.hook, _HOOK):
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: the mark {VIRTUAL_TIME!r} needs pytest-asyncio 1.4 or "
            f"newer; install it with: {_INSTALL}"
        )
    plugins = metafunc.config.pluginmanager
    answer = _VirtualTime()
    plugins.register(answer)
    try:
        return (yield)
    finally:
        plugins.unregister(answer)


if pytest_asyncio is not None:

    @pytest_asyncio.fixture
    async def _resilient_opened() -> AsyncIterator[Opened]:
        from livekit.plugins.resilient.testing.pytest_plugin import Opened

        async with Opened() as opened:
            yield opened

else:

    @pytest.fixture
    def _resilient_opened(request: pytest.FixtureRequest) -> Opened:
        raise pytest.UsageError(
            f"{request.node.nodeid}: the fixtures of livekit-plugins-resilient need "
            f"pytest-asyncio; install it with: {_INSTALL}"
        )


@pytest.fixture
def gemini_live_server(_resilient_opened: Opened) -> StartGemini:
    """`server = await gemini_live_server(["Hello."], ...)` starts a `GeminiLiveServer`."""
    from livekit.plugins.resilient.testing import GeminiLiveServer

    return _resilient_opened.opener(GeminiLiveServer)


@pytest.fixture
def openai_realtime_server(_resilient_opened: Opened) -> StartOpenAI:
    """`server = await openai_realtime_server(["Hello."], ...)` starts an `OpenAIRealtimeServer`."""
    from livekit.plugins.resilient.testing import OpenAIRealtimeServer

    return _resilient_opened.opener(OpenAIRealtimeServer)


@pytest.fixture
def headless_call(_resilient_opened: Opened) -> StartCall:
    """`call = await headless_call(model, agent=MyAgent())` begins a `HeadlessCall`."""
    from livekit.plugins.resilient.testing import HeadlessCall

    return _resilient_opened.opener(HeadlessCall)
