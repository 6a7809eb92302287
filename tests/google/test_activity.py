"""Turns that the server does not detect: push-to-talk, or voice detection of the application's.

Upstream takes the interruption that its own request causes for the caller, and then begins an
activity that nobody ends (livekit/agents#5408).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from google.genai import types
from livekit.agents import function_tool, vad
from livekit.plugins import google

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import HandedOver, ResilienceEvent
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    Before,
    CallAgent,
    Delay,
    Fault,
    GeminiLiveServer,
    GoAway,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    Reply,
    Send,
    ServerTimeoutError,
    ToolCall,
    TurnRequest,
)
from livekit.plugins.resilient.testing.audio import SpeechDetector, SpeechStarted
from livekit.plugins.resilient.testing.devices import Utterance

pytestmark = pytest.mark.virtual_time

STORY = Reply(
    "Once upon a time there was a caller who listened to a long story "
    "and wanted to hear all of it to the very end."
)
ANSWER = Reply("This answers what you have just asked.", first_token_s=0.4)
UNDETECTED = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
)
Detection = Literal["manual", "vad"]


class EnergyVad(vad.VAD):
    """Hears speech by energy, on audio time."""

    def __init__(self) -> None:
        super().__init__(capabilities=vad.VADCapabilities(update_interval=0.1))

    def stream(self) -> vad.VADStream:
        return _EnergyStream(self)


class _EnergyStream(vad.VADStream):
    async def _main_task(self) -> None:
        detector: SpeechDetector | None = None
        began_s = heard_s = 0.0
        async for frame in self._input_ch:
            if isinstance(frame, vad.VADStream._FlushSentinel):
                continue
            detector = detector or SpeechDetector(frame.sample_rate)
            heard_s += frame.duration
            kinds = [vad.VADEventType.INFERENCE_DONE]
            for edge in detector.feed(frame.data.tobytes()):
                began = isinstance(edge, SpeechStarted)
                began_s = edge.at_s if began else began_s
                kinds.append(
                    vad.VADEventType.START_OF_SPEECH if began else vad.VADEventType.END_OF_SPEECH
                )
            for kind in kinds:
                self._event_ch.send_nowait(
                    vad.VADEvent(
                        kind,
                        samples_index=0,
                        timestamp=heard_s,
                        speech_duration=heard_s - began_s if detector.speaking else 0.0,
                        silence_duration=0.0,
                        frames=[frame],
                        speaking=detector.speaking,
                    )
                )


@dataclass
class Stage:
    server: GeminiLiveServer
    call: HeadlessCall
    detection: Detection
    events: list[ResilienceEvent] = field(default_factory=list)

    def press(self) -> None:
        self.call._inside(self.call.session.interrupt)

    def release(self) -> None:
        self.call._inside(self.call.session.commit_user_turn)

    async def say(self, seconds: float = 1.0) -> Utterance:
        if self.detection == "manual":
            self.press()
        said = await self.call.say(seconds)
        if self.detection == "manual":
            self.release()
        return said

    async def ask(self) -> None:
        """Ask, and be answered promptly and once."""
        since = len(self.call.heard.segments)
        said = await self.say()
        assert said.ended_at is not None
        await self.call.reply(after=said.ended_at, timeout_s=30)
        await self.call.agent_done()
        (answer,) = self.call.heard.segments[since:]
        assert answer.started_at is not None
        assert answer.started_at - said.ended_at < 2.0
        assert answer.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)
        assert not answer.interrupted

    def sent(self, kind: str, connection: int | None = None) -> list[float]:
        return [frame.at for frame in self.server.recording.frames(kind, connection)]


@asynccontextmanager
async def a_call(
    *faults: Fault,
    detection: Detection = "manual",
    replies: Iterable[Any] = (),
    ours: bool = True,
    agent: CallAgent | None = None,
    family: str = "2.5",
    **keywords: Any,
) -> AsyncIterator[Stage]:
    async with GeminiLiveServer(
        replies, default_reply=ANSWER, faults=faults, family=family, strict=True, pace=1.5
    ) as server:
        events: list[ResilienceEvent] = []
        if ours:
            keywords["resilience"] = ResilienceOptions(on_event=events.append)
        make: Any = RealtimeModel if ours else google.realtime.RealtimeModel
        model = make(**server.model_kwargs(realtime_input_config=UNDETECTED, **keywords))
        options: dict[str, Any] = {"turn_handling": {"turn_detection": detection}}
        if detection == "vad":
            options["vad"] = EnergyVad()
        async with HeadlessCall(model, agent=agent, session_options=options) as call:
            await server.wait_for("setupComplete")
            yield Stage(server, call, detection, events)
            assert all(error.recoverable for error in call.errors)
        assert call.leftover_tasks() == []


# --- an interruption of our own is none (R18) ----------------------------------------------------


@pytest.mark.parametrize("detection", ["manual", "vad"])
@pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])
async def test_each_turn_is_answered_promptly(detection: Detection, family: str) -> None:
    async with a_call(detection=detection, family=family) as stage:
        stage.server.user_says("the first", "the second", "the third")
        for _ in range(3):
            await stage.ask()
        assert stage.events == []
        assert stage.call.user_texts() == ["the first", "the second", "the third"]
        assert stage.call.agent_texts() == [ANSWER.text] * 3
        assert len(stage.sent("activityStart")) == len(stage.sent("activityEnd")) == 3


async def test_a_turn_without_a_transcript_is_answered_promptly() -> None:
    async with a_call(input_audio_transcription=None) as stage:
        await stage.ask()
        await stage.ask()


async def test_the_request_that_ends_a_turn_gets_its_answer() -> None:
    """Not the reply to the end of the activity, which it cuts."""
    async with a_call() as stage:
        stage.press()
        await stage.call.say(1.0)
        request = await stage.call.generate_reply(instructions="Answer the caller.")
        assert [item.text_content for item in request.chat_items if item.type == "message"] == [
            ANSWER.text
        ]
        (answer,) = stage.call.heard.segments
        assert answer.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)


@pytest.mark.parametrize("detection", ["manual", "vad"])
async def test_upstream_never_answers(detection: Detection) -> None:
    async with a_call(detection=detection, ours=False) as stage:
        said = await stage.say()
        with pytest.raises(ServerTimeoutError):
            await stage.call.reply(after=said.ended_at, timeout_s=60)


@pytest.mark.parametrize("detection", ["manual", "vad"])
async def test_a_tool_s_result_is_told(detection: Detection) -> None:
    """The reply to it comes unasked; upstream has it interrupt itself."""
    agent = CallAgent(tool_delay_s=2.0)
    call = ToolCall("get_weather", {"city": "Paris"})
    # The first answers the activity, and is cut by the request that comes with its end.
    async with a_call(detection=detection, replies=[ANSWER, call], agent=agent) as stage:
        said = await stage.say()
        await stage.call.reply(after=said.ended_at, timeout_s=30)
        await stage.call.agent_done()
        assert [run.status for run in stage.call.tools] == ["done"]
        assert stage.call.agent_texts() == [ANSWER.text]
        assert len(stage.sent("activityStart")) == 1
        await stage.ask()


@pytest.mark.parametrize("detection", ["manual", "vad"])
async def test_a_caller_who_cuts_in_is_no_echo_of_ours(detection: Detection) -> None:
    async with a_call(detection=detection, replies=[ANSWER, STORY]) as stage:
        await stage.say()
        await stage.call.wait_heard(2.0)
        cut_at = stage.call.now
        said = await stage.say(1.5)
        answer = await stage.call.reply(after=said.ended_at, timeout_s=30)
        await stage.call.agent_done()
        story = stage.call.heard.segments[0]
        assert story.interrupted
        assert story.position_s < 2.0 + 0.8, "it stops as soon as the caller is noticed"
        assert answer.started_at is not None
        assert said.ended_at is not None
        assert answer.started_at - said.ended_at < 2.0
        first, second = stage.sent("activityStart")
        assert first < cut_at <= second
        assert stage.call.agent_texts()[0] != STORY.text
        await stage.ask()


async def test_a_short_press_is_no_echo_either() -> None:
    """The server's word that the reply is cut comes when the button is released already."""
    # The first is that of the request which tells the story.
    late = Fault(Before("interrupted", nth=2), Delay(0.2))
    async with a_call(late, replies=[ANSWER, STORY]) as stage:
        await stage.say()
        await stage.call.wait_heard(2.0)
        stage.press()
        await asyncio.sleep(0.1)
        stage.release()
        await stage.call.agent_done()
        await asyncio.sleep(20.0)
        assert [segment.interrupted for segment in stage.call.heard.segments] == [True, False]
        assert stage.call.agent_texts()[1:] == [ANSWER.text]
        await stage.ask()


