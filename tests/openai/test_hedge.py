"""A slow reply is asked of a second connection, and whichever answers first is heard (R24)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import HEDGE_AFTER_S, HEDGE_STALLED_AFTER_S
from livekit.plugins.resilient.events import (
    HandedOver,
    HedgeDecided,
    HedgeOutcome,
    RedriveDecided,
    ResilienceEvent,
)
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    AtAudio,
    Before,
    Delay,
    Fault,
    HeadlessCall,
    HeardSegment,
    OnConnection,
    OpenAIRealtimeServer,
    Refuse,
    Reply,
    Silence,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

QUESTION = "where is my parcel"
ANSWER = Reply("It left the depot this morning.")
LATE = Reply("The depot has sent it this morning.", first_token_s=HEDGE_AFTER_S + 1.0)
STORY = Reply(
    "Once upon a time there was a caller who wanted to hear a long story "
    "and listened to all of it to the very end."
)
GO_ON = Reply("and so it went on and on.")
WEATHER = ToolCall("get_weather", {"city": "Paris"})
SUNNY = Reply("It is sunny in Paris.")
LOST_S = 1.5
"""Dial, first token and the playout's own start, with room."""

Say = Callable[[TurnRequest], Any]


class Stage:
    def __init__(self, server: OpenAIRealtimeServer, call: HeadlessCall, events: list[Any]) -> None:
        self.server, self.call, self.events = server, call, events

    def told(self, *kinds: type[ResilienceEvent]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def results(self) -> list[str]:
        return [event.result for event in self.told(HedgeOutcome)]

    async def hedged(self, timeout_s: float = 60.0) -> str:
        await self.call.until(lambda: self.results, timeout_s=timeout_s, what="a hedge's outcome")
        return self.results[-1]

    async def asked(self) -> float:
        """Have the caller ask; returns when they were through."""
        self.server.user_says(QUESTION)
        said = await self.call.say(1.0)
        assert said.ended_at is not None
        return said.ended_at

    def tool_results(self, connection: int) -> int:
        """How many results of tools a connection was given."""
        items = self.server.recording.frames("conversation.item.create", connection)
        return sum(frame.message["item"]["type"] == "function_call_output" for frame in items)

    def heard(self, reply: Reply) -> int:
        """How often the caller heard the beginning of a reply."""
        heard = self.call.heard.heard_pcm()
        turns = range(1, self.server.script.turns + 1)
        return sum(heard.count(reply.pcm(24_000, seed=turn)[:9600]) for turn in turns)


@asynccontextmanager
async def stage(
    *faults: Fault, say: Say, transcribed_s: float = 0.05, **options: Any
) -> AsyncIterator[Stage]:
    events: list[ResilienceEvent] = []

    def keep(event: ResilienceEvent) -> None:
        events.append(event)
        call.changes.notify()

    resilience = ResilienceOptions(on_event=keep, **options)
    # What the caller said is known before anything goes wrong: else there is no hedge.
    server = OpenAIRealtimeServer(
        default_reply=say, faults=faults, pace="realtime", transcription_delay_s=transcribed_s
    )
    async with server:
        call = HeadlessCall(RealtimeModel(**server.model_kwargs(resilience=resilience)))
        async with call:
            yield Stage(server, call, events)
        assert call.close_problem is None
        assert call.leftover_tasks() == []


def started(segment: HeardSegment) -> float:
    assert segment.started_at is not None
    return segment.started_at


def first_then(first: Any, then: Any) -> Say:
    """The first turn is not the same as all others."""
    turns = iter([first])
    return lambda asked: next(turns, then)


async def test_a_reply_that_never_begins_is_given_by_another_connection() -> None:
    silent = Fault(Before("response.output_item.added", connection=1), Silence())
    async with stage(silent, say=first_then(LATE, ANSWER)) as on:
        asked_at = await on.asked()
        reply = await on.call.reply(after=asked_at)
        assert started(reply) - asked_at < HEDGE_AFTER_S + LOST_S
        await on.call.agent_done()
        assert on.heard(ANSWER) == 1
        assert on.results == ["served"]
        assert on.told(HandedOver) == []  # the outcome tells of it
        assert on.told(RedriveDecided) == []
        session = on.server.session
        assert session.number == 2
        assert session.texts("user") == [QUESTION]
        assert session.texts("assistant") == [ANSWER.text]
        assert on.call.errors == []
        # The line is as good as any other.
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        await on.call.agent_done()
        assert on.heard(ANSWER) == 2
        assert len(on.server.dials()) == 2


async def test_a_reply_that_stops_is_gone_on_with_by_another_connection() -> None:
    stops = Fault(AtAudio(2.0, connection=1), Silence())
    async with stage(stops, say=first_then(STORY, GO_ON)) as on:
        asked_at = await on.asked()
        await on.call.until(lambda: on.heard(GO_ON), timeout_s=30, what="the rest")
        await on.call.agent_done()
        stopped, rest = on.call.heard.segments[-2:]
        gap_s = started(rest) - stopped.ended_at
        assert gap_s < HEDGE_STALLED_AFTER_S + LOST_S
        assert started(stopped) > asked_at
        told = on.server.session.texts("assistant")
        assert STORY.text.startswith(told[0])
        assert len(told[0]) > 10
        assert told[1:] == [GO_ON.text]
        assert on.results == ["served"]
        assert on.call.errors == []


async def test_a_slow_reply_that_comes_first_is_heard_and_the_hedge_is_not() -> None:
    async with stage(say=lambda asked: LATE) as on:
        asked_at = await on.asked()
        reply = await on.call.reply(after=asked_at)
        assert started(reply) - asked_at > HEDGE_AFTER_S
        await on.call.agent_done()
        assert on.results == ["false_alarm"]
        assert on.heard(LATE) == 1
        # Not a frame on the connection that serves.
        asks = on.server.recording.frames("response.create", 1)
        assert asks == []
        assert on.server.recording.frames("response.cancel", 1) == []
        assert on.told(HandedOver) == []
        await on.call.until(
            lambda: on.server.recording.closed(2), timeout_s=5, what="the hedge's end"
        )
        assert on.server.session_of(1).texts("assistant") == [LATE.text]
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        assert len(on.server.recording.frames("response.create", 1)) == 0


async def test_a_tool_call_of_the_hedge_is_output_and_runs_once() -> None:
    def say(asked: TurnRequest) -> Any:
        if asked.tool_results:
            return SUNNY
        return ANSWER if asked.reason == "speech" else WEATHER

    silent = Fault(Before("response.output_item.added", connection=1), Silence())
    async with stage(silent, say=say) as on:
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        await on.call.agent_done()
        assert on.heard(SUNNY) == 1
        assert on.results == ["served"]
        assert [run.name for run in on.call.tools] == ["get_weather"]
        assert on.tool_results(2) == 1
        assert on.call.errors == []


async def test_a_tool_call_of_the_hedge_that_loses_never_runs() -> None:
    """It comes a moment after the serving connection's own call, which is output as well."""

    def say(asked: TurnRequest) -> Any:
        return SUNNY if asked.tool_results else WEATHER

    slow = Fault(Before("response.output_item.added", connection=1), Delay(HEDGE_AFTER_S))
    late = Fault(Before("response.output_item.added", connection=2), Delay(1.0))
    async with stage(slow, late, say=say) as on:
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        await on.call.agent_done()
        assert on.heard(SUNNY) == 1
        assert on.results == ["false_alarm"]
        assert [run.name for run in on.call.tools] == ["get_weather"]
        assert (on.tool_results(1), on.tool_results(2)) == (1, 0)
        assert on.call.errors == []


async def test_a_hedge_that_is_refused_is_not_tried_again() -> None:
    slow = Fault(Before("response.output_item.added", connection=1), Delay(HEDGE_AFTER_S + 1.0))
    refused = Fault(OnConnection(2), Refuse(429))
    async with stage(slow, refused, say=lambda asked: ANSWER) as on:
        for _ in range(2):
            asked_at = await on.asked()
            await on.call.reply(after=asked_at)
            await on.call.agent_done()
        assert on.results == ["refused"]
        assert len(on.told(HedgeDecided)) == 1
        assert len(on.server.dials()) == 2
        assert on.call.errors == []


async def test_a_request_is_answered_by_the_hedge_with_its_own_future() -> None:
    silent = Fault(Before("response.created", connection=1), Silence())
    async with stage(silent, say=lambda asked: ANSWER) as on:
        handle = await on.call.generate_reply(instructions="Greet.", timeout_s=20)
        assert handle.exception() is None
        await on.call.agent_done()
        assert on.heard(ANSWER) == 1
        assert on.results == ["served"]
        assert on.told(RedriveDecided) == []
        (asked,) = on.server.recording.frames("response.create", 2)
        assert "Greet." in asked.message["response"]["instructions"]


async def test_a_caller_who_speaks_on_ends_the_hedge() -> None:
    slow = Fault(Before("response.output_item.added", connection=1), Delay(HEDGE_AFTER_S + 0.7))

    def say(asked: TurnRequest) -> Any:
        return ANSWER if asked.reason == "speech" else LATE

    async with stage(slow, say=say) as on:
        await on.asked()
        await on.call.until(lambda: on.told(HedgeDecided), timeout_s=20, what="a hedge")
        said = await on.call.say(1.0)
        await on.call.reply(after=said.ended_at)
        await on.call.agent_done()
        assert on.heard(LATE) == 0
        assert on.results[0] in ("false_alarm", "superseded")
        assert on.told(HandedOver) == []


async def test_none_where_the_other_connection_would_not_know_the_callers_words() -> None:
    async with stage(say=lambda asked: LATE, transcribed_s=30.0) as on:
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        assert on.told(HedgeDecided) == []
        assert len(on.server.dials()) == 1


async def test_none_where_it_is_switched_off() -> None:
    async with stage(say=lambda asked: LATE, hedge_after_s=None) as on:
        asked_at = await on.asked()
        await on.call.reply(after=asked_at)
        assert len(on.server.dials()) == 1
