"""The same rules on Vertex AI, with its own closes, handles and credentials."""

from __future__ import annotations

import asyncio
from typing import Any

import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError
from google.genai import types
from google.oauth2.credentials import Credentials

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Close,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    NoHandle,
    OnConnection,
    Reply,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

STORY = Reply("Once upon a time there was a caller who listened to a story to its very end.")
ANSWER = Reply("This answers what you have just asked.")
GO_ON = Reply("Here is the rest of what I wanted to say.")


def by_reason(request: TurnRequest) -> Reply:
    return ANSWER if request.reason == "speech" else GO_ON


def vertex_server(*replies: Reply, faults: tuple[Fault, ...] = ()) -> GeminiLiveServer:
    return GeminiLiveServer(
        replies,
        default_reply=by_reason,
        faults=faults,
        vertex=True,
        strict=True,
        handle_while_busy=True,
        pace=1.5,
    )


def vertex_model(server: GeminiLiveServer, **keywords: Any) -> RealtimeModel:
    return RealtimeModel(
        **server.model_kwargs(
            vertexai=True,
            project="project",
            location="us-central1",
            model="gemini-live-2.5-flash-native-audio",
            api_key=None,
            **keywords,
        )
    )


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def default(*_: object, **__: object) -> tuple[Credentials, str]:
        return Credentials(token="token"), "project"  # type: ignore[no-untyped-call]

    monkeypatch.setattr(google.auth, "default", default)


async def ask(call: HeadlessCall) -> None:
    said = await call.say(1.0)
    reply = await call.reply(after=said.ended_at)
    await call.agent_done()
    assert reply.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)


@pytest.mark.usefixtures("credentials")
async def test_a_cancelled_operation_is_a_drop() -> None:
    cancelled = Close(1000, "The operation was cancelled.")
    fault = Fault(AtAudio(3.0, connection=1), cancelled)
    async with vertex_server(STORY, faults=(fault,)) as server:
        async with HeadlessCall(vertex_model(server)) as call:
            await call.generate_reply(instructions="Tell a story.", wait=False)
            await server.wait_for("fault")
            rest = await call.reply(after=call.now)
            await call.agent_done()
            assert rest.position_s == pytest.approx(GO_ON.duration_s, abs=0.1)
            assert call.heard.segments[0].position_s >= 3.0
            await ask(call)
        assert len(server.dials()) == 2
        assert all(error.recoverable for error in call.errors)


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, None, id="not asked for"),
        pytest.param(
            {"session_resumption": types.SessionResumptionConfig(transparent=True)},
            True,
            id="asked for",
        ),
    ],
)
async def test_resumption_is_transparent_only_where_it_was_asked_for(
    given: dict[str, Any], expected: bool | None
) -> None:
    async with (
        vertex_server() as server,
        HeadlessCall(vertex_model(server, **given)) as call,
    ):
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        await server.do(Abort())
        await server.wait_for("setupComplete", count=2)
        first, second = (
            frame.message["setup"]["sessionResumption"]
            for frame in server.recording.frames("setup")
        )
        assert "handle" not in first
        assert second["handle"]
        assert first.get("transparent") == second.get("transparent") == expected
        await ask(call)


@pytest.mark.usefixtures("credentials")
async def test_a_session_without_a_handle_is_told_the_history() -> None:
    faults = (Fault(OnConnection(1), NoHandle()),)
    async with (
        vertex_server(faults=faults) as server,
        HeadlessCall(vertex_model(server)) as call,
    ):
        await call.generate_reply(instructions="Greet the caller.")
        await call.agent_done()
        await ask(call)
        await server.do(Abort())
        await server.wait_for("setupComplete", count=2)
        await asyncio.sleep(1.0)
        assert server.session.resumed_from is None
        told = server.session.texts("model") + server.session.texts("user")
        assert told == [GO_ON.text, ANSWER.text, "hello there"]
        await ask(call)


async def test_missing_credentials_end_the_session_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def default(*_: object, **__: object) -> tuple[Credentials, str]:
        raise DefaultCredentialsError("none found")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(google.auth, "default", default)
    async with vertex_server() as server, HeadlessCall(vertex_model(server)) as call:
        since = call.now
        error = await call.wait_error()
        assert not error.recoverable
        assert isinstance(error.error, DefaultCredentialsError)
        assert call.now - since < 1.0
