"""What comes of a turn after it was finalised is dropped, up to that turn's own end (R18)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import GeminiLiveServer, HeadlessCall, Reply

STALLS = Reply(
    "Your parcel left the depot this morning and will be with you before six.",
    pause_at_s=1.0,
    pause_s=20.0,
)
NEXT = Reply("It is on the van.")


@pytest.mark.virtual_time
async def test_the_late_rest_of_a_stalled_turn_is_not_spoken(google_model: Any) -> None:
    async with GeminiLiveServer([STALLS, NEXT]) as server:
        model = google_model(**server.model_kwargs())
        # Set here, since upstream's model knows no such keyword: without a re-drive, which would
        # interrupt the stalled turn.
        model._resilience = ResilienceOptions(redrive=False, finalise_stalled_after_s=4.0)
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet", wait=False)
            await server.wait_for("turnComplete", timeout_s=60)
            await call.agent_done()
            stalled_s = call.heard.heard_between(0, call.now)
            await call.say(1.0)
            answer = await call.reply()
        assert stalled_s == pytest.approx(1.0, abs=0.1)
        assert answer.position_s == pytest.approx(NEXT.duration_s, abs=0.1)
