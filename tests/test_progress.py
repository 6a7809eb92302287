"""A provider that takes every dial and answers no question is given up in the end (R2)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.core.limits import RECONNECT_DEADLINE_S, SILENT_AFTER_S
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Before,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Received,
    Reply,
    ScriptedMicrophone,
    Silence,
)

from .failover.calls import calling

pytestmark = pytest.mark.virtual_time

Provider: TypeAlias = Literal["gemini", "openai"]
What: TypeAlias = Literal["a-question", "a-reply-that-was-cut"]
PROVIDERS: tuple[Provider, ...] = ("gemini", "openai")
WHATS: tuple[What, ...] = ("a-question", "a-reply-that-was-cut")
SERVERS: dict[Provider, Any] = {"gemini": GeminiLiveServer, "openai": OpenAIRealtimeServer}
STORY = Reply("Once upon a time there was a caller who listened to a long story, all of it.")


def mute(provider: Provider, what: What, *, connections: int | None = None) -> list[Fault]:
    """Connections are set up, told the call, and say nothing once they are asked."""
    times: Any = "always" if connections is None else connections
    first = 2 if what == "a-reply-that-was-cut" else 1
    drops = [Fault(AtAudio(1.0, connection=1), Abort())] if first == 2 else []
    if provider == "openai":
        return [Fault(Before("response.created", nth=first), Silence(), times=times), *drops]
    told = Fault(Received("clientContent", nth=first), Silence(), times=times)
    if first == 2:
        return [told, *drops]
    return [Fault(After("inputTranscription", nth=2), Silence()), told]


async def waits_in_vain(call: HeadlessCall, what: What) -> None:
    if what == "a-question":
        call.mic.say(1.5)
    else:
        await call.generate_reply(instructions="Tell a story.", wait=False)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("what", WHATS)
async def test_a_server_that_answers_nothing_is_given_up_once(
    provider: Provider, what: What
) -> None:
    models: dict[Provider, Any] = {
        "gemini": resilient.google.realtime.RealtimeModel,
        "openai": resilient.openai.realtime.RealtimeModel,
    }
    async with SERVERS[provider](faults=mute(provider, what), default_reply=STORY) as server:
        model = models[provider](**server.model_kwargs())
        async with HeadlessCall(model, mic=ScriptedMicrophone(frame_ms=60)) as call:
            began_at = call.now
            await waits_in_vain(call, what)
            await call.until(lambda: call.closed, timeout_s=600, what="the end of the call")
            lasted_s, dials = call.now - began_at, len(server.dials())
            # The first silence, the budget, and the round in which it was spent.
            assert lasted_s <= RECONNECT_DEADLINE_S + 2 * SILENT_AFTER_S
            assert lasted_s >= RECONNECT_DEADLINE_S
            assert 3 <= dials <= 8
            assert [error.recoverable for error in call.errors].count(False) == 1
            assert call.errors[-1].recoverable is False


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("what", WHATS)
async def test_one_that_answers_again_is_kept(provider: Provider, what: What) -> None:
    faults = mute(provider, what, connections=1)
    models: dict[Provider, Any] = {
        "gemini": resilient.google.realtime.RealtimeModel,
        "openai": resilient.openai.realtime.RealtimeModel,
    }
    async with SERVERS[provider](faults=faults, default_reply=STORY) as server:
        model = models[provider](**server.model_kwargs())
        async with HeadlessCall(model, mic=ScriptedMicrophone(frame_ms=60)) as call:
            await waits_in_vain(call, what)
            await call.until(
                lambda: call.agent_texts()[-1:] == [STORY.text] or call.closed,
                timeout_s=RECONNECT_DEADLINE_S + SILENT_AFTER_S,
                what="the answer",
            )
            for _ in range(3):
                said = await call.say(1.0)
                await call.reply(after=said.ended_at)
            assert all(error.recoverable for error in call.errors)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("second", ["ours", "upstream"])
async def test_another_model_takes_over_from_a_mute_one(
    provider: Provider, what: What, second: Literal["ours", "upstream"]
) -> None:
    other: Provider = "openai" if provider == "gemini" else "gemini"
    first = SERVERS[provider](faults=mute(provider, what), default_reply=STORY)
    reply = Reply("I am the other one.")
    servers = [first, SERVERS[other](default_reply=reply)]
    async with calling(["ours", second], (provider, other), servers) as it:
        await waits_in_vain(it.call, what)
        (segment,) = await it.spoken_unasked(within_s=60.0)
        assert segment.position_s == pytest.approx(reply.duration_s, abs=0.05)
        assert it.left == [first]
        assert len(first.dials()) <= 3
