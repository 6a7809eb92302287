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
        (0.001, "The"),
        # "The" takes 0.3 s, so " parcel" begins there and not before.
        (0.3, "The"),
        (0.301, "The parcel"),
        (1.0, "The parcel"),
        (1.001, "The parcel left"),
        (60.0, "The parcel left"),
    ],
)
def test_a_word_counts_once_its_audio_has_begun(audio_s: float, expected: str) -> None:
    assert cut("The parcel left", audio_s) == expected


def test_the_providers_own_times_win_over_the_rate() -> None:
    deltas = [
        TranscriptDelta("slow", 0.0),
        TranscriptDelta(" start", 5.0),
        TranscriptDelta(" x", 5.4),
    ]
    assert words_with_audio(deltas, 4.9, RATE_CPS) == "slow"
    assert words_with_audio(deltas, 5.1, RATE_CPS) == "slow start"
    assert words_with_audio(deltas, 5.5, RATE_CPS) == "slow start x"


def test_scripts_without_spaces_are_cut_by_character() -> None:
    # Each character weighs three: 0.3 s at this rate.
    assert cut("今日は晴れ", 0.61) == "今日は"


def test_a_word_split_over_deltas_is_one_word() -> None:
    deltas = [TranscriptDelta("par"), TranscriptDelta("cel left")]
    assert words_with_audio(deltas, 0.1, RATE_CPS) == "parcel"


def test_progress_adds_up_what_arrived() -> None:
    progress = ReplyProgress()
    assert progress.spoken(RATE_CPS) == ""
    progress.transcribed(TranscriptDelta("one two three"))
    assert progress.spoken(RATE_CPS) == ""
    progress.received(0.2)
    progress.received(0.2)
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
    # All but the last kept word end within the audio.
    whole = kept.rsplit(" ", 1)[0] if " " in kept else ""
    assert len(whole) / rate_cps <= audio_s + 1e-9
    assert bool(kept) == (audio_s > 0)


@given(words=words, rate_cps=st.floats(1, 40), times=st.lists(st.floats(0, 60), min_size=2))
def test_more_audio_never_takes_words_back(
    words: list[str], rate_cps: float, times: list[float]
) -> None:
    deltas = [TranscriptDelta(f" {word}") for word in words]
    cuts = [len(words_with_audio(deltas, t, rate_cps)) for t in sorted(times)]
    assert cuts == sorted(cuts)
