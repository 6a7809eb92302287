"""A real session's pause for a false interruption holds the bounds that follow what is heard."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.events import GenerationFinalised, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Before,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    Swallow,
)

TALE = Reply("one two three four five six seven eight nine ten eleven twelve thirteen fourteen")


@pytest.mark.virtual_time
async def test_a_paused_reply_is_finalised_later_by_the_pause() -> None:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(redrive=False, on_event=events.append)
    endless = Fault(Before("response.done"), Swallow())
    async with OpenAIRealtimeServer([TALE], faults=[endless]) as server:
        # A session pauses by its own voice detection, so the server's is off.
        kwargs = server.model_kwargs(resilience=options, turn_detection=None)
        model = resilient.openai.realtime.RealtimeModel(**kwargs)
        manual = {"turn_handling": {"turn_detection": "manual"}}
        async with HeadlessCall(model, session_options=manual) as call:
            began_at = call.now
            await call.generate_reply(instructions="tell", wait=False)
            await call.wait_heard(2.0, after=began_at)
            # What the session does when its voice detection hears the caller, then nobody.
            activity: Any = call.session._activity
            activity._interruption_by_audio_activity_enabled = True
            activity._interrupt_by_audio_activity()
            assert call.heard.paused
            # Longer than the bound, which would be over by now if the pause did not hold it.
            activity._start_false_interruption_timer(8.0)
            await call.until(lambda: events, timeout_s=60, what="the end of the reply")
            (heard,) = call.heard.segments
            assert not heard.interrupted
            assert heard.ended_at - began_at > TALE.duration_s + 7.9
            (finalised,) = events
            assert isinstance(finalised, GenerationFinalised)
            assert finalised.reason == "stalled"
            waited_s = finalised.at - heard.ended_at
            assert waited_s == pytest.approx(options.finalise_stalled_after_s, abs=0.05)
