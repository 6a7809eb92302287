"""A whole call on the Gemini simulator: a real AgentSession with the unmodified plugin."""

from __future__ import annotations

import pytest
from google.genai import types
from livekit.agents import llm
from livekit.plugins.google.realtime import RealtimeModel

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.faults import Abort, AtAudio, Fault
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.script import Reply, ToolCall, TurnSource

pytestmark = pytest.mark.virtual_time


@llm.function_tool
async def look(at: str) -> str:
    """Look at something."""
    return f"{at} is blue"


@pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])
async def test_a_call_greets_hears_runs_a_tool_and_breaks_no_strict_rule(family: str) -> None:
    replies: list[TurnSource] = [
        Reply("Welcome, caller."),
        ToolCall("look", {"at": "the sky"}, say_first="Let me see."),
        lambda request: f"I found: {next(iter(request.tool_results.values()))['output']}.",
        Reply("Goodbye."),
    ]
    async with GeminiLiveServer(replies, family=family, strict=True) as server:
        server.user_says("what is the sky like", "thanks")
        async with HeadlessCall(RealtimeModel(**server.model_kwargs()), tools=[look]) as call:
            await call.generate_reply(instructions="Greet the caller.")
            await call.agent_done()
            await call.say(1.0)
            await server.wait_for("toolResponse", timeout_s=30)
            await server.wait_for("turnComplete", count=2 if family != "3.8" else 3, timeout_s=30)
            await call.agent_done()
            await call.say(1.0)
            await server.wait_until(lambda: server.session.knows("Goodbye.") == 1, timeout_s=30)
            await call.agent_done()
            texts = [text.strip() for text in call.agent_texts()]
        assert "Welcome, caller." in texts
        assert "I found: the sky is blue." in texts
        assert texts[-1] == "Goodbye."
        assert [info.by for info in server.recording.closes] == ["client"] * len(server.dials())


async def test_what_the_caller_heard_of_a_cut_reply_is_what_was_sent() -> None:
    reply = Reply("This reply is cut by a drop after exactly one second of audio.")
    faults = [Fault(AtAudio(1.0), Abort())]
    async with (
        GeminiLiveServer([reply], faults=faults) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="go")
        await server.wait_for("setupComplete", count=2)
        await call.agent_done()
        assert call.heard.heard_pcm() == reply.pcm(24_000, seed=1)[: 2 * 24_000]


async def test_a_model_that_is_asked_for_text_writes() -> None:
    async with GeminiLiveServer(["Hello, caller."]) as server:
        model = RealtimeModel(**server.model_kwargs(modalities=[types.Modality.TEXT]))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="go")
            await server.wait_for("turnComplete")
            assert call.agent_texts() == ["Hello, caller."]
        assert not server.recording.audio_sent()


async def test_what_is_below_the_threshold_is_no_speech() -> None:
    noise = audio.speech(1.0, 24_000)
    async with (
        GeminiLiveServer(speech_threshold=audio.rms(noise) * 1.5) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.say(noise)
        await call.say(0.0)
        assert server.recording.audio_seconds() > 0.9
        assert not server.recording.events("inputTranscription")
