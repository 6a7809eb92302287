"""Captions have no order against the turns: what only they opened is owed nothing (R13)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import HedgeDecided, ResilienceEvent
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    After,
    Delay,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    NoReply,
    Reply,
    ScriptedMicrophone,
    Send,
)

from ..pairs import pairwise

pytestmark = pytest.mark.virtual_time

GREETING = Reply("Hello, how can I help you?")
ANSWER = Reply("We open at nine.")
SETTLED_S = 100.0
"""Longer than any bound, and than two of them in a row."""


def output_caption(text: str) -> Send:
    return Send({"serverContent": {"outputTranscription": {"text": text}}})


def input_caption(text: str) -> Send:
    return Send({"serverContent": {"inputTranscription": {"text": text}}})


async def events_after(
    *faults: Fault, replies: list[Any], model: dict[str, Any] | None = None, says: bool = True
) -> tuple[list[ResilienceEvent], GeminiLiveServer, HeadlessCall]:
    """A greeting, a question and its answer, then a long rest."""
    events: list[ResilienceEvent] = []
    options = ResilienceOptions(on_event=events.append)
    async with GeminiLiveServer(replies, faults=faults) as server:
        kwargs = server.model_kwargs(resilience=options, **(model or {}))
        mic = ScriptedMicrophone(frame_ms=60)
        async with HeadlessCall(RealtimeModel(**kwargs), mic=mic) as call:
            await call.generate_reply(instructions="Greet.")
            if says:
                await call.say(1.0)
            until = call.now + SETTLED_S
            while (left_s := until - call.now) > 0:
                await call.changes.wait(left_s)
    return events, server, call


@pairwise(
    text=[" .", " and goodbye.", "<noise>"],
    side=["output", "input"],
    after=["the greeting", "the answer"],
)
async def test_a_late_caption_is_left_alone(text: str, side: str, after: str) -> None:
    caption = output_caption if side == "output" else input_caption
    nth = 1 if after == "the greeting" else 2
    late = Fault(After("turnComplete", nth=nth), caption(text))
    events, server, call = await events_after(late, replies=[GREETING, ANSWER])
    assert events == []
    assert server.recording.count("clientContent") == 1
    assert len(call.heard.segments) == 2


async def test_a_repeated_caption_is_answered_once() -> None:
    again = Fault(After("turnComplete", nth=2), input_caption("hello there"))
    events, _server, call = await events_after(again, replies=[GREETING, ANSWER])
    assert events == []
    assert len(call.heard.segments) == 2


async def test_a_transcribed_noise_is_left_unanswered() -> None:
    noise = Fault(After("turnComplete", nth=1), input_caption(" <noise>"))
    events, server, _call = await events_after(noise, replies=[GREETING], says=False)
    assert events == []
    assert server.recording.count("clientContent") == 1


async def test_a_model_that_may_pass_over_a_turn_is_not_forced_to_answer() -> None:
    model = {"proactivity": True}
    events, server, _call = await events_after(replies=[GREETING, NoReply()], model=model)
    assert events == []
    assert server.recording.count("clientContent") == 1


@pytest.mark.parametrize(
    "said",
    [
        {"waitingForInput": True},
        {"turnComplete": True, "turnCompleteReason": "NEED_MORE_INPUT"},
        {"waitingForInput": True, "turnComplete": True},
    ],
    ids=lambda said: ", ".join(said),
)
async def test_a_provider_that_waits_for_more_is_not_overridden(said: dict[str, Any]) -> None:
    waits = Fault(After("inputTranscription"), Send({"serverContent": said}))
    events, server, _call = await events_after(waits, replies=[GREETING, NoReply()])
    assert events == []
    assert server.recording.count("clientContent") == 1


async def test_a_question_that_gets_nothing_is_asked_again() -> None:
    """The other way round: the same silence after words that the caller was heard to say."""
    events, _server, call = await events_after(replies=[GREETING, NoReply(), ANSWER])
    assert HedgeDecided in [type(event) for event in events]
    assert len(call.heard.segments) == 2


@pytest.mark.parametrize("caption", [output_caption(" ."), input_caption("hm")])
async def test_a_request_is_answered_though_a_stray_caption_came_before_it(caption: Send) -> None:
    # Once the greeting is through: before, it would cut it short, with upstream's model too.
    stray = Fault(After("turnComplete", nth=1), (Delay(0.5), caption))
    async with (
        GeminiLiveServer([GREETING, ANSWER], faults=[stray]) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="Greet.")
        await server.wait_for("fault")
        # The AgentSession makes it once the stray one is over, with upstream's model never.
        request = await call.generate_reply(instructions="Go on.", timeout_s=90)
        assert request.exception() is None
        assert [s.position_s for s in call.heard.segments] == pytest.approx(
            [GREETING.duration_s, ANSWER.duration_s], abs=0.1
        )
