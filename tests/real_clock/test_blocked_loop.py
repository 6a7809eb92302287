"""Our own event loop stands still while the server goes on (R23): no fault, so no decision.

The simulators run on threads of their own, so that what they send waits in the sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.events import ResilienceEvent
from livekit.plugins.resilient.testing import (
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)
from livekit.plugins.resilient.testing.server import SimulatedServer
from livekit.plugins.resilient.testing.threaded import ThreadedServer
from tests.real_clock.runner import Play, Runner, plays

RATE = 24_000

STORY = Reply(
    "Your parcel left the depot this morning and will be with you before six tonight, unless the "
    "bridge over the river is still closed to heavy traffic by then, which nobody can tell yet."
)
ANSWER = Reply("Yes, I can hear you well, thank you for asking.", first_token_s=3.0)

ALLOWED = {"LoopStalled"}
"""What may be told: that the loop stood still."""

LATER_S = 6.0
"""Long enough for a late decision to show."""


@dataclass
class Blocked:
    """A call whose loop is blocked, and what became of it."""

    call: HeadlessCall
    server: SimulatedServer
    events: list[ResilienceEvent] = field(default_factory=list)

    async def heard_once(self, reply: Reply) -> None:
        """The caller hears `reply`, the history holds it, and nothing else happened."""
        call = self.call
        await call.until(lambda: call.heard.segments, what="a reply", timeout_s=30)
        await call.agent_done()
        await asyncio.sleep(LATER_S)
        await call.agent_done()
        assert call.heard.heard_pcm() == reply.pcm(RATE, seed=1)
        assert call.agent_texts() == [reply.text]
        assert [e for e in self.events if type(e).__name__ not in ALLOWED] == []
        assert call.errors == []


Script: TypeAlias = Callable[[Blocked], Awaitable[None]]
_Provider: TypeAlias = tuple[Callable[..., Any], Callable[..., llm.RealtimeModel]]

PROVIDERS: dict[str, _Provider] = {
    "gemini": (GeminiLiveServer, resilient.google.realtime.RealtimeModel),
    "openai": (OpenAIRealtimeServer, resilient.openai.realtime.RealtimeModel),
}


def block(seconds: float) -> None:
    """What a tool does that is not asynchronous, or a process that is stopped."""
    time.sleep(seconds)


async def perform(provider: str, reply: Reply, script: Script, *, dial_s: float = 0.0) -> None:
    """Play a call of which the model says `reply`; block the loop for `dial_s` as it dials."""
    make_server, make_model = PROVIDERS[provider]
    async with ThreadedServer(lambda: make_server([reply], pace="realtime")) as threaded:
        events: list[ResilienceEvent] = []
        options = resilient.ResilienceOptions(on_event=events.append)
        model = make_model(**threaded.server.model_kwargs(), resilience=options)
        if dial_s:
            dialled = asyncio.ensure_future(threaded.run(lambda: threaded.server.wait_for("dial")))
            dialled.add_done_callback(lambda _: block(dial_s))
        async with HeadlessCall(model) as call:
            await script(Blocked(call, threaded.server, events))


async def in_a_reply(blocked: Blocked, seconds: float) -> None:
    await blocked.call.generate_reply(instructions="tell", wait=False)
    await blocked.call.wait_heard(1.0)
    block(seconds)
    await blocked.heard_once(STORY)


async def after_a_turn(blocked: Blocked) -> None:
    await blocked.call.say(1.0)
    await asyncio.sleep(1.0)  # the server hears the end of it; the answer begins later
    block(17.0)
    await blocked.heard_once(ANSWER)


async def with_a_request_pending(blocked: Blocked) -> None:
    await blocked.call.generate_reply(instructions="answer", wait=False)
    await asyncio.sleep(0.5)
    block(17.0)
    await blocked.heard_once(ANSWER)


async def as_it_dials(blocked: Blocked) -> None:
    await blocked.call.generate_reply(instructions="answer", wait=False)
    await blocked.heard_once(ANSWER)


ASKED = {"after-a-turn": after_a_turn, "with-a-request-pending": with_a_request_pending}

CALLS = [
    ("openai-in-a-reply", partial(perform, "openai", STORY, partial(in_a_reply, seconds=5.0))),
    ("gemini-in-a-reply", partial(perform, "gemini", STORY, partial(in_a_reply, seconds=8.0))),
    *(
        (f"{provider}-{name}", partial(perform, provider, ANSWER, script))
        for provider in PROVIDERS
        for name, script in ASKED.items()
    ),
    *(
        (f"{provider}-as-it-dials", partial(perform, provider, ANSWER, as_it_dials, dial_s=12.0))
        for provider in PROVIDERS
    ),
]


@pytest.mark.parametrize("play", plays(CALLS), ids=str)
def test_a_blocked_loop_is_no_fault(play: Play, runner: Runner) -> None:
    runner.result(play)
