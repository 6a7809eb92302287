"""Microphone audio goes out as the client library would send it, to the letter."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from google.genai import Client, types
from google.genai.live import AsyncSession

from livekit.plugins.resilient.google.audio_message import audio_message
from livekit.plugins.resilient.google.live_session import LiveSession

PCM = bytes(range(256)) * 3
KINDS = ("audio/pcm;rate=16000", "audio/pcm", 'audio/"odd"\n\u00fc')
FRAMES = [types.Blob(data=data, mime_type=kind) for data in (PCM, b"\0" * 1600) for kind in KINDS]


class Socket:
    """Keeps what is sent on it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, text: str) -> None:
        self.sent.append(text)


def a_session(socket: Socket, *, vertexai: bool = False) -> AsyncSession:
    where = {"vertexai": True, "project": "p", "location": "l"} if vertexai else {"api_key": "k"}
    client: Any = Client(**where)
    made: Any = AsyncSession
    session: AsyncSession = made(api_client=client._api_client, websocket=socket)
    return session


@pytest.fixture(params=[False, True], ids=["gemini-api", "vertex-ai"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncSession:
    if request.param:
        monkeypatch.setattr("google.auth.default", lambda **_: (None, "p"))
    return a_session(Socket(), vertexai=request.param)


@pytest.mark.parametrize("frame", FRAMES)
async def test_both_send_the_same(session: AsyncSession, frame: types.Blob) -> None:
    socket: Any = session._ws
    await session.send_realtime_input(audio=frame)
    await LiveSession(session).send_realtime_input(audio=frame)
    theirs, ours = socket.sent
    assert ours == theirs == audio_message(frame)
    assert json.loads(ours)["realtime_input"]["audio"]["mime_type"] == frame.mime_type


@pytest.mark.parametrize(
    "frame",
    [
        types.Blob(data=PCM, mime_type="audio/pcm", display_name="a"),
        types.Blob(data=PCM),
        types.Blob(data=b"", mime_type="audio/pcm"),
        types.Blob(mime_type="audio/pcm"),
    ],
    ids=["named", "of-no-kind", "empty", "none"],
)
def test_what_is_more_or_less_than_a_frame_is_left_to_the_library(frame: types.Blob) -> None:
    assert audio_message(frame) is None


@pytest.mark.parametrize("wraps", [True, False])
async def test_who_wraps_the_library_sees_audio(
    wraps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As instrumentation for tracing does."""
    seen: list[Any] = []
    inner = AsyncSession.send_realtime_input

    async def outer(self: AsyncSession, **given: Any) -> None:
        seen.append(given)
        await inner(self, **given)

    traced = functools.wraps(inner)(outer) if wraps else outer
    monkeypatch.setattr(AsyncSession, "send_realtime_input", traced)
    socket = Socket()
    await LiveSession(a_session(socket)).send_realtime_input(audio=FRAMES[0])
    assert seen == [{"audio": FRAMES[0]}]
    assert len(socket.sent) == 1
