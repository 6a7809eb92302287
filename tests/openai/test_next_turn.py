"""The end of a reply that comes after the next one began does not end that one (R13)."""

from __future__ import annotations

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    After,
    Before,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    Send,
    Swallow,
)

pytestmark = pytest.mark.virtual_time

TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
ANSWER = Reply("This answers what you have just asked, and it takes a while to say.")
RATE = 24_000


@pytest.mark.parametrize("nth", [1, 12], ids=["at its beginning", "in its middle"])
async def test_a_late_end_cuts_nothing(nth: int) -> None:
    lost = Fault(Before("response.done"), Swallow())
    async with OpenAIRealtimeServer([TALE, ANSWER], faults=[lost], pace="realtime") as server:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="tell", wait=False)
            await call.wait_heard(1.0)
            events = call.realtime_session._parts.inbound  # type: ignore[attr-defined]
            late = {
                "type": "response.done",
                "event_id": "event_late",
                "response": {
                    "object": "realtime.response",
                    "id": events.response_id,
                    "status": "cancelled",
                    "output": [],
                },
            }
            said = await call.say(1.0)
            event = After("response.output_audio.delta", nth=nth)
            server.inject(Fault(event, Send(late)))
            await call.reply(after=said.ended_at, timeout_s=15)
            await call.agent_done()
            heard = call.heard.heard_pcm()
            assert any(heard.count(ANSWER.pcm(RATE, seed=seed)) for seed in (1, 2, 3))
            assert call.agent_texts()[-1] == ANSWER.text
            assert len(server.dials()) == 1
