"""When a session ends, whoever waits in the call is told why, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from livekit.plugins import openai
from livekit.plugins.google.realtime import RealtimeModel

from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.changes import END_GRACE_S
from livekit.plugins.resilient.testing.devices import PacedSpeaker, ScriptedMicrophone
from livekit.plugins.resilient.testing.errors import (
    AudioFileError,
    CallEndedError,
    ServerTimeoutError,
)
from livekit.plugins.resilient.testing.faults import Fault, OnConnection, Refuse
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.openai import OpenAIRealtimeServer
from livekit.plugins.resilient.testing.script import NoReply

pytestmark = pytest.mark.virtual_time

SECRET = "the caller's account is 4711"


def openai_model(server: OpenAIRealtimeServer) -> openai.realtime.RealtimeModel:
    return openai.realtime.RealtimeModel(**server.model_kwargs())


Wait = Callable[[HeadlessCall], Awaitable[object]]
WAITS: dict[str, Wait] = {
    "say": lambda call: call.say(30.0),
    "utterance": lambda call: call.mic.say(30.0).wait(),
    "reply": lambda call: call.reply(),
    "wait_heard": lambda call: call.wait_heard(1.0),
    "until": lambda call: call.until(lambda: False),
    "wait_error": lambda call: call.wait_error(recoverable=True),
}


async def fail(call: HeadlessCall) -> None:
    """End the call as a model that gave up does."""
    await asyncio.sleep(2.0)
    call.realtime_session._emit_error(RuntimeError(SECRET), recoverable=False)  # type: ignore[attr-defined]


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_a_wait_that_the_end_overtakes_names_the_reason(wait: Wait) -> None:
    async with (
        GeminiLiveServer(default_reply=NoReply()) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        failing = asyncio.create_task(fail(call))
        began = call.now
        with pytest.raises(CallEndedError, match="by the error RuntimeError") as told:
            await wait(call)
        assert isinstance(told.value.__cause__, RuntimeError)
        assert SECRET not in str(told.value)
        assert call.now - began == pytest.approx(2.0 + END_GRACE_S, abs=END_GRACE_S + 0.01)
        await failing
        # Nor does anything that is begun now wait for long.
        began = call.now
        with pytest.raises(CallEndedError, match="by the error RuntimeError"):
            await wait(call)
        assert call.now - began <= END_GRACE_S
        with pytest.raises(CallEndedError, match="by the error RuntimeError"):
            await call.generate_reply()


async def test_a_reply_that_the_end_overtakes_is_given_back_with_its_handle() -> None:
    async with (
        GeminiLiveServer(
            ["This is a reply of several seconds, and it is cut."], times="instant"
        ) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        failing = asyncio.create_task(fail(call))
        handle = await call.generate_reply(instructions="go")
        assert handle.interrupted
        assert call.heard.segments[0].position_s == pytest.approx(2.0, abs=0.1)
        await call.agent_done()
        await failing


async def test_what_had_happened_is_still_told_after_the_end() -> None:
    async with (
        OpenAIRealtimeServer(["Hello."]) as server,
        HeadlessCall(openai_model(server)) as call,
    ):
        await call.generate_reply()
        call.session.shutdown(drain=True)
        closed = await call.until(lambda: call.closed)
        assert closed.reason == "user_initiated"
        assert (await call.reply()).position_s > 0
        await call.agent_done()
        with pytest.raises(CallEndedError, match="with the close reason 'user_initiated'"):
            await call.say(1.0)
    with pytest.raises(CallEndedError):
        await call.reply(after=call.now)


async def test_after_hanging_up_the_test_is_named_as_the_reason() -> None:
    async with (
        OpenAIRealtimeServer() as server,
        HeadlessCall(openai_model(server), close_timeout_s=0.001) as call,
    ):
        pass
    with pytest.raises(CallEndedError, match="because the test hung up"):
        await call.say(1.0)


async def test_a_microphone_that_nobody_reads_is_named() -> None:
    async with (
        OpenAIRealtimeServer() as server,
        HeadlessCall(openai_model(server)) as call,
    ):
        call.session.input.audio = None
        with pytest.raises(ServerTimeoutError, match=r"must read the microphone.*within 8 s"):
            await call.say(3.0, timeout_s=5.0)


async def test_a_session_that_cannot_start_raises_and_closes_the_model() -> None:
    async with OpenAIRealtimeServer() as server:
        call = HeadlessCall(openai_model(server), session_options={"no_such_option": 1})
        with pytest.raises(TypeError, match="no_such_option"):
            await call.__aenter__()
        await call.aclose()
        assert call.leftover_tasks() == []


async def test_a_model_that_never_connects_ends_the_call_with_its_error() -> None:
    refusals = [Fault(OnConnection(None), Refuse(503), times="always")]
    async with (
        OpenAIRealtimeServer(faults=refusals) as server,
        HeadlessCall(openai_model(server)) as call,
    ):
        with pytest.raises(CallEndedError, match="by the error API"):
            await call.reply()
        assert not call.errors[-1].recoverable


async def test_a_closed_microphone_gives_up_what_was_not_said() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    said, unsaid = mic.say(0.02), mic.say(1.0)
    assert mic.pending_s == pytest.approx(1.02)
    await mic.__anext__()
    await mic.__anext__()
    assert mic.pending_s == pytest.approx(0.98)
    mic.close()
    await said.wait()
    assert said.ended_at is not None
    with pytest.raises(CallEndedError, match="the microphone was closed"):
        await unsaid.wait()
    assert unsaid.ended_at is None
    with pytest.raises(CallEndedError, match="the microphone was closed"):
        mic.say(1.0)


@pytest.mark.parametrize(
    ("speech", "error", "message"),
    [
        (b"\0\0\0", AudioFileError, "speech must be whole 16-bit samples, not 3 bytes"),
        (None, TypeError, "speech must be a number of seconds, PCM bytes or the path of a WAV"),
        (-1, ValueError, "speech must be a finite number of seconds from 0, not -1"),
        (float("nan"), ValueError, "speech must be a finite number of seconds"),
    ],
)
async def test_speech_of_a_wrong_kind_is_refused(
    speech: Any, error: type[Exception], message: str
) -> None:
    mic = ScriptedMicrophone()
    with pytest.raises(error, match=message):
        mic.say(speech)
    assert mic.utterances == []


@pytest.mark.parametrize("part", ["agent", "mic", "speaker"])
async def test_a_part_of_a_wrong_type_is_named(part: str) -> None:
    parts: dict[str, object] = {part: "hello"}
    wanted = {"agent": "Agent", "mic": "ScriptedMicrophone", "speaker": "PacedSpeaker"}[part]
    async with OpenAIRealtimeServer() as server:
        model = openai_model(server)
        with pytest.raises(TypeError, match=f"{part} must be of type {wanted}, not str"):
            HeadlessCall(model, **parts)  # type: ignore[arg-type]
        HeadlessCall(model, mic=ScriptedMicrophone(), speaker=PacedSpeaker())
