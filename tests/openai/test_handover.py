"""A connection is replaced before it ends, and nothing is lost by that (R16, R17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import OTHER_RENEWAL_WAIT_S, RENEWAL_RETRY_S
from livekit.plugins.resilient.events import (
    Disconnected,
    HandedOver,
    Reconnected,
    ResilienceEvent,
)
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    Before,
    Close,
    Delay,
    Fault,
    HangHandshake,
    HeadlessCall,
    NoSetupAnswer,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Refuse,
    Reply,
    Silence,
    ToolCall,
    TurnRequest,
)
from livekit.plugins.resilient.testing.call_agent import CallAgent
from livekit.plugins.resilient.testing.openai.conversation import RATE

pytestmark = pytest.mark.virtual_time

RENEW_AFTER_S = 30.0
CHUNK = RATE // 100
TELL = "Read out the tale."
ANSWER = Reply("Yes, I can hear you well.")
TALE = Reply("And so it went on, from one day to the next, until nobody could tell why. " * 20)


@dataclass
class Stage:
    server: OpenAIRealtimeServer
    call: HeadlessCall
    events: list[ResilienceEvent] = field(default_factory=list)

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def due_at(self) -> float:
        """When the first connection is to be renewed."""
        await self.server.wait_for("session.created")
        return self.server.dials()[0].at + RENEW_AFTER_S

    async def second_dial(self) -> None:
        await self.server.wait_until(
            lambda: len(self.server.dials()) == 2, timeout_s=60, what="a second dial"
        )

    async def renewed(self, timeout_s: float = 60.0) -> HandedOver:
        await self.call.until(lambda: self.handovers, timeout_s=timeout_s, what="a handover")
        return self.handovers[0]

    @property
    def handovers(self) -> list[HandedOver]:
        return [event for event in self.events if isinstance(event, HandedOver)]

    async def ask(self) -> None:
        said = await self.call.say(1.0)
        await self.call.reply(after=said.ended_at)
        await self.call.agent_done()


@asynccontextmanager
async def stage(
    *faults: Fault,
    say: Callable[[TurnRequest], Any] = lambda asked: ANSWER,
    agent: CallAgent | None = None,
    pace: Any = None,
    **model: Any,
) -> AsyncIterator[Stage]:
    events: list[ResilienceEvent] = []

    def keep(event: ResilienceEvent) -> None:
        events.append(event)
        call.changes.notify()

    # Who falls silent is left by a handover here, and not by asking another beside before.
    options = ResilienceOptions(on_event=keep, hedge_after_s=None)
    model = {"max_session_duration": RENEW_AFTER_S, "resilience": options, **model}
    async with OpenAIRealtimeServer(default_reply=say, faults=faults, pace=pace) as server:
        given: dict[str, Any] = {} if agent is None else {"agent": agent}
        call = HeadlessCall(RealtimeModel(**server.model_kwargs(**model)), **given)
        async with call:
            yield Stage(server, call, events)
        assert call.close_problem is None
        assert call.leftover_tasks() == []


def loud_s(pcm: bytes) -> float:
    """Seconds of audio that are not silence."""
    samples = memoryview(pcm).cast("h")
    chunks = [samples[i : i + CHUNK] for i in range(0, len(samples), CHUNK)]
    return sum(len(chunk) for chunk in chunks if max(map(abs, chunk)) > 500) / RATE


async def test_a_connection_is_renewed_at_rest_without_a_gap() -> None:
    async with stage() as on:
        await on.call.generate_reply(instructions="greet")
        await on.ask()
        handover = await on.renewed()
        assert handover.overlapped
        assert handover.at == pytest.approx(await on.due_at(), abs=0.5)
        await on.ask()
        assert len(on.server.dials()) == 2
        session = on.server.session
        assert session.number == 2
        assert session.config["instructions"] == "Be brief."
        assert [tool["name"] for tool in session.config["tools"]] == ["get_weather"]
        assert session.texts("assistant") == [ANSWER.text, ANSWER.text, ANSWER.text]
        closed = on.server.recording.closed(1)
        assert closed is not None
        assert closed.code == 1000
        updated = on.server.recording.events("session.updated", 2)
        assert updated[0].at <= closed.at
        assert not [e for e in on.events if isinstance(e, Disconnected | Reconnected)]
        assert on.call.errors == []


async def test_every_connection_is_renewed_in_its_turn() -> None:
    async with stage() as on:
        await on.call.generate_reply(instructions="greet")
        await on.rest(3.5 * RENEW_AFTER_S)
        assert [event.overlapped for event in on.handovers] == [True, True, True]
        await on.ask()
        assert on.server.session.number == 4
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]


async def test_none_switches_renewal_off() -> None:
    async with stage(max_session_duration=None) as on:
        await on.call.generate_reply(instructions="greet")
        on.call.session.input.audio = None
        await on.rest(3500)
        assert len(on.server.dials()) == 1


async def test_what_changes_while_the_new_connection_is_made_is_told_to_it() -> None:
    async with stage(Fault(OnConnection(2), HangHandshake(3.0))) as on:
        await on.call.generate_reply(instructions="greet")
        await on.second_dial()
        context = on.call.agent.chat_ctx.copy()
        context.add_message(role="system", content="The caller is called Ada.")
        await on.call.agent.update_chat_ctx(context)
        await on.call.agent.update_instructions("Be kind.")
        assert on.handovers == []
        await on.renewed()
        await on.ask()
        session = on.server.session
        assert session.number == 2
        assert session.knows("The caller is called Ada.") == 1
        assert session.config["instructions"] == "Be kind."


async def test_a_question_that_is_asked_while_the_new_connection_is_made_is_answered_once() -> None:
    async with stage(Fault(OnConnection(2), HangHandshake(1.0))) as on:
        await on.call.generate_reply(instructions="greet")
        await on.second_dial()
        on.server.user_says("where is my parcel")
        await on.ask()
        assert on.server.session_of(1).knows("where is my parcel") == 1
        assert (await on.renewed()).overlapped
        session = on.server.session_of(2)
        await on.server.wait_until(
            lambda: session.knows("where is my parcel") > 0, what="the history"
        )
        await on.ask()
        assert session.texts("assistant") == [ANSWER.text] * 3
        assert len(on.call.heard.segments) == 3


@pytest.mark.parametrize("early_s", [0.3, 0.15, 0.05, 0.0])
async def test_a_question_begun_as_the_connection_changes_is_heard_whole(early_s: float) -> None:
    late = Fault(Before("input_audio_buffer.speech_started", connection=1), Delay(0.4))
    async with stage(late, resilience=ResilienceOptions(speech_hint=False)) as on:
        await on.call.generate_reply(instructions="greet")
        due_at = await on.due_at()
        await on.rest(due_at - early_s - on.call.now)
        await on.ask()
        await on.rest(5)
        assert on.server.session.number == 2
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]
        assert loud_s(on.server.recording.audio(2)) >= 0.99


async def test_a_renewal_waits_for_an_open_call_and_for_the_end_of_the_answer() -> None:
    def say(asked: TurnRequest) -> Any:
        return ANSWER if asked.tool_results else ToolCall("get_weather", {"city": "Paris"})

    async with stage(say=say, agent=CallAgent(tool_delay_s=15.0)) as on:
        due_at = await on.due_at()
        await on.rest(due_at - 10 - on.call.now)
        await on.call.generate_reply(instructions="weather", wait=False)
        heard = await on.call.reply(timeout_s=60)
        handover = await on.renewed()
        assert heard.ended_at is not None
        assert handover.at >= heard.ended_at - 0.1
        assert len(on.call.tools) == 1
        assert on.server.session_of(2).number == 2


async def test_a_reply_that_does_not_end_is_cut_at_the_bound_and_goes_on() -> None:
    def say(asked: TurnRequest) -> Any:
        return TALE if TELL in asked.user_text else ANSWER

    async with stage(say=say, pace="realtime") as on:
        due_at = await on.due_at()
        await on.rest(due_at - 5 - on.call.now)
        await on.call.generate_reply(instructions=TELL, wait=False)
        handover = await on.renewed(timeout_s=120)
        assert handover.overlapped
        assert handover.at == pytest.approx(due_at + OTHER_RENEWAL_WAIT_S, abs=0.5)
        await on.call.until(lambda: len(on.call.heard.segments) == 2, what="the rest")
        await on.call.agent_done()
        told = on.server.session_of(2).texts("assistant")
        assert TALE.text.startswith(told[0])
        assert len(told[0]) > 100
        assert told[1] == ANSWER.text
        assert on.call.errors == []


async def test_a_provider_that_refuses_two_connections_is_left_first() -> None:
    async with stage(Fault(OnConnection(2), Refuse(429))) as on:
        await on.call.generate_reply(instructions="greet")
        handover = await on.renewed()
        assert not handover.overlapped
        await on.ask()
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]
        assert on.call.errors == []
        assert not [e for e in on.events if isinstance(e, Disconnected)]
        await on.rest(RENEW_AFTER_S)
        assert [event.overlapped for event in on.handovers] == [False, False]
        assert len(on.server.dials()) == 4


async def test_a_failed_dial_is_tried_again_while_the_old_connection_serves() -> None:
    async with stage(Fault(OnConnection(2), Refuse(503)), Fault(OnConnection(3), Abort())) as on:
        await on.call.generate_reply(instructions="greet")
        due_at = await on.due_at()
        handover = await on.renewed()
        assert handover.overlapped
        assert on.server.dials()[2].at == pytest.approx(due_at + RENEWAL_RETRY_S, abs=0.5)
        assert on.call.errors == []
        await on.ask()
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]


async def test_a_new_connection_that_dies_while_it_waits_costs_nothing() -> None:
    async with stage(pace="realtime") as on:
        await on.call.generate_reply(instructions="greet")
        on.server.inject(Fault(OnConnection(2), HangHandshake(1.0)))
        await on.second_dial()
        talking = asyncio.ensure_future(on.call.say(6.0))
        await on.rest(4.0)
        await on.server.do(Abort(), connection=2)
        await talking
        await on.call.reply(after=talking.result().ended_at)
        handover = await on.renewed()
        assert handover.overlapped
        assert len(on.server.dials()) == 3
        assert on.call.errors == []


async def test_a_drop_during_a_handover_is_an_ordinary_drop() -> None:
    async with stage(Fault(OnConnection(2), HangHandshake(4.0))) as on:
        await on.call.generate_reply(instructions="greet")
        await on.second_dial()
        await on.server.do(Close(1011), connection=1)
        await on.ask()
        assert [type(e) for e in on.events[:2]] == [Disconnected, Reconnected]
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]


@pytest.mark.parametrize("after_s", [0.5, 3.0])
async def test_hanging_up_during_a_handover_takes_no_second(after_s: float) -> None:
    async with stage(Fault(OnConnection(2), HangHandshake())) as on:
        await on.call.generate_reply(instructions="greet")
        await on.second_dial()
        await on.rest(after_s)
        since = on.call.now
        await on.call.aclose()
        assert on.call.now - since <= 1.0
        dials = len(on.server.dials())
        await on.rest(30)
        assert len(on.server.dials()) == dials


async def test_a_suspicion_that_a_message_refutes_changes_nothing() -> None:
    async with stage(Fault(OnConnection(2), HangHandshake(2.0)), max_session_duration=None) as on:
        await on.call.generate_reply(instructions="greet")
        session: Any = on.call.realtime_session
        session.replace_connection()
        await on.rest(0.5)
        await on.ask()
        await on.rest(10)
        assert on.handovers == []
        assert on.server.recording.closed(1) is None
        assert on.server.recording.closed(2) is not None
        assert not [e for e in on.events if isinstance(e, Disconnected)]


async def test_a_suspected_connection_without_a_successor_is_given_up() -> None:
    async with stage(Fault(OnConnection(2), Refuse(503)), max_session_duration=None) as on:
        await on.call.generate_reply(instructions="greet")
        session: Any = on.call.realtime_session
        session.replace_connection()
        await on.call.until(
            lambda: [e for e in on.events if isinstance(e, Reconnected)], what="a reconnect"
        )
        first = on.events[0]
        assert isinstance(first, Disconnected)
        assert first.cause == "ConnectionSuspectedError"
        await on.ask()
        assert on.call.errors == []


async def test_a_first_connection_that_is_not_answered_is_replaced() -> None:
    async with stage(Fault(OnConnection(1), NoSetupAnswer()), max_session_duration=None) as on:
        await on.rest(12)
        assert len(on.server.dials()) == 2
        await on.ask()
        assert on.server.session.config["instructions"] == "Be brief."


async def test_a_request_that_a_silent_server_leaves_unanswered_is_answered_by_the_next() -> None:
    silent = Fault(Received("response.create", connection=1), Silence())
    async with stage(silent, max_session_duration=None) as on:
        await on.server.wait_for("session.updated")  # it falls silent afterwards
        await on.call.generate_reply(instructions="greet", wait=False)
        await on.call.reply(timeout_s=15)
        assert [event.overlapped for event in on.handovers] == [True]
        assert on.server.recording.count("response.create", 2) == 1
        assert on.server.session.texts("assistant") == [ANSWER.text]
        assert on.call.errors == []


async def test_a_caller_whom_a_silent_server_does_not_hear_is_heard_by_the_next() -> None:
    silent = Fault(After("response.done", connection=1), Silence())
    async with stage(silent, max_session_duration=None) as on:
        await on.call.generate_reply(instructions="greet")
        said = await on.call.say(3.0)
        await on.call.reply(after=said.ended_at, timeout_s=20)
        assert [event.overlapped for event in on.handovers] == [True]
        assert loud_s(on.server.recording.audio(2)) >= 2.99
        assert len(on.server.session_of(2).texts("user")) == 1
        assert len(on.call.heard.segments) == 2
        assert on.call.errors == []


@pytest.mark.parametrize("told", [False, True], ids=["before", "after-the-new-one-is-told"])
async def test_a_server_that_falls_silent_while_a_renewal_waits_is_left_at_once(told: bool) -> None:
    silent = Fault(Received("response.create", nth=2), Silence())
    slow = Fault(Before("session.updated", connection=2), Delay(0.5))
    async with stage(silent, slow) as on:
        await on.call.generate_reply(instructions="greet")
        if told:
            await on.server.wait_for("session.update", connection=2, timeout_s=60)
        else:
            await on.rest(await on.due_at() - 1.0 - on.call.now)
        handle = await on.call.generate_reply(instructions="greet again", timeout_s=20)
        assert handle.exception() is None
        assert on.server.session.number == 2
        assert on.server.session.texts("assistant") == [ANSWER.text, ANSWER.text]
        assert on.call.errors == []


async def test_a_suspicion_during_a_renewal_that_fails_is_not_forgotten() -> None:
    async with stage(Fault(OnConnection(2), HangHandshake())) as on:
        await on.call.generate_reply(instructions="greet")
        await on.second_dial()
        session: Any = on.call.realtime_session
        session.replace_connection()
        await on.rest(11.0)
        assert [type(event) for event in on.events] == [Disconnected, Reconnected]
        assert on.call.errors == []
