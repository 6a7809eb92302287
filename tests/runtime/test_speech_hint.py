"""Whether a microphone frame sounds like speech."""

from __future__ import annotations

import pytest
from livekit import rtc

from livekit.plugins.resilient.runtime.speech_hint import LOOK_EVERY_S, SpeechHint
from livekit.plugins.resilient.testing import audio

RATE = 24_000


def frames(pcm: bytes, frame_s: float = 0.02) -> list[rtc.AudioFrame]:
    size = int(RATE * frame_s) * 2
    pieces = [pcm[i : i + size] for i in range(0, len(pcm) - size + 1, size)]
    return [rtc.AudioFrame(p, RATE, 1, len(p) // 2) for p in pieces]


def hints(pcm: bytes) -> list[bool]:
    hint = SpeechHint()
    return [hint.is_speech(frame) for frame in frames(pcm)]


def test_speech_is_hinted_a_few_times_a_second() -> None:
    found = hints(audio.speech(2.0, RATE))
    assert 5 <= sum(found) <= 2.0 / LOOK_EVERY_S


def test_silence_is_no_speech() -> None:
    assert not any(hints(audio.silence(2.0, RATE)))


def test_a_click_is_no_speech() -> None:
    click = audio.silence(0.5, RATE) + audio.speech(0.1, RATE) + audio.silence(0.5, RATE)
    assert not any(hints(click))


@pytest.mark.parametrize("level", [0.01, 0.001])
def test_the_noise_of_a_quiet_line_is_no_speech(level: float) -> None:
    loud = memoryview(audio.speech(2.0, RATE)).cast("h")
    noise = b"".join(int(s * level).to_bytes(2, "little", signed=True) for s in loud)
    assert not any(hints(noise))


def test_an_empty_frame_is_no_speech() -> None:
    assert not SpeechHint().is_speech(rtc.AudioFrame(b"", RATE, 1, 0))
