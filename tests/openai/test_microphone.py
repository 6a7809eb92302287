"""What a new connection must hear: the utterance under way and the newest of the outage, once."""

from __future__ import annotations

import pytest
from livekit import rtc

from livekit.plugins.resilient.openai.microphone import Microphone

FRAME_S = 0.5


def frames(count: int) -> list[rtc.AudioFrame]:
    """As many frames of half a second."""
    return [rtc.AudioFrame(bytes(16_000), 16_000, 1, 8_000) for _ in range(count)]


def send(microphone: Microphone, sent: list[rtc.AudioFrame]) -> None:
    for frame in sent:
        microphone.sent(frame)


def test_an_utterance_goes_again_from_a_second_before_it_was_noticed() -> None:
    microphone, before, after, gap = Microphone(1.0, resends=True), *map(frames, (4, 3, 2))
    send(microphone, before)
    microphone.speech_started()
    send(microphone, after)
    for frame in gap:
        microphone.missed(frame)
    assert microphone.for_new_connection() == before[2:] + after + gap
    assert microphone.take_dropped_s() == 0


def test_an_utterance_that_is_cut_twice_goes_whole_to_the_third_connection() -> None:
    microphone, said, more = Microphone(1.0, resends=True), frames(2), frames(1)
    send(microphone, said)
    microphone.speech_started()
    send(microphone, microphone.for_new_connection())
    send(microphone, more)
    assert microphone.for_new_connection() == said + more


def test_what_was_committed_does_not_go_again() -> None:
    microphone = Microphone(1.0, resends=True)
    send(microphone, frames(2))
    microphone.speech_started()
    send(microphone, frames(2))
    microphone.turn_committed()
    assert microphone.for_new_connection() == []


def test_silence_does_not_go_again() -> None:
    microphone = Microphone(1.0, resends=True)
    send(microphone, frames(4))
    assert microphone.for_new_connection() == []


@pytest.mark.parametrize(("gap_audio_s", "kept"), [(1.0, 2), (None, 0)])
def test_of_an_outage_the_newest_is_kept_and_the_rest_counted(
    gap_audio_s: float | None, kept: int
) -> None:
    microphone, missed = Microphone(gap_audio_s, resends=True), frames(5)
    for frame in missed:
        microphone.missed(frame)
    assert microphone.for_new_connection() == missed[5 - kept :]
    assert microphone.take_dropped_s() == FRAME_S * (5 - kept)


def test_switched_off_nothing_goes_again() -> None:
    microphone = Microphone(1.0, resends=False)
    send(microphone, frames(2))
    microphone.speech_started()
    send(microphone, frames(2))
    assert microphone.for_new_connection() == []
