"""HeadlessCall against a model that fits on a page, so that only the call itself is under test."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from livekit import rtc
from livekit.agents import Agent, llm
from livekit.agents.types import NOT_GIVEN, NotGivenOr
from livekit.agents.utils import aio

from livekit.plugins.resilient.testing import audio, virtual_time
from livekit.plugins.resilient.testing.call import HeadlessCall
from livekit.plugins.resilient.testing.call_agent import CallAgent
from livekit.plugins.resilient.testing.call_log import ErrorSeen, SessionClosed, StateChanged
from livekit.plugins.resilient.testing.errors import ServerTimeoutError

RATE = 24_000


class FakeModel(llm.RealtimeModel):
    """Says "hello there" for `reply_s` seconds whenever it is asked or spoken to."""

    def __init__(self, *, reply_s: float = 2.0) -> None:
        able = dict.fromkeys(
            ("audio_output", "message_truncation", "turn_detection", "user_transcription"), True
        )
        unable = dict.fromkeys(("auto_tool_reply_generation", "manual_function_calls"), False)
        super().__init__(capabilities=llm.RealtimeCapabilities(**able, **unable))
        self.reply_s = reply_s
        self.calls: deque[llm.FunctionCall] = deque()
        self.truncated_ms: list[int] = []
        self.close_delay_s = 0.0
        self.close_error: Exception | None = None
        self.closed = False
        self.live: FakeSession | None = None

    def session(self, *, turn_detection_disabled: bool = False) -> llm.RealtimeSession[Any]:
        self.live = FakeSession(self)
        return self.live

    async def aclose(self) -> None:
        self.closed = True


class FakeSession(llm.RealtimeSession[Any]):
    def __init__(self, model: FakeModel) -> None:
        super().__init__(model)
        self._fake = model
        self._chat_ctx = llm.ChatContext.empty()
        self._ears = audio.SpeechDetector(RATE)
        self._tools = llm.ToolContext([])
        self._number = 0
        self._worker = asyncio.create_task(asyncio.Event().wait(), name="fake-worker")

    @property
    def chat_ctx(self) -> llm.ChatContext:
        return self._chat_ctx.copy()

    @property
    def tools(self) -> llm.ToolContext:
        return self._tools.copy()

    async def update_instructions(self, instructions: str) -> None: ...

    async def update_chat_ctx(self, chat_ctx: llm.ChatContext) -> None:
        self._chat_ctx = chat_ctx.copy()

    async def update_tools(self, tools: list[llm.Tool]) -> None:
        self._tools = llm.ToolContext(tools)

    def update_options(self, *, tool_choice: NotGivenOr[Any] = NOT_GIVEN) -> None: ...

    def push_audio(self, frame: rtc.AudioFrame) -> None:
        for edge in self._ears.feed(frame.data.tobytes()):
            if isinstance(edge, audio.SpeechStarted):
                self.emit("input_speech_started", llm.InputSpeechStartedEvent())
            else:
                self.emit("input_speech_stopped", llm.InputSpeechStoppedEvent(True))
                self._number += 1
                self.emit(
                    "input_audio_transcription_completed",
                    llm.InputTranscriptionCompleted(f"user_{self._number}", "good day", True),
                )
                self.emit("generation_created", self._generation(requested=False))

    def push_video(self, frame: rtc.VideoFrame) -> None: ...

    def generate_reply(self, **_: Any) -> asyncio.Future[llm.GenerationCreatedEvent]:
        future = asyncio.get_running_loop().create_future()
        generation = self._generation(requested=True)
        future.set_result(generation)
        self.emit("generation_created", generation)
        return future

    def _generation(self, *, requested: bool) -> llm.GenerationCreatedEvent:
        self._number += 1
        messages: aio.Chan[llm.MessageGeneration] = aio.Chan()
        functions: aio.Chan[llm.FunctionCall] = aio.Chan()
        if self._fake.calls:
            functions.send_nowait(self._fake.calls.popleft())
        else:
            modalities = asyncio.get_running_loop().create_future()
            modalities.set_result(["audio", "text"])
            pcm = audio.speech(self._fake.reply_s, RATE, self._number)
            messages.send_nowait(
                llm.MessageGeneration(
                    f"item_{self._number}", _stream("hello there"), _frames(pcm), modalities
                )
            )
        messages.close()
        functions.close()
        return llm.GenerationCreatedEvent(messages, functions, requested, f"r{self._number}")

    def commit_audio(self) -> None: ...

    def clear_audio(self) -> None: ...

    def interrupt(self) -> None: ...

    def truncate(self, *, audio_end_ms: int, **_: Any) -> None:
        self._fake.truncated_ms.append(audio_end_ms)

    async def aclose(self) -> None:
        await asyncio.sleep(self._fake.close_delay_s)
        self._worker.cancel()
        if self._fake.close_error is not None:
            raise self._fake.close_error

    def fail(self, error: Exception, *, recoverable: bool) -> None:
        event = llm.RealtimeModelError(
            error=error, recoverable=recoverable, label="fake", timestamp=time.time()
        )
        self.emit("error", event)


async def _stream(text: str) -> AsyncIterator[str]:
    yield text


async def _frames(pcm: bytes) -> AsyncIterator[rtc.AudioFrame]:
    for start in range(0, len(pcm), 4800):
        piece = pcm[start : start + 4800]
        yield rtc.AudioFrame(piece, RATE, 1, len(piece) // 2)


@pytest.mark.virtual_time
async def test_a_greeting_is_heard_at_the_pace_of_the_call() -> None:
    model = FakeModel(reply_s=2.0)
    async with HeadlessCall(model) as call:
        began = call.now
        handle = await call.generate_reply(instructions="greet")
        assert handle.exception() is None
        (segment,) = call.heard.segments
        assert segment.position_s == pytest.approx(2.0)
        assert call.now - began == pytest.approx(2.0, abs=0.1)
        assert segment.pcm == audio.speech(2.0, RATE, 1)
        assert call.agent_texts() == ["hello there"]
        assert call.captions.segments == ["hello there"]
        await call.agent_done()
    assert model.closed
    assert call.close_problem is None
    assert call.leftover_tasks() == []


@pytest.mark.virtual_time
async def test_a_spoken_turn_is_answered() -> None:
    async with HeadlessCall(FakeModel()) as call:
        said = await call.say(1.0)
        reply = await call.reply()
        assert said.ended_at is not None
        assert reply.started_at is not None
        # The detector needs 0.3 s of silence.
        assert reply.started_at - said.ended_at == pytest.approx(0.3, abs=0.05)
        assert call.dead_air(after=said.ended_at) == pytest.approx(0.3, abs=0.05)
        assert call.user_texts() == ["good day"]
        await call.agent_done()
        states = [(e.who, e.new) for e in call.events if isinstance(e, StateChanged)]
        assert states == [
            ("agent", "listening"),
            ("user", "speaking"),
            ("user", "listening"),
            ("agent", "speaking"),
            ("agent", "listening"),
        ]


@pytest.mark.virtual_time
async def test_a_barge_in_cuts_what_was_heard() -> None:
    model = FakeModel(reply_s=5.0)
    async with HeadlessCall(model) as call:
        handle = await call.generate_reply(wait=False)
        await call.wait_heard(1.0)
        await call.say(0.5)
        first = call.heard.segments[0]
        assert first.interrupted
        assert handle.interrupted
        assert first.position_s == pytest.approx(1.08, abs=0.05)
        assert model.truncated_ms == [pytest.approx(first.position_s * 1000, abs=1)]
        assert call.history[0].interrupted
        second = await call.reply()
        assert second.position_s == pytest.approx(5.0)


@pytest.mark.virtual_time
async def test_tools_are_recorded_with_their_times() -> None:
    model = FakeModel(reply_s=1.0)
    model.calls.append(
        llm.FunctionCall(call_id="c1", name="get_weather", arguments='{"city": "Paris"}')
    )
    agent = CallAgent(weather=lambda city: f"rain in {city}", tool_delay_s=0.7)
    async with HeadlessCall(model, agent=agent) as call:
        await call.generate_reply()
        await call.agent_done()
        (run,) = call.tools
        assert (run.call_id, run.name, run.args) == ("c1", "get_weather", {"city": "Paris"})
        assert (run.status, run.result) == ("done", "rain in Paris")
        assert run.ended_at is not None
        assert run.ended_at - run.started_at == pytest.approx(0.7)
        kinds = [(item.kind, item.text) for item in call.history]
        assert ("function_call", 'get_weather({"city": "Paris"})') in kinds
        assert ("function_call_output", "rain in Paris") in kinds
        assert call.agent_texts() == ["hello there"]


@pytest.mark.virtual_time
async def test_errors_come_in_order_and_a_fatal_one_closes_the_session() -> None:
    model = FakeModel()
    first, last = RuntimeError("first"), RuntimeError("last")
    async with HeadlessCall(model) as call:
        assert model.live is not None
        model.live.fail(first, recoverable=True)
        await call.wait_error(recoverable=True)
        assert call.closed is None
        model.live.fail(last, recoverable=False)
        await call.until(lambda: call.closed, what="the close")
        told = [e for e in call.events if isinstance(e, ErrorSeen | SessionClosed)]
        assert [type(e).__name__ for e in told] == ["ErrorSeen", "ErrorSeen", "SessionClosed"]
        assert [e.error for e in told] == [first, last, last]
    assert call.leftover_tasks() == []


@pytest.mark.virtual_time
async def test_hanging_up_is_bounded_and_never_raises() -> None:
    model = FakeModel()
    model.close_delay_s = 1000
    async with HeadlessCall(model, close_timeout_s=3) as call:
        began = call.now
    assert call.now - began == pytest.approx(3.0, abs=1.1)
    assert isinstance(call.close_problem, TimeoutError)

    model = FakeModel()
    model.close_error = RuntimeError("broken")
    async with HeadlessCall(model) as call:
        pass
    assert call.close_problem is model.close_error
    assert model.closed


@pytest.mark.virtual_time
async def test_a_task_that_outlives_the_call_is_named() -> None:
    class Forgetful(Agent):
        async def on_enter(self) -> None:
            self.forgotten = asyncio.create_task(asyncio.Event().wait(), name="forgotten")

    agent = Forgetful(instructions="")
    mine = asyncio.create_task(asyncio.Event().wait(), name="not of the call")
    async with HeadlessCall(FakeModel(), agent=agent) as call:
        await call.agent_done()
    assert call.leftover_tasks() == ["forgotten"]
    agent.forgotten.cancel()
    mine.cancel()


@pytest.mark.virtual_time
async def test_options_reach_the_session() -> None:
    options = {"user_away_timeout": 2.0}
    async with HeadlessCall(FakeModel(), session_options=options) as call:
        await call.until(
            lambda: any(isinstance(e, StateChanged) and e.new == "away" for e in call.events),
            timeout_s=3,
            what="the user being away",
        )


@pytest.mark.virtual_time
async def test_what_does_not_happen_is_named() -> None:
    async with HeadlessCall(FakeModel()) as call:
        with pytest.raises(ServerTimeoutError, match=r"a reply that was heard.* within 5 s"):
            await call.reply(timeout_s=5)
        assert call.dead_air(after=call.now - 1) == call.dead_air() == math.inf
        assert call.dead_air(after=call.now - 1, until=call.now) == pytest.approx(1)


async def test_bad_input_is_named() -> None:
    with pytest.raises(TypeError, match=r"model must be an llm\.RealtimeModel, not str"):
        HeadlessCall("gpt-realtime")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="close_timeout_s must be positive"):
        HeadlessCall(FakeModel(), close_timeout_s=0)
    with pytest.raises(RuntimeError, match="has not started"):
        await HeadlessCall(FakeModel()).generate_reply()


def test_forty_calls_share_a_loop() -> None:
    async def one() -> float:
        async with HeadlessCall(FakeModel(reply_s=1.0)) as call:
            await call.generate_reply()
            await call.say(0.5)
            await call.reply()
            return sum(segment.position_s for segment in call.heard.segments)

    async def main() -> list[float]:
        return await asyncio.gather(*(one() for _ in range(40)))

    assert virtual_time.run(main()) == [pytest.approx(2.0)] * 40


async def test_the_same_call_runs_in_real_time() -> None:
    async with HeadlessCall(FakeModel(reply_s=0.3)) as call:
        began = time.monotonic()
        await call.generate_reply()
        await call.agent_done()
        assert time.monotonic() - began > 0.25
        assert call.heard.segments[0].position_s == pytest.approx(0.3)
