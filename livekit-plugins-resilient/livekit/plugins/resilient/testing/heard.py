"""The record of what a caller heard, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .audio import BYTES_PER_SAMPLE


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of loop time, from `start` to `end`."""

    start: float
    end: float

    @property
    def duration_s(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class HeardSegment:
    """What the caller heard of one playback segment (usually one message of the agent).

    Attributes:
        started_at: loop time of the first sample; None when it was cleared before playing.
        ended_at: loop time at which it was over.
        position_s: seconds heard.
        pushed_s: seconds that the agent had handed over.
        interrupted: it was cleared before its end.
        spans: when it was audible: several after a pause or a buffer that ran dry.
        pauses: when the output was held by `pause()`.
        pcm: the samples that were heard.
    """

    started_at: float | None
    ended_at: float
    position_s: float
    pushed_s: float
    interrupted: bool
    spans: tuple[Span, ...]
    pauses: tuple[Span, ...]
    pcm: bytes = field(repr=False)


@dataclass(eq=False)
class Playing:
    """A segment on its way through a speaker; `run_at` is set while it is audible."""

    rate: int
    pushed_s: float = 0.0
    played_s: float = 0.0
    flushed: bool = False
    started_at: float | None = None
    run_at: float | None = None
    spans: list[Span] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)

    @property
    def runs_dry_at(self) -> float:
        assert self.run_at is not None
        return self.run_at + self.pushed_s - self.played_s

    def stop(self, at: float) -> None:
        if self.run_at is None:
            return
        end = min(at, self.runs_dry_at)
        self.played_s = (
            self.pushed_s if end == self.runs_dry_at else self.played_s + end - self.run_at
        )
        self.spans.append(Span(self.run_at, end))
        self.run_at = None

    def heard(self, now: float, interrupted: bool) -> HeardSegment:
        samples = round(self.played_s * self.rate)
        pcm = b"".join(self.frames)[: samples * BYTES_PER_SAMPLE]
        return HeardSegment(
            self.started_at,
            now,
            self.played_s,
            self.pushed_s,
            interrupted,
            tuple(self.spans),
            tuple(self.pauses),
            pcm,
        )


def gaps_between(spans: Sequence[Span], start: float, end: float, min_s: float) -> list[Span]:
    """The stretches of at least `min_s` between two loop times that no span covers."""
    found: list[Span] = []
    at = start
    for span in spans:
        if span.start >= end:
            break
        if span.start - at >= min_s:
            found.append(Span(at, span.start))
        at = max(at, span.end)
    if end - at >= min_s:
        found.append(Span(at, end))
    return found
