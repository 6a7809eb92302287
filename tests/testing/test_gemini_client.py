"""The Gemini simulator satisfies the real clients: google-genai and the unmodified plugin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google import genai
from google.genai import types
from livekit import rtc
from livekit.agents import llm
from livekit.agents.types import APIConnectOptions
from livekit.plugins.google.realtime import RealtimeModel

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.faults import Abort, After, AtAudio, Fault, GoAway
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.script import Reply, ToolCall

pytestmark = pytest.mark.virtual_time

Session = llm.RealtimeSession[Any]

FAST = APIConnectOptions(max_retry=3, retry_interval=0.1, timeout=2.0)


@llm.function_tool
async def look(at: str, how_long: int = 3) -> str:
    """Look at something."""
    return f"{at} for {how_long}"


@contextlib.asynccontextmanager
async def session_on(server: GeminiLiveServer, **kwargs: Any) -> AsyncIterator[Session]:
    model = RealtimeModel(**server.model_kwargs(conn_options=FAST, **kwargs))
    session = model.session()
    try:
        yield session
    finally:
        await session.aclose()
        await model.aclose()


async def read(event: llm.GenerationCreatedEvent) -> tuple[str, bytes, list[llm.FunctionCall]]:
    """Read a generation to its end: text, audio, calls."""
    text, pcm = "", b""
    async for message in event.message_stream:
        async for frame in message.audio_stream:
            pcm += frame.data.tobytes()
        async for piece in message.text_stream:
            text += str(piece)
    calls = [call async for call in event.function_stream]
    return text, pcm, calls


class Generations:
    """Collects the generations that a session opens by itself."""

    def __init__(self, session: Session) -> None:
        self._queue: asyncio.Queue[llm.GenerationCreatedEvent] = asyncio.Queue()
        session.on("generation_created", self._queue.put_nowait)

    async def next(self) -> llm.GenerationCreatedEvent:
        return await asyncio.wait_for(self._queue.get(), 20)


def push(session: Session, pcm: bytes) -> None:
    for at in range(0, len(pcm), 640):
        data = pcm[at : at + 640]
        session.push_audio(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))


def say(session: Session) -> None:
    push(session, audio.speech(0.6, 16_000) + audio.silence(0.5, 16_000))


# google-genai ------------------------------------------------------------------------------


async def test_genai_client_completes_a_text_turn_and_resumes() -> None:
    async with GeminiLiveServer([Reply("Hello."), Reply("Again.")], strict=True) as server:
        kwargs = server.model_kwargs()
        client = genai.Client(api_key=kwargs["api_key"], http_options=kwargs["http_options"])
        handle = None
        for expected in ("Hello.", "Again."):
            config = types.LiveConnectConfig(
                response_modalities=[types.Modality.AUDIO],
                output_audio_transcription=types.AudioTranscriptionConfig(),
                session_resumption=types.SessionResumptionConfig(handle=handle),
                realtime_input_config=types.RealtimeInputConfig(
                    activity_handling=types.ActivityHandling.NO_INTERRUPTION
                ),
                context_window_compression=types.ContextWindowCompressionConfig(
                    trigger_tokens=25_600, sliding_window=types.SlidingWindow(target_tokens=12_800)
                ),
            )
            async with client.aio.live.connect(model=kwargs["model"], config=config) as live:
                await live.send_client_content(
                    turns=types.Content(role="user", parts=[types.Part(text="hi")])
                )
                text = ""
                async for message in live.receive():
                    content = message.server_content
                    if content is not None and content.output_transcription is not None:
                        text += content.output_transcription.text or ""
                assert text == expected
                update = (await anext(live.receive())).session_resumption_update
                assert update is not None
                handle = update.new_handle
        assert server.session.knows("Hello.") == 1
        assert server.session.knows("hi") == 2
        await client.aio.aclose()


# The unmodified plugin ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])
async def test_plugin_greets_and_hears_in_strict_mode(family: str) -> None:
    replies = [Reply("Welcome, caller."), Reply("I am fine.")]
    async with (
        GeminiLiveServer(replies, family=family, strict=True) as server,
        session_on(server, instructions="be brief") as session,
    ):
        generations = Generations(session)
        text, pcm, _ = await read(await session.generate_reply(instructions="greet"))
        assert text == replies[0].text
        assert pcm == replies[0].pcm(24_000, seed=1)
        assert (await generations.next()).user_initiated
        await server.wait_for("turnComplete")
        server.user_says("how are you")
        say(session)
        event = await generations.next()
        assert not event.user_initiated
        assert (await read(event))[0] == replies[1].text
        assert server.session.knows("how are you") == 1
        assert server.session.texts("system") == ["be brief"]
        assert server.recording.closes == []


@pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])
async def test_plugin_round_trips_a_tool_in_strict_mode(family: str) -> None:
    call = ToolCall("look", {"at": "sky"}, say_first="Let me see.")
    server = GeminiLiveServer([call, Reply("It is blue.")], family=family, strict=True)
    async with server, session_on(server) as session:
        await session.update_tools([look])
        generations = Generations(session)
        text, _, [made] = await read(await session.generate_reply(instructions="go"))
        await generations.next()
        assert (text, made.name, made.arguments) == ("Let me see.", "look", '{"at": "sky"}')
        context = session.chat_ctx.copy()
        result = llm.FunctionCallOutput(
            call_id=made.call_id, name="look", output="blue", is_error=False
        )
        context.items += [made, result]
        await session.update_chat_ctx(context)
        assert (await read(await generations.next()))[0] == "It is blue."
        assert len(server.recording.deliveries_of(made.call_id)) == 1
        assert len(server.session.responses_to(made.call_id)) == 1
        declared = server.session.setup["tools"][0]["functionDeclarations"][0]
        assert declared["parameters"]["properties"].keys() == {"at", "how_long"}


async def test_plugin_is_interrupted_by_speech() -> None:
    replies = [Reply("This sentence is long enough to be interrupted by somebody."), Reply("Yes?")]
    async with (
        GeminiLiveServer(replies, times="instant") as server,
        session_on(server) as session,
    ):
        generations = Generations(session)
        started = asyncio.Event()
        session.on("input_speech_started", lambda _: started.set())
        session.generate_reply(instructions="go")
        await generations.next()
        await server.wait_for("generationComplete")
        await asyncio.sleep(1.0)
        say(session)
        await asyncio.wait_for(started.wait(), 5)
        assert (await read(await generations.next()))[0] == "Yes?"
        assert server.recording.count("interrupted") == 1
        assert server.session.texts("model")[-2:] == [replies[0].words_until(1.0), "Yes?"]


async def test_plugin_resumes_with_the_snapshot_of_its_handle() -> None:
    replies = [Reply("First answer."), Reply("A second answer that is cut in the middle.")]
    faults = [Fault(AtAudio(1.0, nth=1, connection=1), Abort())]
    async with GeminiLiveServer(replies, faults=faults) as server, session_on(server) as session:
        await read(await session.generate_reply(instructions="one"))
        await server.wait_for("sessionResumptionUpdate", count=3)
        text, pcm, _ = await read(await session.generate_reply(instructions="two"))
        assert audio.duration_of(pcm, 24_000) == pytest.approx(1.0)
        # Captions come ahead of their audio, in bursts of 0.4 s.
        assert text == "".join(w.text for w in replies[1].words if w.start_s < 1.2)
        await server.wait_for("setupComplete", count=2)
        assert server.session.resumed_from is not None
        assert server.session.knows("First answer.") == 1
        assert server.session.connection == 2


async def test_plugin_dies_of_a_stale_handle() -> None:
    async with GeminiLiveServer() as server, session_on(server) as session:
        failed: asyncio.Future[llm.RealtimeModelError] = asyncio.get_running_loop().create_future()

        def on_error(error: llm.RealtimeModelError) -> None:
            if not error.recoverable and not failed.done():
                failed.set_result(error)

        session.on("error", on_error)
        await read(await session.generate_reply(instructions="one"))
        await server.wait_for("sessionResumptionUpdate", count=3)
        server.store.handles.clear()
        await server.do(Abort())
        assert "1008" in str((await asyncio.wait_for(failed, 20)).error)


async def test_plugin_reconnects_on_go_away() -> None:
    faults = [Fault(After("setupComplete", connection=1), GoAway(50, close=False))]
    async with GeminiLiveServer(faults=faults) as server, session_on(server) as session:
        await server.wait_for("setupComplete", count=2)
        text, _, _ = await read(await session.generate_reply(instructions="go"))
        assert text == "Hello, this is the simulated model speaking."
        assert server.session.connection == 2
