from __future__ import annotations

import asyncio
import math
import wave
from pathlib import Path

import pytest
from livekit import rtc
from livekit.agents.voice.io import PlaybackFinishedEvent
from livekit.agents.voice.room_io import AudioInputOptions

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.devices import PacedSpeaker, ScriptedMicrophone, Utterance
from livekit.plugins.resilient.testing.errors import AudioFileError, ServerTimeoutError
from livekit.plugins.resilient.testing.heard import Span

pytestmark = pytest.mark.virtual_time

RATE = 24_000


def frame(seconds: float, seed: int = 1) -> rtc.AudioFrame:
    pcm = audio.speech(seconds, RATE, seed)
    return rtc.AudioFrame(pcm, RATE, 1, len(pcm) // 2)


async def record(mic: ScriptedMicrophone, frames: int) -> bytes:
    return b"".join([(await mic.__anext__()).data.tobytes() for _ in range(frames)])


async def test_the_microphone_keeps_a_20_ms_pace_and_is_silent_by_itself() -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    mic = ScriptedMicrophone(sample_rate=16_000, frame_ms=20)
    pcm = await record(mic, 50)
    assert loop.time() - start == pytest.approx(1.0)
    assert pcm == bytes(16_000 * 2)
    assert mic.pushed_s == pytest.approx(1.0)
    assert mic.first_frame_at == pytest.approx(start + 0.02)


async def test_frames_are_as_long_as_those_of_a_room() -> None:
    assert ScriptedMicrophone().frame_s == AudioInputOptions().frame_size_ms / 1000


async def test_speech_comes_out_unchanged_and_is_timed() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    await record(mic, 5)
    start = asyncio.get_running_loop().time()
    first, second = mic.say(0.11, seed=3), mic.say(audio.speech(0.05, seed=4))
    pcm = await record(mic, 10)
    assert pcm == (first.pcm + second.pcm).ljust(10 * 960, b"\0")
    assert first.started_at == pytest.approx(start)
    assert first.ended_at == pytest.approx(start + 0.12)
    assert second.ended_at == pytest.approx(start + 0.16)


async def test_an_utterance_can_be_awaited_while_the_session_reads() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    reader = asyncio.ensure_future(record(mic, 100))
    loop = asyncio.get_running_loop()
    start = loop.time()
    await mic.say(0.5).wait()
    assert loop.time() - start == pytest.approx(0.5)
    await reader


async def test_the_microphone_suspends_even_when_it_is_late() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    await mic.__anext__()
    await asyncio.sleep(0.4)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(others())
    await record(mic, 10)
    assert turns >= 10
    other.cancel()


async def test_a_long_stall_is_not_made_up_for() -> None:
    loop = asyncio.get_running_loop()
    mic = ScriptedMicrophone(frame_ms=20)
    await mic.__anext__()
    await asyncio.sleep(10)
    start = loop.time()
    await record(mic, 50)
    assert loop.time() - start == pytest.approx(0.98)


async def test_a_wav_file_is_spoken(tmp_path: Path) -> None:
    path = tmp_path / "hello.wav"
    spoken = audio.speech(0.1, RATE, 7)
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(spoken)
    mic = ScriptedMicrophone(frame_ms=20)
    mic.say(path)
    assert await record(mic, 5) == spoken


async def test_a_closed_microphone_ends_the_stream() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    mic.close()
    assert [heard async for heard in mic] == []


async def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sample_rate"):
        ScriptedMicrophone(sample_rate=0)
    with pytest.raises(ValueError, match="frame_ms"):
        ScriptedMicrophone(frame_ms=0)
    for seconds in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="finite number of seconds"):
            ScriptedMicrophone(frame_ms=20).say(seconds)
    with pytest.raises(AudioFileError, match=r"missing\.wav"):
        ScriptedMicrophone(frame_ms=20).say(tmp_path / "missing.wav")


