"""Forty calls in one process: not a frame is lost in either direction."""

from __future__ import annotations

import asyncio

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer
from livekit.plugins.resilient.testing.gemini.peer import GeminiPeer, spoken_audio
from livekit.plugins.resilient.testing.script import Reply

CALLS = 40
FRAMES = 100
REPLY = Reply("A reply of some two seconds for each.")


async def call(server: GeminiLiveServer) -> int:
    async with GeminiPeer(server, timeout_s=60) as peer:
        await peer.set_up()
        microphone = audio.silence(0.05, 16_000)

        async def speak() -> None:
            for _ in range(FRAMES):
                await peer.send_audio(microphone)
                await asyncio.sleep(0.02)

        speaking = asyncio.create_task(speak())
        await peer.ask("go")
        messages = await peer.until("turnComplete")
        await speaking
        return len(spoken_audio(messages))


async def test_forty_calls_lose_no_frame() -> None:
    async with GeminiLiveServer(default_reply=REPLY, pace="realtime") as server:
        received = await asyncio.gather(*(call(server) for _ in range(CALLS)))
        whole = len(REPLY.pcm(24_000))
        assert received == [whole] * CALLS
        counts = [server.recording.count("audio", number + 1) for number in range(CALLS)]
        assert counts == [FRAMES] * CALLS
