"""A slow reply is asked of a fresh session beside; whichever gives output first serves (R24)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai import types
from google.genai.errors import APIError
from livekit import rtc
from livekit.agents import llm

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import HEDGING_OFF_S
from livekit.plugins.resilient.events import HedgeDecided, HedgeOutcome
from livekit.plugins.resilient.google.connection import Connector
from livekit.plugins.resilient.google.errors import refuses_for_quota
from livekit.plugins.resilient.google.hedge import UnansweredError
from livekit.plugins.resilient.google.live_session import LiveSession
from livekit.plugins.resilient.google.realtime import RealtimeModel, RealtimeSession
from livekit.plugins.resilient.google.turn_signs import holds_output
from livekit.plugins.resilient.runtime.driver import HedgeRequest
from livekit.plugins.resilient.testing import (
    After,
    EmptyTurns,
    Fault,
    GeminiLiveServer,
    NoSetupAnswer,
    OnConnection,
    Received,
    Refuse,
    Reply,
    Silence,
)
from livekit.plugins.resilient.testing.faults import LateReply

pytestmark = pytest.mark.virtual_time

STORY = Reply("Once upon a time there was a caller who listened to a long story to its very end.")
NEVER = Fault(Received("clientContent", connection=1), Silence())
SLOW = Fault(Received("clientContent", connection=1), LateReply(11.0))
ASKED = HedgeRequest("hedge-1", (), "Go on.")


@asynccontextmanager
async def a_session(
    *faults: Fault, events: list[Any], **server: Any
) -> AsyncIterator[tuple[GeminiLiveServer, RealtimeSession]]:
    given = {"default_reply": STORY, "faults": faults, **server}
    async with GeminiLiveServer(**given) as running:
        options = ResilienceOptions(on_event=events.append)
        model = RealtimeModel(**running.model_kwargs(resilience=options))
        session = model.session()
        await running.wait_for("setupComplete")
        await asyncio.sleep(0.5)
        yield running, session
        await session.aclose()
        await model.aclose()
        await asyncio.sleep(1.0)
        assert len(running.recording.closes) == len(running.connections)


def outcomes(events: list[Any]) -> list[str]:
    return [event.result for event in events if isinstance(event, HedgeOutcome)]


async def audio_of(reply: llm.GenerationCreatedEvent) -> bytes:
    """All that a reply says."""
    said = b""
    async for message in reply.message_stream:
        async for frame in message.audio_stream:
            said += bytes(frame.data)
    return said


async def test_a_request_that_gets_nothing_is_answered_by_the_hedge() -> None:
    events: list[Any] = []
    async with a_session(NEVER, events=events) as (server, session):
        reply = await session.generate_reply(instructions="Tell a story.")
        assert reply.user_initiated
        assert await audio_of(reply) == STORY.pcm(24_000, seed=2)
        assert [event.reason for event in events if isinstance(event, HedgeDecided)] == [
            "reply_requested"
        ]
        assert outcomes(events) == ["served"]
        assert server.recording.closed(1) is not None
        for number in (1, 2):
            told = " ".join(server.recording.texts_sent(number))
            assert told.count("Tell a story.") == 1


async def test_it_is_dropped_where_the_first_connection_answers() -> None:
    events: list[Any] = []
    later = Fault(OnConnection(2), LateReply(6.0))
    async with a_session(SLOW, later, events=events) as (server, session):
        reply = await session.generate_reply(instructions="Tell a story.")
        assert outcomes(events) == ["false_alarm"]
        assert await audio_of(reply) == STORY.pcm(24_000, seed=1)
        await server.wait_until(lambda: server.recording.closed(2) is not None)
        assert server.recording.count("clientContent", 1) == 1
        assert session._serving.number == 1


async def test_a_request_whose_reply_began_without_output_is_asked_again() -> None:
    """Its future is done, so the hedge's reply is one of the model's own."""
    events: list[Any] = []
    thinks = Fault(After("thought", connection=1), Silence())
    async with a_session(thinks, events=events, family="2.5") as (server, session):
        replies: list[llm.GenerationCreatedEvent] = []
        session.on("generation_created", replies.append)
        first = await session.generate_reply(instructions="Tell a story.")
        assert await audio_of(first) == b""
        await server.wait_until(lambda: len(replies) == 2)
        assert outcomes(events) == ["served"]
        assert await audio_of(replies[1]) == STORY.pcm(24_000, seed=2)
        assert "Tell a story." in " ".join(server.recording.texts_sent(2))


async def test_where_the_account_has_no_second_session_none_is_tried_for_a_minute() -> None:
    events: list[Any] = []
    full = Fault(OnConnection(2), Refuse(429, "Resource has been exhausted"))
    slow = Fault(Received("clientContent", connection=1), LateReply(11.0), times=10)
    async with a_session(full, slow, events=events) as (server, session):
        for _ in range(8):
            await audio_of(await session.generate_reply(instructions="Tell a story."))
        assert outcomes(events)[0] == "refused"
        assert outcomes(events).count("refused") == 1
        dialled_at = [dial.at for dial in server.dials()]
        assert len(dialled_at) > 2, "it is tried again"
        assert dialled_at[2] - dialled_at[1] >= HEDGING_OFF_S


async def test_a_caller_who_speaks_meanwhile_is_answered_by_the_connection_that_hears() -> None:
    events: list[Any] = []
    later = Fault(OnConnection(2), LateReply(20.0))
    slow = Fault(Received("clientContent", connection=1), LateReply(25.0))
    async with a_session(slow, later, events=events, family="3.8") as (server, session):
        asked = session.generate_reply(instructions="Tell a story.")
        await server.wait_for("setupComplete", connection=2)
        loud = b"\x00\x40\x00\xc0" * 400  # 50 ms
        for _ in range(20):
            session.push_audio(rtc.AudioFrame(loud, 16_000, 1, 800))
            await asyncio.sleep(0.05)
        for _ in range(20):
            session.push_audio(rtc.AudioFrame(bytes(1600), 16_000, 1, 800))
            await asyncio.sleep(0.05)
        await server.wait_until(lambda: server.recording.closed(2) is not None)
        assert outcomes(events) == ["false_alarm"]
        assert session._serving.number == 1
        asked.cancel()


async def test_the_microphone_loses_nothing_over_the_switch() -> None:
    events: list[Any] = []
    async with a_session(NEVER, events=events) as (server, session):
        asked = session.generate_reply(instructions="Tell a story.")
        pushed = b""
        number = 0
        while not outcomes(events) or server.recording.audio_seconds(2) < 1.0:
            number += 1
            frame = (number % 50).to_bytes(2, "little") * 800  # too soft for speech
            pushed += frame
            session.push_audio(rtc.AudioFrame(frame, 16_000, 1, 800))
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        taken = server.recording.audio(1) + server.recording.audio(2)
        assert taken == pushed
        await asked


async def test_what_it_brings_before_it_serves_is_received_in_order() -> None:
    class Live:
        async def receive(self) -> AsyncIterator[types.LiveServerMessage]:
            while messages:
                yield messages.pop(0)

    every = [types.LiveServerMessage(tool_call=call(str(n))) for n in range(6)]
    messages = list(every)
    live = LiveSession(Live())
    ahead = live.read_ahead()
    assert [await ahead.__anext__() for _ in range(3)] == every[:3]
    await ahead.aclose()
    assert [message async for message in live.receive()] == every


def call(name: str | None) -> types.LiveServerToolCall:
    return types.LiveServerToolCall(function_calls=[types.FunctionCall(name=name)])


def says(**part: Any) -> types.LiveServerMessage:
    turn = types.Content(parts=[types.Part(**part)])
    return types.LiveServerMessage(server_content=types.LiveServerContent(model_turn=turn))


AUDIO = types.Blob(data=b"\x00\x01", mime_type="audio/pcm")


@pytest.mark.parametrize(
    ("message", "spoken", "written"),
    [
        (says(inline_data=AUDIO), True, True),
        (says(text="Hello."), False, True),
        (says(text="Let me see.", thought=True), False, False),
        (types.LiveServerMessage(tool_call=call("look_up")), True, True),
        (types.LiveServerMessage(tool_call=call(None)), False, False),
        (types.LiveServerMessage(), False, False),
        (
            types.LiveServerMessage(
                server_content=types.LiveServerContent(
                    output_transcription=types.Transcription(text="Hello.")
                )
            ),
            False,
            False,
        ),
    ],
    ids=["audio", "text", "thought", "call", "call of nothing", "empty", "caption"],
)
def test_what_is_output_of_an_answer(
    message: types.LiveServerMessage, spoken: bool, written: bool
) -> None:
    assert (holds_output(message, speaks=True), holds_output(message, speaks=False)) == (
        spoken,
        written,
    )


@pytest.mark.parametrize(
    ("error", "for_quota"),
    [
        (APIError(1011, {"error": {"message": "You exceeded your current quota."}}), True),
        (APIError(429, {"error": {"message": "Too many requests."}}), True),
        (APIError(1011, {"error": {"message": "Internal error encountered."}}), False),
        (OSError("no route"), False),
    ],
    ids=["quota", "429", "internal", "network"],
)
def test_what_is_a_refusal_for_quota(error: Exception, for_quota: bool) -> None:
    assert refuses_for_quota(error) is for_quota


def connector_of(session: RealtimeSession) -> Connector:
    """Another one than that of its runner."""
    return session._parts.connector(left=session._left)


async def test_a_turn_without_output_is_no_answer() -> None:
    empty = Fault(OnConnection(2), EmptyTurns(1))
    async with a_session(empty, events=[]) as (_, session):
        connector = connector_of(session)
        hedge = await connector.dial_hedge(ASKED, 10.0)
        with pytest.raises(UnansweredError):
            await connector.answered(hedge)
        await hedge.close()
        assert session._serving.number == 1


async def test_one_that_is_lost_before_it_answers_raises() -> None:
    later = Fault(OnConnection(2), LateReply(5.0))
    async with a_session(later, events=[]) as (_, session):
        connector = connector_of(session)
        hedge = await connector.dial_hedge(ASKED, 10.0)
        waiting = asyncio.create_task(connector.answered(hedge))
        await asyncio.sleep(1.0)
        hedge.abort()
        with pytest.raises(connector.foreign):
            await waiting
        await hedge.close()


@pytest.mark.parametrize("by", ["time", "cancellation"])
async def test_a_dial_that_is_given_up_leaves_nothing(by: str) -> None:
    silent = Fault(OnConnection(2), NoSetupAnswer())
    async with a_session(silent, events=[]) as (server, session):
        connector = connector_of(session)
        dialling = asyncio.create_task(connector.dial_hedge(ASKED, 3.0))
        await server.wait_for("setup", connection=2)
        if by == "cancellation":
            dialling.cancel()
        with pytest.raises((asyncio.TimeoutError, asyncio.CancelledError)):
            await dialling
        await server.wait_until(lambda: server.recording.closed(2) is not None)
        assert session._serving.number == 1
        assert session._serving.connected


async def test_a_request_that_is_long_over_is_not_asked_again() -> None:
    async with a_session(events=[]) as (server, session):
        request = HedgeRequest("hedge-1", ("request_unknown",), "")
        with pytest.raises(UnansweredError):
            await connector_of(session).dial_hedge(request, 10.0)
        assert len(server.dials()) == 1
