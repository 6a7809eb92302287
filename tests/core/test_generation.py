"""What the caller has heard of one reply, by the clock and by its playback."""

from __future__ import annotations

from livekit.plugins.resilient.core.generation import Generation


def generation(received_s: float) -> Generation:
    made = Generation("g", 1.0)
    if received_s:
        made.add_audio(2.0, received_s)
    return made


def test_what_the_caller_has_heard_runs_with_the_clock_and_stops_where_the_audio_ends() -> None:
    reply = generation(3.0)
    assert reply.heard_s(2.0) == 0.0
    reply.heard_at = 2.0
    reply.move_speaker(2.0, 0.0, running=True)
    assert [reply.heard_s(at) for at in (2.0, 4.0, 5.0, 9.0)] == [0.0, 2.0, 3.0, 3.0]
    assert reply.heard_all_at(reply) == 5.0


def test_audio_after_the_speaker_ran_dry_is_heard_from_then_on() -> None:
    reply = generation(1.0)
    reply.heard_at = 2.0
    reply.move_speaker(2.0, 0.0, running=True)
    reply.add_audio(10.0, 2.0)
    assert reply.heard_all_at(reply) == 12.0
    assert reply.heard_s(10.5) == 1.5


def test_a_paused_speaker_holds_the_position() -> None:
    reply = generation(3.0)
    reply.heard_at = 2.0
    reply.move_speaker(2.0, 0.0, running=True)
    reply.move_speaker(3.0, reply.heard_s(3.0), running=False)
    assert reply.heard_s(99.0) == 1.0
    assert reply.heard_all_at(reply) is None
    reply.move_speaker(10.0, reply.heard_s(10.0), running=True)
    assert reply.heard_all_at(reply) == 12.0


def test_audio_without_a_playback_fact_counts_from_its_last_frame() -> None:
    assert generation(3.0).heard_all_at(None) == 5.0


def test_audio_queued_behind_another_generation_counts_from_when_that_is_through() -> None:
    ahead = Generation("first", 0.0)
    ahead.add_audio(0.0, 20.0)
    ahead.heard_at = 0.0
    ahead.move_speaker(0.0, 0.0, running=True)
    assert generation(3.0).heard_all_at(ahead) == 23.0
    ahead.move_speaker(1.0, 1.0, running=False)
    assert generation(3.0).heard_all_at(ahead) is None
    ahead.finished_at = 2.0
    assert generation(3.0).heard_all_at(ahead) == 5.0


def test_no_position_lies_beyond_the_audio_that_arrived() -> None:
    reply = generation(1.0)
    reply.move_speaker(2.0, 5.0, running=False)
    assert reply.heard_s(2.0) == 1.0
