"""What a session remembers does not grow with its drops and turns (R22)."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from livekit.agents import llm

from livekit.plugins.resilient.google.realtime import RealtimeModel as Gemini
from livekit.plugins.resilient.openai.realtime import RealtimeModel as OpenAI
from livekit.plugins.resilient.testing import (
    Abort,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ToolCall,
    TurnRequest,
    virtual_time,
)

pytestmark = pytest.mark.virtual_time

OURS = "livekit.plugins.resilient"
SETTLED, MORE = 70, 35  # beyond the calls that are remembered; as many again as can be told
ASK_WEATHER = "what is the weather in Paris"
SUNNY = Reply("Sunny.")
ANSWER = Reply("Yes.")

# What was said grows by itself: an item each, in the record that upstream keeps.
OF_THE_RECORD = frozenset(
    {"_chat_ctx", "_known", "_remote_chat_ctx", "_replayed", "_told", "_unrecorded"}
)
# A ring that is full at some times and not at others, or what is under way just then.
SLACK = 4


def sizes(session: Any) -> dict[str, int]:
    """The lengths of all containers that a session and the objects of ours below it hold."""
    found: dict[str, int] = {}
    seen: set[int] = set()

    def visit(thing: Any, path: str) -> None:
        if id(thing) in seen or path.rpartition(".")[2] in OF_THE_RECORD:
            return
        seen.add(id(thing))
        if isinstance(thing, dict | Mapping | list | set | frozenset | deque | tuple):
            found[path] = len(thing)
            values = thing.values() if isinstance(thing, Mapping) else thing
            for value in list(values):
                visit(value, f"{path}[]")
        elif type(thing).__module__.startswith(OURS) and not is_test_bed(thing):
            for name, value in fields(thing):
                visit(value, f"{path}.{name}")

    visit(session, "session")
    return found


def is_test_bed(thing: Any) -> bool:
    return type(thing).__module__.startswith(f"{OURS}.testing")


def fields(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)


def lines(asked: TurnRequest) -> Any:
    if asked.tool_results:
        return SUNNY
    return ToolCall("get_weather", {"city": "Paris"}) if "weather" in asked.user_text else ANSWER


async def turns(server: Any, call: HeadlessCall, count: int) -> None:
    """Turns with a tool, each with a drop behind it."""
    for _ in range(count):
        server.user_says(ASK_WEATHER)
        said = await call.say(0.6)
        await call.reply(after=said.ended_at, timeout_s=30.0)
        await call.agent_done()
        await server.do(Abort())
        await server.wait_for("open", count=len(server.dials()) + 1, timeout_s=30.0)
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("provider", ["openai", "gemini"])
async def test_nothing_grows_with_drops_and_turns(provider: str) -> None:
    opens = OpenAIRealtimeServer if provider == "openai" else GeminiLiveServer
    model = OpenAI if provider == "openai" else Gemini
    async with opens(default_reply=lines) as server:
        driven = model(**server.model_kwargs())
        async with HeadlessCall(driven) as call:
            await call.generate_reply(instructions="Greet the caller.")
            await call.agent_done()
            await turns(server, call, SETTLED)
            before = sizes(call.realtime_session)
            await turns(server, call, MORE)
            after = sizes(call.realtime_session)
            assert len(server.dials()) == SETTLED + MORE + 1
            grown = {
                path: (before.get(path, 0), size)
                for path, size in after.items()
                if size > before.get(path, 0) + SLACK
            }
            assert grown == {}
            assert call.errors
            assert all(error.recoverable for error in call.errors)
            assert isinstance(call.realtime_session.chat_ctx, llm.ChatContext)


@pytest.fixture
def _unlogged() -> Iterator[None]:
    """pytest keeps what is logged, and with an exception the frames that it went through."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("provider", ["openai", "gemini"])
@pytest.mark.usefixtures("_unlogged")
def test_a_call_that_is_over_leaves_nothing(provider: str) -> None:
    opens = OpenAIRealtimeServer if provider == "openai" else GeminiLiveServer
    model = OpenAI if provider == "openai" else Gemini

    async def one_call() -> list[weakref.ref[Any]]:
        async with opens(default_reply=lines) as server:
            driven = model(**server.model_kwargs())
            async with HeadlessCall(driven) as call:
                await turns(server, call, 1)
                return [weakref.ref(thing) for thing in (call, call.realtime_session, driven)]

    over = virtual_time.run(one_call())
    gc.collect()
    assert [thing() for thing in over] == [None] * 3
