"""Connections that are left on purpose: announced ends (R8), and restarts by the application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from livekit.agents import function_tool, llm

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import (
    GEMINI_LIVENESS_TIMEOUT_S,
    POISONED_WITHIN_S,
    REDIAL_CAP_S,
)
from livekit.plugins.resilient.events import (
    ContinuationRejected,
    Disconnected,
    HandedOver,
    RedriveDecided,
    ResilienceEvent,
)
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Blackhole,
    CallAgent,
    Fault,
    GeminiLiveServer,
    GoAway,
    HangHandshake,
    HeadlessCall,
    NoCloseAnswer,
    NoSetupAnswer,
    OnConnection,
    Refuse,
    RefuseOverlap,
    Reply,
    Send,
    StaleHandle,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

STORY = Reply(
    "Once upon a time there was a caller who listened to a long story "
    "and wanted to hear all of it to the very end."
)
ANSWER = Reply("This answers what you have just asked.")
GO_ON = Reply("Here is the rest of what I wanted to say.")
RESULT = "cloudless"
AT_ONCE = Send({"goAway": {"timeLeft": "0s"}})


def by_reason(request: TurnRequest) -> Reply:
    return ANSWER if request.reason == "speech" else GO_ON


@dataclass
class Stage:
    server: GeminiLiveServer
    call: HeadlessCall
    events: list[ResilienceEvent] = field(default_factory=list)

    def count(self, kind: type[ResilienceEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    async def greet(self) -> None:
        await self.call.generate_reply(instructions="Greet the caller.")
        await self.call.agent_done()

    async def ask(self) -> None:
        said = await self.call.say(1.0)
        reply = await self.call.reply(after=said.ended_at)
        await self.call.agent_done()
        assert reply.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)

    async def drop(self, connection: int | None = None) -> None:
        await self.server.do(Abort(), connection=connection)


@asynccontextmanager
async def a_call(
    *faults: Fault,
    replies: Iterable[Reply | ToolCall] = (),
    agent: CallAgent | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    async with GeminiLiveServer(
        replies, default_reply=by_reason, faults=faults, family="3.1", strict=True, pace=1.5
    ) as server:
        events: list[ResilienceEvent] = []
        resilience = ResilienceOptions(on_event=events.append, **options)
        model = RealtimeModel(**server.model_kwargs(resilience=resilience))
        async with HeadlessCall(model, agent=agent) as call:
            yield Stage(server, call, events)
            assert all(error.recoverable for error in call.errors)
        assert call.leftover_tasks() == []


# --- announced ends ------------------------------------------------------------------------------


async def test_a_server_that_sends_everybody_away_is_not_dialled_without_end() -> None:
    """A server that is being drained announces the end of each new connection as well."""
    async with a_call(Fault(After("setupComplete", nth=2), AT_ONCE, times="always")) as stage:
        await stage.greet()
        await stage.server.do(GoAway(2.0, close=False))
        await asyncio.sleep(20.0)
        assert 2 < len(stage.server.dials()) < 25


@pytest.mark.parametrize("time_left", [{}, {"timeLeft": "0s"}, {"timeLeft": "1s"}])
async def test_a_notice_without_time_cuts_the_reply_but_loses_nothing(
    time_left: dict[str, str],
) -> None:
    notice = Fault(AtAudio(3.0, connection=1), Send({"goAway": time_left}))
    async with a_call(notice, replies=[STORY]) as stage:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.server.wait_for("fault")
        noticed_at = stage.call.now
        rest = await stage.call.reply(after=noticed_at)
        assert rest.position_s == pytest.approx(GO_ON.duration_s, abs=0.1)
        assert stage.call.heard.segments[0].position_s >= 3.0, "what had arrived is heard"
        assert stage.call.dead_air(after=noticed_at) < 0.2
        assert [event.overlapped for event in stage.events if isinstance(event, HandedOver)] == [
            True
        ]
        await stage.ask()
        told = stage.server.session.texts("model")
        assert sum(text.startswith("Once upon a time") for text in told) == 1


@pytest.mark.parametrize("overlaps", [True, False])
async def test_a_reply_that_ends_before_the_connection_is_heard_whole(overlaps: bool) -> None:
    """Although it ends within the longest margin: a dial takes less."""
    notice = [Fault(AtAudio(0.2, connection=1), GoAway(3.0))]
    if not overlaps:
        notice.append(Fault(OnConnection(1), RefuseOverlap()))
    short = Reply("It is the second door on your left.")
    assert short.duration_s == pytest.approx(2.0, abs=0.4)
    async with a_call(*notice, replies=[short]) as stage:
        await stage.call.generate_reply(instructions="Where is it?", wait=False)
        await stage.server.wait_for("setupComplete", count=2)
        await asyncio.sleep(5.0)
        (heard,) = stage.call.heard.segments
        assert heard.position_s == pytest.approx(short.duration_s, abs=0.01)
        assert stage.count(RedriveDecided) == 0
        await stage.ask()


async def test_a_notice_that_comes_with_a_drop_is_forgotten_with_it() -> None:
    faults = (
        Fault(AtAudio(3.0, connection=1), (GoAway(5.0), Abort())),
        Fault(OnConnection(2), HangHandshake(3.0)),
    )
    async with a_call(*faults, replies=[STORY]) as stage:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.server.wait_for("setupComplete", count=2)
        await asyncio.sleep(10.0)
        assert len(stage.server.dials()) == 2, "the new connection was told nothing of an end"
        await stage.ask()


async def test_a_busy_server_is_asked_again_before_the_connection_is_left() -> None:
    """That it has no room just now says nothing of two connections at once."""
    busy = (Fault(OnConnection(2), Refuse(503)), Fault(OnConnection(3), Refuse(503)))
    async with a_call(*busy) as stage:
        await stage.greet()
        await stage.server.do(GoAway(30.0))
        await stage.server.wait_for("setupComplete", count=2)
        await asyncio.sleep(1.0)
        assert [event.overlapped for event in stage.events if isinstance(event, HandedOver)] == [
            True
        ]
        assert stage.call.errors == []
        await stage.ask()


async def test_a_drop_does_not_wait_for_a_successor_that_hangs() -> None:
    async with a_call(Fault(OnConnection(2), HangHandshake())) as stage:
        await stage.greet()
        await stage.server.do(GoAway(30.0, close=False))
        await stage.server.wait_for("dial", count=2)
        await asyncio.sleep(1.0)
        dropped_at = stage.call.now
        await stage.drop(1)
        await stage.server.wait_for("setup", count=2)
        assert stage.call.now - dropped_at < 0.5
        await stage.ask()


async def test_a_question_during_a_slow_handover_is_answered_where_it_was_asked() -> None:
    async with a_call(Fault(OnConnection(2), HangHandshake(1.0))) as stage:
        await stage.greet()
        await stage.server.do(GoAway(30.0))
        await stage.server.wait_for("dial", count=2)
        await stage.call.say(3.0)
        await stage.call.reply()
        await stage.call.agent_done()
        await asyncio.sleep(5.0)
        assert stage.count(HandedOver) == 1
        assert stage.count(RedriveDecided) == 0
        assert stage.server.session.knows("hello there") == 1
        await stage.ask()


async def test_a_connection_that_dies_after_its_notice_is_not_waited_for() -> None:
    """Not even where the end was announced for much later."""
    faults = (
        Fault(AtAudio(3.0, connection=1), GoAway(300.0, close=False)),
        Fault(After("goAway", connection=1), Blackhole()),
    )
    async with a_call(*faults, replies=[STORY]) as stage:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.server.wait_for("fault", count=2)
        died_at = stage.call.now
        await stage.server.wait_for("setupComplete", count=2, timeout_s=400)
        assert stage.call.now - died_at < 30.0
        await stage.call.agent_done()
        await stage.ask()


async def test_a_handle_that_is_taken_to_be_in_use_is_given_up() -> None:
    """A server that did not notice the death of a connection refuses to resume its handle."""
    # Else a fresh session is asked beside before that shows.
    async with a_call(hedge_after_s=None) as stage:
        await stage.greet()
        await stage.server.do(RefuseOverlap(), Blackhole())
        await stage.call.generate_reply(instructions="Go on.", wait=False)
        asked_at = stage.call.now
        await stage.call.until(lambda: stage.count(ContinuationRejected), what="a fresh session")
        # Refused for a while, with a last wait between two dials.
        refused_s = POISONED_WITHIN_S + 2 * REDIAL_CAP_S
        assert stage.call.now - asked_at < GEMINI_LIVENESS_TIMEOUT_S + refused_s
        await stage.call.agent_done()
        assert stage.server.session.resumed_from is None
        await stage.ask()


@pytest.mark.parametrize(
    ("fault", "serves"),
    [
        pytest.param(Fault(OnConnection(2), HangHandshake()), False, id="it is being dialled"),
        pytest.param(Fault(OnConnection(2), NoSetupAnswer()), False, id="it is being set up"),
        pytest.param(Fault(OnConnection(1), NoCloseAnswer()), True, id="the old one is closed"),
    ],
)
async def test_hanging_up_in_the_middle_of_a_handover(fault: Fault, serves: bool) -> None:
    async with a_call(fault) as stage:
        await stage.greet()
        await stage.server.do(GoAway(30.0))
        await stage.server.wait_for("dial", count=2)
        if serves:
            await stage.server.wait_for("setupComplete", count=2)
            await asyncio.sleep(0.1)
        since = stage.call.now
        await stage.call.aclose()
        assert stage.call.now - since < 1.0
        assert stage.call.leftover_tasks() == []
        await asyncio.sleep(20.0)
        assert len(stage.server.dials()) == 2


# --- restarts ------------------------------------------------------------------------------------


def extra(name: str) -> llm.FunctionTool[Any, Any]:
    @function_tool(name=name)
    async def tool() -> str:
        """Do something."""
        return "done"

    return tool


async def add_tool(stage: Stage, name: str = "extra") -> None:
    await stage.call.agent.update_tools([*stage.call.agent.tools, extra(name)])


@pytest.mark.parametrize("when", ["in a pause", "during a reply", "during a tool", "in an outage"])
async def test_a_restart_is_no_loss(when: str) -> None:
    replies: dict[str, list[Reply | ToolCall]] = {
        "during a reply": [STORY],
        "during a tool": [ToolCall("get_weather", {"city": "Paris"})],
    }
    faults = [Fault(OnConnection(2), HangHandshake(2.0))] if when == "in an outage" else []
    agent = CallAgent(weather=RESULT, tool_delay_s=2.0)
    async with a_call(*faults, replies=replies.get(when, ()), agent=agent) as stage:
        if when == "during a tool":
            await stage.call.say(1.0)
            await stage.server.wait_for("toolCall")
            await asyncio.sleep(0.5)
        elif when == "during a reply":
            await stage.call.generate_reply(instructions="Tell a story.", wait=False)
            await stage.call.wait_heard(2.0)
        else:
            await stage.greet()
        drops = int(when == "in an outage")
        if drops:
            await stage.drop()
            await asyncio.sleep(0.5)
        await add_tool(stage)
        await asyncio.sleep(12.0)
        await stage.call.agent_done()
        assert "extra" in str(stage.server.session.setup["tools"])
        assert stage.count(Disconnected) == drops
        assert len(stage.call.errors) == drops
        if when == "during a tool":
            assert stage.server.session.knows(RESULT) == 1
            assert len(stage.call.tools) == 1
        await stage.ask()


@pytest.mark.parametrize("when", ["before_setup", "after_setup"])
async def test_a_handle_that_is_refused_at_a_restart_is_not_tried_again(
    when: Literal["before_setup", "after_setup"],
) -> None:
    """That a turn was finished before speaks for the connection that was left, not for it."""
    async with a_call(Fault(OnConnection(2), StaleHandle(when))) as stage:
        await stage.greet()
        await add_tool(stage)
        await stage.server.wait_for("setupComplete", connection=3)
        assert stage.server.session.resumed_from is None
        assert stage.count(ContinuationRejected) == 1
        await stage.ask()
        assert stage.server.session.knows(GO_ON.text) == 1


async def test_two_restarts_in_a_row_are_one() -> None:
    async with a_call() as stage:
        await stage.greet()
        await add_tool(stage, "one")
        await add_tool(stage, "two")
        await asyncio.sleep(2.0)
        assert len(stage.server.dials()) == 2
        declared = str(stage.server.session.setup["tools"])
        assert "one" in declared
        assert "two" in declared
        await stage.ask()


async def test_a_restart_overtakes_a_successor_with_the_old_tools() -> None:
    async with a_call(Fault(OnConnection(2), HangHandshake(1.0))) as stage:
        await stage.greet()
        await stage.server.do(GoAway(30.0, close=False))
        await stage.server.wait_for("dial", count=2)
        await asyncio.sleep(0.3)
        await add_tool(stage)
        await asyncio.sleep(3.0)
        assert "extra" in str(stage.server.session.setup["tools"])
        await stage.ask()


# --- requests ------------------------------------------------------------------------------------


async def test_a_request_made_in_an_outage_is_sent_as_soon_as_it_is_over() -> None:
    """No new session can know of it, so there is nothing to wait for."""
    async with a_call(Fault(OnConnection(2), HangHandshake(2.0))) as stage:
        await stage.greet()
        await stage.drop()
        await asyncio.sleep(0.5)
        await stage.call.generate_reply(user_input="what is new", wait=False)
        await stage.server.wait_for("setupComplete", count=2)
        since = stage.call.now
        await stage.call.reply()
        await stage.call.agent_done()
        assert stage.server.recording.frames("clientContent")[-1].at - since < 0.2
        assert stage.server.session.knows("what is new") == 1
