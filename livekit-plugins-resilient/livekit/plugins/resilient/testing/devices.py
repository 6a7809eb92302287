"""A caller's ears and mouth: audio devices for an `AgentSession` that needs no room.

Both run on the event loop's clock, so that the same code is paced by real time on a normal loop and
runs as fast as the processor allows on a `VirtualTimeLoop`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from livekit import rtc
from livekit.agents.voice import io

from . import audio
from .changes import Changes
from .errors import AudioFileError, CallEndedError, ServerTimeoutError
from .heard import HeardSegment, Playing, Span, gaps_between

_EPSILON_S = 1e-6  # far below one sample; absorbs rounding of sums of frame durations
_STALL_S = 0.5  # a real-time loop that was held up longer does not get the backlog as a burst

Speech = float | int | bytes | str | Path
"""What `ScriptedMicrophone.say` takes: seconds of synthetic speech, 16-bit mono PCM at the
microphone's rate, or the path of a WAV file."""


@dataclass(eq=False)
class Utterance:
    """One thing that the caller says.

    `started_at` and `ended_at` are loop times of the first and the last sample, None until then.
    """

    pcm: bytes = field(repr=False)
    duration_s: float
    started_at: float | None = None
    ended_at: float | None = None
    _over: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _lost: Callable[[], Exception] | None = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        """Whether it was said to its end, or never will be."""
        return self._over.is_set()

    async def wait(self) -> None:
        """Return when its last sample was pushed.

        Raises:
            CallEndedError: the microphone was closed before that.
        """
        await self._over.wait()
        if self._lost is not None:
            raise self._lost()


class ScriptedMicrophone(io.AudioInput):
    """A microphone that pushes one frame per `frame_ms`: what it was told to say, else silence.

    Args:
        sample_rate: samples per second of the frames.
        frame_ms: length of a frame; 50 ms is what a room's input hands an AgentSession.
    """

    def __init__(self, *, sample_rate: int = 24_000, frame_ms: int = 50) -> None:
        if sample_rate <= 0:
            raise ValueError(f"sample_rate must be positive, not {sample_rate}")
        if not 1 <= frame_ms <= 1000:
            raise ValueError(f"frame_ms must be from 1 to 1000, not {frame_ms}")
        super().__init__(label="scripted-microphone")
        self.sample_rate = sample_rate
        self.frame_s = frame_ms / 1000
        self.utterances: list[Utterance] = []
        """Everything that was said or is still to be said, in order."""
        self.frames_pushed = 0
        self.first_frame_at: float | None = None
        self.changes = Changes()
        self._frame_samples = sample_rate * frame_ms // 1000
        self._pending: deque[Utterance] = deque()
        self._offset = 0
        self._last_at: float | None = None
        self._why_closed: Callable[[], Exception] | None = None

    @property
    def pushed_s(self) -> float:
        """Seconds of audio pushed so far, silence included."""
        return self.frames_pushed * self.frame_s

    @property
    def pending_s(self) -> float:
        """Seconds of speech that are still to be pushed."""
        rest = sum(utterance.duration_s for utterance in self._pending)
        return rest - self._offset / (audio.BYTES_PER_SAMPLE * self.sample_rate)

    def say(self, speech: Speech, *, seed: int = 0) -> Utterance:
        """Queue `speech` behind what is already queued, and return it to be awaited.

        `seed` varies the sound of synthetic speech.

        Raises:
            AudioFileError: the WAV file is not readable, or the PCM has half a sample.
            ValueError: the number of seconds is negative or not finite.
            CallEndedError: the microphone is closed.
        """
        if self._why_closed is not None:
            raise self._why_closed()
        pcm = self._pcm(speech, seed)
        utterance = Utterance(pcm, audio.duration_of(pcm, self.sample_rate))
        self.utterances.append(utterance)
        self._pending.append(utterance)
        return utterance

    def close(self, why: Callable[[], Exception] | None = None) -> None:
        """End the stream at the next frame; what was not said by then never will be.

        `why` makes the error that `Utterance.wait` and `say` raise from now on; by default a
        CallEndedError.
        """
        if self._why_closed is not None:
            return
        self._why_closed = why or (lambda: CallEndedError("the microphone was closed"))
        for utterance in self._pending:
            utterance._lost = self._why_closed
            utterance._over.set()
        self._pending.clear()
        self.changes.notify()

    async def __anext__(self) -> rtc.AudioFrame:
        if self._why_closed is not None:
            raise StopAsyncIteration
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = (now if self._last_at is None else self._last_at) + self.frame_s
        if now - due > _STALL_S:
            due = now
        # Sleeps even when late: the session's reader would starve the loop with a device that
        # never suspends.
        await asyncio.sleep(max(due - now, 0.0))
        self._last_at = due
        return self._next_frame(loop.time())

    def _pcm(self, speech: Speech, seed: int) -> bytes:
        if isinstance(speech, bytes):
            if len(speech) % audio.BYTES_PER_SAMPLE:
                raise AudioFileError(
                    f"speech must be whole 16-bit samples, not {len(speech)} bytes of PCM"
                )
            return speech
        if isinstance(speech, str | Path):
            return audio.load_wav(speech, self.sample_rate)
        if not isinstance(speech, int | float):
            raise TypeError(
                "speech must be a number of seconds, PCM bytes or the path of a WAV file, "
                f"not {type(speech).__name__}"
            )
        if not math.isfinite(speech) or speech < 0:
            raise ValueError(f"speech must be a finite number of seconds from 0, not {speech!r}")
        return audio.speech(float(speech), self.sample_rate, seed)

    def _next_frame(self, now: float) -> rtc.AudioFrame:
        size = self._frame_samples * audio.BYTES_PER_SAMPLE
        data = bytearray()
        while self._pending and len(data) < size:
            utterance = self._pending[0]
            if utterance.started_at is None:
                utterance.started_at = now - self.frame_s
            piece = utterance.pcm[self._offset : self._offset + size - len(data)]
            data += piece
            self._offset += len(piece)
            if self._offset >= len(utterance.pcm):
                self._pending.popleft()
                self._offset = 0
                utterance.ended_at = now
                utterance._over.set()
                self.changes.notify()
        self.frames_pushed += 1
        if self.first_frame_at is None:
            self.first_frame_at = now
        return rtc.AudioFrame(
            bytes(data).ljust(size, b"\0"), self.sample_rate, 1, self._frame_samples
        )


