"""16-bit mono PCM for the simulators: make it, measure it, hear speech in it.

All PCM here is little-endian signed 16-bit, one channel. Positions and durations are seconds of
audio, never wall time, so a call that runs faster than real time is heard the same way.
"""

from __future__ import annotations

import base64
import binascii
import functools
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .errors import AudioFileError

BYTES_PER_SAMPLE = 2
SPEECH_THRESHOLD = 500.0
"""Root mean square above which a window counts as speech; `speech()` is near 4000."""

FloatArray: TypeAlias = npt.NDArray[np.float64]

_URL_SAFE = str.maketrans("-_", "+/")


def duration_of(pcm: bytes, rate: int) -> float:
    """Seconds of audio in `pcm` at `rate` samples per second."""
    return len(pcm) / (BYTES_PER_SAMPLE * rate)


def silence(duration_s: float, rate: int = 24_000) -> bytes:
    """`duration_s` seconds of digital silence."""
    _check_span(duration_s, rate)
    return bytes(BYTES_PER_SAMPLE * round(duration_s * rate))


@functools.lru_cache(maxsize=128)
def speech(duration_s: float, rate: int = 24_000, seed: int = 0) -> bytes:
    """`duration_s` seconds of voice-like audio.

    A harmonic tone near 120 Hz with syllables at 4 Hz, zero mean, and loud from the first to the
    last 10 ms, so an energy detector hears one utterance. Equal arguments give equal bytes, and
    another `seed` gives other bytes, so a recording can be traced back to what was said.
    """
    _check_span(duration_s, rate)
    count = round(duration_s * rate)
    if count == 0:
        return b""
    time_s = np.arange(count) / rate
    pitch_hz = 110.0 + 7.0 * (seed % 11)
    phase = 2 * np.pi * pitch_hz * time_s + 0.37 * seed
    voice = _harmonics(phase)
    syllables = 0.65 + 0.35 * np.sin(2 * np.pi * 4.0 * time_s + 0.11 * seed)
    noise = np.random.default_rng(seed).standard_normal(count)
    signal = 4_500.0 * voice * syllables + 60.0 * noise
    signal -= signal.mean()
    pcm: bytes = np.clip(np.rint(signal), -32_768, 32_767).astype("<i2").tobytes()
    return pcm


def _harmonics(phase: FloatArray) -> FloatArray:
    """The sum of sin(k * phase) / k for k from 1 to 5, each sine made of the two before it."""
    before, sine, twice_cosine = np.zeros_like(phase), np.sin(phase), 2.0 * np.cos(phase)
    voice = sine.copy()
    for k in range(2, 6):
        before, sine = sine, twice_cosine * sine - before
        voice += sine / k
    return voice


