"""Which words of a reply have audio. Pure: transcript and audio positions in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["ReplyProgress", "TranscriptDelta", "words_with_audio"]

# One word, or one character of a script that is written without spaces.
_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"\s*(?:[{_CJK}]|[^\s{_CJK}]+)")

# Audio lengths are sums of sample counts; a millisecond is far below a word.
_ROUNDING_S = 0.001

# A Chinese, Japanese or Korean character takes as long to say as about three Latin ones.
_CJK_WEIGHT = 3


@dataclass(frozen=True)
class TranscriptDelta:
    """A piece of a reply's transcript.

    Attributes:
        text: The piece, with its own leading or trailing spaces.
        starts_s: Where its audio starts within the reply, in seconds, if the provider says so.
    """

    text: str
    starts_s: float | None = None


class ReplyProgress:
    """What arrived of one reply so far. Feed it every delta; ask `spoken` at a drop."""

    def __init__(self) -> None:
        self._deltas: list[TranscriptDelta] = []
        self.audio_s = 0.0

    def transcribed(self, delta: TranscriptDelta) -> None:
        """Note a piece of transcript."""
        self._deltas.append(delta)

    def received(self, duration_s: float) -> None:
        """Note `duration_s` seconds of audio."""
        self.audio_s += duration_s

    @property
    def has_output(self) -> bool:
        """Whether any audio or transcript arrived."""
        return self.audio_s > 0 or bool(self._deltas)

    def spoken(self, rate_cps: float, audio_s: float | None = None) -> str:
        """The words within the first `audio_s` seconds, by default those whose audio arrived.

        See `words_with_audio`.
        """
        limit_s = self.audio_s if audio_s is None else min(audio_s, self.audio_s)
        return words_with_audio(self._deltas, limit_s, rate_cps)


def words_with_audio(deltas: Iterable[TranscriptDelta], audio_s: float, rate_cps: float) -> str:
    """The words of `deltas` whose audio lies within the first `audio_s` seconds of a reply.

    A word counts once its audio is complete; the first one once its audio has begun, so that a
    reply of which something was heard is never empty. Where a delta has a start of its own, its
    words are placed from there; otherwise they follow the words before them at `rate_cps`,
    because providers send the transcript ahead of the audio and arrival alone says nothing.

    Args:
        deltas: The transcript, in order.
        audio_s: Seconds of audio that arrived; at most 0 gives an empty text.
        rate_cps: Characters spoken per second, above 0.
    """
    if audio_s <= 0:
        return ""
    deltas = tuple(deltas)
    text = "".join(delta.text for delta in deltas)
    words = list(_WORD.finditer(text))
    starts = _word_starts(words, _given_starts(deltas), rate_cps)
    kept = 1
    for index, word in enumerate(words):
        end_s = starts[index] + _weight(word.group()) / rate_cps
        if index + 1 < len(words):
            end_s = min(end_s, starts[index + 1])
        if end_s > audio_s + _ROUNDING_S:
            break
        kept = index + 1
    return text[: words[kept - 1].end()] if words else ""


def _word_starts(
    words: Iterable[re.Match[str]], given: dict[int, float], rate_cps: float
) -> list[float]:
    starts: list[float] = []
    at_s = 0.0
    for word in words:
        at_s = next((given[i] for i in range(*word.span()) if i in given), at_s)
        starts.append(at_s)
        at_s += _weight(word.group()) / rate_cps
    return starts


def _given_starts(deltas: Iterable[TranscriptDelta]) -> dict[int, float]:
    """Start times by the offset of the character they belong to."""
    starts: dict[int, float] = {}
    offset = 0
    for delta in deltas:
        if delta.starts_s is not None and delta.text:
            starts[offset] = delta.starts_s
        offset += len(delta.text)
    return starts


def _weight(word: str) -> int:
    return sum(_CJK_WEIGHT if re.match(f"[{_CJK}]", char) else 1 for char in word)
