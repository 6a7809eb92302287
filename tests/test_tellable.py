"""Records with odd things in them are told, or told otherwise, and never keep a connection away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import llm

from livekit.plugins.resilient.google.realtime import RealtimeModel as Gemini
from livekit.plugins.resilient.openai.realtime import RealtimeModel as OpenAI
from livekit.plugins.resilient.tellable import mended, sendable, tellable
from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    GeminiLiveServer,
    OnConnection,
    OpenAIRealtimeServer,
    StaleHandle,
)

FRESH = Fault(OnConnection(2), StaleHandle())


def message(*content: Any, role: llm.ChatRole = "user") -> llm.ChatMessage:
    said = llm.ChatMessage(role=role, content=["something"])
    said.content = list(content)
    return said


def with_content(content: Any) -> llm.ChatMessage:
    said = message()
    said.content = content
    return said


def call(arguments: Any) -> llm.FunctionCall:
    called = llm.FunctionCall(call_id="call-1", name="look_up", arguments="{}")
    called.arguments = arguments
    return called


def result(output: Any) -> llm.FunctionCallOutput:
    given = llm.FunctionCallOutput(call_id="call-1", name="look_up", output="", is_error=False)
    given.output = output
    return given


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


LOST_PICTURE = llm.ImageContent(image="data:image/png;nothing")
NO_SOUND = llm.AudioContent(frame=[])

ODD_MESSAGES: dict[str, Callable[[], llm.ChatMessage]] = {
    "None": lambda: with_content(None),
    "a text": lambda: with_content("odd"),
    "numbers": lambda: message(5, None, {"text": "odd"}),
    "half a character": lambda: message("odd \ud800 text"),
    "a lost picture": lambda: message(LOST_PICTURE),
    "a lost picture and words": lambda: message("odd", LOST_PICTURE),
    "no sound": lambda: message(NO_SOUND),
    "an object": lambda: message(Unprintable()),
}


@pytest.mark.parametrize(
    ("arguments", "text"), [({"a": 1}, '{"a": 1}'), ([], "[]"), (True, "true"), (None, "null")]
)
def test_what_should_be_a_text_is_told_as_json(arguments: Any, text: str) -> None:
    told = mended(call(arguments))
    assert isinstance(told, llm.FunctionCall)
    assert told.arguments == text
    given = mended(result(arguments))
    assert isinstance(given, llm.FunctionCallOutput)
    assert given.output == text


def test_what_is_as_it_should_be_stays_the_same() -> None:
    items: list[llm.ChatItem] = [call("{}"), result("sunny"), message("hello", LOST_PICTURE)]
    assert all(mended(item) is item for item in items)
    texts = {"text": "a \U0001f600 b", "list": ["plain", 5, None]}
    assert sendable(texts) == texts


def test_halves_of_characters_are_replaced() -> None:
    assert sendable(["a\ud800b", {"x": "\udfff"}]) == ["a\ufffdb", {"x": "\ufffd"}]
    assert sendable("\ud83d\ude00") == "\U0001f600"


def test_a_message_is_told_without_what_cannot_be_read() -> None:
    def tell(item: llm.ChatItem) -> None:
        assert isinstance(item, llm.ChatMessage)
        if LOST_PICTURE in item.content:
            raise ValueError

    plain, both, picture = message("one"), message("two", LOST_PICTURE), message(LOST_PICTURE)
    kept = tellable([plain, both, picture], tell)
    assert [item.id for item in kept] == [plain.id, both.id]
    assert isinstance(kept[1], llm.ChatMessage)
    assert kept[1].content == ["two"]
    assert both.content == ["two", LOST_PICTURE]


@asynccontextmanager
async def openai_session() -> AsyncIterator[tuple[OpenAIRealtimeServer, Any]]:
    async with OpenAIRealtimeServer() as server:
        model = OpenAI(**server.model_kwargs())
        session = model.session()
        yield server, session
        await session.aclose()
        await model.aclose()


@asynccontextmanager
async def gemini_session(*faults: Fault) -> AsyncIterator[tuple[GeminiLiveServer, Any]]:
    async with GeminiLiveServer(faults=faults) as server:
        model = Gemini(**server.model_kwargs())
        session = model.session()
        yield server, session
        await session.aclose()
        await model.aclose()


def history(odd: llm.ChatItem, *more: llm.ChatItem) -> llm.ChatContext:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="the first")
    context.items += [odd, *more]
    context.add_message(role="assistant", content="the last")
    return context


@pytest.mark.virtual_time
@pytest.mark.parametrize("odd", ODD_MESSAGES)
@pytest.mark.parametrize("faults", [(), (FRESH,)], ids=["resumed", "fresh"])
async def test_gemini_is_told_the_rest_of_an_odd_record(odd: str, faults: Any) -> None:
    async with gemini_session(*faults) as (server, session):
        await server.wait_for("setupComplete")
        await session.update_chat_ctx(history(ODD_MESSAGES[odd]()))
        await asyncio.sleep(1.0)
        await server.do(Abort())
        await server.wait_for("setupComplete", connection=2 + len(faults), timeout_s=30.0)
        await asyncio.sleep(1.0)
        told = [
            text
            for frame in server.recording.frames("clientContent")
            if not faults or frame.connection == 2 + len(faults)
            for text in frame.texts
        ]
        assert "the first" in told
        assert "the last" in told
        assert len(server.dials()) == 2 + len(faults)


@pytest.mark.virtual_time
@pytest.mark.parametrize("arguments", [{"a": 1}, None])
@pytest.mark.parametrize("output", [{"b": 2}, None, Unprintable])
async def test_gemini_is_told_of_calls_with_odd_fields(arguments: Any, output: Any) -> None:
    async with gemini_session() as (server, session):
        await session.update_chat_ctx(history(call(arguments), result(output)))
        await server.wait_for("setupComplete")
        await asyncio.sleep(1.0)
        await server.do(Abort())
        await server.wait_for("setupComplete", connection=2, timeout_s=30.0)
        await asyncio.sleep(1.0)
        assert len(server.dials()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("odd", list(ODD_MESSAGES))
async def test_openai_is_told_the_rest_of_an_odd_record(odd: str) -> None:
    async with openai_session() as (server, session):
        await server.wait_for("session.updated")
        await session.update_chat_ctx(history(message("odd")))
        # What upstream adds to its own record is not checked either.
        item = session._remote_chat_ctx.get(session.chat_ctx.items[1].id).item
        item.content = ODD_MESSAGES[odd]().content
        await server.do(Abort())
        await server.wait_for("session.updated", connection=2, timeout_s=30.0)
        await asyncio.sleep(1.0)
        assert server.session.texts("user")[0] == "the first"
        assert server.session.texts("assistant") == ["the last"]
        assert len(server.dials()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("given", [{"a": 1}, None, Unprintable])
async def test_openai_is_told_of_calls_with_odd_fields(given: Any) -> None:
    async with openai_session() as (server, session):
        await server.wait_for("session.updated")
        await session.update_chat_ctx(history(call("{}"), result("sunny")))
        for item in session.chat_ctx.items:
            kept = session._remote_chat_ctx.get(item.id).item
            if kept.type == "function_call":
                kept.arguments = given
            elif kept.type == "function_call_output":
                kept.output = given
        await server.do(Abort())
        await server.wait_for("session.updated", connection=2, timeout_s=30.0)
        await asyncio.sleep(1.0)
        kinds = [item.kind for item in server.session.items]
        assert kinds == ["message", "function_call", "function_call_output", "message"]
        assert len(server.dials()) == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("fault", ["_history", "_updates"])
async def test_openai_is_told_less_where_we_cannot_tell_it_all(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of our own is no fault of the network: it is not dialled against for a minute."""
    from livekit.plugins.resilient.openai.history import ReplayState

    async with openai_session() as (server, session):
        await server.wait_for("session.updated")
        await session.update_chat_ctx(history(message("odd"), *[message("x") for _ in range(20)]))
        real = getattr(ReplayState, fault)

        def failing(told: Any, *given: Any) -> Any:
            if told._limit is None or told._limit > 5:
                raise KeyError
            return real(told, *given)

        monkeypatch.setattr(ReplayState, fault, failing)
        began = asyncio.get_running_loop().time()
        await server.do(Abort())
        await server.wait_until(lambda: "the last" in server.session.texts("assistant"), what="it")
        assert asyncio.get_running_loop().time() - began < 10.0
        assert session._main_atask.done() is False


@pytest.mark.virtual_time
@pytest.mark.parametrize("fault", ["announce", "_to_seed"])
async def test_gemini_is_told_less_where_we_cannot_tell_it_all(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from livekit.plugins.resilient.google.mirror import Mirror

    async with gemini_session(FRESH) as (server, session):
        await session.update_chat_ctx(history(message("odd"), *[message("x") for _ in range(20)]))
        await server.wait_for("setupComplete")
        real = getattr(Mirror, fault)

        def failing(mirror: Any, *given: Any) -> Any:
            limit = mirror._poison.limit
            if limit is None or limit > 5:
                raise KeyError
            return real(mirror, *given)

        monkeypatch.setattr(Mirror, fault, failing)
        began = asyncio.get_running_loop().time()
        await server.do(Abort())
        await server.wait_until(
            lambda: any(
                "the last" in frame.texts
                for frame in server.recording.frames("clientContent")
                if frame.connection > 1
            ),
            what="the newest of the history",
        )
        assert asyncio.get_running_loop().time() - began < 20.0
