"""A response that was cut on our side: what still comes of it is skipped and taken back (R13, R18).

It comes all at once, a second after the cut, as over a path that was congested.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.events import GenerationFinalised, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Before,
    Delay,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ToolCall,
)

pytestmark = pytest.mark.virtual_time

TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
REST = Reply("As I said, before six.")
LOOKUP = ToolCall("get_weather", {"city": "Rome"}, say_first="Let me look that up for you now.")
CUT_AFTER_S = 3.0
LATE_S = 7.0


@asynccontextmanager
async def calling(
    said: Reply | ToolCall, fault: Fault
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(
        finalise_stalled_after_s=CUT_AFTER_S,
        finalise_complete_after_s=CUT_AFTER_S,
        on_event=events.append,
    )
    async with OpenAIRealtimeServer([said, REST], faults=[fault]) as server:
        kwargs = server.model_kwargs(resilience=options)
        async with HeadlessCall(resilient.openai.realtime.RealtimeModel(**kwargs)) as call:
            await call.generate_reply(instructions="tell", wait=False)
            await call.until(lambda: events, what="the cut")
            await asyncio.sleep(2 * LATE_S)
            await call.agent_done()
            yield server, call
        assert [type(event) for event in events].count(GenerationFinalised) == 1
        assert len(server.dials()) == 1


async def test_audio_that_comes_after_the_cut_is_not_heard_and_not_known() -> None:
    late = Fault(Before("response.output_audio.delta", nth=21), Delay(LATE_S))
    async with calling(TALE, late) as (server, call):
        (first, second) = call.heard.segments
        assert first.position_s == pytest.approx(2.0, abs=0.01)
        assert second.position_s == pytest.approx(REST.duration_s, abs=0.01)
        heard = TALE.words_until(2.0)
        assert call.agent_texts() == [heard, REST.text]
        (cut,) = [text for text in server.session.texts("assistant") if text != REST.text]
        assert heard.startswith(cut) or cut.startswith(heard)
        assert len(cut) < len(TALE.text) / 2


async def test_a_second_message_that_comes_after_the_cut_is_taken_back() -> None:
    said = ToolCall(
        "get_weather", {"city": "Rome"}, say_first=LOOKUP.say_first, trailing_text="X y."
    )
    late = Fault(Before("response.output_item.added", nth=2), Delay(LATE_S))
    async with calling(said, late) as (server, call):
        said_first = LOOKUP.say_first
        assert call.agent_texts()[0] == said_first
        assert server.session.texts("assistant")[0] == said_first
        assert server.session.knows("It will not take long.") == 0
        assert "It will not take long." not in call.agent_texts()


async def test_a_tool_call_that_comes_after_the_cut_runs_no_tool_and_keeps_nothing_open() -> None:
    late = Fault(Before("response.output_item.added", nth=2), Delay(LATE_S))
    async with calling(LOOKUP, late) as (_, call):
        assert call.tools == []
        assert call.realtime_session._driver.rests  # type: ignore[attr-defined]
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        assert call.tools == []
