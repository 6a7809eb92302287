"""A conversation that the provider will not have is told with less and less of it (R3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.agents import llm

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import POISONED_WITHIN_S
from livekit.plugins.resilient.events import AudioDropped, HandedOver, ResilienceEvent
from livekit.plugins.resilient.openai.realtime import RealtimeModel, RealtimeSession
from livekit.plugins.resilient.openai.replay_limit import (
    ReplayLimit,
    anchor_of,
    older_than_newest,
    place_after,
)
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    Close,
    Delay,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Reply,
    Send,
)

LINES = 8
ANSWER = Reply("Yes, I can hear you well.")
TOO_BIG = Close(1009, "message too big")
INVALID = Close(1007, "invalid payload")
ITEM = "conversation.item.create"


def history(lines: int = LINES) -> llm.ChatContext:
    context = llm.ChatContext.empty()
    for number in range(lines):
        context.add_message(
            role=("user", "assistant")[number % 2], content=f"line-{number}", id=f"item_{number}"
        )
    return context


def told(server: OpenAIRealtimeServer, connection: int) -> list[str]:
    frames = server.recording.frames(ITEM, connection)
    return [text for frame in frames for text in frame.texts if text.startswith("line-")]


def lines(numbers: range) -> list[str]:
    return [f"line-{number}" for number in numbers]


def at_item(connection: int, nth: int, *actions: Any) -> Fault:
    """The server refuses a connection once it has read the `nth` item."""
    return Fault(Received(ITEM, connection=connection, nth=nth), actions)


def audio_at_once_s(server: OpenAIRealtimeServer, connection: int) -> float:
    """Seconds of the caller's audio that a connection took in its first moment."""
    opened_at = server.recording.events("session.created", connection)[0].at
    spans = server.recording.frames("input_audio_buffer.append", connection)
    return sum(frame.audio_s for frame in spans if frame.at - opened_at < 0.05)


@asynccontextmanager
async def session(
    *faults: Fault, items: int = LINES
) -> AsyncIterator[tuple[OpenAIRealtimeServer, RealtimeSession, list[bool]]]:
    """A session without a caller, whose history is told to the first connection."""
    async with OpenAIRealtimeServer(faults=faults) as server:
        model = RealtimeModel(**server.model_kwargs())
        one = model.session()
        recoverable: list[bool] = []
        one.on("error", lambda error: recoverable.append(error.recoverable))
        await one.update_chat_ctx(history(items))
        try:
            yield server, one, recoverable
        finally:
            await one.aclose()
            await model.aclose()


@asynccontextmanager
async def calling(
    *faults: Fault, **model: Any
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall, list[ResilienceEvent]]]:
    """A call whose model was told eight lines."""
    events: list[ResilienceEvent] = []
    options = ResilienceOptions(on_event=events.append)
    async with OpenAIRealtimeServer(default_reply=lambda asked: ANSWER, faults=faults) as server:
        call = HeadlessCall(RealtimeModel(**server.model_kwargs(**model), resilience=options))
        async with call:
            context = call.agent.chat_ctx.copy()
            context.items.extend(history().items)
            await call.agent.update_chat_ctx(context)
            yield server, call, events
        assert call.leftover_tasks() == []


async def ask(call: HeadlessCall) -> None:
    said = await call.say(1.0)
    await call.reply(after=said.ended_at, timeout_s=30)
    await call.agent_done()


# -- the decision


def test_the_audio_goes_first_then_the_older_half_again_and_again() -> None:
    limit = ReplayLimit()
    seen = []
    for told_items in (8, 8, 4, 2, 1):
        assert limit.refused(told_items, audio=True)
        seen.append((limit.with_audio, limit.items))
    assert seen == [(False, None), (False, 4), (False, 2), (False, 1), (False, 0)]
    assert not limit.refused(0)


def test_a_connection_that_was_told_nothing_is_tried_once_more() -> None:
    limit = ReplayLimit()
    assert limit.refused(0)
    assert not limit.refused(0)


@pytest.mark.parametrize(
    ("code", "complained", "after_s", "refuses"),
    [
        (1007, False, 1.0, True),
        (1009, False, 1.0, True),
        (1011, False, 1.0, False),
        (None, False, 1.0, False),
        (1011, True, 1.0, True),
        (1007, False, POISONED_WITHIN_S, False),
    ],
)
def test_a_refusal_is_an_early_close_that_says_so(
    code: int | None, complained: bool, after_s: float, refuses: bool
) -> None:
    limit = ReplayLimit()
    limit.began(100.0)
    if complained:
        limit.complained()
    assert limit.refuses(100.0 + after_s, code) is refuses


