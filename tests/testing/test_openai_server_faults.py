"""Every fault of the OpenAI simulator, seen by a bare client or by upstream's model."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable

import pytest
from livekit.agents import APIConnectOptions, llm
from livekit.plugins import openai
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.errors import FaultPlanError, ServerTimeoutError
from livekit.plugins.resilient.testing.fault_plan import parse_plan
from livekit.plugins.resilient.testing.faults import (
    OPENAI_ACTIONS,
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
    FailResponse,
    Fault,
    Flap,
    GoAway,
    HangHandshake,
    IgnoreToolResponse,
    LateReply,
    Malformed,
    NoCloseAnswer,
    NoSetupAnswer,
    OnConnection,
    Received,
    Refuse,
    Reorder,
    RepeatCall,
    Send,
    SessionExpired,
    ShiftTranscript,
    Silence,
    SlowPong,
    Swallow,
    UnknownMessage,
    UserStarts,
    UserStops,
    Wedge,
)
from livekit.plugins.resilient.testing.openai import OpenAIRealtimeServer
from livekit.plugins.resilient.testing.openai.peer import (
    OpenAIPeer,
    spoken_audio,
    spoken_text,
    types_of,
)
from livekit.plugins.resilient.testing.script import Reply, ToolCall, TurnSource

pytestmark = pytest.mark.virtual_time

REPLY = Reply("one two three four five")
Scenario = Callable[[], Awaitable[None]]
SCENARIOS: dict[type[Action], Scenario] = {}


def shows(action: type[Action]) -> Callable[[Scenario], Scenario]:
    """Register a scenario for the table that the coverage test reads."""

    def register(scenario: Scenario) -> Scenario:
        SCENARIOS[action] = scenario
        return scenario

    return register


def simulator(*faults: Fault, replies: Iterable[TurnSource] = ()) -> OpenAIRealtimeServer:
    return OpenAIRealtimeServer(replies, default_reply=REPLY, faults=faults, times="instant")


@shows(Abort)
async def _() -> None:
    async with simulator(Fault(AtAudio(position_s=0.5), Abort())) as server:
        async with OpenAIPeer(server) as peer:
            await peer.send("response.create")
            assert await peer.until_closed() == (1006, "")
            assert spoken_audio(peer.received) == REPLY.pcm(24_000, 1)[: 24_000 * 2 // 2]
        info = server.recording.closed(1)
        assert info is not None
        assert (info.code, info.by) == (1006, "server")


@shows(Close)
async def _() -> None:
    fault = Fault(Before("response.done"), Close(1011, "internal"))
    async with simulator(fault) as server, OpenAIPeer(server) as peer:
        await peer.send("response.create")
        assert await peer.until_closed() == (1011, "internal")
        assert types_of(peer.received)[-1] == "response.output_item.done"


@shows(Refuse)
async def _() -> None:
    async with simulator(Fault(OnConnection(1), Refuse(429))) as server:
        with pytest.raises(InvalidStatus) as refusal:
            async with OpenAIPeer(server):
                pass
        assert refusal.value.response.status_code == 429
        async with OpenAIPeer(server) as peer:
            await peer.until("session.created")


@shows(HangHandshake)
async def _() -> None:
    async with simulator(Fault(OnConnection(1), HangHandshake(30))) as server:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(OpenAIPeer(server).__aenter__(), 5)
        assert server.dials()[0].status == 0


@shows(NoSetupAnswer)
async def _() -> None:
    async with (
        simulator(Fault(OnConnection(1), NoSetupAnswer())) as server,
        OpenAIPeer(server, timeout_s=5) as peer,
    ):
        await peer.send("response.create")
        with pytest.raises(asyncio.TimeoutError):
            await peer.receive()


@shows(Silence)
async def _() -> None:
    fault = Fault(After("response.created"), Silence(3))
    async with simulator(fault) as server, OpenAIPeer(server, timeout_s=2) as peer:
        await peer.send("response.create")
        await peer.until("response.created")
        with pytest.raises(asyncio.TimeoutError):
            await peer.receive()
        await asyncio.wait_for(await peer.socket.ping(), 1)  # the connection itself lives
        await asyncio.sleep(1)
        assert (await peer.respond())[-1]["response"]["status"] == "completed"


@shows(Wedge)
async def _() -> None:
    slow = Reply("I am still thinking.", first_token_s=5.0)
    fault = Fault(OnConnection(1), Wedge())
    async with simulator(fault, replies=[slow]) as server, OpenAIPeer(server, timeout_s=9) as peer:
        await peer.send("response.create")
        await peer.until("response.created")
        await peer.send("response.cancel")
        with pytest.raises(asyncio.TimeoutError):
            await peer.until("response.done")
        await peer.send("response.create")
        refusal = (await peer.until("error"))[-1]["error"]
        assert refusal["code"] == "conversation_already_has_active_response"


@shows(Blackhole)
async def _() -> None:
    async with (
        simulator(Fault(Received("response.create"), Blackhole())) as server,
        OpenAIPeer(server, timeout_s=5) as peer,
    ):
        await peer.until("session.created")
        await peer.send("response.create")
        with pytest.raises(asyncio.TimeoutError):
            await peer.receive()
        pong = await peer.socket.ping()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pong, 5)


@shows(NoCloseAnswer)
async def _() -> None:
    async with simulator(Fault(OnConnection(1), NoCloseAnswer(eof_after_s=0.05))) as server:
        async with OpenAIPeer(server) as peer:
            await peer.until("session.created")
        assert peer.socket.protocol.close_sent is not None
        assert peer.socket.protocol.close_rcvd is None


@shows(SlowPong)
async def _() -> None:
    async with (
        simulator(Fault(OnConnection(1), SlowPong(8))) as server,
        OpenAIPeer(server) as peer,
    ):
        latency_s = await asyncio.wait_for(await peer.socket.ping(), 20)
    assert latency_s == pytest.approx(8)


@shows(Flap)
async def _() -> None:
    async with simulator(Fault(OnConnection(1), Flap(drops=3, within_ms=300))) as server:
        for _number in range(3):
            async with OpenAIPeer(server) as peer:
                assert (await peer.until_closed())[0] == 1006
        async with OpenAIPeer(server) as peer:
            await peer.respond()
        ends = [close.at for close in server.recording.closes[:3]]
        assert ends[-1] - ends[0] <= 0.3


@shows(Delay)
async def _() -> None:
    async with simulator(Fault(Before("response.output_audio.done"), Delay(4))) as server:
        async with OpenAIPeer(server) as peer:
            await peer.respond()
        (created,) = server.recording.events("response.created")
        (done,) = server.recording.events("response.done")
        assert done.at - created.at == pytest.approx(4)


@shows(Duplicate)
async def _() -> None:
    async with (
        simulator(Fault(Before("response.done"), Duplicate())) as server,
        OpenAIPeer(server) as peer,
    ):
        await peer.respond()
        assert (await peer.receive())["type"] == "response.done"


@shows(Reorder)
async def _() -> None:
    fault = Fault(Before("conversation.item.added"), Reorder())
    async with simulator(fault) as server, OpenAIPeer(server) as peer:
        order = types_of(await peer.respond())
    assert order.index("response.content_part.added") < order.index("conversation.item.added")


@shows(Swallow)
async def _() -> None:
    for event in (
        "response.created",
        "conversation.item.added",
        "response.output_item.added",
        "response.output_item.done",
    ):
        async with (
            simulator(Fault(Before(event), Swallow())) as server,
            OpenAIPeer(server) as peer,
        ):
            assert event not in types_of(await peer.respond())
    async with (
        simulator(Fault(Before("response.done"), Swallow())) as server,
        OpenAIPeer(server, timeout_s=3) as peer,
    ):
        with pytest.raises(asyncio.TimeoutError):
            await peer.respond()
        # To the server the response is over.
        assert (await peer.respond())[-1]["response"]["status"] == "completed"


@shows(Malformed)
async def _() -> None:
    async with (
        simulator(Fault(After("session.created"), Malformed())) as server,
        OpenAIPeer(server) as peer,
    ):
        await peer.receive()
        with pytest.raises(json.JSONDecodeError):
            await peer.receive()
        await peer.respond()


@shows(UnknownMessage)
async def _() -> None:
    fault = Fault(After("session.created"), UnknownMessage({"x": 1}))
    async with simulator(fault) as server, OpenAIPeer(server) as peer:
        await peer.receive()
        assert await peer.receive() == {"type": "session.brand_new", "x": 1}


@shows(Send)
async def _() -> None:
    event = {"type": "input_audio_buffer.speech_started", "item_id": "ghost"}
    async with (
        simulator(Fault(AtTime(after_s=2), Send(event))) as server,
        OpenAIPeer(server) as peer,
    ):
        await peer.receive()
        assert await peer.receive() == event


@shows(LateReply)
async def _() -> None:
    fault = Fault(Received("response.create"), LateReply(12))
    async with simulator(fault) as server, OpenAIPeer(server, timeout_s=60) as peer:
        for late_s in (12, 0):
            asked = asyncio.get_running_loop().time()
            await peer.send("response.create")
            await peer.until("response.created")
            assert asyncio.get_running_loop().time() - asked == pytest.approx(late_s)
            await peer.until("response.done")


@shows(EmptyTurns)
async def _() -> None:
    async with (
        simulator(Fault(OnConnection(1), EmptyTurns(2))) as server,
        OpenAIPeer(server) as peer,
    ):
        outputs = [(await peer.respond())[-1]["response"]["output"] for _ in range(3)]
    assert [len(output) for output in outputs] == [0, 0, 1]


@shows(ShiftTranscript)
async def _() -> None:
    faults = (
        Fault(OnConnection(1), ShiftTranscript(10)),
        Fault(AtAudio(position_s=0.2), Abort()),
    )
    async with simulator(*faults) as server, OpenAIPeer(server) as peer:
        await peer.send("response.create")
        await peer.until_closed()
        assert spoken_text(peer.received) == REPLY.text
        assert len(spoken_audio(peer.received)) == 0.2 * 24_000 * 2


@shows(RepeatCall)
async def _() -> None:
    call = ToolCall("get_weather", {"city": "Paris"})

    def ids(messages: Iterable[dict[str, object]]) -> list[object]:
        items = (m["item"] for m in messages if m["type"] == "response.output_item.done")
        return [item["call_id"] for item in items if isinstance(item, dict)]

    fault = Fault(After("response.done"), RepeatCall("this"))
    async with simulator(fault, replies=[call]) as server, OpenAIPeer(server) as peer:
        first, again = ids(await peer.respond()), ids(await peer.until("response.done"))
    assert first == again
    assert len(first) == 1
    faults = (Fault(After("response.done"), (RepeatCall("next"), Abort())),)
    async with simulator(*faults, replies=[call]) as server:
        async with OpenAIPeer(server) as peer:
            await peer.respond()
        async with OpenAIPeer(server) as second:
            assert ids(await second.until("response.done")) == ids(peer.received)


@shows(IgnoreToolResponse)
async def _() -> None:
    fault = Fault(OnConnection(1), IgnoreToolResponse())
    async with simulator(fault, replies=[ToolCall("f", call_id="c1")]) as server:
        async with OpenAIPeer(server, timeout_s=3) as peer:
            await peer.respond()
            with pytest.raises(asyncio.TimeoutError):
                await peer.answer("c1", "result")
        assert len(server.recording.deliveries_of("c1")) == 1
        assert server.session.responses_to("c1") == []


@shows(SessionExpired)
async def _() -> None:
    for error_first in (True, False):
        fault = Fault(AtAudio(position_s=0.3), SessionExpired(error_first))
        async with simulator(fault) as server, OpenAIPeer(server) as peer:
            await peer.send("response.create")
            code, reason = await peer.until_closed()
            assert (code, "maximum duration" in reason) == (1001, True)
            codes = [m["error"]["code"] for m in peer.received if m["type"] == "error"]
            assert codes == (["session_expired"] if error_first else [])


@shows(FailResponse)
async def _() -> None:
    for kind, error_type in (
        ("server_error", "server_error"),
        ("rate_limit", "rate_limit_error"),
        ("quota", "insufficient_quota"),
    ):
        plan = parse_plan(
            f"""
            [[fault]]
            trigger = {{ name = "on_connection", connection = 1 }}
            action = {{ name = "fail_response", kind = "{kind}", count = 2 }}
            """,
            OpenAIRealtimeServer.vocabulary,
        )
        async with simulator(*plan) as server, OpenAIPeer(server) as peer:
            ends = [(await peer.respond())[-1]["response"] for _ in range(3)]
        assert [end["status"] for end in ends] == ["failed", "failed", "completed"]
        assert ends[0]["status_details"]["error"]["type"] == error_type


BY_NAME = {action.__name__: action for action in OPENAI_ACTIONS}


@pytest.mark.parametrize("name", sorted(BY_NAME))
async def test_each_fault_does_what_it_says(name: str) -> None:
    await SCENARIOS[BY_NAME[name]]()


async def test_faults_follow_the_users_speech() -> None:
    faults = (
        Fault(UserStarts(), Send({"type": "test.started"})),
        Fault(UserStops(), Abort()),
    )
    async with simulator(*faults) as server, OpenAIPeer(server) as peer:
        await peer.until("session.created")
        with contextlib.suppress(ConnectionClosed):  # it ends while the silence is being sent
            await peer.speak()
        await peer.until_closed()
        order = types_of(peer.received)
        assert "test.started" in order
        assert "response.created" not in order
    assert [type(fired.action) for fired in server.recording.faults] == [Send, Abort]


@pytest.mark.parametrize(
    ("fault", "known"),
    [
        (Fault(Before("turnComplete"), Abort()), r"server event 'turnComplete'.*response\.done"),
        (Fault(Received("realtimeInput"), Abort()), r"client message.*session\.update"),
        (Fault(OnConnection(1), GoAway()), r"action 'GoAway'.*SessionExpired"),
    ],
)
def test_a_fault_of_another_provider_is_refused(fault: Fault, known: str) -> None:
    with pytest.raises(FaultPlanError, match=known):
        OpenAIRealtimeServer(faults=[fault])


# Upstream's model --------------------------------------------------------------------------

QUICK = APIConnectOptions(max_retry=3, retry_interval=0.5, timeout=5)


def upstream(server: OpenAIRealtimeServer) -> llm.RealtimeModel:
    return openai.realtime.RealtimeModel(**server.model_kwargs(conn_options=QUICK))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(AtTime(after_s=5), Abort()),
        Fault(AtTime(after_s=5), Close(1001, "going away")),
        Fault(AtTime(after_s=5), SessionExpired()),
        Fault(OnConnection(1), Refuse(503)),
        Fault(OnConnection(1), HangHandshake()),
        Fault(OnConnection(1), Flap(drops=2, within_ms=100)),
        Fault(Before("session.updated"), Duplicate()),
        Fault(AtTime(after_s=5), UnknownMessage()),
        Fault(OnConnection(1), SlowPong(30)),
    ],
    ids=lambda fault: "+".join(type(action).__name__ for action in fault.actions),
)
async def test_upstream_survives_what_happens_between_turns(fault: Fault) -> None:
    async with simulator(fault) as server, HeadlessCall(upstream(server)) as call:
        await asyncio.sleep(20)
        await call.say(0.5)
        reply = await call.reply()
        assert reply.position_s == pytest.approx(REPLY.duration_s)
        assert server.recording.faults
        assert call.closed is None


async def test_upstream_hears_nothing_more_from_a_half_open_socket() -> None:
    async with (
        simulator(Fault(AtTime(after_s=5), Blackhole())) as server,
        HeadlessCall(upstream(server)) as call,
    ):
        await asyncio.sleep(6)
        await call.say(0.5)
        with pytest.raises(ServerTimeoutError):
            await call.reply(timeout_s=120)
        assert len(server.dials()) == 1
        assert call.errors == []


async def test_upstream_fails_a_reply_that_the_server_refuses() -> None:
    fault = Fault(OnConnection(1), FailResponse("server_error"))
    async with simulator(fault) as server, HeadlessCall(upstream(server)) as call:
        await call.generate_reply()
        error = await call.wait_error()
        assert error.recoverable
        assert call.heard.segments == []
        await call.generate_reply()
        assert len(call.heard.segments) == 1


async def test_upstream_gives_up_when_the_quota_is_spent() -> None:
    fault = Fault(OnConnection(1), FailResponse("quota"))
    async with simulator(fault) as server, HeadlessCall(upstream(server)) as call:
        await call.generate_reply(wait=False)
        error = await call.wait_error(recoverable=False)
        assert "insufficient_quota" in str(error.error)
    # Its own closing raises, so the session's close event never comes.
    assert call.closed is None
    assert call.leftover_tasks() == []


async def test_upstream_never_speaks_a_reply_that_came_too_late() -> None:
    fault = Fault(Received("response.create"), LateReply(12))
    async with simulator(fault) as server, HeadlessCall(upstream(server)) as call:
        handle = await call.generate_reply()
        assert isinstance(handle.exception(), llm.RealtimeError)
        await server.wait_for("response.created", timeout_s=5)
        await server.wait_for("response.cancel")
        await asyncio.sleep(5)
        assert call.heard.segments == []
