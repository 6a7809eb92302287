"""What the caller heard of a reply, in words. Pure: transcript and audio positions in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

__all__ = ["UNTRANSCRIBED", "ReplyProgress", "TranscriptDelta", "words_with_audio"]

UNTRANSCRIBED = "[spoken, transcript lost]"
"""Stands in a record for audio that was heard and whose transcript never came."""

# One word, or one character of a script that is written without spaces.
_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"\s*(?:[{_CJK}]|[^\s{_CJK}]+)")

# Audio lengths are sums of sample counts; a millisecond is far below a word.
_ROUNDING_S = 0.001

# A Chinese, Japanese or Korean character takes as long to say as about three Latin ones.
_CJK_WEIGHT = 3

_Span = tuple[float, float]


@dataclass(frozen=True)
class TranscriptDelta:
    """A piece of a reply's transcript.

    Attributes:
        text: The piece, with its own leading or trailing spaces.
        starts_s: Where its audio starts within the reply, in seconds, if the provider says so.
        arrived_s: Seconds of the reply's audio that had arrived when it did.
    """

    text: str
    starts_s: float | None = None
    arrived_s: float = 0.0


class ReplyProgress:
    """What arrived of one reply so far.

    Feed it every delta in the order of arrival, and `completed`; ask `spoken` or `heard` at any
    time, also afterwards.
    """

    def __init__(self) -> None:
        self._deltas: list[TranscriptDelta] = []
        self.is_complete = False
        """Whether the provider sent all of it."""
        self.audio_s = 0.0
        """Seconds of audio that arrived."""

    def transcribed(self, delta: TranscriptDelta) -> None:
        """Note a piece of transcript; when it arrived is filled in."""
        self._deltas.append(replace(delta, arrived_s=self.audio_s))

    def received(self, duration_s: float) -> None:
        """Note `duration_s` seconds of audio."""
        self.audio_s += duration_s

    def completed(self) -> None:
        """Note that the provider sent all of it: the whole transcript belongs to this audio."""
        self.is_complete = True

    @property
    def has_output(self) -> bool:
        """Whether any audio or transcript arrived."""
        return self.audio_s > 0 or bool(self._deltas)

    @property
    def text(self) -> str:
        """The transcript that arrived, heard or not."""
        return "".join(delta.text for delta in self._deltas)

    def spoken(self, rate_cps: float, audio_s: float | None = None) -> str:
        """The words within the first `audio_s` seconds, by default those whose audio arrived.

        See `words_with_audio`.
        """
        limit_s = self.audio_s if audio_s is None else min(audio_s, self.audio_s)
        whole_s = self.audio_s if self.is_complete else None
        return words_with_audio(self._deltas, limit_s, rate_cps, whole_s)

    def heard(self, rate_cps: float, audio_s: float | None = None) -> str:
        """As `spoken`, for a record: `UNTRANSCRIBED` where something was heard without words."""
        if self.audio_s <= 0 or (audio_s is not None and audio_s <= 0):
            return ""
        return self.spoken(rate_cps, audio_s) or UNTRANSCRIBED


def words_with_audio(
    deltas: Iterable[TranscriptDelta],
    audio_s: float,
    rate_cps: float,
    whole_s: float | None = None,
) -> str:
    """The words of `deltas` whose audio lies within the first `audio_s` seconds of a reply.

    A word counts once its audio is complete; the first one once its audio has begun, so that a
    reply of which something was heard is never empty. Where the words lie is taken from the first
    of these that applies:

    - The provider's own start times.
    - The whole reply is known: its words are spread over its audio.
    - The transcript follows the audio: a delta lies between the arrival of the one before it and
      its own, which is never too early.
    - The transcript comes with the audio or ahead of it: a delta lies behind the words before it
      at `rate_cps`, never before its own arrival, and stretched to the arrival of the next.
      With a transcript that is far ahead, speech that is slower than `rate_cps` is placed early.

    Args:
        deltas: The transcript, in order.
        audio_s: Seconds of audio that were heard; at most 0 gives an empty text.
        rate_cps: Characters spoken per second, above 0.
        whole_s: Seconds of the reply's audio once all of it, and of the transcript, is there.
    """
    if audio_s <= 0:
        return ""
    pieces = [delta for delta in deltas if delta.text]
    text = "".join(piece.text for piece in pieces)
    words = list(_WORD.finditer(text))
    if not words or (whole_s is not None and audio_s >= whole_s - _ROUNDING_S):
        return text[: words[-1].end()] if words else ""
    ends = _ends_of_characters(pieces, _spans(pieces, rate_cps, whole_s))
    kept = 1
    while kept < len(words) and ends[words[kept].end() - 1] <= audio_s + _ROUNDING_S:
        kept += 1
    return text[: words[kept - 1].end()]


def _spans(
    pieces: Sequence[TranscriptDelta], rate_cps: float, whole_s: float | None
) -> list[_Span]:
    """Where the audio of each piece starts and ends, in order and without overlap."""
    lasts_s = [_weight(piece.text) / rate_cps for piece in pieces]
    if any(piece.starts_s is not None for piece in pieces):
        return _timed(pieces, lasts_s)
    if whole_s is not None:
        scale = whole_s / sum(lasts_s)
        ends = list(accumulate(last_s * scale for last_s in lasts_s))
        return list(zip([0.0, *ends], ends, strict=False))
    arrivals = [piece.arrived_s for piece in pieces]
    # The first piece could have been said to its end before its transcript came.
    if arrivals[0] >= lasts_s[0]:
        return list(zip([0.0, *arrivals], arrivals, strict=False))
    return _following(arrivals, lasts_s)


def _timed(pieces: Sequence[TranscriptDelta], lasts_s: Sequence[float]) -> list[_Span]:
    spans: list[_Span] = []
    at_s = 0.0
    following: list[float | None] = [piece.starts_s for piece in pieces[1:]]
    for piece, last_s, next_s in zip(pieces, lasts_s, [*following, None], strict=True):
        start_s = at_s if piece.starts_s is None else max(at_s, piece.starts_s)
        at_s = start_s + last_s
        if next_s is not None:
            at_s = max(start_s, min(at_s, next_s))
        spans.append((start_s, at_s))
    return spans


def _following(arrivals: Sequence[float], lasts_s: Sequence[float]) -> list[_Span]:
    spans: list[_Span] = []
    at_s = 0.0
    for arrived_s, next_s, last_s in zip(arrivals, [*arrivals[1:], 0.0], lasts_s, strict=True):
        start_s = max(at_s, arrived_s)
        at_s = max(start_s + last_s, next_s)
        spans.append((start_s, at_s))
    return spans


def _ends_of_characters(pieces: Sequence[TranscriptDelta], spans: Iterable[_Span]) -> list[float]:
    """Where the audio of each character ends, evenly within its piece."""
    ends: list[float] = []
    for piece, (start_s, end_s) in zip(pieces, spans, strict=True):
        weights = list(accumulate(_weight(char) for char in piece.text))
        ends.extend(start_s + (end_s - start_s) * said / weights[-1] for said in weights)
    return ends


def _weight(text: str) -> int:
    return sum(_CJK_WEIGHT if re.match(f"[{_CJK}]", char) else 1 for char in text)