def test_what_the_model_has_understood_is_not_refused() -> None:
    limit = ReplayLimit()
    limit.began(100.0)
    limit.model_spoke()
    assert not limit.refuses(101.0, 1007)


def test_a_turn_on_a_connection_that_knows_all_proves_nothing_of_the_next() -> None:
    limit = ReplayLimit()
    limit.began(0.0)
    limit.refused(8)  # by another connection, beside it
    limit.turn_finished()
    assert limit.items == 4
    limit.began(100.0)
    limit.turn_finished()
    assert limit.items is None


def test_a_call_goes_with_its_result() -> None:
    call = llm.FunctionCall(id="call", call_id="c", name="weather", arguments="{}")
    result = llm.FunctionCallOutput(
        id="result", call_id="c", name="weather", output="sunny", is_error=False
    )
    said = llm.ChatMessage(id="said", role="user", content=["hello"])
    items: list[llm.ChatItem] = [said, call, result]
    assert older_than_newest(items, 2) == {"said"}
    assert older_than_newest(items, 1) == {"said", "call", "result"}
    assert older_than_newest(items, None) == set()


def test_places_are_translated_past_what_is_left_out() -> None:
    items = history(4).items
    assert anchor_of(items, "item_1", {"item_0", "item_1"}) is None
    assert anchor_of(items, "item_2", {"item_1", "item_2"}) == "item_0"
    assert anchor_of(items, "item_3", {"item_1"}) == "item_3"
    assert place_after(items, None, {"item_0", "item_1"}) == "item_1"
    assert place_after(items, "item_0", {"item_1"}) == "item_1"
    assert place_after(items, "item_3", {"item_1"}) == "item_3"
    assert place_after(items, None, set()) is None


# -- the real client


@pytest.mark.virtual_time
@pytest.mark.parametrize("close", [INVALID, TOO_BIG], ids=["1007", "1009"])
async def test_a_refused_history_is_halved_and_the_newest_kept(close: Close) -> None:
    refused = [at_item(number + 1, nth, close) for number, nth in enumerate((8, 4, 2))]
    async with session(*refused) as (server, one, recoverable):
        await server.wait_for(ITEM, connection=4, timeout_s=30)
        await asyncio.sleep(POISONED_WITHIN_S)
        assert [told(server, number) for number in (1, 2, 3, 4)] == [
            lines(range(8)),
            lines(range(4, 8)),
            lines(range(6, 8)),
            lines(range(7, 8)),
        ]
        assert len(server.dials()) == 4
        assert recoverable == [True] * 3
        assert [item.id for item in one.chat_ctx.items] == [f"item_{n}" for n in range(8)]


@pytest.mark.virtual_time
async def test_a_close_before_the_first_answer_refuses_the_history_too() -> None:
    async with session() as (server, _, _errors):
        await asyncio.sleep(POISONED_WITHIN_S)
        server.inject(Fault(OnConnection(2), INVALID))
        await server.do(Abort())
        await server.wait_for(ITEM, connection=3, timeout_s=30)
        await asyncio.sleep(1.0)
        assert told(server, 3) == lines(range(4, 8))


@pytest.mark.virtual_time
async def test_an_error_event_before_the_close_refuses_the_history_too() -> None:
    body = {"type": "invalid_request_error", "code": None, "message": "no", "event_id": None}
    error = Send({"type": "error", "event_id": "event_x", "error": body})
    async with session(at_item(1, 8, error, Close(1000))) as (server, _, _errors):
        await server.wait_for(ITEM, connection=2, timeout_s=30)
        await asyncio.sleep(1.0)
        assert told(server, 2) == lines(range(4, 8))


@pytest.mark.virtual_time
async def test_a_session_that_is_refused_without_a_history_ends_with_one_error() -> None:
    refused = Fault(AtTime(0.2), INVALID, times="always")
    async with session(refused, items=2) as (server, _, recoverable):
        await asyncio.sleep(120)
        assert [len(told(server, number)) for number in (1, 2, 3)] == [2, 1, 0]
        assert len(server.dials()) == 3
        assert recoverable == [True, True, False]


@pytest.mark.virtual_time
async def test_what_is_left_out_stays_in_the_record_and_is_not_told_as_new() -> None:
    async with session(at_item(1, 8, INVALID)) as (server, one, _):
        await server.wait_for(ITEM, connection=2, timeout_s=30)
        await asyncio.sleep(1.0)
        record = one.chat_ctx.copy()
        record.add_message(role="user", content="line-8", id="item_8")
        # In the middle of what the server does not know, and without one of these.
        record.items.insert(2, llm.ChatMessage(id="note", role="user", content=["line-note"]))
        del record.items[0]
        await one.update_chat_ctx(record)
        assert [item.id for item in one.chat_ctx.items] == [item.id for item in record.items]
        assert server.session.texts() == ["line-note", *lines(range(4, 9))]
        assert server.recording.count("error") == 0
        assert server.recording.count("conversation.item.delete") == 0
        await server.do(Abort())
        await server.wait_for(ITEM, connection=3, timeout_s=30)


