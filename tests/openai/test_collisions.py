"""A reply and the caller's turn that meet on their way: neither is lost, and nobody waits long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Before,
    Delay,
    FailResponse,
    Fault,
    HeadlessCall,
    NoReply,
    OpenAIRealtimeServer,
    Received,
    Send,
    Swallow,
    TurnRequest,
    UserStops,
)
from livekit.plugins.resilient.testing.script import TurnSource

pytestmark = pytest.mark.virtual_time

ANSWER = "Yes, I can hear you well, and I can tell you so at some length."
ERROR = {"type": "invalid_request_error", "message": "Conversation already has one.", "param": None}
ACTIVE = {**ERROR, "code": "conversation_already_has_active_response"}
OVER = Send(
    {
        "type": "response.done",
        "event_id": "event_y",
        "response": {"id": "resp_unseen", "status": "completed", "output": []},
    }
)


@asynccontextmanager
async def calling(
    *faults: Fault, say: TurnSource = ANSWER, named: bool = True, **given: Any
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    # A hint would have the re-drive wait, unless the caller begins just then.
    options = ResilienceOptions(speech_hint=False)
    async with (
        OpenAIRealtimeServer(
            default_reply=say, faults=faults, pace="realtime", names_refused_event=named
        ) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs(resilience=options, **given))) as call,
    ):
        yield server, call
    assert call.leftover_tasks() == []


async def test_a_caller_who_begins_to_speak_as_a_redrive_is_sent_is_answered_at_once() -> None:
    fails = Fault(Received("response.create"), FailResponse("server_error"))
    on_its_way = Fault(Before("input_audio_buffer.speech_started"), Delay(0.6))
    async with calling(fails, on_its_way) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await asyncio.sleep(2.75)
        said = await call.say(1.5)
        answer = await call.reply(after=said.ended_at)
        assert server.recording.count("response.create") == 2
        # What the re-drive asked for is not heard, neither beside the caller nor before the answer.
        assert call.heard.segments == [answer]
        assert call.dead_air(after=said.ended_at) < 0.6 + server.times.first_audio_s


class Hesitant:
    """Does not say anything to the `silent` requests."""

    def __init__(self, *silent: int) -> None:
        self._silent = silent
        self._asked = 0

    def __call__(self, _: TurnRequest) -> str | NoReply:
        self._asked += 1
        return NoReply() if self._asked in self._silent else ANSWER


@pytest.mark.parametrize("named", [True, False])
async def test_a_turn_that_a_running_reply_kept_from_being_answered_is_answered_after_it(
    named: bool,
) -> None:
    # The reply plays on, because nobody hears of the caller before the turn is over.
    unheard = Fault(Before("input_audio_buffer.speech_started"), Swallow())
    detection = ServerVad(type="server_vad", create_response=True, interrupt_response=False)
    async with calling(unheard, named=named, turn_detection=detection) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await call.wait_heard(0.5)
        await call.say(1.0)
        await call.agent_done()
        await call.until(lambda: len(call.heard.segments) == 2, what="an answer")
        await call.agent_done()
        assert call.dead_air() < 0.2 + server.times.first_audio_s
        assert server.recording.count("response.create") == 2
        assert server.session.texts("user") == ["hello there"]
        assert call.errors == []


def refusing(event_id: str | None) -> Send:
    error = {**ACTIVE, "event_id": event_id}
    return Send({"type": "error", "event_id": "event_x", "error": error})


@pytest.mark.parametrize("named", ["redrive-1", None])
async def test_a_redrive_that_is_refused_is_made_again_when_the_running_response_is_over(
    named: str | None,
) -> None:
    fails = Fault(UserStops(), FailResponse("server_error"))
    refuses = Fault(Received("response.create"), refusing(named))
    over = Fault(AtTime(after_s=6.0), OVER)
    async with calling(fails, refuses, over, say=Hesitant(2)) as (server, call):
        said = await call.say(0.5)
        await call.reply(after=said.ended_at)
        first, again = [frame.at for frame in server.recording.frames("response.create")]
        assert again - server.dials()[0].at == pytest.approx(6.0, abs=0.05)
        assert again - first > 1.0
        assert server.session.texts("assistant") == [ANSWER]


async def test_a_request_that_was_refused_before_a_drop_is_made_once_after_it() -> None:
    refuses = Fault(Received("response.create"), refusing(None))
    drop = Fault(AtTime(after_s=2.0), Abort())
    async with calling(refuses, drop, say=Hesitant(1)) as (server, call):
        handle = await call.generate_reply(instructions="greet")
        assert handle.exception() is None
        await call.agent_done()
        await asyncio.sleep(20)
        assert server.recording.count("response.create", connection=2) == 1
        assert server.session.texts("assistant") == [ANSWER]


@pytest.mark.parametrize("named", [True, False])
async def test_requests_made_together_are_answered_one_after_the_other(named: bool) -> None:
    async with calling(say=lambda asked: f"To {asked.user_text}.", named=named) as (server, call):
        await call.generate_reply(instructions="Hello")
        session = call.realtime_session
        since = call.now
        together = [session.generate_reply(instructions=word) for word in ("One", "Two", "Three")]
        await asyncio.gather(*together)
        assert call.now - since < 8.0
        await asyncio.sleep(5.0)
        assert [text.split()[-1] for text in server.session.texts("assistant")] == [
            "Hello.",
            "One.",
            "Two.",
            "Three.",
        ]
        assert server.recording.count("response.create") == 7
        assert call.errors == []
