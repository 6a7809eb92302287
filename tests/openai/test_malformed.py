"""A server message that is none, or not as its type promises, costs no connection (R19)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.openai.event_shapes import kind_of, read_event
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    HeadlessCall,
    Malformed,
    OpenAIRealtimeServer,
    Reply,
    Send,
    ToolCall,
    TurnRequest,
)
from livekit.plugins.resilient.testing.openai.dialects import DialectName
from tests.malformed import MISSING, OneField, Rewriting, answered_over, odd_fields

ASK_WEATHER = "what is the weather in Paris"
SUNNY = Reply("It is sunny in Paris.")
ANSWER = Reply("Yes, I can hear you well.")
DEEP = "[" * 100_000
NO_JSON = '{"type": "response.done", '

HANDLED = (
    "conversation.item.added",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.delta",
    "input_audio_buffer.committed",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "response.content_part.added",
    "response.created",
    "response.done",
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
    "response.output_item.added",
    "response.output_item.done",
)


def lines(asked: TurnRequest) -> Any:
    if asked.tool_results:
        return SUNNY
    if asked.reason == "speech" and asked.user_text == ASK_WEATHER:
        return ToolCall("get_weather", {"city": "Paris"})
    return ANSWER


@asynccontextmanager
async def a_call(**server: Any) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    async with OpenAIRealtimeServer(default_reply=lines, **server) as running:
        # A question whose answer is never heard of would be asked beside, on a dial of its own.
        given = ResilienceOptions(hedge_after_s=None)
        call = HeadlessCall(RealtimeModel(**running.model_kwargs(resilience=given)))
        async with call:
            await call.generate_reply(instructions="Greet the caller.")
            await call.agent_done()
            yield running, call
            assert call.closed is None
        assert call.leftover_tasks() == []


async def ask(server: OpenAIRealtimeServer, call: HeadlessCall, question: str = "hello") -> None:
    server.user_says(question)
    said = await call.say(1.0)
    await call.reply(after=said.ended_at, timeout_s=20.0)
    await call.agent_done()


def of_type(kind: str, item: str | None = None) -> Any:
    def holds(message: Mapping[str, Any]) -> bool:
        of_item = item is None or (message.get("item") or {}).get("type") == item
        return message.get("type") == kind and of_item

    return holds


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", HANDLED)
async def test_an_odd_field_costs_no_connection(kind: str) -> None:
    with Rewriting() as rewriting:
        async with a_call() as (server, call):
            await ask(server, call, ASK_WEATHER)
            message = next(sent for sent in rewriting.sent if sent["type"] == kind)
            changes = odd_fields(message, of_type(kind), each=1)
            assert await answered_over(call, server, rewriting, changes, ASK_WEATHER) > 0
            assert call.errors == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", ["conversation.item.added", "response.output_item.done"])
async def test_an_odd_call_costs_no_connection_and_no_later_one(kind: str) -> None:
    with Rewriting() as rewriting:
        async with a_call() as (server, call):
            await ask(server, call, ASK_WEATHER)
            is_call = of_type(kind, "function_call")
            message = next(sent for sent in rewriting.sent if is_call(sent))
            changes = odd_fields(message, is_call, each=2)
            assert await answered_over(call, server, rewriting, changes, ASK_WEATHER) > 0
            await server.do(Abort())
            await ask(server, call)
            assert len(server.dials()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("frame", [NO_JSON, DEEP, b"\x00\xff", b'{"type": "response.done"}'])
@pytest.mark.parametrize("moment", ["session.created", "response.created", "session.updated"])
async def test_a_frame_that_is_no_event_costs_no_connection(
    frame: str | bytes, moment: str
) -> None:
    """At set-up of a first and of a later connection, and within a reply."""

    def inject(message: Mapping[str, Any]) -> list[str | bytes]:
        return [frame] if message.get("type") == moment else []

    with Rewriting(ahead=inject):
        async with a_call() as (server, call):
            await ask(server, call, ASK_WEATHER)
            assert len(server.dials()) == 1
            await server.do(Abort())
            await ask(server, call)
            assert len(server.dials()) == 2


@pytest.mark.virtual_time
async def test_frames_that_are_no_events_cost_a_renewal_nothing() -> None:
    def inject(message: Mapping[str, Any]) -> list[str | bytes]:
        odd = [{"type": "error"}, {"type": "error", "error": {"event_id": []}}]
        odd.append({"type": "conversation.item.added", "item": [1]})
        return [DEEP, b"\x00", *map(json.dumps, odd)]

    with Rewriting(ahead=inject):
        async with OpenAIRealtimeServer(default_reply=lines) as server:
            model = RealtimeModel(**server.model_kwargs(max_session_duration=30.0))
            async with HeadlessCall(model) as call:
                await call.generate_reply(instructions="Greet the caller.")
                await call.agent_done()
                await server.wait_for("open", count=2, timeout_s=60.0)
                await asyncio.sleep(5.0)
                await ask(server, call)
                assert len(server.dials()) == 2
                assert call.errors == []


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "arguments", [{"city": "Paris"}, [1], True, None, 7, MISSING], ids=lambda a: repr(a)
)
async def test_arguments_that_are_no_text_are_read_and_told_as_text(
    arguments: Any,
) -> None:
    with Rewriting() as rewriting:
        async with a_call() as (server, call):
            rewriting.todo = OneField(
                of_type("response.output_item.done", "function_call"),
                ("item", "arguments"),
                arguments,
            )
            server.user_says(ASK_WEATHER)
            await call.say(1.0)
            await call.reply(timeout_s=20.0)
            await call.agent_done()
            runs = isinstance(arguments, dict) or arguments in (None, MISSING)
            assert len(call.tools) == runs
            await server.do(Abort())
            await ask(server, call)
            assert len(server.dials()) == 2
            expected = "{}" if arguments in (None, MISSING) else json.dumps(arguments)
            told = [item for item in server.session.items if item.kind == "function_call"]
            assert [item.arguments for item in told] == [expected]
            assert all(error.recoverable for error in call.errors)


@pytest.mark.virtual_time
async def test_what_a_client_of_today_does_not_know_is_seen_by_the_application() -> None:
    async with a_call() as (server, call):
        seen: list[str] = []
        session = call.realtime_session
        session.on("openai_server_event_received", lambda event: seen.append(event["type"]))
        await server.do(Malformed(NO_JSON), Send({"type": "session.brand_new", "x": [None]}))
        await ask(server, call)
        assert "session.brand_new" in seen


@pytest.mark.virtual_time
@pytest.mark.parametrize("dialect", ["gpt-realtime", "gpt-realtime-2.1", "xai", "azure-legacy"])
async def test_what_healthy_servers_send_passes_as_it_is(dialect: DialectName) -> None:
    azure = dialect == "azure-legacy"
    with Rewriting() as rewriting:
        async with OpenAIRealtimeServer(default_reply=lines, dialect=dialect) as server:
            model = (
                RealtimeModel.with_azure(**server.azure_kwargs(legacy=True))
                if azure
                else RealtimeModel(**server.model_kwargs())
            )
            async with HeadlessCall(model) as call:
                await ask(server, call, ASK_WEATHER)
        assert len(rewriting.sent) > 20
        for sent in rewriting.sent:
            assert read_event(json.dumps(sent)) == (sent, False)


def test_only_the_kind_of_a_message_is_told() -> None:
    assert kind_of('{"type": "response.done", "response": {"secret": ') == "response.done"
    assert kind_of('{"type": "secret"') == kind_of(DEEP) == "unknown"
