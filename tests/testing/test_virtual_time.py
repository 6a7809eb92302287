from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time

import aiohttp
import pytest
import trustme
from aiohttp import web
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from livekit.plugins.resilient.testing import OpenAIRealtimeServer, Reply, virtual_time
from livekit.plugins.resilient.testing.changes import Changes
from livekit.plugins.resilient.testing.local_sockets import LocalSockets
from livekit.plugins.resilient.testing.virtual_time import VirtualTimeHang, VirtualTimeLoop


def test_hours_take_no_time_and_timers_fire_in_order() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        start = loop.time()
        seen: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time() - start))

        await asyncio.gather(sleeper("two hours", 7200), sleeper("ms", 0.001), sleeper("s", 1))
        return seen

    began = time.monotonic()
    seen = virtual_time.run(main())
    assert [name for name, _ in seen] == ["ms", "s", "two hours"]
    assert [at for _, at in seen] == pytest.approx([0.001, 1, 7200])
    assert time.monotonic() - began < 7200


def test_time_stands_still_while_code_runs() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(100):
            await asyncio.sleep(0)
        return loop.time() - start

    assert virtual_time.run(main()) == 0


def test_a_reply_over_a_socket_arrives_before_any_timer() -> None:
    """The jump waits for loopback traffic, however short the timer beside it."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        start = loop.time()
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for number in range(200):
                writer.write(b"%d\n" % number)
                reply = await asyncio.wait_for(reader.readline(), 0.001)
                assert reply == b"%d\n" % number
            spent = loop.time() - start
            writer.close()
            await asyncio.sleep(0.001)  # lets the server see the end
        return spent

    assert virtual_time.run(main()) == 0


def test_a_large_transfer_through_full_socket_buffers_takes_no_virtual_time() -> None:
    size = 8_000_000

    async def source(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(size))
        await writer.drain()
        writer.close()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with await asyncio.start_server(source, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            ticker = loop.create_task(asyncio.sleep(0.001))
            assert len(await reader.read(-1)) == size
            assert not ticker.done()
            spent = loop.time() - start
            writer.close()
            await ticker
        return spent

    assert virtual_time.run(main()) == 0


def test_what_was_written_is_there_at_once_and_whole() -> None:
    """TCP would hand out as much as its window takes, which grows with the time that passes: how
    often a client that reads a burst gets a turn is then up to the machine."""
    pieces: list[int] = []

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.WriteTransport)
            transport.write(bytes(150_000))
            transport.close()

    class Client(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            pieces.append(len(data))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(Server, "127.0.0.1", 0) as server:
            await loop.create_connection(Client, *server.sockets[0].getsockname())
            await asyncio.sleep(0.001)

    virtual_time.run(main())
    assert pieces == [150_000]


def test_a_connection_has_the_names_of_its_dial() -> None:
    async def main() -> None:
        seen: asyncio.Future[tuple[object, object]] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.set_result((writer.get_extra_info("peername"), writer.get_extra_info("sockname")))
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*address)
            assert writer.get_extra_info("peername") == address
            assert await seen == (writer.get_extra_info("sockname"), address)
            assert await reader.read() == b""
            writer.close()

    virtual_time.run(main())


def test_a_server_that_stops_ends_the_dials_that_it_has_not_accepted() -> None:
    sockets = LocalSockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sockets.listens(listener)
        dialling = socket.create_connection(listener.getsockname())
        sockets.dials(dialling, listener.getsockname())
        sockets.stops(listener)
    with sockets.end_for(dialling) as end:
        assert end.recv(1) == b""
    assert dialling.fileno() == -1
    sockets.close()


def test_a_dial_that_is_given_up_is_seen_by_its_server() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        received: asyncio.Future[bytes] = loop.create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.set_result(await reader.read())
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            dialling = socket.socket()
            dialling.setblocking(False)
            await loop.sock_connect(dialling, server.sockets[0].getsockname())
            await asyncio.sleep(0.001)
            dialling.close()
            del dialling
            return await asyncio.wait_for(received, 1.0)

    assert virtual_time.run(main()) == b""


def test_a_dial_that_fails_once_it_was_accepted_leaves_the_server_its_end() -> None:
    sockets = LocalSockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sockets.listens(listener)
        dialling = socket.create_connection(listener.getsockname())
        sockets.dials(dialling, listener.getsockname())
        accepted, name = listener.accept()
        sockets.accepts(name)
        sockets.fails(dialling)
        with sockets.end_for(accepted, name) as end:
            assert end.recv(1) == b""
    dialling.close()
    sockets.close()


def test_a_client_on_another_loop_is_served_over_tcp() -> None:
    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        def ask(address: tuple[str, int]) -> bytes:
            with socket.create_connection(address) as client:
                client.sendall(b"hello\n")
                return client.recv(100)

        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            return await asyncio.to_thread(ask, server.sockets[0].getsockname())

    assert virtual_time.run(main()) == b"hello\n"


def test_waiters_are_woken_in_the_order_in_which_they_came() -> None:
    async def main() -> list[int]:
        changes, woken = Changes(), list[int]()

        async def wait(number: int) -> None:
            await changes.wait()
            woken.append(number)

        waiting = [asyncio.ensure_future(wait(number)) for number in range(50)]
        await asyncio.sleep(0)
        changes.notify()
        await asyncio.gather(*waiting)
        return woken

    assert virtual_time.run(main()) == list(range(50))


def test_tls_websockets_and_aiohttp_share_one_loop() -> None:
    authority = trustme.CA()
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_tls)
    client_tls = ssl.create_default_context()
    authority.configure_trust(client_tls)

    async def over_websocket(connection: ServerConnection) -> None:
        async for message in connection:
            await asyncio.sleep(1)
            await connection.send(message)

    async def over_http(request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        async for message in response:
            await asyncio.sleep(2)
            await response.send_str(message.data)
        return response

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_get("/", over_http)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with serve(over_websocket, "127.0.0.1", 0, ssl=server_tls) as server:
            start = loop.time()
            tls_port = next(iter(server.sockets)).getsockname()[1]
            async with connect(f"wss://127.0.0.1:{tls_port}", ssl=client_tls, proxy=None) as peer:
                for number in range(5):
                    await peer.send(str(number))
                    assert await peer.recv() == str(number)
                first = loop.time() - start
                start = loop.time()
                async with (
                    aiohttp.ClientSession() as http,
                    http.ws_connect(f"http://127.0.0.1:{port}/") as other,
                ):
                    for number in range(5):
                        await other.send_str(str(number))
                        assert await other.receive_str() == str(number)
                    second = loop.time() - start
        await runner.cleanup()
        return first, second

    first, second = virtual_time.run(main())
    assert first == pytest.approx(5)
    assert second == pytest.approx(10)


def test_a_working_thread_holds_the_clock() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        released = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(released.wait, 5))
        timer = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        threading.Timer(0.05, released.set).start()
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        assert work.done()
        assert not timer.done()
        timer.cancel()
        return loop.time() - start

    assert virtual_time.run(main()) == 0


def test_a_peer_that_stops_reading_does_not_stop_the_clock() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)
        writing = loop.create_task(loop.sock_sendall(near, bytes(10_000_000)))
        start = loop.time()
        for _ in range(500):
            await asyncio.sleep(0.02)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing
        near.close()
        far.close()
        return loop.time() - start

    began = time.monotonic()
    assert virtual_time.run(main()) == pytest.approx(10)
    assert time.monotonic() - began < 10


def test_a_dead_end_names_what_waits() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(never(), name="waits-for-godot")

    with pytest.raises(VirtualTimeHang, match=r"waits-for-godot \(never, test_virtual_time.py:\d+"):
        virtual_time.run(main(), hang_limit_s=0.05)


def test_an_endless_run_names_what_waits() -> None:
    async def tick() -> None:
        while True:  # noqa: ASYNC110 - the endless timer is the point
            await asyncio.sleep(0.02)

    async def main() -> None:
        await asyncio.create_task(tick(), name="microphone")

    with pytest.raises(VirtualTimeHang, match=r"more than 0\.2 real seconds.*microphone"):
        virtual_time.run(main(), run_limit_s=0.2)


def test_what_the_machine_does_meanwhile_is_not_counted() -> None:
    """A process that is stopped, or gets no processor, is not one that makes no progress."""

    async def main() -> None:
        time.sleep(0.3)  # noqa: ASYNC251
        await asyncio.sleep(1)

    virtual_time.run(main(), run_limit_s=0.2)


@pytest.mark.parametrize("limits", [{"hang_limit_s": 0}, {"run_limit_s": -1}])
def test_limits_must_be_positive(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(limits))} must be positive"):
        VirtualTimeLoop(**limits)


@pytest.mark.virtual_time
async def test_marked_tests_run_on_virtual_time() -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    await asyncio.sleep(3600)


async def test_unmarked_tests_run_in_real_time() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


def test_a_stall_makes_every_timer_late_and_loses_none() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        start = loop.time()
        seen: list[tuple[str, float]] = []

        def fire(name: str) -> None:
            seen.append((name, loop.time() - start))

        for name, due_s in (("b", 3.0), ("a", 2.0), ("c", 9.0)):
            loop.call_later(due_s, fire, name)
        loop.call_later(1.0, loop.stall, 5.0)
        await asyncio.sleep(10)
        return seen

    assert virtual_time.run(main()) == [("a", 6.0), ("b", 6.0), ("c", 9.0)]


def test_a_stall_holds_up_the_client_but_not_its_server() -> None:
    """The server's messages of the meantime are there at once when the client wakes up."""

    async def main() -> tuple[list[float], list[float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        start = loop.time()
        reply = Reply("One two three four five six seven eight nine ten.")
        async with OpenAIRealtimeServer([reply], times="instant", pace="realtime") as server:
            url = f"ws://{server.host}:{server.port}/v1/realtime?model=m"
            key = {"Authorization": f"Bearer {server.model_kwargs()['api_key']}"}
            async with connect(url, additional_headers=key) as client:
                await client.send('{"type": "response.create"}')
                arrived = []
                while b"response.done" not in (message := await client.recv(decode=False)):
                    if b"output_audio.delta" in message:
                        arrived.append(round(loop.time() - start, 1))
                        if len(arrived) == 5:
                            loop.stall(2.0, but=server)
                sent = server.recording.events("response.output_audio.delta")
        return arrived, [round(frame.at - start, 1) for frame in sent]

    arrived, sent = virtual_time.run(main())
    assert sent == [round(0.1 * place, 1) for place in range(len(sent))]
    assert arrived[:5] == sent[:5]
    assert arrived[5:25] == [2.4] * 20
    assert arrived[25:] == sent[25:]


def test_a_stall_does_not_run_backwards() -> None:
    loop = VirtualTimeLoop()
    with pytest.raises(ValueError, match="backwards"):
        loop.stall(-1.0)
    loop.close()
