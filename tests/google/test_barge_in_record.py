"""A reply that the caller cuts in on is recorded up to there, as after a drop (R14)."""

from __future__ import annotations

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import GeminiLiveServer, HeadlessCall, Reply

TALE = Reply("And so it went on, from one day to the next, until nobody could tell why. " * 2)
ANSWER = Reply("Yes, what is it?")


@pytest.mark.virtual_time
async def test_both_records_end_where_the_caller_cut_in() -> None:
    async with GeminiLiveServer([TALE, ANSWER], pace=3.0) as server:
        model = resilient.google.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            began_at = call.now
            await call.generate_reply(instructions="tell", wait=False)
            await call.wait_heard(2.5, after=began_at)
            said = await call.say(1.0)
            await call.reply(after=said.ended_at)
            await call.agent_done()
            first = call.heard.segments[0]
            assert first.interrupted
            heard = TALE.words_until(first.position_s).split()
            recorded = [
                item
                for item in call.session.history.items
                if isinstance(item, llm.ChatMessage) and item.role == "assistant"
            ]
            words = (recorded[0].text_content or "").split()
            assert recorded[0].interrupted
            assert words == TALE.text.split()[: len(words)]
            assert 0 < len(words) <= len(heard) + 1
            assert len(words) >= len(heard) - 2
            assert not recorded[1].interrupted
