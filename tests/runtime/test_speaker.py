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
from livekit.plugins.resilient.runtime.speaker import SpeakerWatch
from livekit.plugins.resilient.testing import PacedSpeaker

pytestmark = pytest.mark.virtual_time

FRAME = rtc.AudioFrame(b"\0" * 4800, 24_000, 1, 2400)


class AgentSession(rtc.EventEmitter[str]):
    """As much of an `AgentSession` as a speaker watch looks at."""

    def __init__(self, output: PacedSpeaker) -> None:
        super().__init__()
        self.output = SimpleNamespace(audio=output)
        self.current_speech: object = None

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


async def messages_of(*counts: int) -> AsyncIterator[llm.MessageGeneration]:
    modalities: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    for number, count in enumerate(counts, 1):
        yield llm.MessageGeneration(f"m{number}", no_text(), frames(count), modalities)


def reply(*counts: int) -> llm.GenerationCreatedEvent:
    async def no_calls() -> AsyncIterator[llm.FunctionCall]:
        return
        yield

    return llm.GenerationCreatedEvent(messages_of(*counts), no_calls(), user_initiated=False)


class Watched:
    def __init__(self, *, attached: bool, output: PacedSpeaker | None = None) -> None:
        self.facts: list[f.Fact] = []
        self.output = output or PacedSpeaker()
        self.agent = AgentSession(self.output)
        self.session = rtc.EventEmitter[str]()
        if attached:
            self.session.on("error", Activity(self.agent).on_error)
        self.watch = SpeakerWatch(self.facts.append, asyncio.get_running_loop().time)

    async def play(self, *counts: int, reply_id: str = "g1", speech: object = None) -> None:
        """Play a reply as an agent does: one message after the other, each to its end."""
        event = reply(*counts)
        self.watch.watch(reply_id, event, self.session)
        self.agent.current_speech = speech
        async for message in event.message_stream:
            async for frame in message.audio_stream:
                await self.output.capture_frame(frame)
            self.output.flush()
            if len(counts) > 1:
                await self.output.wait_for_playout()

    async def say(self, count: int, speech: object = "say") -> None:
        """Play what is none of the model's, to its end."""
        self.agent.current_speech = speech
        async for frame in frames(count):
            await self.output.capture_frame(frame)
        self.output.flush()
        await self.output.wait_for_playout()

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
    assert finished.cut_in


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
    await asyncio.sleep(1)
    assert watched.kinds() == ["PlaybackStarted"]


async def test_after_detaching_nothing_is_told() -> None:
    watched = Watched(attached=True)
    await watched.play(10)
    watched.watch.detach()
    await asyncio.sleep(2)
    assert watched.kinds() == ["PlaybackStarted"]


async def test_what_else_is_played_is_told_of_nobody() -> None:
    watched = Watched(attached=True)
    await watched.say(5)
    await watched.play(10, speech="reply")
    await watched.output.wait_for_playout()
    told = watched.kinds()
    assert told == ["PlaybackStarted", "PlaybackFinished"]
    await watched.say(5)
    watched.watch.watch("g2", reply(3), watched.session)  # comes, and waits
    await watched.say(5)
    assert watched.kinds() == told


async def test_a_say_is_followed_that_plays_when_the_first_reply_comes() -> None:
    watched = Watched(attached=True)
    watched.agent.current_speech = "say"
    async for frame in frames(10):
        await watched.output.capture_frame(frame)
    watched.watch.watch("g1", reply(3), watched.session)
    watched.output.flush()
    await watched.output.wait_for_playout()
    assert not watched.facts
    await watched.play(10, reply_id="g2")
    await watched.output.wait_for_playout()
    assert watched.kinds() == ["PlaybackStarted", "PlaybackFinished"]


async def test_a_reply_stopped_before_its_first_frame_was_captured_lends_its_place() -> None:
    watched = Watched(attached=True)
    event = reply(10)
    watched.watch.watch("g1", event, watched.session)
    watched.agent.current_speech = "reply"
    messages = event.message_stream.__aiter__()
    message = await messages.__anext__()
    await message.audio_stream.__aiter__().__anext__()  # taken; the output never gets it
    await watched.say(28)
    assert not watched.facts


async def test_of_two_messages_the_second_goes_on_where_the_first_ended() -> None:
    watched = Watched(attached=True)
    await watched.play(10, 20)
    assert watched.kinds() == [
        "PlaybackStarted",
        "PlaybackProgressed",
        "PlaybackStarted",
        "PlaybackProgressed",  # more messages could have come
        "PlaybackFinished",
    ]
    seconds = [getattr(fact, "heard_until_s", None) for fact in watched.facts]
    assert seconds == [None, pytest.approx(1.0), None, pytest.approx(3.0), pytest.approx(3.0)]


async def test_the_second_of_two_messages_is_cut_at_its_own_place() -> None:
    watched = Watched(attached=True)
    playing = asyncio.create_task(watched.play(10, 20))
    await asyncio.sleep(1.5)
    stopped: list[tuple[str, float]] = []
    watched.watch.flush(None, lambda message_id, heard_s: stopped.append((message_id, heard_s)))
    finished = watched.facts[-1]
    assert isinstance(finished, f.PlaybackFinished)
    assert finished.heard_until_s == pytest.approx(1.5, abs=0.02)
    ((message_id, heard_s),) = stopped
    assert message_id == "m2"
    assert heard_s == pytest.approx(0.5, abs=0.02)
    await playing


async def test_a_flush_does_not_stop_what_else_is_played() -> None:
    watched = Watched(attached=True)
    await watched.play(10, speech="reply")
    await watched.output.wait_for_playout()
    saying = asyncio.create_task(watched.say(20))
    await asyncio.sleep(0.5)
    stopped: list[str] = []
    watched.watch.flush("g2", lambda message_id, _: stopped.append(message_id))
    await saying
    assert not stopped
    assert not watched.output.segments[-1].interrupted


async def test_an_output_whose_clock_runs_short_cuts_no_reply_that_it_played_to_the_end() -> None:
    class Hasty(PacedSpeaker):
        def on_playback_finished(self, *, playback_position: float, **more: Any) -> None:
            super().on_playback_finished(playback_position=playback_position / 2, **more)

    watched = Watched(attached=True, output=Hasty())
    await watched.play(10)
    await watched.output.wait_for_playout()
    finished = watched.facts[-1]
    assert isinstance(finished, f.PlaybackFinished)
    assert finished.heard_until_s == pytest.approx(1.0)


async def test_an_output_that_does_not_count_its_segments_is_not_asked() -> None:
    class Uncounted(PacedSpeaker):
        _pending_playback_count = property(lambda self: None)

    watched = Watched(attached=True, output=Uncounted())
    await watched.play(3)
    await asyncio.sleep(1)
    assert watched.kinds() == ["PlaybackStarted"]
