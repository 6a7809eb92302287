"""The simulated OpenAI server as a bare client sees it: order, items, requests, limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from livekit import api
from websockets.exceptions import InvalidStatus

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.clock import Clock
from livekit.plugins.resilient.testing.errors import ScriptError
from livekit.plugins.resilient.testing.openai import Incomplete, Messages, OpenAIRealtimeServer
from livekit.plugins.resilient.testing.openai.peer import (
    OpenAIPeer,
    spoken_audio,
    spoken_text,
    types_of,
)
from livekit.plugins.resilient.testing.script import (
    NoReply,
    Reply,
    ToolCall,
    ToolCalls,
    TurnRequest,
    TurnSource,
)

pytestmark = pytest.mark.virtual_time

SPOKEN_ORDER = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]

CALL_ORDER = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]


async def test_set_up_is_answered_and_merged() -> None:
    async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
        created = (await peer.receive())["session"]
        assert created["model"] == "gpt-realtime"
        assert created["expires_at"] > 0
        assert created["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        await peer.configure(instructions="be brief", audio={"output": {"voice": "cedar"}})
        updated = peer.received[-1]["session"]
        assert updated["instructions"] == "be brief"
        assert updated["audio"]["output"] == {**created["audio"]["output"], "voice": "cedar"}
        assert updated["audio"]["input"] == created["audio"]["input"]


async def test_a_spoken_response_in_recorded_order() -> None:
    async with OpenAIRealtimeServer(["Hi."]) as server, OpenAIPeer(server) as peer:
        events = await peer.respond(metadata={"client_event_id": "e1"})
        assert types_of(events[1:]) == SPOKEN_ORDER
        done = events[-1]["response"]
        assert events[1]["response"]["metadata"] == done["metadata"] == {"client_event_id": "e1"}
        (item,) = done["output"]
        assert (done["status"], item["status"]) == ("completed", "completed")
        assert item["content"] == [{"type": "output_audio", "transcript": "Hi."}]
        assert done["usage"]["output_tokens"] > 0
        added = next(e for e in events if e["type"] == "conversation.item.added")
        assert (added["item"]["status"], added["item"]["content"]) == ("in_progress", [])
        assert len({e["event_id"] for e in events}) == len(events)


async def test_the_audio_is_the_scripts_and_the_words_lie_where_it_says() -> None:
    reply = Reply("one two three four five six")
    async with OpenAIRealtimeServer([reply], times="instant", timed_transcript=True) as server:
        async with OpenAIPeer(server) as peer:
            events = await peer.respond()
        assert spoken_text(events) == reply.text
        assert spoken_audio(events) == reply.pcm(24_000, seed=1)
        sent_s = 0.0
        for event in events:
            sent_s += audio.duration_of(spoken_audio([event]), 24_000)
            if spoken_text([event]):
                word = next(w for w in reply.words if w.text == event["delta"])
                assert event["start_time"] == pytest.approx(word.start_s, abs=1e-5)
                # A word is announced with the audio that begins it.
                assert sent_s <= word.start_s + 1e-6 < sent_s + 0.1 + 1e-6


@pytest.mark.parametrize(("lead_s", "words_first"), [(10.0, True), (-10.0, False)])
async def test_the_transcript_can_lead_or_lag(lead_s: float, words_first: bool) -> None:
    async with (
        OpenAIRealtimeServer(["one two three"], transcript_lead_s=lead_s) as server,
        OpenAIPeer(server) as peer,
    ):
        order = types_of(await peer.respond())
    deltas = [name for name in order if name.endswith("delta")]
    words, sound = "response.output_audio_transcript.delta", "response.output_audio.delta"
    assert deltas == ([words, sound] if words_first else [sound, words])


async def test_audio_comes_at_once_or_at_a_pace() -> None:
    spent = []
    for pace in (None, 4.0, "realtime"):
        server = OpenAIRealtimeServer([Reply("x" * 30)], times="instant", pace=pace)
        async with server:
            async with OpenAIPeer(server) as peer:
                await peer.respond()
            created, done = (
                server.recording.events(kind)[0].at
                for kind in ("response.created", "response.done")
            )
            spent.append(done - created)
    assert spent == [0, pytest.approx(0.5), pytest.approx(2.0)]


async def test_a_tool_call_and_its_result() -> None:
    requests: list[TurnRequest] = []

    def last(request: TurnRequest) -> str:
        requests.append(request)
        return "Sunny."

    call = ToolCall("get_weather", {"city": "Paris"}, call_id="call_7")
    async with OpenAIRealtimeServer([call, last], strict=True) as server:
        async with OpenAIPeer(server) as peer:
            events = await peer.respond()
            assert types_of(events[1:]) == CALL_ORDER
            item = next(e for e in events if e["type"] == "response.output_item.done")["item"]
            assert json.loads(item["arguments"]) == {"city": "Paris"}
            assert (item["name"], item["call_id"]) == ("get_weather", "call_7")
            await peer.answer("call_7", "sunny")
            await peer.respond()
        (request,) = requests
        assert (request.reason, request.tool_results) == ("tool_result", {"call_7": "sunny"})
        (delivery,) = server.recording.deliveries_of("call_7")
        assert delivery.texts == ("sunny",)
        assert [i.output for i in server.session.responses_to("call_7")] == ["sunny"]
        assert server.session.texts() == ['get_weather({"city": "Paris"})', "sunny", "Sunny."]


async def test_several_calls_and_messages_in_one_response() -> None:
    turns: list[TurnSource] = [
        ToolCalls((ToolCall("a"), ToolCall("b", trailing_text="Bye.")), say_first="Let me see."),
        Messages.of("First thought.", "Second thought."),
    ]
    async with OpenAIRealtimeServer(turns) as server, OpenAIPeer(server) as peer:
        output = (await peer.respond())[-1]["response"]["output"]
        kinds = [item.get("name") or item["content"][0]["transcript"] for item in output]
        assert kinds == ["Let me see.", "a", "b", "Bye."]
        events = await peer.respond()
        said = [item["content"][0]["transcript"] for item in events[-1]["response"]["output"]]
        assert said == ["First thought.", "Second thought."]
        indexes = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
        assert indexes == [0, 1]


async def test_text_modality_incomplete_and_no_reply() -> None:
    turns: list[TurnSource] = [
        Reply("Only text."),
        Incomplete("one two three four five", stop_at_s=0.5),
        NoReply(),
    ]
    async with OpenAIRealtimeServer(turns) as server, OpenAIPeer(server) as peer:
        events = await peer.respond(output_modalities=["text"])
        assert "response.output_text.delta" in types_of(events)
        assert spoken_audio(events) == b""
        done = (await peer.respond())[-1]["response"]
        assert done["status"] == "incomplete"
        assert done["status_details"]["reason"] == "max_output_tokens"
        assert done["output"][0]["status"] == "incomplete"
        await peer.send("response.create")
        await peer.send("session.update", session={"type": "realtime"})
        assert types_of(await peer.until("session.updated")) == ["session.updated"]


async def test_only_one_response_at_a_time_and_cancel() -> None:
    async with (
        OpenAIRealtimeServer([Reply("long " * 20)], pace="realtime") as server,
        OpenAIPeer(server) as peer,
    ):
        await peer.send("response.create")
        response_id = (await peer.until("response.created"))[-1]["response"]["id"]
        second = await peer.send("response.create")
        error = await peer.error()
        assert error["code"] == "conversation_already_has_active_response"
        assert response_id in error["message"]
        assert error["event_id"] == second
        await peer.send("response.cancel", response_id="resp_other")
        assert (await peer.error())["code"] == "response_cancel_not_active"
        await server.wait_for("response.output_audio.delta", count=5)
        await peer.send("response.cancel")
        events = await peer.until("response.done")
        done = events[-1]["response"]
        assert done["status"] == "cancelled"
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert types_of(events)[-6:] == SPOKEN_ORDER[-6:]
        assert done["output"][0]["content"][0]["transcript"] == spoken_text(peer.received)
        assert server.session.texts() == [spoken_text(peer.received)]
        await peer.send("response.cancel")
        assert (await peer.error())["message"].startswith("Cancellation failed")


async def test_items_are_placed_retrieved_and_deleted() -> None:
    async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
        places = [("b", None, None), ("c", None, "b"), ("a", "root", None), ("b2", "b", "b")]
        for item_id, asked, told in places:
            fields = {} if asked is None else {"previous_item_id": asked}
            await peer.create_item(item_id, item_id=item_id, **fields)
            events = await peer.until("conversation.item.done")
            added = next(e for e in events if e["type"] == "conversation.item.added")
            assert (added["item"]["id"], added["previous_item_id"]) == (item_id, told)
        assert server.session.texts() == ["a", "b", "b2", "c"]
        await peer.send("conversation.item.retrieve", item_id="b2")
        assert (await peer.until("conversation.item.retrieved"))[-1]["item"]["id"] == "b2"
        await peer.send("conversation.item.delete", item_id="b2")
        assert (await peer.until("conversation.item.deleted"))[-1]["item_id"] == "b2"
        assert server.session.texts("user") == ["a", "b", "c"]
        assert server.session.knows("b2") == 0


async def refused(peer: OpenAIPeer, event: str, **fields: Any) -> str:
    event_id = await peer.send(event, **fields)
    error = await peer.error()
    assert error["event_id"] == event_id
    assert error["type"] == "invalid_request_error"
    return str(error["code"])


MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "x"}],
}


async def test_what_every_client_runs_into_is_refused() -> None:
    async with OpenAIRealtimeServer(["Hello."]) as server, OpenAIPeer(server) as peer:
        await peer.create_item(item_id="known")
        create = "conversation.item.create"
        cases: list[tuple[str, dict[str, Any], str]] = [
            ("no.such.event", {}, "invalid_value"),
            ("conversation.item.delete", {}, "missing_required_parameter"),
            ("conversation.item.delete", {"item_id": "?"}, "item_delete_invalid_item_id"),
            ("conversation.item.retrieve", {"item_id": "?"}, "item_retrieve_invalid_item_id"),
            (create, {"item": {**MESSAGE, "id": "known"}}, "item_create_duplicate_item_id"),
            (
                create,
                {"item": MESSAGE, "previous_item_id": "?"},
                "item_create_invalid_previous_item_id",
            ),
            (create, {"item": {"type": "riddle"}}, "invalid_value"),
            (create, {"item": {"type": "function_call_output"}}, "missing_required_parameter"),
            ("input_audio_buffer.append", {"audio": "not base64!"}, "invalid_value"),
            ("input_audio_buffer.append", {"audio": audio.encode_audio(b"odd")}, "invalid_value"),
            ("input_audio_buffer.commit", {}, "input_audio_buffer_commit_empty"),
            ("response.cancel", {}, "response_cancel_not_active"),
        ]
        for event, fields, code in cases:
            assert await refused(peer, event, **fields) == code, (event, fields)
        assert [item.item_id for item in server.session.items] == ["known"]


async def test_truncation_is_checked_and_changes_what_the_model_knows() -> None:
    reply = Reply("one two three four five six seven")
    async with OpenAIRealtimeServer([reply]) as server, OpenAIPeer(server) as peer:
        await peer.create_item(item_id="typed")
        item_id = (await peer.respond())[-1]["response"]["output"][0]["id"]
        whole_ms = round(reply.duration_s * 1000)

        async def cut(item: str, end_ms: int, index: int = 0) -> str:
            fields = {"item_id": item, "content_index": index, "audio_end_ms": end_ms}
            return await refused(peer, "conversation.item.truncate", **fields)

        assert await cut("?", 100) == "item_truncate_invalid_item_id"
        assert await cut("typed", 100) == "invalid_value"
        assert await cut(item_id, 100, index=1) == "invalid_value"
        assert await cut(item_id, whole_ms + 1) == "invalid_value"
        assert f"Audio content of {whole_ms}ms" in peer.received[-1]["error"]["message"]
        end_ms = 700
        await peer.send(
            "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=end_ms
        )
        truncated = (await peer.until("conversation.item.truncated"))[-1]
        assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, end_ms)
        assert server.session.texts("assistant") == [reply.words_until(0.7)]
        assert reply.words_until(0.7) == "one two"
        assert await cut(item_id, end_ms + 1) == "invalid_value"


async def test_strict_mode_refuses_what_a_lenient_server_would_pass() -> None:
    create = "conversation.item.create"
    wrong_role = {**MESSAGE, "role": "assistant"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("response.create", {"surprise": 1}, "unknown_parameter"),
        ("response.create", {"response": {"surprise": 1}}, "unknown_parameter"),
        ("session.update", {"session": {"instructions": "x"}}, "missing_required_parameter"),
        ("session.update", {"session": {"type": "realtime", "voice": "x"}}, "unknown_parameter"),
        (create, {"item": wrong_role}, "invalid_value"),
        (
            create,
            {"item": {"type": "function_call_output", "call_id": "?", "output": "x"}},
            "invalid_tool_call_id",
        ),
        (
            create,
            {"item": {"id": "x" * 33, "type": "function_call", "call_id": "c", "name": "f"}},
            "string_above_max_length",
        ),
    ]
    async with OpenAIRealtimeServer(strict=True) as server, OpenAIPeer(server) as peer:
        for event, fields, code in cases:
            assert await refused(peer, event, **fields) == code, (event, fields)
    async with (
        OpenAIRealtimeServer(default_reply=NoReply()) as server,
        OpenAIPeer(server) as peer,
    ):
        for event, fields, _ in cases:
            await peer.send(event, **fields)
        await peer.configure()
        assert "error" not in types_of(peer.received)


async def test_a_frame_that_is_not_json_closes_with_1007() -> None:
    async with OpenAIRealtimeServer() as server, OpenAIPeer(server) as peer:
        await peer.send_raw("{")
        assert await peer.until_closed() == (1007, "Invalid JSON")


@pytest.mark.parametrize("error_first", [True, False])
async def test_the_session_cap_runs_on_the_servers_clock(error_first: bool) -> None:
    clock = Clock()
    async with (
        OpenAIRealtimeServer(clock=clock, error_before_expiry=error_first) as server,
        OpenAIPeer(server) as peer,
    ):
        await peer.receive()
        clock.advance(3599)
        await peer.configure()
        clock.advance(1)
        code, reason = await peer.until_closed()
    assert code == 1001
    assert "60 minutes" in reason
    last = peer.received[-1]
    assert (last["type"] == "error") is error_first
    if error_first:
        assert last["error"]["code"] == "session_expired"


async def test_keys_paths_and_the_model_are_checked() -> None:
    model = "?model=gpt-realtime"
    cases: list[tuple[str, dict[str, str], int]] = [
        (f"/v1/realtime{model}", {}, 401),
        (f"/v1/realtime{model}", {"Authorization": "Bearer wrong"}, 401),
        (f"/v1/realtime{model}", {"Authorization": "Bearer a.b.c"}, 401),
        (f"/v1/chat{model}", {"Authorization": "Bearer simulated-key"}, 404),
        ("/v1/realtime", {"Authorization": "Bearer simulated-key"}, 400),
    ]
    async with OpenAIRealtimeServer() as server:
        for path, headers, status in cases:
            with pytest.raises(InvalidStatus) as refusal:
                async with OpenAIPeer(server, path=path, headers=headers):
                    pass
            assert refusal.value.response.status_code == status, (path, headers)
        assert [dial.status for dial in server.dials()] == [status for _, _, status in cases]
        assert "wrong" not in repr(server.dials())
        token = (
            api.AccessToken(
                server.inference_kwargs()["api_key"], server.inference_kwargs()["api_secret"]
            )
            .with_identity("agent")
            .to_jwt()
        )
        for path, headers in (
            (f"/openai/v1/realtime{model}", {"api-key": "simulated-key"}),
            (f"/v1/realtime{model}", {"Authorization": f"Bearer {token}"}),
        ):
            async with OpenAIPeer(server, path=path, headers=headers) as peer:
                await peer.until("session.created")


async def test_legacy_azure_speaks_the_old_names() -> None:
    path = "/openai/realtime?api-version=2024-10-01-preview&deployment=gpt-realtime"
    async with OpenAIRealtimeServer(["Hi."], strict=True) as server:
        async with OpenAIPeer(server, path=path, headers={"api-key": "simulated-key"}) as peer:
            created = (await peer.receive())["session"]
            assert created["turn_detection"]["type"] == "server_vad"
            assert created["modalities"] == ["audio", "text"]
            await peer.send("session.update", session={"voice": "verse", "turn_detection": None})
            assert (await peer.until("session.updated"))[-1]["session"]["voice"] == "verse"
            order = types_of(await peer.respond())
            assert "response.audio.delta" in order
            assert "response.audio_transcript.delta" in order
            assert "conversation.item.created" in order
            assert not any("output_audio" in name or "item.done" in name[:20] for name in order)
        # Faults and records keep the current names.
        assert server.recording.count("response.output_audio.delta") > 0


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match="event_names"):
        OpenAIRealtimeServer(event_names="beta")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="session_cap_s"):
        OpenAIRealtimeServer(session_cap_s=0)
    with pytest.raises(ValueError, match="transcription_delay_s"):
        OpenAIRealtimeServer(transcription_delay_s=-1)
    with pytest.raises(ScriptError, match="at least one part"):
        Messages.of("one", "")


async def test_a_session_that_does_not_exist_is_named() -> None:
    async with OpenAIRealtimeServer() as server:
        with pytest.raises(LookupError, match=r"wait_for\('session.created'\)"):
            _ = server.session
        with pytest.raises(LookupError, match="connection 3 was never accepted"):
            server.session_of(3)
