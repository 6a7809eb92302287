"""What the simulated OpenAI server hears, and what it does about it."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.openai import OpenAIRealtimeServer
from livekit.plugins.resilient.testing.openai.peer import OpenAIPeer, types_of
from livekit.plugins.resilient.testing.script import Reply, TurnRequest, TurnSource

pytestmark = pytest.mark.virtual_time

RATE = 24_000
SERVER_VAD = {"type": "server_vad", "silence_duration_ms": 500, "prefix_padding_ms": 300}
TRANSCRIPTION = "conversation.item.input_audio_transcription"


async def test_a_spoken_turn_in_recorded_order_on_audio_time() -> None:
    requests: list[TurnRequest] = []

    def answer(request: TurnRequest) -> str:
        requests.append(request)
        return "Hi."

    async with OpenAIRealtimeServer([answer]) as server, OpenAIPeer(server) as peer:
        server.user_says("good morning")
        await peer.turn_detection(SERVER_VAD)
        await peer.send_audio(audio.silence(1.0, RATE))
        await peer.speak(0.8, quiet_s=0.7)
        events = await peer.until("response.created")
        assert types_of(events) == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "response.created",
        ]
        started, stopped, committed, added = events[:4]
        assert started["audio_start_ms"] == 700  # 1.0 s of silence less the prefix
        assert stopped["audio_end_ms"] == 2300  # the end of the silence that was needed
        assert started["item_id"] == committed["item_id"] == added["item"]["id"]
        assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
        rest = await peer.until(f"{TRANSCRIPTION}.completed")
        deltas = [e["delta"] for e in rest if e["type"] == f"{TRANSCRIPTION}.delta"]
        assert "".join(deltas) == rest[-1]["transcript"] == "good morning"
        (request,) = requests
        assert (request.reason, request.user_text) == ("speech", "good morning")
        heard = server.session.items[0]
        assert audio.speech(0.8, RATE) in heard.pcm
        assert heard.audio_ms == pytest.approx(1600, abs=60)  # prefix, speech, silence
        assert server.recording.audio_seconds() == pytest.approx(2.5)
        assert server.session.appended_s == pytest.approx(2.5)


async def test_pieces_of_any_size_are_heard_alike() -> None:
    pcm = audio.silence(0.2, RATE) + audio.speech(0.5, RATE) + audio.silence(0.6, RATE)
    marks = []
    for size in (320, 4_801, len(pcm)):
        async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
            await peer.turn_detection(SERVER_VAD)
            whole = size - size % 2
            for at in range(0, len(pcm), whole):
                piece = audio.encode_audio(pcm[at : at + whole])
                await peer.send("input_audio_buffer.append", audio=piece)
            events = await peer.until("input_audio_buffer.speech_stopped")
            marks.append((events[0]["audio_start_ms"], events[-1]["audio_end_ms"]))
    assert marks == [(0, 1200)] * 3


async def test_semantic_vad_ends_a_turn_by_eagerness() -> None:
    ends = {}
    for eagerness in ("high", "low"):
        async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
            await peer.turn_detection({"type": "semantic_vad", "eagerness": eagerness})
            await peer.speak(0.5)
            stopped = (await peer.until("input_audio_buffer.speech_stopped"))[-1]
            ends[eagerness] = stopped["audio_end_ms"]
    assert ends == {"high": 700, "low": 1100}


async def test_without_turn_detection_nothing_happens_until_a_commit() -> None:
    async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
        await peer.turn_detection(None)
        await peer.send_audio(audio.speech(0.05, RATE))
        await peer.send("input_audio_buffer.commit")
        error = await peer.error()
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert "only has 50.00ms" in error["message"]
        await peer.speak(0.5)
        await peer.send("input_audio_buffer.commit")
        events = await peer.until(f"{TRANSCRIPTION}.completed")
        assert not any("speech" in name or "response" in name for name in types_of(events))
        (item,) = server.session.items
        assert item.audio_ms == 1350
        await peer.send("input_audio_buffer.commit")
        assert (await peer.error())["code"] == "input_audio_buffer_commit_empty"
        await peer.send_audio(audio.speech(0.5, RATE))
        await peer.send("input_audio_buffer.clear")
        await peer.until("input_audio_buffer.cleared")
        await peer.send("input_audio_buffer.commit")
        assert "only has 0.00ms" in (await peer.error())["message"]


async def speak_into_a_reply(**flags: Any) -> tuple[list[str], dict[str, Any]]:
    """Speak while a reply is generated; the events after it, and the reply's end."""
    replies: list[TurnSource] = [Reply("a long answer " * 10), "Short."]
    async with (
        OpenAIRealtimeServer(replies, pace="realtime") as server,
        OpenAIPeer(server, timeout_s=60) as peer,
    ):
        await peer.turn_detection({**SERVER_VAD, **flags})
        await peer.send("response.create")
        await server.wait_for("response.output_audio.delta", count=10)
        seen = len(peer.received)
        await peer.speak(0.5)
        await peer.until("input_audio_buffer.committed")
        while not any(m["type"] == "response.done" for m in peer.received):
            await peer.receive()
        done = next(m for m in peer.received if m["type"] == "response.done")
        await server.wait_until(lambda: not server.generating, timeout_s=60)
        await peer.configure()
        names = types_of(peer.received[seen:])
        response: dict[str, Any] = done["response"]
        return names, response


async def test_speech_cancels_the_response_that_goes_on() -> None:
    names, done = await speak_into_a_reply()
    assert done["status"] == "cancelled"
    assert done["status_details"]["reason"] == "turn_detected"
    assert names.index("input_audio_buffer.speech_started") < names.index("response.done")
    assert names.index("response.done") < names.index("input_audio_buffer.speech_stopped")
    assert "response.created" in names[names.index("input_audio_buffer.committed") :]


async def test_interrupt_response_off_lets_the_response_go_on() -> None:
    names, done = await speak_into_a_reply(interrupt_response=False, create_response=False)
    assert done["status"] == "completed"
    assert "error" not in names


async def test_create_response_off_leaves_the_answer_to_the_client() -> None:
    names, done = await speak_into_a_reply(create_response=False)
    assert done["status"] == "cancelled"
    assert "response.created" not in names[names.index("input_audio_buffer.committed") :]


async def test_an_answer_that_cannot_begin_says_so() -> None:
    names, done = await speak_into_a_reply(interrupt_response=False)
    assert done["status"] == "completed"
    assert "error" in names


async def test_without_transcription_no_transcript_comes() -> None:
    async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
        await peer.configure(audio={"input": {"turn_detection": None, "transcription": None}})
        await peer.send_audio(audio.speech(0.5, RATE))
        await peer.send("input_audio_buffer.commit")
        await peer.respond()
        await peer.configure()
        assert not any(name.startswith(TRANSCRIPTION) for name in types_of(peer.received))
        assert server.session.texts("user") == ["hello there"]


async def test_what_is_below_the_threshold_is_no_speech() -> None:
    loudness = audio.rms(audio.speech(0.8, RATE))
    for threshold, heard in ((loudness * 1.5, 0), (loudness / 1.5, 1)):
        async with (
            OpenAIRealtimeServer(speech_threshold=threshold) as server,
            OpenAIPeer(server) as peer,
        ):
            await peer.turn_detection(SERVER_VAD)
            await peer.speak(0.8, quiet_s=0.7)
            await server.wait_until(lambda: server.recording.audio_seconds() > 1.4)
            started = server.recording.events("input_audio_buffer.speech_started")
            assert len(started) == heard
