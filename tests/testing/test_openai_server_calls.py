"""Whole calls of upstream's unmodified OpenAI models against the simulated server."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from livekit.agents import inference, llm
from livekit.plugins import openai

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.clock import Clock
from livekit.plugins.resilient.testing.faults import Abort, AtAudio, Fault
from livekit.plugins.resilient.testing.openai import OpenAIRealtimeServer
from livekit.plugins.resilient.testing.script import Reply, ToolCall, TurnSource

RealtimeModel = openai.realtime.RealtimeModel

GREETING = Reply("Good day, how may I help you?")
LONG = Reply("This is a rather long answer. " * 6)


def openai_model(server: OpenAIRealtimeServer) -> llm.RealtimeModel:
    return RealtimeModel(**server.model_kwargs())


def azure_model(server: OpenAIRealtimeServer) -> llm.RealtimeModel:
    return RealtimeModel.with_azure(**server.azure_kwargs())


def legacy_azure_model(server: OpenAIRealtimeServer) -> llm.RealtimeModel:
    return RealtimeModel.with_azure(**server.azure_kwargs(legacy=True))


def inference_model(server: OpenAIRealtimeServer) -> llm.RealtimeModel:
    return inference.RealtimeModel(**server.inference_kwargs())


@pytest.mark.virtual_time
@pytest.mark.parametrize("model", [openai_model, azure_model, legacy_azure_model, inference_model])
async def test_greeting_spoken_turn_and_tool_round_trip(
    model: Callable[[OpenAIRealtimeServer], llm.RealtimeModel],
) -> None:
    weather = ToolCall("get_weather", {"city": "Paris"})
    replies: list[TurnSource] = [GREETING, weather, Reply("It is sunny in Paris.")]
    async with OpenAIRealtimeServer(replies, strict=True) as server:
        server.user_says("what is the weather in Paris")
        async with HeadlessCall(model(server)) as call:
            await call.generate_reply(instructions="greet the caller")
            (greeting,) = call.heard.segments
            assert greeting.pcm == GREETING.pcm(24_000, seed=1)
            said = await call.say(1.0)
            answer = await call.reply()
            await call.agent_done()
            assert answer.started_at is not None
            assert said.ended_at is not None
            # The end of the utterance is heard, then there are two responses: a call, an answer.
            assert 0.8 < answer.started_at - said.ended_at < 1.6
            (run,) = call.tools
            assert (run.name, run.args, run.status) == ("get_weather", {"city": "Paris"}, "done")
            assert call.user_texts() == ["what is the weather in Paris"]
            assert call.agent_texts() == [GREETING.text, "It is sunny in Paris."]
            assert call.errors == []
        assert call.close_problem is None
        assert call.leftover_tasks() == []
        assert len(server.recording.deliveries_of(run.call_id)) == 1
        assert server.recording.count("error") == 0
        assert server.session.texts() == [
            GREETING.text,
            "what is the weather in Paris",
            'get_weather({"city": "Paris"})',
            "sunny",
            "It is sunny in Paris.",
        ]
        assert server.recording.closed(1) is not None


@pytest.mark.virtual_time
@pytest.mark.parametrize("pace", [None, 1.0])
async def test_a_barge_in_truncates_to_what_was_heard(pace: float | None) -> None:
    async with (
        OpenAIRealtimeServer([LONG, "Sorry."], pace=pace) as server,
        HeadlessCall(openai_model(server)) as call,
    ):
        await call.generate_reply(wait=False)
        await call.wait_heard(3.0)
        await call.say(0.6)
        await call.reply()
        cut = call.heard.segments[0]
        assert cut.interrupted
        (sent,) = server.recording.frames("conversation.item.truncate")
        assert sent.message["audio_end_ms"] == pytest.approx(cut.position_s * 1000, abs=1)
        assert server.recording.count("conversation.item.truncated") == 1
        (first, _) = server.session.texts("assistant")
        assert first == LONG.words_until(sent.message["audio_end_ms"] / 1000)
        assert cut.pcm == LONG.pcm(24_000, seed=1)[: len(cut.pcm)]
        statuses = [
            event.message["response"]["status"]
            for event in server.recording.events("response.done")
        ]
        assert statuses[0] == ("completed" if pace is None else "cancelled")


@pytest.mark.virtual_time
async def test_a_drop_in_mid_reply_is_seen_by_both_sides() -> None:
    drop = Fault(AtAudio(position_s=2.0), Abort())
    async with OpenAIRealtimeServer([LONG, "I am back."], faults=[drop]) as server:
        async with HeadlessCall(openai_model(server)) as call:
            await call.generate_reply()
            error = await call.wait_error()
            assert error.recoverable
            (segment,) = call.heard.segments
            assert segment.position_s == pytest.approx(2.0)
            assert len(server.dials()) == 2
            info = server.recording.closed(1)
            assert info is not None
            assert (info.code, info.by) == (1006, "server")
            await call.say(0.5)
            await call.reply()
            await call.agent_done()
            assert call.agent_texts()[-1] == "I am back."
        # The cut answer was never replayed: the second session knows nothing of it.
        assert server.session_of(1).knows("long answer") == 1
        assert server.session_of(2).knows("long answer") == 0


@pytest.mark.virtual_time
async def test_the_session_cap_makes_a_new_session_with_the_history() -> None:
    clock = Clock()
    async with OpenAIRealtimeServer([GREETING], clock=clock) as server:
        async with HeadlessCall(openai_model(server)) as call:
            await call.generate_reply()
            clock.advance(3600)
            await server.wait_for("session.updated", connection=2)
            await server.wait_for("conversation.item.added", connection=2)
            assert [error.recoverable for error in call.errors] == [True, True]
        assert server.session.texts() == [GREETING.text]
        assert server.session.items[0].made_by == "client"


async def test_the_same_call_runs_in_real_time() -> None:
    async with OpenAIRealtimeServer(default_reply=Reply("short")) as server:
        async with HeadlessCall(openai_model(server)) as call:
            began = time.monotonic()
            await call.say(0.3)
            reply = await call.reply(timeout_s=10)
            assert time.monotonic() - began > 0.3 + 0.4 + reply.position_s - 0.1
        assert audio.rms(server.recording.audio(1)) > 0
    assert call.leftover_tasks() == []
