"""Calls on models in upstream's fallback adapter, of which some are lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from livekit.agents import llm
from livekit.plugins import google, openai, resilient

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    ScriptedMicrophone,
    UserStarts,
    UserStops,
)
from livekit.plugins.resilient.testing.faults import Trigger
from livekit.plugins.resilient.testing.heard import HeardSegment
from livekit.plugins.resilient.testing.server import SimulatedServer

Which: TypeAlias = Literal["upstream", "ours"]
Provider: TypeAlias = Literal["gemini", "openai"]
Order: TypeAlias = tuple[Provider, ...]

ORDERS: tuple[Order, ...] = (("gemini", "openai"), ("openai", "gemini"))
STORY = Reply("Once upon a time there was a caller who listened to a long story, all of it.")
OTHER = Reply("I am the other one.")

MOMENTS: dict[str, Trigger] = {
    "in-a-reply": AtAudio(2.0, connection=1),
    "in-the-callers-speech": UserStarts(connection=1),
    "while-the-model-thinks": UserStops(connection=1),
}

_SERVERS: dict[Provider, type[SimulatedServer]] = {
    "gemini": GeminiLiveServer,
    "openai": OpenAIRealtimeServer,
}
_MODELS: dict[tuple[Which, Provider], Callable[..., llm.RealtimeModel]] = {
    ("upstream", "gemini"): google.realtime.RealtimeModel,
    ("upstream", "openai"): openai.realtime.RealtimeModel,
    ("ours", "gemini"): resilient.google.realtime.RealtimeModel,
    ("ours", "openai"): resilient.openai.realtime.RealtimeModel,
}


def server(provider: Provider, faults: Sequence[Fault] = ()) -> Any:
    """A simulated server, for `calling` to start; it says `STORY` where it is the one with faults,
    else `OTHER`."""
    says = STORY if faults else OTHER
    return _SERVERS[provider](faults=faults, default_reply=says, pace=1.5)


def drop(moment: str) -> Fault:
    """The first connection ends at one of `MOMENTS`."""
    return Fault(MOMENTS[moment], Abort())


@dataclass
class FallbackCall:
    """A call whose model is an adapter.

    Attributes:
        call: The call.
        adapter: Its model.
        servers: Of the adapter's models, in its order.
        left: The servers whose models gave up, in order, each time they did.
    """

    call: HeadlessCall
    adapter: llm.RealtimeModelFallbackAdapter
    servers: Sequence[Any]
    left: list[Any]

    async def lose(self, moment: str) -> float:
        """Bring the call to the moment at which the first server drops it; returns when."""
        if moment == "in-a-reply":
            await self.call.generate_reply(instructions="Tell a story.", wait=False)
        else:
            self.call.mic.say(1.5)
        await self.servers[0].wait_for("fault", timeout_s=30)
        at: float = self.servers[0].recording.faults[0].at
        return at

    async def taken_over_after(self, since: float, *, by: int = 1) -> float:
        """Seconds from `since` until the server with this index accepted a dial."""
        await self.servers[by].wait_for("open", timeout_s=120)
        return float(self.servers[by].dials()[0].at - since)

    async def spoken_unasked(self, *, by: int = 1, within_s: float = 30.0) -> list[HeardSegment]:
        """What the caller hears of the server with this index while nobody says a word."""
        await self.servers[by].wait_for("open", timeout_s=120)
        opened_at = self.servers[by].dials()[0].at
        await asyncio.sleep(within_s)
        started = [(segment, segment.started_at) for segment in self.call.heard.segments]
        return [segment for segment, at in started if at is not None and at >= opened_at]


@asynccontextmanager
async def calling(
    which: Which | Sequence[Which],
    order: Order,
    servers: Sequence[Any],
    *,
    cooldown: float = 10.0,
    given: Mapping[str, Any] | None = None,
    regenerates: bool = True,
    call: Mapping[str, Any] | None = None,
) -> AsyncIterator[FallbackCall]:
    """Hold a call on one model for each server.

    Args:
        which: Whose models; of each, or of all.
        order: Of the providers.
        servers: Not started.
        cooldown: Of the adapter.
        given: Keywords of each model.
        regenerates: Whether the adapter may have the next model speak.
        call: Keywords of the call.
    """
    each = [which] * len(servers) if isinstance(which, str) else which
    async with AsyncExitStack() as opened:
        for one in servers:
            await opened.enter_async_context(one)
        models = [
            _MODELS[whose, provider](**one.model_kwargs(**(given or {})))
            for whose, provider, one in zip(each, order, servers, strict=True)
        ]
        adapter = llm.RealtimeModelFallbackAdapter(
            models, cooldown=cooldown, regenerate_on_swap=regenerates
        )
        left: list[Any] = []

        def note(event: Any) -> None:
            if not event.available:
                left.append(servers[models.index(event.realtime_model)])

        adapter.on("realtime_availability_changed", note)
        held = HeadlessCall(adapter, mic=ScriptedMicrophone(frame_ms=60), **(call or {}))
        async with held:
            first = servers[0].recording
            # Nobody talks to a model that is not there yet.
            await servers[0].wait_until(
                lambda: (
                    first.count("setupComplete") or first.count("session.updated") or first.faults
                ),
                what="a model that serves",
            )
            yield FallbackCall(held, adapter, servers, left)
        assert held.close_problem is None
        assert held.leftover_tasks() == []
