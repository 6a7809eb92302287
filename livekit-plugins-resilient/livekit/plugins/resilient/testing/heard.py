"""The record of what a caller heard, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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
