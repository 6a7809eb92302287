"""PCM helpers: what they make is heard, what they measure is exact."""

from __future__ import annotations

import base64
import wave
from pathlib import Path

import pytest

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.audio import SpeechStarted, SpeechStopped
from livekit.plugins.resilient.testing.errors import AudioFileError


def test_speech_is_loud_throughout_and_has_no_offset() -> None:
    pcm = audio.speech(1.0, 16_000)
    assert audio.duration_of(pcm, 16_000) == 1.0
    window = 2 * 160
    quietest = min(audio.rms(pcm[at : at + window]) for at in range(0, len(pcm), window))
    assert quietest > audio.SPEECH_THRESHOLD
    samples = memoryview(pcm).cast("h")
    assert abs(sum(samples) / len(samples)) < 1.0


def test_speech_repeats_for_equal_seeds_only() -> None:
    assert audio.speech(0.1, seed=3) == audio.speech(0.1, seed=3)
    assert audio.speech(0.1, seed=3) != audio.speech(0.1, seed=4)


@pytest.mark.parametrize("make", [audio.speech, audio.silence])
def test_negative_duration_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match="duration_s must not be negative"):
        make(-1.0)


@pytest.mark.parametrize("frame_s", [0.003, 0.02, 0.05, 5.0])
def test_detector_places_edges_by_audio_time_whatever_the_frame_size(frame_s: float) -> None:
    rate = 16_000
    pcm = audio.silence(0.5, rate) + audio.speech(1.0, rate) + audio.silence(0.5, rate)
    detector = audio.SpeechDetector(rate)
    size = 2 * round(frame_s * rate)
    edges = [edge for at in range(0, len(pcm), size) for edge in detector.feed(pcm[at : at + size])]
    assert [type(edge) for edge in edges] == [SpeechStarted, SpeechStopped]
    assert [edge.at_s for edge in edges] == pytest.approx([0.5, 1.5])
    assert detector.position_s == pytest.approx(2.0)


def test_detector_ignores_a_click_and_bridges_a_short_pause() -> None:
    rate = 16_000
    detector = audio.SpeechDetector(rate)
    assert detector.feed(audio.speech(0.04, rate) + audio.silence(0.5, rate)) == []
    word, pause = audio.speech(0.3, rate), audio.silence(0.2, rate)
    edges = detector.feed(word + pause + word + audio.silence(0.4, rate))
    assert [type(edge) for edge in edges] == [SpeechStarted, SpeechStopped]


def test_detector_can_be_ended_by_the_client() -> None:
    detector = audio.SpeechDetector(16_000)
    assert detector.end() is None
    detector.feed(audio.speech(0.5, 16_000))
    ended = detector.end()
    assert ended is not None
    assert ended.at_s == pytest.approx(0.5)
    assert not detector.speaking


def test_both_base64_alphabets_decode_and_rubbish_does_not() -> None:
    raw = bytes(range(256))
    assert audio.decode_audio(base64.b64encode(raw).decode()) == raw
    assert audio.decode_audio(base64.urlsafe_b64encode(raw).decode()) == raw
    with pytest.raises(ValueError, match="not base64"):
        audio.decode_audio("!!!")


def _write_wav(path: Path, *, channels: int, width: int, rate: int, raw: bytes) -> None:
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(width)
        writer.setframerate(rate)
        writer.writeframes(raw)


def test_wav_is_mixed_down_and_resampled(tmp_path: Path) -> None:
    path = tmp_path / "stereo.wav"
    left_right = b"".join(
        value.to_bytes(2, "little", signed=True) for _ in range(8_000) for value in (1_000, 3_000)
    )
    _write_wav(path, channels=2, width=2, rate=8_000, raw=left_right)
    pcm = audio.load_wav(path, 24_000)
    assert audio.duration_of(pcm, 24_000) == 1.0
    assert set(memoryview(pcm).cast("h")) == {2_000}


def test_wav_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"no such WAV file: 'missing\.wav'"):
        audio.load_wav(tmp_path / "missing.wav")
    (tmp_path / "text.wav").write_text("hello")
    with pytest.raises(AudioFileError, match="not a WAV file of 16-bit PCM"):
        audio.load_wav(tmp_path / "text.wav")
    _write_wav(tmp_path / "eight.wav", channels=1, width=1, rate=8_000, raw=b"\x80" * 10)
    with pytest.raises(AudioFileError, match="8-bit samples; only 16-bit"):
        audio.load_wav(tmp_path / "eight.wav")
