"""A server message that is none, or not as its type promises, costs no connection (R19)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai import types

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import LONGEST_NOTICE_S
from livekit.plugins.resilient.events import GoAwayReceived, HandedOver, ResilienceEvent
from livekit.plugins.resilient.google.malformed import strip_malformed
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.google.set_up import seconds_of
from livekit.plugins.resilient.testing import (
    Abort,
    GeminiLiveServer,
    HeadlessCall,
    Malformed,
    Reply,
    Send,
    ToolCall,
    TurnRequest,
)
from tests.malformed import OneField, Rewriting, answered_over, odd_fields

ASK_WEATHER = "what is the weather in Paris"
SUNNY = Reply("It is sunny in Paris.")
ANSWER = Reply("Yes, I can hear you well.")
STORY = Reply(
    "Once upon a time there was a caller who listened to a long story "
    "and wanted to hear all of it to the very end."
)
DEEP = "[" * 100_000
NO_JSON = '{"serverContent": '

ODD_TIMES = (
    "abc",
    "",
    "10",
    "-5s",
    "NaN",
    "NaNs",
    "infs",
    "1e400s",
    f"{10**30}s",
    f"{'9' * 400}s",
    "5 s",
    "\u0665s",
)

HANDLED = (
    "serverContent.generationComplete",
    "serverContent.inputTranscription",
    "serverContent.modelTurn",
    "serverContent.outputTranscription",
    "serverContent.turnComplete",
    "sessionResumptionUpdate",
    "toolCall",
)


def lines(asked: TurnRequest) -> Any:
    if asked.tool_results:
        return SUNNY
    if asked.reason == "speech" and asked.user_text == ASK_WEATHER:
        return ToolCall("get_weather", {"city": "Paris"})
    return ANSWER if asked.reason == "speech" else STORY


@asynccontextmanager
async def a_call(
    events: list[ResilienceEvent] | None = None, **server: Any
) -> AsyncIterator[tuple[GeminiLiveServer, HeadlessCall]]:
    async with GeminiLiveServer(default_reply=lines, **server) as running:
        # Else an answer that is spoilt is asked of another connection beside.
        given = ResilienceOptions(
            on_event=None if events is None else events.append, hedge_after_s=None
        )
        model = RealtimeModel(**running.model_kwargs(resilience=given))
        async with HeadlessCall(model) as call:
            yield running, call
            assert call.closed is None
        assert call.leftover_tasks() == []


async def ask(server: GeminiLiveServer, call: HeadlessCall, question: str = "hello") -> None:
    server.user_says(question)
    said = await call.say(1.0)
    await call.reply(after=said.ended_at, timeout_s=20.0)
    await call.agent_done()


def holding(kind: str) -> Any:
    outer, _, inner = kind.partition(".")

    def holds(message: Mapping[str, Any]) -> bool:
        below = message.get(outer)
        return outer in message and (not inner or (isinstance(below, dict) and inner in below))

    return holds


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", HANDLED)
async def test_an_odd_field_costs_no_connection(kind: str) -> None:
    with Rewriting() as rewriting:
        async with a_call(connection_limit_s=None) as (server, call):
            await ask(server, call, ASK_WEATHER)
            message = next(sent for sent in rewriting.sent if holding(kind)(sent))
            changes = odd_fields(message, holding(kind), each=1)
            assert await answered_over(call, server, rewriting, changes, ASK_WEATHER) > 0
            assert call.errors == []


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "frame",
    [
        NO_JSON,
        DEEP,
        DEEP.encode(),
        b"\x00\xff",
        "5",
        "[1]",
        "null",
        '{"setupComplete": 5}',
        '{"serverContent": []}',
        '{"code": 500}',
        '{"error": {"code": 7}}',
    ],
    ids=lambda frame: repr(frame[:30]),
)
@pytest.mark.parametrize("moment", ["setupComplete", "serverContent.outputTranscription"])
async def test_a_frame_that_is_no_message_costs_no_connection(
    frame: str | bytes, moment: str
) -> None:
    """At set-up of a first and of a later connection, and within a reply."""

    def inject(message: Mapping[str, Any]) -> list[str | bytes]:
        return [frame] if holding(moment)(message) else []

    with Rewriting(ahead=inject):
        async with a_call() as (server, call):
            await ask(server, call, ASK_WEATHER)
            assert len(server.dials()) == 1
            await server.do(Abort())
            await ask(server, call)
            assert len(server.dials()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("time_left", ODD_TIMES, ids=lambda text: text[:10])
@pytest.mark.parametrize("speaking", [True, False])
async def test_an_end_at_no_time_moves_nobody(time_left: str, speaking: bool) -> None:
    events: list[ResilienceEvent] = []
    async with a_call(events) as (server, call):
        await call.generate_reply(instructions="Tell a story.")
        if not speaking:
            await call.agent_done()
        await server.do(Send({"goAway": {"timeLeft": time_left}}))
        reply = await call.reply()
        await call.agent_done()
        assert reply.position_s == pytest.approx(STORY.duration_s, abs=0.1)
        await ask(server, call)
        assert len(server.dials()) == 1
        assert not [e for e in events if isinstance(e, GoAwayReceived | HandedOver)]


def test_the_times_that_are_none() -> None:
    assert [seconds_of(text) for text in ODD_TIMES] == [None] * len(ODD_TIMES)
    assert [seconds_of(text) for text in ("9.5s", "50s", "0s", "0.000001s", None)] == [
        9.5,
        50.0,
        0.0,
        0.000001,
        0.0,
    ]
    assert seconds_of(f"{LONGEST_NOTICE_S:.0f}s") == LONGEST_NOTICE_S


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "call_of",
    [
        {},
        {"id": "call-1"},
        {"id": "call-1", "name": "", "args": {}},
        {"id": 5, "name": "get_weather", "args": {"city": "Paris"}},
        {"id": "call-1", "name": "get_weather", "args": ["Paris"]},
        {"id": "call-1", "name": "get_weather", "args": "Paris"},
    ],
    ids=str,
)
async def test_a_call_of_no_tool_does_not_cut_the_reply(call_of: dict[str, Any]) -> None:
    async with a_call() as (server, call):
        await call.generate_reply(instructions="Tell a story.")
        await asyncio.sleep(1.0)
        await server.do(Send({"toolCall": {"functionCalls": [call_of]}}))
        reply = await call.reply()
        await call.agent_done()
        assert reply.position_s == pytest.approx(STORY.duration_s, abs=0.1)
        await ask(server, call)
        assert len(server.dials()) == 1
        assert call.tools == []
        assert call.errors == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("calls", [None, [], "missing"])
async def test_a_message_of_no_calls_does_not_cut_the_reply(calls: Any) -> None:
    message = {} if calls == "missing" else {"functionCalls": calls}
    async with a_call() as (server, call):
        await call.generate_reply(instructions="Tell a story.")
        await asyncio.sleep(1.0)
        await server.do(Send({"toolCall": message}))
        reply = await call.reply()
        await call.agent_done()
        assert reply.position_s == pytest.approx(STORY.duration_s, abs=0.1)
        await ask(server, call)
        assert len(server.dials()) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("name", [None, ""])
async def test_a_call_beside_one_of_no_tool_runs(name: str | None) -> None:
    with Rewriting() as rewriting:
        async with a_call() as (server, call):
            await ask(server, call)
            odd: dict[str, Any] = {"id": "odd", "name": name, "args": {}}
            rewriting.todo = OneField(
                holding("toolCall"),
                ("toolCall", "functionCalls"),
                [odd, {"id": "mine", "name": "get_weather", "args": {"city": "Paris"}}],
            )
            server.user_says(ASK_WEATHER)
            await call.say(1.0)
            await call.until(lambda: call.tools, what="the tool runs")
            await asyncio.sleep(5.0)
            assert [run.args for run in call.tools] == [{"city": "Paris"}]
            await ask(server, call)
            assert len(server.dials()) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("count", [-1, 2**63, 10**300])
async def test_a_count_that_is_none_costs_no_connection(count: int) -> None:
    async with a_call() as (server, call):
        await call.generate_reply(instructions="Tell a story.")
        usage = {"promptTokenCount": 1, "responseTokenCount": count, "totalTokenCount": 2}
        await server.do(Send({"usageMetadata": usage}))
        await call.agent_done()
        await ask(server, call)
        assert len(server.dials()) == 1
        assert call.errors == []


@pytest.mark.virtual_time
async def test_many_messages_of_a_newer_protocol_cost_no_connection() -> None:
    async with a_call() as (server, call):
        await ask(server, call)
        for number in range(40):
            await server.do(Send({"brandNew": {"number": number}}), Malformed(NO_JSON))
            await ask(server, call) if number % 20 == 0 else await asyncio.sleep(0.5)
        await ask(server, call)
        assert len(server.dials()) == 1


def message_of(**fields: Any) -> types.LiveServerMessage:
    return types.LiveServerMessage.model_validate(fields)


def test_what_is_as_it_should_be_stays_as_it_is() -> None:
    healthy: list[dict[str, Any]] = [
        {"toolCall": {"functionCalls": [{"name": "get_weather"}]}},
        {
            "toolCall": {
                "functionCalls": [{"id": "a", "name": "b", "args": {"c": [1, {"d": None}]}}]
            }
        },
        {"goAway": {"timeLeft": "50s"}},
        {"goAway": {}},
        {"usageMetadata": {"promptTokenCount": 128_000}},
        {"usageMetadata": {}},
    ]
    for fields in healthy:
        message = message_of(**fields)
        assert strip_malformed(message) == []
        assert message == message_of(**fields), json.dumps(fields)
