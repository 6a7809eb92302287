"""Which words of a reply have audio."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livekit.plugins.resilient.core.playout import (
    UNTRANSCRIBED,
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


# Against a speaker whose every word has a known place --------------------------------------------


@dataclass(frozen=True)
class Speaker:
    """A reply as it is really spoken, and as its provider sends it.

    Attributes:
        words: each with a leading space.
        lasts_s: how long each takes to say.
        lead_s: how far the transcript runs ahead of the audio; negative lags behind.
        step_s: audio per message.
    """

    words: list[str]
    lasts_s: list[float]
    lead_s: float
    step_s: float

    @property
    def ends_s(self) -> list[float]:
        return list(accumulate(self.lasts_s))

    def arrived(
        self, audio_s: float, *, timed: bool = False, complete: bool = False
    ) -> ReplyProgress:
        """What a client has noted once `audio_s` seconds of audio were sent, all within steps."""
        progress = ReplyProgress()
        starts = [0.0, *self.ends_s[:-1]]
        sent, at_s = 0, 0.0
        while True:
            while sent < len(self.words) and starts[sent] - self.lead_s <= at_s + EPSILON_S:
                start_s = starts[sent] if timed else None
                progress.transcribed(TranscriptDelta(self.words[sent], start_s))
                sent += 1
            if at_s >= audio_s - EPSILON_S:
                break
            step_s = min(self.step_s, audio_s - at_s)
            progress.received(step_s)
            at_s += step_s
        if complete:
            for word, start_s in zip(self.words[sent:], starts[sent:], strict=True):
                progress.transcribed(TranscriptDelta(word, start_s if timed else None))
            progress.completed()
        return progress

    def heard(self, audio_s: float, *, and_words: int = 0) -> str:
        """The words that end by `audio_s`, and so many more."""
        count = sum(end_s <= audio_s + 0.002 for end_s in self.ends_s)
        return "".join(self.words[: count + and_words])


EPSILON_S = 1e-9

shares = st.floats(0.01, 1.0)


def speakers(
    leads: st.SearchStrategy[float], speeds: st.SearchStrategy[float]
) -> st.SearchStrategy[Speaker]:
    """Speakers of which each word takes `speeds` times as long as at `RATE_CPS`."""

    def speaker(spoken: list[tuple[str, float]], lead_s: float, step_s: float) -> Speaker:
        texts = [f" {word}" for word, _ in spoken]
        lasts_s = [
            len(text) / RATE_CPS * speed for text, (_, speed) in zip(texts, spoken, strict=True)
        ]
        return Speaker(texts, lasts_s, lead_s, step_s)

    word = st.tuples(st.text("abc", min_size=1, max_size=8), speeds)
    return st.builds(speaker, st.lists(word, min_size=1, max_size=25), leads, st.floats(0.05, 0.5))


def require_true(speaker: Speaker, kept: str, heard_s: float) -> None:
    """Never more than was heard and one word, and never empty."""
    assert kept
    assert speaker.heard(heard_s, and_words=1).startswith(kept)


AT_MOST_AS_SLOW = st.floats(0.3, 1.0)
ANY_SPEED = st.floats(0.3, 4.0)


@given(speakers(st.floats(0.0, 20.0), AT_MOST_AS_SLOW), shares, shares)
def test_a_transcript_ahead_promises_no_word_too_many(
    speaker: Speaker, sent: float, share: float
) -> None:
    audio_s = speaker.ends_s[-1] * sent
    progress = speaker.arrived(audio_s)
    require_true(speaker, progress.spoken(RATE_CPS, audio_s * share), audio_s * share)


@given(speakers(st.just(0.0), ANY_SPEED), shares, shares)
def test_a_transcript_in_step_follows_any_speed_and_pause(
    speaker: Speaker, sent: float, share: float
) -> None:
    audio_s = speaker.ends_s[-1] * sent
    progress = speaker.arrived(audio_s)
    # Arrival is known to a message of audio, which can hold several short words.
    late_s = audio_s * share + speaker.step_s
    kept = progress.spoken(RATE_CPS, audio_s * share)
    assert speaker.heard(late_s, and_words=1).startswith(kept)


@given(speakers(st.floats(-20.0, -1.0), ANY_SPEED), shares, shares)
def test_a_transcript_that_lags_records_what_it_can_and_marks_the_rest(
    speaker: Speaker, sent: float, share: float
) -> None:
    audio_s = speaker.ends_s[-1] * sent
    progress = speaker.arrived(audio_s)
    kept = progress.heard(RATE_CPS, audio_s * share)
    if kept != UNTRANSCRIBED:
        require_true(speaker, kept, audio_s * share)
        # What has come of a transcript that follows the audio has begun to be said.
        assert progress.spoken(RATE_CPS) == progress.text


@given(speakers(st.floats(-20.0, 20.0), ANY_SPEED), shares, shares)
def test_times_of_the_provider_are_believed(speaker: Speaker, sent: float, share: float) -> None:
    audio_s = speaker.ends_s[-1] * sent
    kept = speaker.arrived(audio_s, timed=True).heard(RATE_CPS, audio_s * share)
    if kept != UNTRANSCRIBED:
        require_true(speaker, kept, audio_s * share)


@given(speakers(st.floats(-20.0, 20.0), st.just(1.0)), st.floats(0.2, 5.0), shares)
def test_a_complete_reply_is_spread_over_its_audio(
    speaker: Speaker, slowness: float, share: float
) -> None:
    lasts_s = [last_s * slowness for last_s in speaker.lasts_s]
    speaker = replace(speaker, lasts_s=lasts_s)
    whole_s = speaker.ends_s[-1]
    progress = speaker.arrived(whole_s, complete=True)
    require_true(speaker, progress.spoken(RATE_CPS, whole_s * share), whole_s * share)
    assert progress.spoken(RATE_CPS) == "".join(speaker.words)


@given(speakers(st.floats(-20.0, 20.0), ANY_SPEED), shares, st.lists(shares, min_size=2))
def test_more_heard_never_takes_words_back_however_they_arrive(
    speaker: Speaker, sent: float, heard: list[float]
) -> None:
    progress = speaker.arrived(speaker.ends_s[-1] * sent)
    cuts = [len(progress.spoken(RATE_CPS, progress.audio_s * share)) for share in sorted(heard)]
    assert cuts == sorted(cuts)


def test_what_was_heard_without_words_is_marked() -> None:
    progress = ReplyProgress()
    assert progress.heard(RATE_CPS) == ""
    progress.received(1.0)
    assert progress.heard(RATE_CPS) == UNTRANSCRIBED
    assert progress.heard(RATE_CPS, 0.0) == ""
