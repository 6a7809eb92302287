"""What a caller says while the first connection is being set up is heard (R0, R15)."""

from __future__ import annotations

import pytest
from livekit.agents import llm
from livekit.plugins import google, resilient

from livekit.plugins.resilient.testing import (
    Fault,
    GeminiLiveServer,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    Reply,
    audio,
)

RATE = 16_000
SAID_S = 3.0


def loud_s(pcm: bytes) -> float:
    step = RATE // 100 * 2
    pieces = (pcm[start : start + step] for start in range(0, len(pcm), step))
    return sum(audio.rms(piece) > audio.SPEECH_THRESHOLD for piece in pieces) / 100


@pytest.mark.virtual_time
@pytest.mark.parametrize("which", ["upstream", "ours"])
async def test_words_during_a_slow_set_up_are_heard_whole(which: str) -> None:
    slow = Fault(OnConnection(1), HangHandshake(4.0))
    async with GeminiLiveServer([Reply("We open at nine.")], faults=[slow]) as server:
        kwargs = server.model_kwargs()
        model: llm.RealtimeModel = (
            google.realtime.RealtimeModel(**kwargs)
            if which == "upstream"
            else resilient.google.realtime.RealtimeModel(**kwargs)
        )
        async with HeadlessCall(model) as call:
            await call.say(SAID_S)
            await call.reply(timeout_s=20)
            assert loud_s(server.recording.audio(1)) >= SAID_S - 0.05
