"""Keeps the newest microphone audio of an outage for the connection that ends it (R15)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["GapAudio"]

_Frame = TypeVar("_Frame")


class GapAudio(Generic[_Frame]):
    """A ring of frames that no connection could take. No I/O, no clock.

    Call `keep` for each frame of an outage, then `release` once a connection can take audio, or
    `discard` where it must not be sent after all. Then ask `take_dropped_s` what was lost.

    Args:
        limit_s: Seconds of audio that are kept, above 0; None keeps none.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s or 0.0
        self._frames: deque[tuple[_Frame, float]] = deque()
        self._kept_s = 0.0
        self._dropped_s = 0.0

    def __len__(self) -> int:
        """Frames that are kept."""
        return len(self._frames)

    @property
    def kept_s(self) -> float:
        """Seconds that are kept."""
        return self._kept_s

    def keep(self, frame: _Frame, duration_s: float) -> None:
        """Add the newest frame; the oldest make room for it and count as dropped."""
        self._frames.append((frame, duration_s))
        self._kept_s += duration_s
        while self._frames and self._kept_s > self._limit_s:
            self._drop_oldest()

    def release(self) -> list[_Frame]:
        """What is kept, oldest first; the ring is empty then."""
        frames = [frame for frame, _ in self._frames]
        self._frames.clear()
        self._kept_s = 0.0
        return frames

    def discard(self) -> None:
        """Drop and count what is kept."""
        while self._frames:
            self._drop_oldest()

    def take_dropped_s(self) -> float:
        """Seconds dropped since the last call."""
        dropped_s, self._dropped_s = self._dropped_s, 0.0
        return dropped_s

    def _drop_oldest(self) -> None:
        _, duration_s = self._frames.popleft()
        # An empty ring holds nothing, whatever the rounding says.
        self._kept_s = self._kept_s - duration_s if self._frames else 0.0
        self._dropped_s += duration_s
