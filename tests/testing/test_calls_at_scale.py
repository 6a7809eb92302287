"""Forty agent sessions in one process, per provider: not a frame is lost in either direction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from livekit.agents import llm
from livekit.plugins import google, openai

from livekit.plugins.resilient.testing import audio, virtual_time
from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.openai import OpenAIRealtimeServer
from livekit.plugins.resilient.testing.script import Reply

CALLS = 40
REPLY = Reply("one two three four")
SPEECH_S = 0.5
HELD_BACK_S = 0.1  # at most so much of the newest audio waits in a client for a whole piece


@dataclass(frozen=True)
class Provider:
    """A simulator, a client of it, and the sample rate of microphone audio on the wire."""

    server: type[GeminiLiveServer] | type[OpenAIRealtimeServer]
    model: Callable[..., llm.RealtimeModel]
    rate: int


PROVIDERS = {
    "gemini": Provider(GeminiLiveServer, google.realtime.RealtimeModel, 16_000),
    "openai": Provider(OpenAIRealtimeServer, openai.realtime.RealtimeModel, 24_000),
}


async def one_call(model: llm.RealtimeModel) -> tuple[bytes, float]:
    """Ask, speak, hear both replies; return what was heard and the seconds spoken into the call."""
    async with HeadlessCall(model) as call:
        await call.generate_reply(instructions="go")
        await call.say(SPEECH_S)
        await call.reply()
        await call.agent_done()
        assert call.errors == []
    assert call.leftover_tasks() == []
    return call.heard.heard_pcm(), call.mic.pushed_s


@pytest.mark.parametrize("name", PROVIDERS)
def test_forty_calls_at_once_lose_no_frame(name: str) -> None:
    provider = PROVIDERS[name]

    async def main() -> None:
        async with provider.server(default_reply=REPLY) as server:
            models = [provider.model(**server.model_kwargs()) for _ in range(CALLS)]
            calls = await asyncio.gather(*map(one_call, models))
            recording = server.recording
            assert [dial.connection for dial in server.dials()] == list(range(1, CALLS + 1))
            # No two replies sound the same, so equal lists leave no room for a lost, a repeated or
            # a misdirected sample.
            sent = [recording.audio_sent(dial.connection) for dial in server.dials()]
            assert sorted(heard for heard, _ in calls) == sorted(sent)
            assert all(len(pcm) == 2 * len(REPLY.pcm(24_000)) for pcm in sent)
            pushed = sorted(pushed_s for _, pushed_s in calls)
            received = sorted(recording.audio_seconds(dial.connection) for dial in server.dials())
            for pushed_s, received_s in zip(pushed, received, strict=True):
                assert pushed_s - HELD_BACK_S - 1e-6 <= received_s <= pushed_s + 1e-6
            for dial in server.dials():
                ears = audio.SpeechDetector(provider.rate)
                began, ended = ears.feed(recording.audio(dial.connection))
                assert ended.at_s - began.at_s == pytest.approx(SPEECH_S, abs=0.03)

    virtual_time.run(main())
