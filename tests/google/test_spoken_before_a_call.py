"""What the agent says before it calls a tool is an ordinary message, not one that was cut (R14)."""

from __future__ import annotations

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    CallAgent,
    GeminiLiveServer,
    HeadlessCall,
    Reply,
    ToolCall,
)

SAID = "One moment, I shall look that up for you."


@pytest.mark.virtual_time
@pytest.mark.parametrize("lead_s", [0.0, 2.0], ids=["in-step", "transcript-ahead"])
async def test_words_before_a_call_are_recorded_whole(lead_s: float) -> None:
    call_tool = ToolCall("get_weather", {"city": "Paris"}, say_first=SAID)
    server = GeminiLiveServer([call_tool, Reply("It is sunny.")], transcript_lead_s=lead_s)
    async with server:
        model = resilient.google.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model, agent=CallAgent(tool_delay_s=0.5)) as call:
            await call.say(1.0)
            await call.until(lambda: call.tools, what="the tool")
            await call.agent_done()
            said = [
                item
                for item in call.session.history.items
                if isinstance(item, llm.ChatMessage) and item.role == "assistant"
            ]
            assert [(item.text_content, item.interrupted) for item in said] == [
                (SAID, False),
                ("It is sunny.", False),
            ]
