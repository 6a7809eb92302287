"""An application that commits the caller's turns itself: its input buffer survives a drop (R15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit import rtc
from livekit.plugins import resilient

from livekit.plugins.resilient.openai.realtime import RealtimeSession
from livekit.plugins.resilient.testing import (
    Abort,
    Before,
    Fault,
    HangHandshake,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
)
from livekit.plugins.resilient.testing.audio import speech

pytestmark = pytest.mark.virtual_time

RATE = 24_000
QUESTION = speech(3.0, RATE, 7)
STEP = RATE // 10 * 2


@asynccontextmanager
async def session_on(
    server: OpenAIRealtimeServer, **options: Any
) -> AsyncIterator[RealtimeSession]:
    async with server:
        model = resilient.openai.realtime.RealtimeModel(
            **server.model_kwargs(turn_detection=None),
            resilience=resilient.ResilienceOptions(**options),
        )
        session = model.session()
        await server.wait_for("session.updated")
        try:
            yield session
        finally:
            await session.aclose()
            await model.aclose()


async def speak(session: RealtimeSession, pcm: bytes) -> None:
    for at in range(0, len(pcm), STEP):
        piece = pcm[at : at + STEP]
        session.push_audio(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
        await asyncio.sleep(0.1)


def questions(server: OpenAIRealtimeServer) -> list[bytes]:
    """What the newest session heard, by turn."""
    return [item.pcm for item in server.session.items if item.role == "user"]


HALF = len(QUESTION) // 2


async def test_a_turn_that_a_drop_cuts_is_heard_whole() -> None:
    away = Fault(OnConnection(2), HangHandshake(0.7))
    server = OpenAIRealtimeServer([], faults=[away])
    async with session_on(server) as session:
        await speak(session, QUESTION[:HALF])
        await server.do(Abort())
        await speak(session, QUESTION[HALF:])
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed", timeout_s=20)
        assert questions(server) == [QUESTION]


@pytest.mark.parametrize(
    "lost",
    [
        Received("input_audio_buffer.commit", connection=1),
        Before("input_audio_buffer.committed", connection=1),
    ],
    ids=["on-its-way", "unconfirmed"],
)
async def test_a_commit_that_a_drop_catches_is_done_once_and_answered(lost: Any) -> None:
    server = OpenAIRealtimeServer(["Yes."], faults=[Fault(lost, Abort())])
    async with session_on(server) as session:
        await speak(session, QUESTION)
        session.commit_audio()
        reply = await asyncio.wait_for(session.generate_reply(), 8)
        assert reply.user_initiated
        assert questions(server) == [QUESTION]
        assert server.recording.count("response.created") == 1


async def test_what_was_committed_before_the_drop_is_not_heard_again() -> None:
    server = OpenAIRealtimeServer([])
    async with session_on(server) as session:
        await speak(session, QUESTION)
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed")
        await server.do(Abort())
        await server.wait_for("session.updated", connection=2)
        await speak(session, QUESTION[:HALF])
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed", connection=2)
        assert questions(server) == [QUESTION[:HALF]]


async def test_a_turn_after_a_refused_commit_is_not_heard_again() -> None:
    server = OpenAIRealtimeServer([])
    async with session_on(server) as session:
        session.send_event({"type": "input_audio_buffer.commit"})
        await server.wait_for("error")
        await speak(session, QUESTION)
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed")
        await server.do(Abort())
        await server.wait_for("session.updated", connection=2)
        await speak(session, QUESTION[:HALF])
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed", connection=2)
        assert questions(server) == [QUESTION[:HALF]]


async def test_switched_off_only_the_rest_is_heard() -> None:
    server = OpenAIRealtimeServer([])
    async with session_on(server, resend_utterance=False) as session:
        await speak(session, QUESTION[:HALF])
        await server.do(Abort())
        await server.wait_for("session.updated", connection=2)
        await speak(session, QUESTION[HALF:])
        session.commit_audio()
        await server.wait_for("input_audio_buffer.committed", connection=2)
        (heard,) = questions(server)
        assert len(heard) <= len(QUESTION) - HALF + 2 * STEP