class PacedSpeaker(io.AudioOutput):
    """A loudspeaker that takes audio as fast as it comes and plays it at the loop's pace.

    It reports the start of each segment when its first sample sounds, and its end, once per
    segment, when the last one has. A buffer that runs dry stops the playback clock: late audio
    is heard late, with a gap.
    """

    def __init__(self) -> None:
        super().__init__(label="paced-speaker", capabilities=io.AudioOutputCapabilities(pause=True))
        self.segments: list[HeardSegment] = []
        """Finished segments, in the order in which they were heard."""
        self.changes = Changes()
        self._queue: deque[Playing] = deque()
        self._paused_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        """Take a frame for playback; never blocks."""
        await super().capture_frame(frame)
        self._settle()
        if not self._queue or self._queue[-1].flushed:
            self._queue.append(Playing(frame.sample_rate))
        segment = self._queue[-1]
        segment.pushed_s += frame.duration
        segment.frames.append(frame.data.tobytes())
        self._play()

    def flush(self) -> None:
        """Mark the current segment as complete."""
        super().flush()
        if self._queue and not self._queue[-1].flushed:
            self._queue[-1].flushed = True
            self._settle()

    def clear_buffer(self) -> None:
        """Stop at once; what was queued is reported as interrupted, with its real position."""
        # The base class must count what is captured from here on as a new segment.
        super().flush()
        self._settle()
        now = self._now()
        if self._queue and self._paused_at is not None:
            self._queue[0].pauses.append(Span(self._paused_at, now))
        while self._queue:
            self._queue[0].stop(now)
            self._finish(now, interrupted=True)

    def pause(self) -> None:
        """Hold the playback where it is."""
        super().pause()
        if self._paused_at is not None:
            return
        self._settle()
        self._paused_at = self._now()
        if self._queue:
            self._queue[0].stop(self._paused_at)
        self.changes.notify()

    def resume(self) -> None:
        """Go on from where `pause` held it."""
        super().resume()
        if self._paused_at is None:
            return
        if self._queue:
            self._queue[0].pauses.append(Span(self._paused_at, self._now()))
        self._paused_at = None
        self._play()

    @property
    def paused(self) -> bool:
        return self._paused_at is not None

    @property
    def playing(self) -> bool:
        """Whether the caller hears something right now."""
        self._settle()
        return bool(self._queue) and self._queue[0].run_at is not None

    @property
    def busy(self) -> bool:
        """Whether a segment is unfinished, audible or not."""
        self._settle()
        return bool(self._queue)

    def spans(self) -> list[Span]:
        """Every stretch in which the caller heard audio, until now, oldest first.

        Silence inside the audio itself counts as heard.
        """
        self._settle()
        return list(self._all_spans(self._now()))

    def heard_between(self, start: float, end: float) -> float:
        """Seconds of audio heard between two loop times."""
        return sum(max(0.0, min(s.end, end) - max(s.start, start)) for s in self.spans())

    def gaps(self, start: float, end: float, *, min_s: float = 0.001) -> list[Span]:
        """The stretches of at least `min_s` seconds between two loop times with no audio."""
        return gaps_between(self.spans(), start, end, min_s)

    def first_audio_after(self, at: float) -> float | None:
        """The first loop time from `at` on at which audio is heard, or None if there is none."""
        for span in self.spans():
            if span.end > at + _EPSILON_S:
                return max(span.start, at)
        return None

    def heard_pcm(self, after: float = -math.inf) -> bytes:
        """The samples of the finished segments that began at `after` or later, in order."""
        return b"".join(
            s.pcm for s in self.segments if s.started_at is not None and s.started_at >= after
        )

    async def wait_heard(
        self, seconds: float, *, after: float = -math.inf, timeout_s: float = 60.0
    ) -> float:
        """Return the loop time once `seconds` of audio were heard since `after`.

        Raises:
            ServerTimeoutError: they were not heard within `timeout_s` seconds.
            CallEndedError: the call that this is the loudspeaker of ended before.
        """
        deadline = self._now() + timeout_s
        while (missing_s := seconds - self.heard_between(after, self._now())) > _EPSILON_S:
            left_s = self.changes.left_s(deadline)
            if left_s <= 0:
                raise ServerTimeoutError(
                    f"the caller has not heard {seconds:g} s of audio within {timeout_s:g} s"
                )
            await self.changes.wait(min(missing_s, left_s) if self.playing else left_s)
        return self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _all_spans(self, now: float) -> Iterator[Span]:
        for segment in self.segments:
            yield from segment.spans
        for playing in self._queue:
            yield from playing.spans
            if playing.run_at is not None:
                yield Span(playing.run_at, min(now, playing.runs_dry_at))

    def _play(self) -> None:
        """Make the first segment audible if it can be, and wake up when it runs dry."""
        if self._paused_at is not None or not self._queue:
            return
        head = self._queue[0]
        if head.run_at is None:
            if head.pushed_s - head.played_s <= _EPSILON_S:
                return
            head.run_at = self._now()
            if head.started_at is None:
                head.started_at = head.run_at
                self.on_playback_started(created_at=time.time())
            self.changes.notify()
        self._arm(head.runs_dry_at)

    def _arm(self, at: float) -> None:
        # A timer that is early is re-armed when it fires: cheaper than once per frame.
        if self._timer is not None:
            if self._timer.when() <= at + _EPSILON_S:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._settle()
        self._play()

    def _settle(self) -> None:
        """Account for everything that has been played by now."""
        while self._queue:
            head = self._queue[0]
            if head.run_at is not None:
                if head.runs_dry_at > self._now() + _EPSILON_S:
                    return
                head.stop(head.runs_dry_at)
                self.changes.notify()
            if not head.flushed or head.pushed_s - head.played_s > _EPSILON_S:
                return
            self._finish(head.spans[-1].end if head.spans else self._now(), interrupted=False)
            self._play()

    def _finish(self, at: float, *, interrupted: bool) -> None:
        segment = self._queue.popleft()
        heard = segment.heard(at, interrupted)
        self.segments.append(heard)
        self.changes.notify()
        self.on_playback_finished(playback_position=heard.position_s, interrupted=interrupted)
