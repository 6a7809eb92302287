"""Every fault action does to a client what its description says."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.faults import (
    GEMINI_ACTIONS,
    Abort,
    After,
    AtAudio,
    AtTime,
    Before,
    Blackhole,
    CallWithoutId,
    CancelCall,
    Close,
    ContinueAlone,
    Delay,
    Duplicate,
    EmptyHandle,
    EmptyTurns,
    Fault,
    Flap,
    GoAway,
    HangHandshake,
    IgnoreToolResponse,
    LateHandle,
    LateReply,
    Malformed,
    NoCloseAnswer,
    NoHandle,
    NoSetupAnswer,
    OnConnection,
    PhantomInterruption,
    PoisonHandle,
    Received,
    Refuse,
    RefuseOverlap,
    Reorder,
    RepeatCall,
    Send,
    ShiftTranscript,
    Silence,
    SlowPong,
    StaleHandle,
    Swallow,
    TrailingAudio,
    UnknownMessage,
    UserStarts,
    UserStops,
    Wedge,
)
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.gemini.peer import (
    GeminiPeer,
    event_names,
    spoken_audio,
    spoken_text,
)
from livekit.plugins.resilient.testing.script import Reply, ToolCall

pytestmark = pytest.mark.virtual_time

REPLY = Reply("One two three four five six seven.")
TOOLS = [{"functionDeclarations": [{"name": "look"}]}]


def server_with(*faults: Fault, **options: object) -> GeminiLiveServer:
    replies = options.pop("replies", [REPLY])
    return GeminiLiveServer(replies, faults=faults, **options)  # type: ignore[arg-type]


def names_in(messages: list[dict[str, object]]) -> list[str]:
    return [name for message in messages for name in event_names(message)]


# Transport ---------------------------------------------------------------------------------


async def test_abort_at_an_audio_position_delivers_exactly_the_audio_before_it() -> None:
    server = server_with(Fault(AtAudio(1.0), Abort()))
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        assert await peer.until_closed() == (1006, "")
        assert spoken_audio(peer.received) == REPLY.pcm(24_000, seed=1)[: 2 * 24_000]
        said = spoken_text(peer.received)
        assert said == "".join(word.text for word in REPLY.words if word.start_s < 1.0)
        await server.wait_for("close")
        info = server.recording.closed(1)
        assert info is not None
        assert (info.code, info.by) == (1006, "server")


@pytest.mark.parametrize("event", ["setupComplete", "turnComplete"])
async def test_close_before_an_event_takes_its_place(event: str) -> None:
    server = server_with(Fault(Before(event), Close(1011, "gone")))
    async with server, GeminiPeer(server) as peer:
        await peer.send({"setup": {"model": "m"}})
        await peer.ask("go")
        assert await peer.until_closed() == (1011, "gone")
        assert event not in names_in(peer.received)


async def test_refused_and_hanging_dials_are_counted() -> None:
    server = server_with(
        Fault(OnConnection(1), HangHandshake(30)), Fault(OnConnection(2), Refuse(429))
    )
    async with server:
        with pytest.raises((TimeoutError, asyncio.TimeoutError)):  # two classes before 3.11
            async with GeminiPeer(server):
                pass
        with pytest.raises(InvalidStatus) as refused:
            async with GeminiPeer(server):
                pass
        assert refused.value.response.status_code == 429
        async with GeminiPeer(server) as peer:
            await peer.set_up()
        assert [dial.connection for dial in server.dials()] == [1, 2, 3]
        assert [dial.status for dial in server.dials()][1:] == [429, 101]
        assert server.session.connection == 3


async def test_no_setup_answer() -> None:
    server = server_with(Fault(OnConnection(1), NoSetupAnswer()))
    async with server, GeminiPeer(server) as peer:
        with pytest.raises(asyncio.TimeoutError):
            await peer.set_up()
        assert server.recording.count("setup") == 1
        assert server.sessions == []


async def test_silence_keeps_the_socket_alive() -> None:
    server = server_with(Fault(After("setupComplete"), Silence(5)))
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        await (await peer.socket.ping())
        await server.wait_for("clientContent")
        await asyncio.sleep(5)
        assert server.recording.count("modelTurn") == 0
        await peer.ask("again")
        await peer.until("turnComplete")


async def test_blackhole_stops_pongs_too() -> None:
    server = server_with(Fault(After("setupComplete"), Blackhole()))
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(await peer.socket.ping(), 60)
        assert server.recording.count("clientContent") == 0
        assert server.recording.closed(1) is None


async def test_slow_pongs() -> None:
    server = server_with(Fault(OnConnection(1), SlowPong(8)))
    async with server, GeminiPeer(server) as peer:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        await (await peer.socket.ping())
        assert loop.time() - sent_at == pytest.approx(8, abs=0.1)


@pytest.mark.parametrize("eof_after_s", [None, 3.0])
async def test_close_is_never_answered(eof_after_s: float | None) -> None:
    server = server_with(Fault(OnConnection(1), NoCloseAnswer(eof_after_s)))
    async with server:
        loop = asyncio.get_running_loop()
        peer = GeminiPeer(server)
        await peer.__aenter__()
        peer.socket.close_timeout = 20
        began_at = loop.time()
        await peer.socket.close()
        assert loop.time() - began_at == pytest.approx(eof_after_s or 20, abs=0.2)


async def test_flap_drops_connections_in_a_row() -> None:
    server = server_with(Fault(OnConnection(1), Flap(drops=3, within_ms=300)))
    async with server:
        for _ in range(3):
            async with GeminiPeer(server) as peer:
                assert await peer.until_closed() == (1006, "")
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            await peer.ask("go")
            await peer.until("turnComplete")


# Triggers ----------------------------------------------------------------------------------


async def test_speech_triggers() -> None:
    server = server_with(
        Fault(UserStarts(connection=1), Abort()), Fault(UserStops(connection=2), Abort())
    )
    async with server:
        for connection in (1, 2):
            async with GeminiPeer(server) as peer:
                await peer.set_up()
                with_end = audio.speech(0.5, 16_000) + audio.silence(0.5, 16_000)
                await peer.send_audio(with_end[: 16_000 if connection == 1 else None])
                assert await peer.until_closed() == (1006, "")
                assert server.session.knows("hello there") == 0


async def test_timed_trigger_runs_on_the_servers_clock() -> None:
    server = server_with(Fault(AtTime(3600), Close(1011, "an hour")))
    server.connection_limit_s = server.session_limit_s = None
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        server.clock.advance(3590)
        await peer.ask("go")
        await peer.until("turnComplete")
        server.clock.advance(10)
        assert await peer.until_closed() == (1011, "an hour")


async def test_received_trigger_comes_before_the_answer() -> None:
    server = server_with(Fault(Received("clientContent"), Abort()))
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        assert await peer.until_closed() == (1006, "")
        assert server.session.knows("go") == 0


async def test_faults_can_be_added_and_performed_while_running() -> None:
    async with GeminiLiveServer([REPLY]) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        server.inject(Fault(Before("turnComplete"), Send({"goAway": {"timeLeft": "9s"}})))
        await peer.ask("go")
        assert "goAway" in names_in(await peer.until("turnComplete"))
        await server.do(Close(1001, "bye"))
        assert await peer.until_closed() == (1001, "bye")
        assert [fired.action for fired in server.recording.faults][-1] == Close(1001, "bye")


# Messages ----------------------------------------------------------------------------------


async def test_delay_holds_back_all_that_follows() -> None:
    server = server_with(Fault(Before("generationComplete"), Delay(20)), times="instant")
    async with server, GeminiPeer(server, timeout_s=60) as peer:
        loop = asyncio.get_running_loop()
        await peer.set_up()
        asked_at = loop.time()
        await peer.ask("go")
        await peer.until("generationComplete")
        await peer.until("turnComplete")
        assert loop.time() - asked_at == pytest.approx(20, abs=0.1)


async def test_duplicate_reorder_and_swallow() -> None:
    server = server_with(
        Fault(Before("generationComplete"), Duplicate()),
        Fault(Before("outputTranscription"), Reorder()),
        Fault(Before("turnComplete"), Swallow()),
    )
    async with server, GeminiPeer(server, timeout_s=30) as peer:
        await peer.set_up()
        await peer.until_handle()
        await peer.ask("go")
        await peer.until_handle()
        names = names_in(peer.received[2:])
        assert names.count("generationComplete") == 2
        assert "turnComplete" not in names
        assert names[1:4] == ["modelTurn", "modelTurn", "outputTranscription"]
        assert spoken_text(peer.received) == REPLY.text


async def test_malformed_and_unknown_messages_come_beside_the_rest() -> None:
    server = server_with(
        Fault(Before("generationComplete"), UnknownMessage()),
        Fault(Before("turnComplete"), Malformed()),
    )
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        await peer.until("brandNewMessage")
        await peer.until("generationComplete")
        with pytest.raises(ValueError, match="Expecting value"):
            await peer.receive()
        await peer.until("turnComplete")


# Conversation ------------------------------------------------------------------------------


async def test_late_reply() -> None:
    server = server_with(Fault(Received("clientContent"), LateReply(7)))
    async with server, GeminiPeer(server) as peer:
        loop = asyncio.get_running_loop()
        await peer.set_up()
        asked_at = loop.time()
        await peer.ask("go")
        await peer.until("modelTurn")
        thinks_s = server.times.first_output_s
        assert loop.time() - asked_at == pytest.approx(7 + thinks_s, abs=0.1)


async def test_empty_turns() -> None:
    server = server_with(
        Fault(OnConnection(1), EmptyTurns(2)), replies=["lost", "lost too", "said"]
    )
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        said = []
        for _ in range(3):
            await peer.ask("go")
            said.append(spoken_text(await peer.until("turnComplete")))
        assert said == ["", "", "said"]


@pytest.mark.parametrize("lead_s", [0.6, -0.6])
async def test_transcript_is_shifted(lead_s: float) -> None:
    server = server_with(
        Fault(OnConnection(1), ShiftTranscript(lead_s)), Fault(AtAudio(1.0), Abort())
    )
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        await peer.until_closed()
        # Captions come in bursts, of which the last before the cut is that up to 1.2 s.
        expected = [word.text for word in REPLY.words if word.start_s < 1.2 + lead_s]
        assert spoken_text(peer.received) == "".join(expected)


async def test_call_is_repeated_on_this_and_on_the_next_connection() -> None:
    server = server_with(
        Fault(After("toolCall"), RepeatCall()),
        Fault(After("toolCall", nth=2), (RepeatCall("next"), Abort())),
        replies=[ToolCall("look", call_id="a"), Reply("Done.")],
    )
    async with server:
        async with GeminiPeer(server) as first:
            await first.set_up(tools=TOOLS)
            handle = await first.until_handle()
            await first.ask("go")
            await first.until_closed()
            assert names_in(first.received).count("toolCall") == 2
        async with GeminiPeer(server) as second:
            await second.set_up(handle=handle, tools=TOOLS)
            [call] = (await second.until("toolCall"))[-1]["toolCall"]["functionCalls"]
            assert call["id"] == "a"
            await second.answer("a", 1)
            assert spoken_text(await second.until("turnComplete")) == "Done."
            assert len(server.recording.deliveries_of("a")) == 1


async def test_tool_responses_are_ignored() -> None:
    server = server_with(
        Fault(OnConnection(1), IgnoreToolResponse()), replies=[ToolCall("look", call_id="a")]
    )
    async with server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        await peer.until("toolCall")
        await peer.answer("a", 1)
        await server.wait_for("toolResponse")
        await asyncio.sleep(10)
        assert server.session.responses_to("a") == []
        assert server.session.model_turns == 1


async def test_calls_can_be_cancelled_nameless_and_followed_by_audio() -> None:
    server = server_with(
        Fault(OnConnection(1), (CallWithoutId(), TrailingAudio(0.5))),
        Fault(After("turnComplete"), CancelCall()),
        replies=[ToolCall("look", call_id="a")],
    )
    async with server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        [call] = (await peer.until("toolCall"))[-1]["toolCall"]["functionCalls"]
        assert "id" not in call
        trailing = await peer.until("turnComplete")
        assert audio.duration_of(spoken_audio(trailing), 24_000) == pytest.approx(0.5)
        cancelled = (await peer.until("toolCallCancellation"))[-1]
        assert cancelled == {"toolCallCancellation": {"ids": ["a"]}}
        assert server.session.open_calls == {}


# Gemini's own ------------------------------------------------------------------------------


@pytest.mark.parametrize("close", [True, False])
async def test_go_away_with_and_without_the_close(close: bool) -> None:
    server = server_with(Fault(After("setupComplete"), GoAway(5, close=close)))
    async with server, GeminiPeer(server, timeout_s=20) as peer:
        loop = asyncio.get_running_loop()
        await peer.set_up()
        assert (await peer.until("goAway"))[-1] == {"goAway": {"timeLeft": "5s"}}
        began_at = loop.time()
        if close:
            assert (await peer.until_closed())[0] == 1011
            assert loop.time() - began_at == pytest.approx(5, abs=0.1)
        else:
            await asyncio.sleep(60)
            await peer.ask("still there?")
            await peer.until("turnComplete")


async def test_handles_can_be_late_empty_or_missing() -> None:
    server = server_with(
        Fault(OnConnection(1), LateHandle(3)),
        Fault(OnConnection(2), EmptyHandle()),
        Fault(OnConnection(3), NoHandle()),
    )
    async with server:
        loop = asyncio.get_running_loop()
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            began_at = loop.time()
            await peer.until_handle()
            assert loop.time() - began_at == pytest.approx(3, abs=0.1)
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            [message] = await peer.until("sessionResumptionUpdate")
            assert message["sessionResumptionUpdate"] == {"newHandle": "", "resumable": True}
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            await peer.ask("go")
            await peer.until("turnComplete")
            await asyncio.sleep(5)
            updates = server.recording.events("sessionResumptionUpdate", connection=3)
            assert [u.message for u in updates] == [
                {"sessionResumptionUpdate": {"resumable": False}}
            ]


async def test_good_handles_can_be_refused_and_poisoned() -> None:
    server = server_with(
        Fault(OnConnection(2), StaleHandle()),
        Fault(OnConnection(3), StaleHandle("after_setup")),
        Fault(OnConnection(4), PoisonHandle(after_s=2, code=1011)),
    )
    async with server:
        loop = asyncio.get_running_loop()
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            handle = await peer.until_handle()
        for code in (1008, 1007):
            async with GeminiPeer(server) as peer:
                await peer.send({"setup": {"model": "m", "sessionResumption": {"handle": handle}}})
                assert (await peer.until_closed())[0] == code
                assert ("setupComplete" in names_in(peer.received)) is (code == 1007)
        for _ in range(2):
            async with GeminiPeer(server) as peer:
                await peer.set_up(handle=handle)
                began_at = loop.time()
                assert (await peer.until_closed())[0] == 1011
                assert loop.time() - began_at == pytest.approx(2, abs=0.1)


async def test_overlap_can_be_forbidden() -> None:
    server = server_with(Fault(OnConnection(1), RefuseOverlap()))
    async with server, GeminiPeer(server) as old:
        await old.set_up()
        handle = await old.until_handle()
        async with GeminiPeer(server) as new:
            with pytest.raises(ConnectionClosed):
                await new.set_up(handle=handle)


async def test_a_resumed_session_can_finish_the_cut_reply_by_itself() -> None:
    server = server_with(
        Fault(Before("turnComplete", connection=1), Abort()),
        Fault(OnConnection(2), ContinueAlone(0.5)),
        replies=[REPLY],
        times="instant",
    )
    async with server:
        async with GeminiPeer(server) as first:
            await first.set_up()
            handle = await first.until_handle()
            await first.ask("go")
            await first.until("generationComplete")
            await asyncio.sleep(1.0)
            await server.do(Abort())
            await first.until_closed()
        async with GeminiPeer(server) as second:
            await second.set_up(handle=handle)
            said = spoken_text(await second.until("turnComplete"))
            assert said == REPLY.rest_after(1.0).text


async def test_phantom_interruption_can_leave_the_model_deaf() -> None:
    server = server_with(Fault(After("turnComplete"), PhantomInterruption(deaf=True)))
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        await peer.until("turnComplete")
        await peer.until("interrupted")
        for _ in range(2):
            await peer.speak()
            messages = await peer.until("turnComplete")
            assert "inputTranscription" in names_in(messages)
            assert spoken_audio(messages) == b""


async def test_a_cut_reply_can_leave_the_server_stuck() -> None:
    server = server_with(Fault(OnConnection(1), Wedge()), replies=[REPLY, REPLY])
    async with server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("go")
        await peer.until("outputTranscription")
        await peer.speak()
        heard = names_in(await peer.until("interrupted"))
        assert "turnComplete" not in heard
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(peer.until("turnComplete"), 30.0)
        assert server.script.turns == 1


def test_no_action_is_left_out() -> None:
    """Read from the source, because a worker of a parallel run sees only some of these tests."""
    nodes = ast.walk(ast.parse(Path(__file__).read_text()))
    made = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    assert {action.__name__ for action in GEMINI_ACTIONS} - made == set()
