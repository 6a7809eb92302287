"""What a new connection must hear: the utterance under way and the newest of the outage, once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from livekit import rtc

from livekit.plugins.resilient.openai.microphone import InputBuffer, Microphone

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


def test_a_sentence_that_goes_on_without_a_connection_is_kept_without_a_hole() -> None:
    microphone, said, more = Microphone(1.0, resends=True), frames(2), frames(20)
    microphone.speech_started()
    send(microphone, said)
    for frame in more:
        microphone.missed(frame)
    assert microphone.for_new_connection() == said + more
    assert microphone.take_dropped_s() == 0


def test_after_15_s_of_it_only_the_newest_of_the_outage_is_kept() -> None:
    microphone, said, more = Microphone(1.0, resends=True), frames(20), frames(20)
    microphone.speech_started()
    send(microphone, said)
    for frame in more:
        microphone.missed(frame)
    assert microphone.for_new_connection() == said + more[:10] + more[-2:]
    assert microphone.take_dropped_s() == pytest.approx(4.0)


def append(number: int) -> dict[str, Any]:
    """Half a second of audio that is known by its number."""
    audio = str(number).rjust(32_000, "A")
    return {"type": "input_audio_buffer.append", "audio": audio}


COMMIT: dict[str, Any] = {"type": "input_audio_buffer.commit"}
CLEAR: dict[str, Any] = {"type": "input_audio_buffer.clear"}


def fill(buffer: InputBuffer, *events: dict[str, Any]) -> None:
    for event in events:
        buffer.sent(event)


def test_a_commit_that_was_not_confirmed_goes_again_with_its_audio() -> None:
    buffer, other = InputBuffer(resends=True), {"type": "response.create"}
    fill(buffer, append(1), COMMIT, append(2), other, COMMIT, append(3))
    buffer.settled("commit")
    assert buffer.for_new_connection() == [append(2), COMMIT, append(3)]
    assert buffer.for_new_connection() == []


def test_what_was_cleared_is_gone() -> None:
    buffer = InputBuffer(resends=True)
    fill(buffer, append(1), CLEAR, append(2))
    buffer.settled("clear")
    assert buffer.for_new_connection() == [append(2)]


def test_a_commit_that_is_refused_takes_no_audio_with_it() -> None:
    buffer = InputBuffer(resends=True)
    fill(buffer, COMMIT, append(1), COMMIT, append(2))
    buffer.refused("commit")
    buffer.settled("commit")
    assert buffer.for_new_connection() == [append(2)]
    buffer.refused("clear")
    assert buffer.for_new_connection() == []


def test_an_answer_to_what_is_not_kept_changes_nothing() -> None:
    buffer = InputBuffer(resends=True)
    fill(buffer, append(1))
    buffer.settled("commit")
    assert buffer.for_new_connection() == [append(1)]


def test_where_it_is_switched_off_no_event_is_kept() -> None:
    buffer = InputBuffer(resends=False)
    fill(buffer, append(1), COMMIT)
    assert buffer.for_new_connection() == []


@given(st.lists(st.sampled_from(["append", "commit", "committed", "clear", "cleared", "lost"])))
def test_every_new_connection_is_sent_what_the_server_has_not_settled(steps: list[str]) -> None:
    unsettled: list[dict[str, Any]] = []
    buffer = InputBuffer(resends=True)
    for number, step in enumerate(steps):
        match step:
            case "append" | "commit" | "clear":
                event = {"append": append(number), "commit": COMMIT, "clear": CLEAR}[step]
                buffer.sent(event)
                unsettled.append(event)
            case "committed" | "cleared":
                request = COMMIT if step == "committed" else CLEAR
                buffer.settled("commit" if step == "committed" else "clear")
                if request in unsettled:
                    unsettled = unsettled[unsettled.index(request) + 1 :]
            case _:
                again = buffer.for_new_connection()
                assert len([e for e in again if e is not COMMIT and e is not CLEAR]) <= 30
                assert again == unsettled[len(unsettled) - len(again) :]
                fill(buffer, *again)
                unsettled = again


def test_what_sounds_like_speech_is_kept_while_the_server_is_silent() -> None:
    microphone, before, said = Microphone(1.0, resends=True), *map(frames, (4, 6))
    send(microphone, before)
    for frame in said:
        microphone.sent(frame)
        microphone.hinted()
    assert microphone.for_handover() == before[3:] + said


def test_a_server_that_is_alive_and_hears_nothing_is_believed() -> None:
    microphone, said = Microphone(1.0, resends=True), frames(6)
    for frame in said:
        microphone.sent(frame)
        microphone.hinted()
    microphone.server_alive()
    assert not microphone.holds_utterance
    assert microphone.for_handover() == said[-2:]


def test_an_utterance_that_the_server_hears_too_outlives_its_messages() -> None:
    microphone, said = Microphone(1.0, resends=True), frames(6)
    for frame in said:
        microphone.sent(frame)
        microphone.hinted()
    microphone.speech_started()
    microphone.server_alive()
    assert microphone.for_handover() == said


def test_a_hint_keeps_nothing_where_nothing_is_to_be_sent_again() -> None:
    microphone, said = Microphone(1.0, resends=False), frames(2)
    send(microphone, said)
    microphone.hinted()
    microphone.server_alive()
    assert microphone.for_handover() == []


def wait_for_the_first_connection(
    microphone: Microphone, waiting: list[rtc.AudioFrame], *, speaks: bool = False
) -> None:
    assert [microphone.takes(frame, speaks=speaks, serves=False) for frame in waiting] == (
        [True] * len(waiting)
    )
    assert microphone.for_new_connection() == []  # they follow by themselves


def test_speech_that_waited_for_the_first_connection_goes_again_whole() -> None:
    microphone, waiting, said = Microphone(1.0, resends=True), *map(frames, (6, 1))
    wait_for_the_first_connection(microphone, waiting, speaks=True)
    send(microphone, said)
    microphone.speech_started()
    assert microphone.for_new_connection() == waiting + said


def test_what_waited_is_no_quiet_after_the_hint_that_follows_it() -> None:
    microphone, waiting, said = Microphone(1.0, resends=True), *map(frames, (6, 3))
    wait_for_the_first_connection(microphone, waiting)
    hints = (True, False, False)  # speech is not heard in every frame of it
    taken = [microphone.takes(f, speaks=s, serves=True) for f, s in zip(said, hints, strict=True)]
    assert taken == [True] * 3
    assert microphone.for_new_connection() == waiting + said


def test_what_waited_is_forgotten_once_the_server_had_time_to_hear_it() -> None:
    microphone, waiting, said = Microphone(1.0, resends=True), *map(frames, (6, 3))
    wait_for_the_first_connection(microphone, waiting)
    send(microphone, said)
    microphone.speech_started()
    assert microphone.for_new_connection() == said[-2:]


def test_what_waited_does_not_go_to_a_later_connection_than_the_first() -> None:
    microphone = Microphone(1.0, resends=True)
    wait_for_the_first_connection(microphone, frames(2))
    assert microphone.for_new_connection() == []
    microphone.speech_started()
    assert microphone.for_new_connection() == []


def test_a_server_is_not_deaf_to_what_it_was_only_just_sent() -> None:
    microphone, said = Microphone(1.0, resends=True), frames(2)
    assert [microphone.takes(frame, speaks=True, serves=True) for frame in said] == [True, True]
    microphone.server_alive()
    assert microphone.holds_utterance
    send(microphone, frames(1))
    microphone.server_alive()
    assert not microphone.holds_utterance


def test_an_outage_sends_nothing_and_keeps_the_newest() -> None:
    microphone, missed = Microphone(1.0, resends=True), frames(3)
    wait_for_the_first_connection(microphone, [])
    assert [microphone.takes(frame, speaks=True, serves=False) for frame in missed] == [False] * 3
    assert microphone.for_new_connection() == missed[-2:]


def test_words_of_an_outage_are_missed_until_a_connection_had_time_to_hear_them() -> None:
    microphone = Microphone(1.0, resends=True)
    wait_for_the_first_connection(microphone, [])
    for frame in frames(3):
        microphone.takes(frame, speaks=True, serves=False)
    for _ in range(2):  # connections that die as soon as they stand
        send(microphone, microphone.for_new_connection())
        microphone.server_alive()
        assert microphone.words_missed
    microphone.for_new_connection()
    send(microphone, frames(4))
    microphone.server_alive()
    assert not microphone.words_missed


@pytest.mark.parametrize("heard", ["speech_started", "turn_committed"])
def test_words_of_an_outage_are_not_missed_once_a_server_hears_the_caller(heard: str) -> None:
    microphone = Microphone(1.0, resends=True)
    wait_for_the_first_connection(microphone, [])
    microphone.takes(frames(1)[0], speaks=True, serves=False)
    assert microphone.words_missed
    microphone.for_new_connection()
    getattr(microphone, heard)()
    assert not microphone.words_missed


@pytest.mark.parametrize(
    ("spoken", "dropped"), [([], False), ([4, 5], False), ([3], True), ([0, 5], True)]
)
def test_words_of_an_outage_that_are_too_old_are_known_to_be_dropped(
    spoken: list[int], dropped: bool
) -> None:
    microphone = Microphone(1.0, resends=True)
    microphone.for_new_connection()
    for _ in range(2):
        for number, frame in enumerate(frames(6)):
            microphone.takes(frame, speaks=number in spoken, serves=False)
        assert len(microphone.for_new_connection()) == 2
        assert microphone.words_dropped is dropped
    for frame in frames(6):
        microphone.takes(frame, speaks=False, serves=False)
    microphone.for_new_connection()
    assert not microphone.words_dropped
