"""What the caller hears, told as facts: from the session's output, or from the frames taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from livekit import rtc
from livekit.agents import llm

from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.speaker import SpeakerWatch
from livekit.plugins.resilient.testing import PacedSpeaker

pytestmark = pytest.mark.virtual_time

FRAME = rtc.AudioFrame(b"\0" * 4800, 24_000, 1, 2400)


class AgentSession(rtc.EventEmitter[str]):
    """As much of an `AgentSession` as a speaker watch looks at."""

    def __init__(self, output: PacedSpeaker) -> None:
        super().__init__()
        self.output = SimpleNamespace(audio=output)

    def becomes(self, old: str, new: str) -> None:
        self.emit("agent_state_changed", SimpleNamespace(old_state=old, new_state=new))


class Activity:
    """The listener through which the session is found."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    def on_error(self, error: object) -> None:
        pass


async def no_text() -> AsyncIterator[str]:
    return
    yield


async def frames(count: int) -> AsyncIterator[rtc.AudioFrame]:
    for _ in range(count):
        yield FRAME


async def one_message(count: int) -> AsyncIterator[llm.MessageGeneration]:
    modalities: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    yield llm.MessageGeneration("m1", no_text(), frames(count), modalities)


def reply(count: int) -> llm.GenerationCreatedEvent:
    async def no_calls() -> AsyncIterator[llm.FunctionCall]:
        return
        yield

    return llm.GenerationCreatedEvent(one_message(count), no_calls(), user_initiated=False)


class Watched:
    def __init__(self, *, attached: bool) -> None:
        self.facts: list[f.Fact] = []
        self.output = PacedSpeaker()
        self.agent = AgentSession(self.output)
        self.session = rtc.EventEmitter[str]()
        if attached:
            self.session.on("error", Activity(self.agent).on_error)
        self.watch = SpeakerWatch(self.facts.append, asyncio.get_running_loop().time)

    async def play(self, count: int) -> None:
        event = reply(count)
        self.watch.watch("g1", event, self.session)
        async for message in event.message_stream:
            async for frame in message.audio_stream:
                await self.output.capture_frame(frame)
        self.output.flush()

    def kinds(self) -> list[str]:
        return [type(fact).__name__ for fact in self.facts]


async def test_the_output_tells_when_it_starts_and_how_far_it_got() -> None:
    watched = Watched(attached=True)
    await watched.play(10)
    await asyncio.sleep(2)
    assert watched.kinds() == ["PlaybackStarted", "PlaybackFinished"]
    finished = watched.facts[-1]
    assert isinstance(finished, f.PlaybackFinished)
    assert finished.generation_id == "g1"
    assert finished.heard_until_s == pytest.approx(1.0)


async def test_what_was_cleared_counts_as_far_as_it_was_heard() -> None:
    watched = Watched(attached=True)
    await watched.play(10)
    await asyncio.sleep(0.4)
    watched.output.clear_buffer()
    finished = watched.facts[-1]
    assert isinstance(finished, f.PlaybackFinished)
    assert finished.heard_until_s == pytest.approx(0.4, abs=0.02)


async def test_a_pause_and_its_end_are_told_from_the_agents_state() -> None:
    watched = Watched(attached=True)
    await watched.play(10)
    watched.agent.becomes("listening", "speaking")
    assert watched.kinds() == ["PlaybackStarted"]
    watched.agent.becomes("speaking", "listening")
    watched.agent.becomes("listening", "speaking")
    assert watched.kinds()[-2:] == ["PlaybackPaused", "PlaybackResumed"]
    await asyncio.sleep(2)
    watched.agent.becomes("speaking", "listening")
    assert watched.kinds()[-1] == "PlaybackFinished"


async def test_without_a_session_the_first_frame_taken_is_the_start() -> None:
    watched = Watched(attached=False)
    await watched.play(3)
    assert watched.kinds() == ["PlaybackStarted"]


async def test_after_detaching_nothing_is_told() -> None:
    watched = Watched(attached=True)
    await watched.play(10)
    watched.watch.detach()
    await asyncio.sleep(2)
    assert watched.kinds() == ["PlaybackStarted"]