class Caller:
    """A speaker with the events it reported, and a clock that starts at zero."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.zero = self._loop.time()
        self.speaker = PacedSpeaker()
        self.started: list[float] = []
        self.finished: list[tuple[float, PlaybackFinishedEvent]] = []
        self.speaker.on("playback_started", lambda _: self.started.append(self.now))
        self.speaker.on("playback_finished", lambda ev: self.finished.append((self.now, ev)))

    @property
    def now(self) -> float:
        return round(self._loop.time() - self.zero, 6)

    def since(self, spans: list[Span] | tuple[Span, ...]) -> list[tuple[float, float]]:
        return [(round(s.start - self.zero, 6), round(s.end - self.zero, 6)) for s in spans]


async def test_a_segment_plays_at_the_pace_of_the_loop() -> None:
    caller = Caller()
    for _ in range(10):
        await caller.speaker.capture_frame(frame(0.1))
    caller.speaker.flush()
    assert caller.now == 0  # nothing blocks
    event = await caller.speaker.wait_for_playout()
    assert caller.now == pytest.approx(1.0)
    assert event.playback_position == pytest.approx(1.0)
    assert not event.interrupted
    assert caller.started == [0]
    assert len(caller.finished) == 1
    (segment,) = caller.speaker.segments
    assert segment.pcm == audio.speech(0.1, RATE, 1) * 10
    assert caller.since(segment.spans) == [(0, 1)]


async def test_late_audio_is_heard_late_with_a_gap() -> None:
    caller = Caller()
    await caller.speaker.capture_frame(frame(0.2))
    await asyncio.sleep(0.5)
    await caller.speaker.capture_frame(frame(0.3))
    caller.speaker.flush()
    await caller.speaker.wait_for_playout()
    assert caller.now == pytest.approx(0.8)
    speaker, zero = caller.speaker, caller.zero
    assert caller.since(speaker.spans()) == [(0, 0.2), (0.5, 0.8)]
    assert caller.since(speaker.gaps(zero, zero + 1)) == [(0.2, 0.5), (0.8, 1)]
    assert speaker.heard_between(zero + 0.1, zero + 0.6) == pytest.approx(0.2)
    assert speaker.first_audio_after(zero + 0.1) == pytest.approx(zero + 0.1)
    assert speaker.first_audio_after(zero + 0.2) == pytest.approx(zero + 0.5)
    assert speaker.first_audio_after(zero + 0.8) is None


async def test_clear_buffer_reports_the_real_position_once() -> None:
    caller = Caller()
    await caller.speaker.capture_frame(frame(4, seed=9))
    caller.speaker.flush()
    await asyncio.sleep(0.9)
    caller.speaker.clear_buffer()
    caller.speaker.clear_buffer()
    await asyncio.sleep(10)
    ((at, event),) = caller.finished
    assert (at, event.interrupted) == (0.9, True)
    assert event.playback_position == pytest.approx(0.9)
    (segment,) = caller.speaker.segments
    assert segment.pushed_s == pytest.approx(4)
    assert segment.pcm == audio.speech(4, RATE, 9)[: int(0.9 * RATE) * 2]


async def test_clear_buffer_with_nothing_captured_reports_nothing() -> None:
    caller = Caller()
    caller.speaker.clear_buffer()
    caller.speaker.flush()
    await asyncio.sleep(1)
    assert caller.finished == []
    assert caller.speaker.segments == []


async def test_frames_after_a_clear_are_a_segment_of_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The agent may still be forwarding when the buffer is cleared, and flushes afterwards."""
    caller = Caller()
    await caller.speaker.capture_frame(frame(1))
    caller.speaker.clear_buffer()
    await caller.speaker.capture_frame(frame(0.5))
    caller.speaker.flush()
    await asyncio.sleep(2)
    assert [(at, ev.interrupted) for at, ev in caller.finished] == [(0, True), (0.5, False)]
    assert caller.speaker.captured_playout_segments == 2
    assert "more times" not in caplog.text


async def test_a_pause_stops_the_playback_clock() -> None:
    caller = Caller()
    await caller.speaker.capture_frame(frame(1))
    caller.speaker.flush()
    await asyncio.sleep(0.3)
    caller.speaker.pause()
    caller.speaker.pause()
    await asyncio.sleep(2)
    assert caller.speaker.paused
    assert not caller.speaker.playing
    assert caller.finished == []
    caller.speaker.resume()
    await caller.speaker.wait_for_playout()
    (segment,) = caller.speaker.segments
    assert caller.since(segment.spans) == [(0, 0.3), (2.3, 3.0)]
    assert caller.since(segment.pauses) == [(0.3, 2.3)]
    assert segment.position_s == pytest.approx(1)


async def test_cleared_while_paused_the_position_is_where_it_was_held() -> None:
    caller = Caller()
    await caller.speaker.capture_frame(frame(1))
    await asyncio.sleep(0.3)
    caller.speaker.pause()
    await asyncio.sleep(2)
    caller.speaker.clear_buffer()
    ((_, event),) = caller.finished
    assert event.playback_position == pytest.approx(0.3)
    assert caller.since(caller.speaker.segments[0].pauses) == [(0.3, 2.3)]


async def test_playback_starts_only_when_it_can_be_heard() -> None:
    caller = Caller()
    caller.speaker.pause()
    await caller.speaker.capture_frame(frame(0.5))
    await asyncio.sleep(1)
    assert caller.started == []
    caller.speaker.resume()
    assert caller.started == [1]


async def test_segments_queue_and_end_in_order() -> None:
    caller = Caller()
    for seconds in (0.5, 0.25):
        await caller.speaker.capture_frame(frame(seconds))
        caller.speaker.flush()
    await caller.speaker.wait_for_playout()
    assert [at for at, _ in caller.finished] == [0.5, 0.75]
    assert caller.started == [0, 0.5]


async def test_waiting_until_so_much_was_heard() -> None:
    caller = Caller()
    waiting = asyncio.ensure_future(caller.speaker.wait_heard(0.5, after=caller.zero))
    await asyncio.sleep(1)
    await caller.speaker.capture_frame(frame(0.3))
    await asyncio.sleep(1)
    await caller.speaker.capture_frame(frame(3))
    assert await waiting == pytest.approx(caller.zero + 2.2)
    with pytest.raises(ServerTimeoutError, match=r"heard 9 s of audio within 5 s"):
        await caller.speaker.wait_heard(9, timeout_s=5)


async def test_a_condition_is_asked_at_each_change_only() -> None:
    mic = ScriptedMicrophone(frame_ms=20)
    asked = 0

    def ended() -> Utterance | None:
        nonlocal asked
        asked += 1
        return mic.utterances[0] if mic.utterances[0].ended_at else None

    utterance = mic.say(1.0)
    reader = asyncio.ensure_future(record(mic, 60))
    assert await mic.changes.until(ended, timeout_s=5, what="the end") is utterance
    assert asked == 2
    with pytest.raises(ServerTimeoutError, match=r"the moon did not happen within 3 s"):
        await mic.changes.until(lambda: None, timeout_s=3, what="the moon")
    await reader
