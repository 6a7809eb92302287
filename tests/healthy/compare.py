"""What differs between two observations, told so that a person can find the place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .observe import CHANNELS, Observation, Seen

TOLERANCE_S = 0.05
"""Virtual seconds that the same thing may differ by in two runs: less than one microphone frame of
the calls here. On virtual time the same code is exact; ours may take a turn of the loop more."""

_LOOK_AHEAD = 12
"""How many entries only one side may have before the rest is given up as different."""

_AGREE = 2
"""Entries that must agree in a row before both sides count as being at the same place again."""

BY_KIND = frozenset({"events", "model events"})
"""Channels in which only things of one kind have an order. Metrics and a change of state come from
tasks of their own; which is first, when a burst brings both, is decided by the kernel's pieces."""

MISSING = "(nothing)"


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it is with upstream's model.

    Attributes:
        channel: where; one of `CHANNELS`, or "decisions".
        label: of the entry, as in `Seen`.
        path: place in its data, as in ".setup.tools[0]"; "" for the whole entry, "@" for its time.
        upstream: what upstream has there.
        ours: what we have there.
        place: number of the entry in its channel, for a reader.
        at: seconds since the run began, where the entry has a time.
        entry: all of our entry's data, where both sides have it.
    """

    channel: str
    label: str
    path: str
    upstream: Any
    ours: Any
    place: int = 0
    at: float | None = None
    entry: Any = None

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {self.at:.2f} s"
        where = f"{self.channel}[{self.place}] {self.label!r}{self.path}{when}"
        return f"{where}: upstream {_short(self.upstream)}, ours {_short(self.ours)}"


def compare(upstream: Observation, ours: Observation) -> list[Difference]:
    """Every difference, by channel; a channel that cannot be aligned again ends with one."""
    found: list[Difference] = []
    for channel in CHANNELS:
        theirs, own = upstream.channels[channel], ours.channels[channel]
        if channel not in BY_KIND:
            found += _sequences(channel, theirs, own)
            continue
        for kind in dict.fromkeys(seen.label for seen in (*theirs, *own)):
            found += _sequences(
                channel,
                [seen for seen in theirs if seen.label == kind],
                [seen for seen in own if seen.label == kind],
            )
    return found


def _sequences(channel: str, theirs: Sequence[Seen], own: Sequence[Seen]) -> Iterator[Difference]:
    i = j = 0
    while i < len(theirs) or j < len(own):
        if i < len(theirs) and j < len(own) and theirs[i].label == own[j].label:
            yield from _entries(channel, theirs[i], own[j], j)
            i, j = i + 1, j + 1
            continue
        skip = _realign(theirs[i:], own[j:])
        if skip is None:
            first = own[j] if j < len(own) else theirs[i]
            yield Difference(
                channel, first.label, "", _labels(theirs[i:]), _labels(own[j:]), j, first.at
            )
            return
        for seen in theirs[i : i + skip[0]]:
            yield Difference(channel, seen.label, "", _content(seen), MISSING, j, seen.at)
        for place, seen in enumerate(own[j : j + skip[1]], start=j):
            yield Difference(channel, seen.label, "", MISSING, _content(seen), place, seen.at)
        i, j = i + skip[0], j + skip[1]


def _realign(theirs: Sequence[Seen], own: Sequence[Seen]) -> tuple[int, int] | None:
    """How many entries each side has of its own here; the fewest in all."""
    for both in range(1, _LOOK_AHEAD + 1):
        for left in range(both + 1):
            right = both - left
            if left <= len(theirs) and right <= len(own):
                ahead, behind = theirs[left : left + _AGREE], own[right : right + _AGREE]
                if [seen.label for seen in ahead] == [seen.label for seen in behind]:
                    return left, right
    return None


def _entries(channel: str, theirs: Seen, own: Seen, place: int) -> Iterator[Difference]:
    if (theirs.at is None) != (own.at is None) or (
        theirs.at is not None and own.at is not None and abs(theirs.at - own.at) > TOLERANCE_S
    ):
        yield Difference(channel, own.label, "@", theirs.at, own.at, place, own.at)
    for path, left, right in differing(theirs.data, own.data):
        yield Difference(channel, own.label, path, left, right, place, own.at, own.data)


def differing(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The innermost places at which two plain values differ; times and spans within tolerance."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in {**left, **right}:
            yield from differing(left.get(key, MISSING), right.get(key, MISSING), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            yield from differing(
                left[index] if index < len(left) else MISSING,
                right[index] if index < len(right) else MISSING,
                f"{path}[{index}]",
            )
    elif isinstance(left, float) and isinstance(right, float):
        if not math.isclose(left, right, rel_tol=0.01, abs_tol=TOLERANCE_S):
            yield path, left, right
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield path, left, right


def _content(seen: Seen) -> Any:
    return "an entry" if seen.data is None else seen.data


def _labels(rest: Sequence[Seen]) -> str:
    return " > ".join(seen.label for seen in rest[:5]) or MISSING


def _short(value: Any) -> str:
    text = value if value == MISSING else repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
