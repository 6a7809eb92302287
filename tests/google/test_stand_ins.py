"""What stands in for the client library's session need do no more than upstream asks of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai import types
from google.genai.errors import APIError
from google.genai.live import AsyncLive
from livekit.agents import llm

from livekit.plugins.resilient.core.limits import GEMINI_LIVENESS_TIMEOUT_S
from livekit.plugins.resilient.google.realtime import RealtimeModel, RealtimeSession

pytestmark = pytest.mark.virtual_time

Sent = tuple[str, Any]


class StandIn:
    """Sends, receives and closes."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.closed = False
        self._incoming: asyncio.Queue[types.LiveServerMessage | Exception | None] = asyncio.Queue()

    def says(self, message: types.LiveServerMessage | Exception) -> None:
        self._incoming.put_nowait(message)

    async def send_client_content(self, *, turns: Any = None, turn_complete: bool) -> None:
        self.sent.append(("content", turns))

    async def send_tool_response(self, *, function_responses: Any) -> None:
        self.sent.append(("response", function_responses))

    async def send_realtime_input(self, **given: Any) -> None:
        self.sent.append(("input", given))

    async def receive(self) -> AsyncIterator[types.LiveServerMessage]:
        while (message := await self._incoming.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    async def close(self) -> None:
        self.closed = True
        self._incoming.put_nowait(None)

    def texts(self) -> list[str]:
        turns = [turn for kind, turns in self.sent if kind == "content" for turn in turns or []]
        return [part.text for turn in turns for part in turn.parts]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[StandIn]:
    """The stand-ins that the client library gives out, in order."""
    given: list[StandIn] = []

    @asynccontextmanager
    async def connect(live: AsyncLive, **_: Any) -> AsyncIterator[StandIn]:
        given.append(StandIn())
        yield given[-1]

    monkeypatch.setattr(AsyncLive, "connect", connect)
    return given


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - a fake tells nobody
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 20)


@asynccontextmanager
async def session_of(model: RealtimeModel) -> AsyncIterator[RealtimeSession]:
    session = model.session()
    try:
        yield session
    finally:
        await session.aclose()


def handle(token: str) -> types.LiveServerMessage:
    update = types.LiveServerSessionResumptionUpdate(new_handle=token, resumable=True)
    return types.LiveServerMessage(session_resumption_update=update)


def asked() -> llm.ChatContext:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="how is the weather")
    return context


def with_call(context: llm.ChatContext) -> llm.ChatContext:
    call = llm.FunctionCall(call_id="call-1", name="get_weather", arguments='{"city": "Paris"}')
    context.items.append(call)
    return context


def with_result(context: llm.ChatContext) -> llm.ChatContext:
    context = context.copy()
    result = {"call_id": "call-1", "name": "get_weather", "output": "sunny", "is_error": False}
    context.items.append(llm.FunctionCallOutput(**result))  # type: ignore[arg-type]
    return context


async def test_a_stand_in_carries_a_session(connections: list[StandIn]) -> None:
    async with session_of(RealtimeModel(api_key="k")) as session:
        errors: list[llm.RealtimeModelError] = []
        session.on("error", errors.append)
        await session.update_chat_ctx(asked())
        await until(lambda: connections and connections[0].texts())
        assert connections[0].texts() == ["how is the weather"]
        await asyncio.sleep(1.0)  # so that the handle stands for it
        connections[0].says(handle("handle-1"))
        await until(lambda: session.session_resumption_handle)
        context = session.chat_ctx.copy()
        context.add_message(role="user", content="in Paris")
        await session.update_chat_ctx(context)
        await until(lambda: "in Paris" in connections[0].texts())
        connections[0].says(APIError(1011, {"message": "Internal error"}))
        await until(lambda: len(connections) == 2 and connections[1].sent)
        assert connections[0].closed
        # Sent after the handle was issued, which does not stand for it.
        assert connections[1].texts() == ["in Paris"]
        assert [error.recoverable for error in errors] == [True]
    assert connections[1].closed


async def test_a_stand_in_that_is_quiet_is_kept(connections: list[StandIn]) -> None:
    """It cannot be pinged, so nothing is known of it."""
    async with session_of(RealtimeModel(api_key="k")) as session:
        await until(lambda: session._serving.connected)
        await asyncio.sleep(4 * GEMINI_LIVENESS_TIMEOUT_S)
        assert len(connections) == 1


def resuming(token: str) -> RealtimeModel:
    config = types.SessionResumptionConfig(handle=token)
    return RealtimeModel(api_key="k", session_resumption=config)


async def test_the_result_of_a_call_of_another_process_answers_the_call(
    connections: list[StandIn],
) -> None:
    """The session that a handle restores waits for the call, as the history says."""
    async with session_of(resuming("of another process")) as session:
        history = with_call(asked())
        await session.update_chat_ctx(history)
        await until(lambda: session._serving.connected)
        assert connections[0].sent == []
        await session.update_chat_ctx(with_result(history))
        await until(lambda: connections[0].sent)
        [(kind, responses)] = connections[0].sent
        assert kind == "response"
        assert [(response.id, response.name) for response in responses] == [
            ("call-1", "get_weather")
        ]


async def test_a_call_of_another_process_is_answered_after_a_drop_too(
    connections: list[StandIn],
) -> None:
    """No handle came yet, so it is the same session that is restored, which still waits for it."""
    async with session_of(resuming("of another process")) as session:
        history = with_call(asked())
        await session.update_chat_ctx(history)
        await until(lambda: session._serving.connected)
        connections[0].says(APIError(1011, {"message": "Internal error"}))
        await until(lambda: len(connections) == 2 and session._serving.connected)
        await session.update_chat_ctx(with_result(history))
        await until(lambda: connections[1].sent)
        assert [kind for kind, _ in connections[1].sent] == ["response"]


async def test_a_call_of_another_process_that_comes_again_runs(connections: list[StandIn]) -> None:
    async with session_of(resuming("of another process")) as session:
        generations: list[llm.GenerationCreatedEvent] = []
        session.on("generation_created", generations.append)
        await session.update_chat_ctx(with_call(asked()))
        await until(lambda: session._serving.connected)
        call = types.FunctionCall(id="call-1", name="get_weather", args={"city": "Paris"})
        tool_call = types.LiveServerToolCall(function_calls=[call])
        connections[0].says(types.LiveServerMessage(tool_call=tool_call))
        await until(lambda: generations)
        ran = [call.call_id async for call in generations[0].function_stream]
        assert ran == ["call-1"]


async def test_what_came_after_a_handle_of_another_process_is_told(
    connections: list[StandIn],
) -> None:
    """Upstream keeps beside a handle the context that it stands for."""
    async with session_of(RealtimeModel(api_key="k")) as session:
        session._session_resumption_handle = "of another process"
        session._resumption_chat_ctx = with_call(asked())
        context = with_result(session._resumption_chat_ctx)
        context.add_message(role="user", content="and tomorrow")
        await session.update_chat_ctx(context)
        await until(lambda: connections and len(connections[0].sent) == 2)
        assert connections[0].texts() == ["and tomorrow"]
        assert {kind for kind, _ in connections[0].sent} == {"content", "response"}
