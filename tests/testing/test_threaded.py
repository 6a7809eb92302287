from __future__ import annotations

import time

import pytest
from websockets.asyncio.client import connect

from livekit.plugins.resilient.testing import OpenAIRealtimeServer, Reply
from livekit.plugins.resilient.testing.errors import PortInUseError, ServerTimeoutError
from livekit.plugins.resilient.testing.threaded import ThreadedServer

REPLY = Reply("One two three four five.")


def server() -> OpenAIRealtimeServer:
    return OpenAIRealtimeServer([REPLY], pace="realtime")


async def test_the_server_goes_on_while_the_clients_loop_is_blocked() -> None:
    async with ThreadedServer(server) as threaded:
        address = f"{threaded.server.host}:{threaded.server.port}"
        key = {"Authorization": f"Bearer {threaded.server.model_kwargs()['api_key']}"}
        url = f"ws://{address}/v1/realtime?model=m"
        async with connect(url, additional_headers=key) as client:
            await client.send('{"type": "response.create"}')
            await threaded.run(lambda: threaded.server.wait_for("response.created"))
            deadline = time.monotonic() + 30
            done = threaded.server.recording.events
            # Nothing of this loop runs here, least of all a server on it.
            while not done("response.done") and time.monotonic() < deadline:
                time.sleep(0.01)  # noqa: ASYNC251
            assert done("response.done")


async def test_what_goes_wrong_on_the_servers_thread_reaches_the_test() -> None:
    async with ThreadedServer(server) as threaded:
        with pytest.raises(ServerTimeoutError):
            await threaded.run(lambda: threaded.server.wait_for("open", timeout_s=0.01))
        taken = threaded.server.port
        other = ThreadedServer(lambda: OpenAIRealtimeServer(port=taken))
        with pytest.raises(PortInUseError):
            await other.__aenter__()
        assert not other._thread.is_alive()
    assert not threaded._thread.is_alive()


async def test_an_error_of_the_simulator_is_raised_at_the_end() -> None:
    with pytest.raises(LookupError, match="broken"):
        async with ThreadedServer(server) as threaded:
            threaded.server.errors.append(LookupError("broken"))
    with pytest.raises(RuntimeError, match="async with"):
        _ = threaded.server