def rms(pcm: bytes) -> float:
    """Root mean square of the samples; 0.0 for no samples. A trailing half sample is ignored."""
    samples = np.frombuffer(pcm, dtype="<i2", count=len(pcm) // BYTES_PER_SAMPLE)
    if samples.size == 0:
        return 0.0
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def is_silent(pcm: bytes) -> bool:
    """Whether there is nothing but digital silence, which most of a quiet call is."""
    return not pcm.strip(b"\0")


def resample(pcm: bytes, from_rate: int, to_rate: int) -> bytes:
    """Change the sample rate by linear interpolation: good enough for speech under test."""
    if from_rate == to_rate or not pcm:
        return pcm
    samples = np.frombuffer(pcm, dtype="<i2")
    count = round(samples.size * to_rate / from_rate)
    at = np.arange(count) * (from_rate / to_rate)
    resampled = np.interp(at, np.arange(samples.size), samples)
    converted: bytes = np.rint(resampled).astype("<i2").tobytes()
    return converted


def load_wav(path: str | Path, rate: int = 24_000) -> bytes:
    """Read a WAV file as mono PCM at `rate`; channels are averaged.

    Raises:
        AudioFileError: the file is missing, is no WAV file, or does not hold 16-bit samples.
        ValueError: `rate` is not positive.
    """
    _check_span(0.0, rate)
    path = Path(path)
    try:
        with wave.open(str(path), "rb") as reader:
            width, channels = reader.getsampwidth(), reader.getnchannels()
            source_rate = reader.getframerate()
            raw = reader.readframes(reader.getnframes())
    except FileNotFoundError:
        raise AudioFileError(f"no such WAV file: {path.name!r}") from None
    except OSError as exc:
        raise AudioFileError(f"the WAV file {path.name!r} cannot be read: {exc.strerror}") from None
    except (wave.Error, EOFError) as exc:
        reason = str(exc) or "it ends too early"
        raise AudioFileError(
            f"{path.name!r} is not a WAV file of 16-bit PCM, the only kind that is read: {reason}"
        ) from None
    if width != BYTES_PER_SAMPLE:
        raise AudioFileError(
            f"{path.name!r} holds {8 * width}-bit samples; only 16-bit PCM is read"
        )
    if channels > 1:
        whole = len(raw) // (BYTES_PER_SAMPLE * channels) * channels
        frames = np.frombuffer(raw, dtype="<i2", count=whole).reshape(-1, channels)
        raw = np.rint(frames.mean(axis=1)).astype("<i2").tobytes()
    return resample(raw, source_rate, rate)


def encode_audio(pcm: bytes) -> str:
    """Standard base64, as both providers send it."""
    return base64.b64encode(pcm).decode("ascii")


def decode_audio(text: str) -> bytes:
    """Decode standard or URL-safe base64; google-genai sends the latter.

    Raises:
        ValueError: the text is not base64 in either alphabet.
    """
    try:
        return base64.b64decode(text.translate(_URL_SAFE), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise ValueError(f"audio data is not base64: {exc}") from None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user began to speak at `at_s` seconds of received audio."""

    at_s: float


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The user's speech ended at `at_s` seconds of received audio, where the silence began."""

    at_s: float


SpeechEdge = SpeechStarted | SpeechStopped


class SpeechDetector:
    """Hears speech by energy, on audio time.

    Args:
        rate: samples per second of what is fed.
        start_s: loud audio needed before speech counts as begun.
        stop_s: quiet audio needed before speech counts as over.
        threshold: root mean square that separates loud from quiet.
    """

    WINDOW_S = 0.01

    def __init__(
        self,
        rate: int,
        *,
        start_s: float = 0.06,
        stop_s: float = 0.3,
        threshold: float = SPEECH_THRESHOLD,
    ) -> None:
        self.rate = rate
        self.start_s = start_s
        self.stop_s = stop_s
        self.speaking = False
        self._window = max(1, round(rate * self.WINDOW_S))
        self._power = threshold * threshold
        self._pending = b""
        self._windows = 0
        self._loud = 0
        self._quiet = 0

    @property
    def position_s(self) -> float:
        """Seconds of audio heard so far, in whole windows."""
        return self._windows * self._window / self.rate

    @property
    def at_rest(self) -> bool:
        """Whether nothing of an utterance was heard yet."""
        return not self.speaking and self._loud == 0

    def feed(self, pcm: bytes) -> list[SpeechEdge]:
        """Hear more audio and return the edges that it holds, oldest first."""
        data = self._pending + pcm if self._pending else pcm
        size = self._window * BYTES_PER_SAMPLE
        whole = len(data) // size
        self._pending = data[whole * size :]
        if whole == 0:
            return []
        if self.at_rest and is_silent(data):
            self._windows += whole
            self._quiet += whole
            return []
        frames = np.frombuffer(data, dtype="<i2", count=whole * self._window)
        windows = frames.reshape(whole, self._window).astype(np.float32)
        loud = (np.einsum("ij,ij->i", windows, windows) / self._window) > self._power
        edges: list[SpeechEdge] = []
        for is_loud in loud.tolist():
            self._windows += 1
            edge = self._hear(is_loud)
            if edge is not None:
                edges.append(edge)
        return edges

    def end(self) -> SpeechStopped | None:
        """End an utterance at once (the client said that its audio stream is over)."""
        if not self.speaking:
            return None
        self.reset()
        return SpeechStopped(self.position_s)

    def reset(self) -> None:
        """Forget a half-heard utterance; the position goes on."""
        self.speaking = False
        self._loud = self._quiet = 0
        self._pending = b""

    def _hear(self, is_loud: bool) -> SpeechEdge | None:
        seconds = self._window / self.rate
        if is_loud:
            self._loud += 1
            self._quiet = 0
            if not self.speaking and self._loud * seconds >= self.start_s - 1e-9:
                self.speaking = True
                return SpeechStarted(max(0.0, self.position_s - self._loud * seconds))
            return None
        self._quiet += 1
        if not self.speaking:
            self._loud = 0
        elif self._quiet * seconds >= self.stop_s - 1e-9:
            self.speaking = False
            self._loud = 0
            return SpeechStopped(self.position_s - self._quiet * seconds)
        return None


def _check_span(duration_s: float, rate: int) -> None:
    if duration_s < 0:
        raise ValueError(f"duration_s must not be negative: {duration_s}")
    if rate <= 0:
        raise ValueError(f"rate must be a positive number of samples per second: {rate}")