# --- a held turn is the caller speaking (R8, R12) ------------------------------------------------


async def test_a_notice_waits_for_the_end_of_a_held_turn() -> None:
    async with a_call() as stage:
        await stage.ask()
        stage.press()
        await stage.call.say(1.0)
        await stage.server.do(GoAway(30.0))
        await asyncio.sleep(10.0)
        assert len(stage.server.dials()) == 1, "a pause is no end"
        await stage.call.say(1.0)
        stage.release()
        released_at = stage.call.now
        await stage.call.reply(after=released_at)
        await stage.call.agent_done()
        await stage.server.wait_for("setupComplete", connection=2)
        assert len(stage.sent("activityStart", 2)) == 0
        assert stage.call.agent_texts() == [ANSWER.text] * 2
        await stage.ask()


@pytest.mark.parametrize("when", ["at a tool", "after two presses"])
async def test_a_notice_waits_also(when: str) -> None:
    agent = CallAgent(tool_delay_s=2.0)
    replies = [ANSWER, ToolCall("get_weather", {"city": "Paris"})] if when == "at a tool" else []
    async with a_call(replies=replies, agent=agent) as stage:
        await stage.say(0.5)
        if when == "at a tool":
            await stage.server.wait_for("toolCall")
        stage.press()
        await asyncio.sleep(0.1)
        asked = len(stage.sent("clientContent"))
        await stage.server.do(GoAway(90.0))
        await asyncio.sleep(40.0)
        assert len(stage.server.dials()) == 1
        assert len(stage.sent("clientContent")) == asked, "nobody asked for a reply"
        stage.release()
        await stage.call.agent_done()
        await stage.server.wait_for("setupComplete", connection=2)
        await stage.ask()