@pytest.mark.virtual_time
async def test_a_result_of_a_call_that_is_left_out_is_left_out_too() -> None:
    async with session(items=0) as (server, one, _):
        record = history(1)
        record.items.append(
            llm.FunctionCall(id="call", call_id="c", name="get_weather", arguments="{}")
        )
        record.items.extend(history(4).items[1:])
        await one.update_chat_ctx(record)
        server.inject(at_item(2, 5, INVALID))
        await server.do(Abort())
        await server.wait_for(ITEM, connection=3, timeout_s=30)
        await asyncio.sleep(1.0)
        assert server.session.texts() == lines(range(2, 4))
        record.items.append(
            llm.FunctionCallOutput(
                id="result", call_id="c", name="get_weather", output="sunny", is_error=False
            )
        )
        await one.update_chat_ctx(record)
        assert one.chat_ctx.items[-1].id == "result"
        assert server.recording.count("error") == 0


@pytest.mark.virtual_time
async def test_the_audio_that_would_be_sent_again_goes_first_and_a_turn_restores_all() -> None:
    in_mid_sentence = Fault(After("input_audio_buffer.speech_started", connection=1), Abort())
    # After a while, in which the audio goes too.
    refused = [at_item(number, LINES, Delay(0.1), TOO_BIG) for number in (2, 3)]
    async with calling(in_mid_sentence, *refused) as (server, call, events):
        await call.say(4.0)
        await call.wait_heard(1.0)
        assert [told(server, number) for number in (2, 3, 4)] == [
            lines(range(8)),
            lines(range(8)),
            lines(range(4, 8)),
        ]
        # What was said before the refusal is not said again.
        assert audio_at_once_s(server, 4) <= 0.11
        assert sum(event.seconds for event in events if isinstance(event, AudioDropped)) > 0.1
        await call.agent_done()
        await server.do(Abort())
        await server.wait_for(ITEM, connection=5, timeout_s=30)
        await ask(call)
        assert told(server, 5) == lines(range(8))
        # What was said since stands behind what the server was not told.
        assert server.session.texts()[:8] == lines(range(8))
        assert ANSWER.text in server.session.texts()[8:]
        assert all(error.recoverable for error in call.errors)


@pytest.mark.virtual_time
async def test_a_refusal_beside_the_serving_connection_costs_nothing() -> None:
    refused = [at_item(2, 8, INVALID), at_item(3, 4, INVALID)]
    async with calling(*refused, max_session_duration=30.0) as (server, call, events):
        await call.until(
            lambda: any(isinstance(event, HandedOver) for event in events),
            timeout_s=90,
            what="a handover",
        )
        assert [told(server, number) for number in (2, 3, 4)] == [
            lines(range(8)),
            lines(range(4, 8)),
            lines(range(6, 8)),
        ]
        assert [event.overlapped for event in events if isinstance(event, HandedOver)] == [True]
        assert call.errors == []
        await ask(call)
        assert server.session.number == 4
        record = call.agent.chat_ctx.copy()
        record.items = [item for item in record.items if item.id != "item_1"]
        await call.agent.update_chat_ctx(record)
        assert server.recording.count("conversation.item.delete") == 0
        assert server.recording.count("error") == 0


@pytest.mark.virtual_time
async def test_a_provider_that_refuses_every_second_connection_is_kept_to_its_end() -> None:
    refused = [
        Fault(Received("session.update", connection=number), INVALID) for number in range(2, 40)
    ]
    async with calling(*refused, max_session_duration=30.0) as (server, call, events):
        await asyncio.sleep(400)
        await ask(call)
        assert len(server.dials()) == 1 + 5  # 8, 4, 2, 1 and no items
        assert server.recording.closed(1) is None
        assert not [event for event in events if isinstance(event, HandedOver)]
        assert call.errors == []


@pytest.mark.virtual_time
async def test_a_refusal_of_a_successor_leaves_a_connection_that_was_suspected_wrongly() -> None:
    slow = Fault(OnConnection(2), HangHandshake(2.0))
    async with calling(slow, at_item(2, LINES, INVALID)) as (server, call, _):
        suspected: Any = call.realtime_session
        suspected.replace_connection()
        await ask(call)
        await asyncio.sleep(20)
        assert server.recording.closed(2) is not None
        assert server.recording.closed(1) is None
        assert call.errors == []
