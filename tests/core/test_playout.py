"""Which words of a reply have audio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.playout import (
    ReplyProgress,
    TranscriptDelta,
    words_with_audio,
)

RATE_CPS = 10.0


def cut(text: str, audio_s: float) -> str:
    return words_with_audio([TranscriptDelta(text)], audio_s, RATE_CPS)


@pytest.mark.parametrize(
    ("audio_s", "expected"),
    [
        (0.0, ""),
        (-1.0, ""),
        # Something was heard, so the record is not empty.
        (0.001, "The"),
        (0.3, "The"),
        # " parcel" takes 0.7 s after the 0.3 s of "The".
        (0.99, "The"),
        (1.0, "The parcel"),
        (1.49, "The parcel"),
        (1.5, "The parcel left"),
        (60.0, "The parcel left"),
    ],
)
def test_a_word_counts_once_its_audio_is_complete(audio_s: float, expected: str) -> None:
    assert cut("The parcel left", audio_s) == expected


def test_the_providers_own_times_win_over_the_rate() -> None:
    timed = {"slow": 0.0, " start": 5.0, " x": 5.4}
    deltas = [TranscriptDelta(text, starts_s) for text, starts_s in timed.items()]
    assert words_with_audio(deltas, 5.3, RATE_CPS) == "slow"
    assert words_with_audio(deltas, 5.4, RATE_CPS) == "slow start"
    assert words_with_audio(deltas, 5.6, RATE_CPS) == "slow start x"


def test_scripts_without_spaces_are_cut_by_character() -> None:
    # Each character weighs three: 0.3 s at this rate.
    assert cut("今日は晴れ", 0.91) == "今日は"


def test_a_word_split_over_deltas_is_one_word() -> None:
    deltas = [TranscriptDelta("par"), TranscriptDelta("cel left")]
    assert words_with_audio(deltas, 0.1, RATE_CPS) == "parcel"


def test_audio_without_transcript_has_no_words() -> None:
    assert words_with_audio([], 1.0, RATE_CPS) == ""


def test_progress_adds_up_what_arrived() -> None:
    progress = ReplyProgress()
    assert progress.spoken(RATE_CPS) == ""
    progress.transcribed(TranscriptDelta("one two three"))
    assert progress.spoken(RATE_CPS) == ""
    progress.received(0.35)
    progress.received(0.35)
    assert progress.spoken(RATE_CPS) == "one two"


words = st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=30)


@given(words=words, audio_s=st.floats(0, 60), rate_cps=st.floats(1, 40))
def test_the_cut_is_a_prefix_at_a_word_and_at_most_one_word_ahead(
    words: list[str], audio_s: float, rate_cps: float
) -> None:
    text = " ".join(words)
    kept = words_with_audio([TranscriptDelta(text)], audio_s, rate_cps)
    assert text.startswith(kept)
    assert not kept or text[len(kept) : len(kept) + 1] in ("", " ")
    # All kept words but a single first one end within the audio.
    assert " " not in kept or len(kept) / rate_cps <= audio_s + 0.0011
    assert bool(kept) == (audio_s > 0)


@given(words=words, rate_cps=st.floats(1, 40), times=st.lists(st.floats(0, 60), min_size=2))
def test_more_audio_never_takes_words_back(
    words: list[str], rate_cps: float, times: list[float]
) -> None:
    deltas = [TranscriptDelta(f" {word}") for word in words]
    cuts = [len(words_with_audio(deltas, t, rate_cps)) for t in sorted(times)]
    assert cuts == sorted(cuts)