@function_tool
async def book() -> str:
    """Book a table."""
    return "booked"


@pytest.mark.parametrize("how", ["announced", "dropped", "restarted"])
async def test_nobody_speaks_while_the_button_is_held(how: str) -> None:
    """Where the connection has to be left all the same, the turn goes on with the next one."""
    away = [Fault(OnConnection(2), HangHandshake(4.0))] if how == "dropped" else []
    async with a_call(*away) as stage:
        await stage.ask()
        turns = stage.server.script.turns
        stage.press()
        await stage.call.say(1.0)
        if how == "restarted":
            await stage.call.agent.update_tools([*stage.call.agent.tools, book])
        else:
            await stage.server.do(GoAway(8.0) if how == "announced" else Abort())
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=30)
        await asyncio.sleep(25.0)
        assert stage.server.script.turns == turns
        assert len(stage.sent("activityStart", 2)) == 1
        if how == "announced":
            assert [e.overlapped for e in stage.events if isinstance(e, HandedOver)] == [True]
        await stage.call.say(1.0)
        stage.release()
        released_at = stage.call.now
        answer = await stage.call.reply(after=released_at)
        await stage.call.agent_done()
        assert answer.position_s == pytest.approx(ANSWER.duration_s, abs=0.1)
        assert stage.call.dead_air(after=released_at) < 2.0
        await stage.ask()


async def test_captions_of_a_held_turn_do_not_end_it() -> None:
    async with a_call() as stage:
        await stage.ask()
        stage.press()
        await stage.call.say(1.0)
        caption = {"serverContent": {"inputTranscription": {"text": " my number is"}}}
        await stage.server.do(Send(caption), GoAway(60.0))
        await asyncio.sleep(40.0)
        assert len(stage.server.dials()) == 1
        assert len(stage.sent("clientContent")) == 1, "nobody asked for a reply"
        stage.server.user_says("five five five")
        stage.release()
        released_at = stage.call.now
        await stage.call.reply(after=released_at)
        await stage.call.agent_done()
        assert stage.call.dead_air(after=released_at) < 2.0
        assert stage.call.user_texts()[1:] == ["my number is five five five"]
        await stage.ask()


async def test_upstream_waits_for_ever_where_captions_come_early() -> None:
    async with a_call(ours=False) as stage:
        stage.press()
        await stage.call.say(1.0)
        caption = {"serverContent": {"inputTranscription": {"text": " my number is"}}}
        await stage.server.do(Send(caption))
        await asyncio.sleep(1.0)
        stage.release()
        await asyncio.sleep(60.0)
        assert stage.sent("activityEnd") == []


# --- a turn that ends while nobody serves (R15) --------------------------------------------------


async def test_a_turn_within_an_outage_is_answered_after_it() -> None:
    async with a_call(Fault(OnConnection(2), HangHandshake(2.0))) as stage:
        await stage.ask()
        await stage.server.do(Abort())
        await asyncio.sleep(0.2)
        stage.press()
        said = await stage.call.say(0.6)
        stage.release()
        await stage.server.wait_for("setupComplete", connection=2)
        connected_at = stage.call.now
        answer = await stage.call.reply(after=said.ended_at, timeout_s=30)
        await stage.call.agent_done()
        assert answer.started_at is not None
        assert answer.started_at - connected_at < 1.0
        kinds = [frame.kind for frame in stage.server.recording.frames(connection=2)]
        begins, ends = kinds.index("activityStart"), kinds.index("activityEnd")
        heard_s = sum(
            frame.audio_s for frame in stage.server.recording.frames(connection=2)[begins:ends]
        )
        assert 0.55 < heard_s < 0.9, "all of it, and little that came before"
        await stage.ask()


async def test_a_turn_whose_beginning_is_lost_is_asked_for_again() -> None:
    """It began on the connection that dropped, and ended before the next one served."""
    async with a_call(Fault(OnConnection(2), HangHandshake(3.0))) as stage:
        heard: list[TurnRequest] = []

        def answer(request: TurnRequest) -> Reply:
            heard.append(request)
            return ANSWER

        await stage.ask()
        stage.server.script.default_reply = answer
        stage.press()
        await stage.call.say(2.0)
        await stage.server.do(Abort())
        await stage.call.say(0.4)
        stage.release()
        await stage.server.wait_for("setupComplete", connection=2)
        connected_at = stage.call.now
        await stage.call.reply(after=connected_at, timeout_s=30)
        await stage.call.agent_done()
        assert "say it again" in heard[-1].user_text
        assert stage.call.dead_air(after=connected_at) < 1.0
        stage.server.script.default_reply = ANSWER
        await stage.ask()
