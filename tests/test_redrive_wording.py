"""A wording of the application's that fails costs the caller nothing (R12)."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.events import RedriveDecided, RedriveOutcome, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)
from livekit.plugins.resilient.wording import RedriveContext

pytestmark = pytest.mark.virtual_time

TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
REST = Reply("As I said, before six.")


def raises(_: RedriveContext) -> str:
    raise RuntimeError("no wording today")


def served(provider: str) -> Any:
    cut = Fault(AtAudio(2.0), Abort())
    kind = GeminiLiveServer if provider == "gemini" else OpenAIRealtimeServer
    return kind([TALE, REST], faults=[cut])


def model_of(provider: str, server: Any, options: Any) -> llm.RealtimeModel:
    kwargs = server.model_kwargs(resilience=options)
    if provider == "gemini":
        return resilient.google.realtime.RealtimeModel(**kwargs)
    return resilient.openai.realtime.RealtimeModel(**kwargs)


@pytest.mark.parametrize("wording", [raises, lambda _: None, lambda _: ""])
@pytest.mark.parametrize("provider", ["gemini", "openai"])
async def test_a_cut_reply_goes_on_whatever_the_wording_does(provider: str, wording: Any) -> None:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(
        on_event=events.append, redrive_instructions=wording, redrive_after_s=0.5
    )
    async with (
        served(provider) as server,
        HeadlessCall(model_of(provider, server, options)) as call,
    ):
        began_at = call.now
        await call.generate_reply(instructions="tell", wait=False)
        await call.wait_heard(2.0 + REST.duration_s, after=began_at, timeout_s=30)
        await call.agent_done()
        assert len(server.dials()) == 2
        asked = [text for text in server.recording.texts_sent(2) if "technical fault" in text]
        assert len(asked) == 1
    assert [event.reason for event in events if isinstance(event, RedriveDecided)] == ["reply_cut"]
    assert [event.outcome for event in events if isinstance(event, RedriveOutcome)] == ["rescued"]
