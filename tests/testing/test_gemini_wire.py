"""The Gemini simulator by hand: turns, tools, resumption, limits, and the strict rules."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.errors import PortInUseError, ServerTimeoutError
from livekit.plugins.resilient.testing.gemini import FAMILIES, GeminiLiveServer
from livekit.plugins.resilient.testing.gemini.peer import (
    GeminiPeer,
    event_names,
    spoken_audio,
    spoken_text,
)
from livekit.plugins.resilient.testing.script import NoReply, Reply, ToolCall, ToolCalls, TurnSource

pytestmark = pytest.mark.virtual_time

TOOLS = [{"functionDeclarations": [{"name": "look"}]}]


def declared(behavior: str) -> list[dict[str, Any]]:
    return [{"functionDeclarations": [{"name": "look", "behavior": behavior}]}]


# Turns -------------------------------------------------------------------------------------


async def test_a_reply_is_sent_at_once_and_completed_after_its_playback() -> None:
    reply = Reply("Hello there, caller.")
    async with (
        GeminiLiveServer([reply], times="instant") as server,
        GeminiPeer(server) as peer,
    ):
        loop = asyncio.get_running_loop()
        await peer.set_up()
        asked_at = loop.time()
        await peer.ask("greet")
        messages = await peer.until("generationComplete")
        assert loop.time() - asked_at < 0.1
        assert spoken_text(messages) == reply.text
        assert spoken_audio(messages) == reply.pcm(24_000, seed=1)
        after = await peer.until("turnComplete")
        assert loop.time() - asked_at == pytest.approx(reply.duration_s, abs=0.05)
        assert after[-1]["usageMetadata"]["totalTokenCount"] > 0
        await peer.until_handle()
        assert server.session.texts("model") == [reply.text]


async def test_speech_is_heard_by_energy_and_understood_by_script() -> None:
    async with GeminiLiveServer([Reply("Fine.")]) as server, GeminiPeer(server) as peer:
        server.user_says("how are you")
        await peer.set_up()
        await peer.speak()
        messages = await peer.until("turnComplete")
        contents = [message.get("serverContent", {}) for message in messages]
        captions = [c["inputTranscription"]["text"] for c in contents if "inputTranscription" in c]
        assert captions == [" how", " are", " you"]
        assert server.session.knows("how are you") == 1
        assert server.recording.audio_seconds(1) == pytest.approx(1.1)
        speech = next(entry for entry in server.session.history if entry.kind == "speech")
        assert speech.audio_s == pytest.approx(0.6, abs=0.02)


async def test_barge_in_interrupts_only_while_the_reply_is_played() -> None:
    reply = Reply("This is a rather long sentence that takes several seconds to say.")
    async with (
        GeminiLiveServer([reply, Reply("Yes?")], times="instant") as server,
        GeminiPeer(server) as peer,
    ):
        await peer.set_up()
        await peer.ask("greet")
        await peer.until("generationComplete")
        await asyncio.sleep(2.0)
        await peer.speak()
        names = [event_names(message) for message in await peer.until("turnComplete")]
        assert ["interrupted"] in names
        assert ["generationComplete"] not in names
        await peer.until("turnComplete")
        assert server.session.texts("model") == [reply.words_until(2.0), "Yes?"]
        await peer.speak()  # nothing is playing now
        names = [event_names(message) for message in await peer.until("generationComplete")]
        assert ["interrupted"] not in names


async def test_no_interruption_setting_queues_the_users_turn() -> None:
    replies = [Reply("A reply that goes on for a while."), Reply("Now you.")]
    async with GeminiLiveServer(replies) as server, GeminiPeer(server) as peer:
        await peer.set_up(realtimeInputConfig={"activityHandling": "NO_INTERRUPTION"})
        await peer.ask("greet")
        await peer.until("generationComplete")
        await peer.speak()
        first = await peer.until("turnComplete")
        second = await peer.until("turnComplete")
        assert ["interrupted"] not in [event_names(message) for message in first + second]
        assert spoken_text(second) == "Now you."


async def test_manual_activity_ignores_energy() -> None:
    async with GeminiLiveServer([Reply("Fine.")]) as server, GeminiPeer(server) as peer:
        await peer.set_up(realtimeInputConfig={"automaticActivityDetection": {"disabled": True}})
        await peer.speak()
        await peer.send({"realtimeInput": {"activityStart": {}}})
        await peer.speak()
        await peer.send({"realtimeInput": {"activityEnd": {}}})
        assert spoken_text(await peer.until("turnComplete")) == "Fine."
        assert server.session.model_turns == 1


async def test_pace_spreads_the_audio_and_lead_shifts_the_transcript() -> None:
    reply = Reply("One two three four five six.")
    server = GeminiLiveServer([reply], times="instant", pace="realtime", transcript_lead_s=0.5)
    async with server, GeminiPeer(server) as peer:
        loop = asyncio.get_running_loop()
        await peer.set_up()
        await peer.ask("greet")
        began_at = loop.time()
        received_s, text = 0.0, ""
        while received_s < 1.0:
            message = await peer.receive()
            received_s += audio.duration_of(spoken_audio([message]), 24_000)
            text += spoken_text([message])
        assert loop.time() - began_at == pytest.approx(0.96, abs=0.05)
        # Captions come in bursts of 0.4 s.
        assert text == "".join(word.text for word in reply.words if word.start_s < 1.2 + 0.5)


@pytest.mark.parametrize(("family", "packed"), [("2.5", False), ("3.1", True), ("3.8", True)])
async def test_newer_families_pack_audio_and_transcript(family: str, packed: bool) -> None:
    async with GeminiLiveServer(family=family) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("greet")
        names = [event_names(message) for message in await peer.until("turnComplete")]
        assert (["modelTurn", "outputTranscription"] in names) is packed


async def test_no_reply_leaves_the_turn_unanswered() -> None:
    async with GeminiLiveServer([NoReply()]) as server, GeminiPeer(server, timeout_s=5) as peer:
        await peer.set_up()
        await peer.until_handle()
        await peer.ask("anyone there?")
        with pytest.raises(asyncio.TimeoutError):
            await peer.receive()


# Tools -------------------------------------------------------------------------------------


async def test_blocking_call_waits_for_its_result() -> None:
    call = ToolCall("look", {"at": "sky"}, say_first="One moment.")
    server = GeminiLiveServer([call, lambda request: f"Result {request.tool_results}"])
    async with server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.until_handle()
        await peer.ask("what do you see?")
        messages = await peer.until("toolCall")
        assert spoken_text(messages) == "One moment."
        [body] = messages[-1]["toolCall"]["functionCalls"]
        assert (body["name"], body["args"]) == ("look", {"at": "sky"})
        assert [m for m in messages if "turnComplete" in event_names(m)] == []
        await peer.answer(body["id"], "blue")
        follow_up = await peer.until("turnComplete")
        assert "blue" in spoken_text(follow_up)
        assert len(server.recording.deliveries_of(body["id"])) == 1
        assert [e.text for e in server.session.responses_to(body["id"])] == ['{"output": "blue"}']
        updates = [m["sessionResumptionUpdate"] for m in messages if "sessionResumptionUpdate" in m]
        assert updates == [{"resumable": False}]


async def test_several_blocking_calls_are_answered_once() -> None:
    calls = ToolCalls((ToolCall("look", call_id="a"), ToolCall("look", call_id="b")))
    async with GeminiLiveServer([calls, Reply("Both.")]) as server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        await peer.until("toolCall")
        await peer.answer("a", 1)
        await peer.answer("b", 2)
        assert spoken_text(await peer.until("turnComplete")) == "Both."
        assert server.session.model_turns == 2


async def test_barge_in_cancels_a_blocking_call() -> None:
    async with (
        GeminiLiveServer([ToolCall("look", call_id="a"), Reply("Yes?")], strict=True) as server,
        GeminiPeer(server) as peer,
    ):
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        await peer.until("toolCall")
        await peer.speak()
        messages = await peer.until("toolCallCancellation")
        assert messages[-1] == {"toolCallCancellation": {"ids": ["a"]}}
        assert spoken_text(await peer.until("generationComplete")) == "Yes?"
        await peer.answer("a", "too late")
        assert await peer.until_closed() == (1007, "Request contains an invalid argument.")
        assert server.session.ignored_responses == ["a"]


@pytest.mark.parametrize(
    ("scheduling", "interrupts", "turns"),
    [("WHEN_IDLE", False, 3), (None, False, 3), ("INTERRUPT", True, 3), ("SILENT", False, 2)],
)
async def test_non_blocking_result_follows_its_scheduling(
    scheduling: str | None, interrupts: bool, turns: int
) -> None:
    replies: list[TurnSource] = [
        ToolCall("look", call_id="a"),
        Reply("I talk on while it runs."),
        Reply("Found."),
    ]
    async with GeminiLiveServer(replies, family="3.8") as server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        await peer.until("turnComplete")  # the call does not hold the turn open
        await peer.ask("tell me more")
        await peer.until("generationComplete")
        await peer.answer("a", 1, **({"scheduling": scheduling} if scheduling else {}))
        messages = await peer.until("turnComplete")
        assert (["interrupted"] in [event_names(m) for m in messages]) is interrupts
        await server.wait_for("turnComplete", count=turns)
        await asyncio.sleep(30)
        assert server.session.model_turns == turns
        assert server.session.open_calls == {}


@pytest.mark.parametrize(
    ("family", "tools", "blocks"),
    [
        ("2.5", TOOLS, True),
        ("2.5", declared("NON_BLOCKING"), False),
        ("3.1", declared("NON_BLOCKING"), True),
        ("3.8", TOOLS, False),
        ("3.8", declared("BLOCKING"), True),
    ],
)
async def test_families_differ_in_what_blocks(
    family: str, tools: list[dict[str, Any]], blocks: bool
) -> None:
    async with (
        GeminiLiveServer([ToolCall("look")], family=family) as server,
        GeminiPeer(server) as peer,
    ):
        await peer.set_up(tools=tools)
        await peer.ask("go")
        await peer.until("toolCall")
        await asyncio.sleep(5)
        assert server.recording.count("turnComplete") == (0 if blocks else 1)


# Resumption --------------------------------------------------------------------------------


async def test_a_handle_restores_the_state_it_was_issued_for() -> None:
    async with GeminiLiveServer([Reply("Hello."), Reply("Never kept.")]) as server:
        async with GeminiPeer(server) as first:
            await first.set_up(systemInstruction={"parts": [{"text": "be brief"}]})
            await first.until_handle()
            await first.ask("greet")
            await first.until("turnComplete")
            handle = await first.until_handle()
            await first.ask("unheard question")
            await first.until("generationComplete")
        async with GeminiPeer(server) as second:
            await second.set_up(handle=handle)
        restored = server.session
        assert len(server.sessions) == 2
        assert restored.resumed_from is server.store.handles[handle]
        assert restored.texts() == ["be brief", "greet", "Hello."]
        assert {entry.connection for entry in restored.history} == {1}
        assert server.sessions[0].knows("unheard question") == 1


@pytest.mark.parametrize(
    ("stale_handle", "close"),
    [
        ("before_setup", (1008, "BidiGenerateContent session not found")),
        ("after_setup", (1007, "Invalid session handle")),
    ],
)
async def test_unknown_handle_is_refused(stale_handle: Any, close: tuple[int, str]) -> None:
    async with GeminiLiveServer(stale_handle=stale_handle) as server, GeminiPeer(server) as peer:
        await peer.send({"setup": {"model": "m", "sessionResumption": {"handle": "nonsense"}}})
        assert await peer.until_closed() == close
        await server.wait_for("close")
        info = server.recording.closed(1)
        assert info is not None
        assert (info.code, info.reason, info.by) == (*close, "server")
        assert server.sessions == []


async def test_a_handle_is_valid_for_two_hours_after_the_session() -> None:
    async with GeminiLiveServer() as server:
        async with GeminiPeer(server) as peer:
            await peer.set_up()
            handle = await peer.until_handle()
        await server.wait_for("close")
        server.clock.advance(7190)
        async with GeminiPeer(server) as peer:
            await peer.set_up(handle=handle)
        await server.wait_for("close", count=2)
        server.clock.advance(7210)
        async with GeminiPeer(server) as peer:
            with pytest.raises(ConnectionClosed):
                await peer.set_up(handle=handle)


async def test_overlap_is_refused_when_asked() -> None:
    async with GeminiLiveServer(refuse_overlap=True) as server, GeminiPeer(server) as old:
        await old.set_up()
        handle = await old.until_handle()
        async with GeminiPeer(server) as early:
            await early.send({"setup": {"model": "m", "sessionResumption": {"handle": handle}}})
            assert await early.until_closed() == (1011, "Internal error encountered.")
        await old.socket.close()
        async with GeminiPeer(server) as late:
            await late.set_up(handle=handle)


async def test_no_handles_without_resumption_and_vertex_gives_them_while_busy() -> None:
    async with GeminiLiveServer() as server, GeminiPeer(server) as peer:
        await peer.send({"setup": {"model": "m"}})
        await peer.ask("greet")
        await peer.until("turnComplete")
        await asyncio.sleep(5)
        assert server.recording.events("sessionResumptionUpdate") == []
    async with (
        GeminiLiveServer(handle_while_busy=True, handle_at_setup=False) as server,
        GeminiPeer(server) as peer,
    ):
        await peer.set_up()
        await peer.ask("greet")
        handle = await peer.until_handle()
        assert [entry.text for entry in server.store.handles[handle].history] == ["greet"]


# Limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vertex", "close"),
    [
        (False, (1011, "Deadline expired before operation could complete.")),
        (True, (1000, "The operation was cancelled.")),
    ],
)
async def test_go_away_comes_before_the_connection_limit(
    vertex: bool, close: tuple[int, str]
) -> None:
    async with GeminiLiveServer(vertex=vertex) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        server.clock.advance(541)
        messages = await peer.until("goAway")
        assert messages[-1] == {"goAway": {"timeLeft": "60s"}}
        server.clock.advance(60)
        assert await peer.until_closed() == close


async def test_a_session_without_compression_ends_after_fifteen_minutes() -> None:
    async with (
        GeminiLiveServer(connection_limit_s=None) as server,
        GeminiPeer(server) as plain,
        GeminiPeer(server) as compressed,
    ):
        await plain.set_up()
        await compressed.set_up(contextWindowCompression={"slidingWindow": {}})
        server.clock.advance(901)
        assert (await plain.until_closed())[0] == 1007
        await compressed.ask("still there?")
        await compressed.until("turnComplete")


async def test_a_full_context_closes_the_session() -> None:
    async with GeminiLiveServer(context_limit_tokens=100) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("word " * 100, complete=False)
        assert (await peer.until_closed())[0] == 1007


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"slidingWindow": {}}, ["c", "d"]),  # above 80, down to 40
        ({"triggerTokens": "70", "slidingWindow": {"targetTokens": "25"}}, ["d"]),
        ({"triggerTokens": "98", "slidingWindow": {}}, ["a", "b", "c", "d"]),
    ],
)
async def test_a_context_is_compressed_from_a_turn_of_the_user_on(
    given: dict[str, Any], kept: list[str]
) -> None:
    async with GeminiLiveServer(context_limit_tokens=100) as server, GeminiPeer(server) as peer:
        await peer.set_up(
            contextWindowCompression=given,
            systemInstruction={"parts": [{"text": "."}]},
        )
        for text, role, tokens in (("a", "user", 24), ("b", "model", 20), ("c", "user", 20)):
            await peer.ask(text * 4 * tokens, role=role, complete=False)
        await peer.ask("d" * 80, complete=False)
        await asyncio.sleep(0.1)
        assert [text[0] for text in server.session.texts()] == [".", *kept]


# Strict mode -------------------------------------------------------------------------------

SETUP = {"setup": {"model": "models/gemini"}}


@pytest.mark.parametrize(
    ("family", "messages", "reason"),
    [
        ("2.5", ["{not json"], "Invalid JSON"),
        ("2.5", [{"brandNew": {}}], 'Unknown name "brandNew"'),
        ("2.5", [{"realtimeInput": {"text": "hi"}}], "invalid argument"),
        ("2.5", [SETUP, SETUP], "invalid argument"),
        ("2.5", [{"setup": {"model": "m", "voise": 1}}], 'Unknown name "setup.voise"'),
        ("3.1", [{"setup": {"model": "m", "sessionResumption": {"handle": None}}}], "invalid"),
        ("2.5", [{"setup": {"model": "m", "sessionResumption": {"transparent": True}}}], "invalid"),
        (
            "3.8",
            [
                {
                    "setup": {
                        "model": "m",
                        "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}},
                    }
                }
            ],
            "invalid",
        ),
        (
            "2.5",
            [
                {
                    "setup": {
                        "model": "m",
                        "tools": {
                            "function_declarations": [
                                {
                                    "name": "f",
                                    "parameters": {
                                        "type": "OBJECT",
                                        "properties": {
                                            "snake_name": {"additionalProperties": False}
                                        },
                                    },
                                }
                            ]
                        },
                    }
                }
            ],
            "properties.snake_name.addition",
        ),
        (
            "3.1",
            [SETUP, {"clientContent": {"turns": [{"parts": [{"text": "x"}]}]}}],
            "invalid argument",
        ),
        (
            "3.8",
            [SETUP, {"clientContent": {"turns": [{"role": "system", "parts": [{"text": "x"}]}]}}],
            "invalid argument",
        ),
        (
            "3.1-release",
            [SETUP, {"clientContent": {"turns": [{"role": "model", "parts": [{"text": "x"}]}]}}],
            "invalid argument",
        ),
        (
            "2.5",
            [SETUP, {"toolResponse": {"functionResponses": [{"name": "f", "response": {}}]}}],
            "invalid argument",
        ),
        (
            "2.5",
            [SETUP, {"toolResponse": {"functionResponses": [{"id": "no", "name": "f"}]}}],
            "invalid argument",
        ),
        ("2.5", [SETUP, {"realtimeInput": {"activityEnd": {}}}], "No turn to complete"),
        ("2.5", [SETUP, {"realtimeInput": {"audio": {"data": "!"}}}], "invalid argument"),
        ("2.5", [SETUP, {"contextUpdate": {}}], "invalid argument"),
    ],
)
async def test_strict_mode_refuses_what_real_servers_refuse(
    family: str, messages: list[Any], reason: str
) -> None:
    async with GeminiLiveServer(family=family, strict=True) as server, GeminiPeer(server) as peer:
        for message in messages:
            await peer.send(message)
        code, said = await peer.until_closed()
        assert code == 1007
        assert reason in said


async def test_strict_mode_takes_both_spellings_and_leaves_tool_names_alone() -> None:
    async with GeminiLiveServer(strict=True) as server, GeminiPeer(server) as peer:
        await peer.send(
            {
                "setup": {
                    "model": "m",
                    "generation_config": {"candidate_count": 1, "responseModalities": ["AUDIO"]},
                    "session_resumption": {},
                    "tools": [
                        {
                            "function_declarations": [
                                {
                                    "name": "f",
                                    "parameters": {
                                        "type": "OBJECT",
                                        "property_ordering": ["snake_name"],
                                        "properties": {"snake_name": {"type": "STRING"}},
                                    },
                                }
                            ]
                        }
                    ],
                }
            }
        )
        await peer.until_handle()
        setup = server.session.setup
        assert setup["generationConfig"] == {"candidateCount": 1, "responseModalities": ["AUDIO"]}
        [declaration] = setup["tools"][0]["functionDeclarations"]
        assert declaration["parameters"]["properties"] == {"snake_name": {"type": "STRING"}}


async def test_vertex_takes_system_turns_and_responses_without_id() -> None:
    server = GeminiLiveServer([ToolCall("look"), Reply("Done.")], vertex=True, strict=True)
    path = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
    async with server, GeminiPeer(server, path=path) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("be terse", role="system", complete=False)
        await peer.ask("go")
        await peer.until("toolCall")
        await peer.send(
            {"toolResponse": {"functionResponses": [{"name": "look", "response": {"output": 1}}]}}
        )
        await peer.until("turnComplete")  # that of the call
        messages = await peer.until("turnComplete")
        assert spoken_text(messages) == "Done."
        assert "candidatesTokenCount" in messages[-1]["usageMetadata"]
        assert server.session.texts("system") == ["be terse"]


async def test_release_rules_refuse_content_after_the_first_turn() -> None:
    async with GeminiLiveServer(family="3.1-release") as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.send({"realtimeInput": {"text": "hello"}})
        await peer.until("turnComplete")
        await peer.ask("more", complete=False)
        assert (await peer.until_closed())[0] == 1007


async def test_announced_history_is_not_answered() -> None:
    async with (
        GeminiLiveServer(family="3.1-release", strict=True) as server,
        GeminiPeer(server) as peer,
    ):
        await peer.set_up(historyConfig={"initialHistoryInClientContent": True})
        await peer.ask("earlier answer", role="model")
        await asyncio.sleep(5)
        assert server.session.model_turns == 0
        await peer.send({"realtimeInput": {"text": "hello"}})
        await peer.until("turnComplete")
        assert server.session.knows("earlier answer") == 1


@pytest.mark.parametrize(("complete", "forgetful"), [(False, 1), (True, 0)])
async def test_a_family_that_needs_it_forgets_an_unfinished_prefill_once(
    complete: bool, forgetful: int
) -> None:
    rules = replace(FAMILIES["2.5"], seed_needs_turn_complete=True)
    async with GeminiLiveServer(family=rules, strict=True) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.ask("my name is Ann", complete=complete)
        if complete:
            await peer.until("turnComplete")
        await peer.speak()
        await peer.until("turnComplete")
        assert server.session.forgetful_answers == forgetful


@pytest.mark.parametrize("part", [{"functionCall": {"name": "look"}}, {"functionResponse": {}}])
async def test_calls_are_no_part_of_content(part: dict[str, Any]) -> None:
    async with GeminiLiveServer(strict=True) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.send({"clientContent": {"turns": [{"role": "user", "parts": [part]}]}})
        assert (await peer.until_closed())[0] == 1007


async def test_microphone_during_a_call_is_refused_when_asked() -> None:
    server = GeminiLiveServer([ToolCall("look")], refuse_audio_during_call=True)
    async with server, GeminiPeer(server) as peer:
        await peer.set_up(tools=TOOLS)
        await peer.ask("go")
        await peer.until("toolCall")
        await peer.send_audio(audio.silence(0.1, 16_000))  # was under way already
        await asyncio.sleep(0.5)
        await peer.send_audio(audio.silence(0.1, 16_000))
        assert (await peer.until_closed())[0] == 1008


# The server itself -------------------------------------------------------------------------


async def test_foreign_paths_are_refused() -> None:
    async with GeminiLiveServer() as server:
        with pytest.raises(InvalidStatus):
            async with GeminiPeer(server, path="/v1/realtime"):
                pass
        assert [dial.status for dial in server.dials()] == [404]


async def test_keys_are_not_recorded() -> None:
    async with GeminiLiveServer() as server, GeminiPeer(server, path=f"{_PATH}?key=secret"):
        [dial] = server.dials()
        assert dial.headers["x-goog-api-key"] == "[redacted]"
        assert "secret" not in dial.path


_PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"


async def test_a_port_in_use_is_said() -> None:
    async with GeminiLiveServer() as server:
        with pytest.raises(PortInUseError, match=rf"port {server.port} on 127\.0\.0\.1 is in use"):
            await GeminiLiveServer(port=server.port).start()


async def test_waiting_in_vain_says_what_was_seen() -> None:
    async with GeminiLiveServer() as server, GeminiPeer(server) as peer:
        await peer.set_up()
        with pytest.raises(ServerTimeoutError, match=r"'goAway' x1 did not happen .*'setup': 1"):
            await server.wait_for("goAway", timeout_s=1)


def test_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown family '9'; known: 2\.5"):
        GeminiLiveServer(family="9")


async def test_a_turn_that_is_cut_before_it_began_leaves_nothing_behind() -> None:
    # Both speeches in one burst: the answer to the first is cut in the moment it is begun.
    async with GeminiLiveServer(["First.", "Second."]) as server, GeminiPeer(server) as peer:
        await peer.set_up()
        await peer.speak()
        await peer.speak()
        await peer.until("generationComplete")
        assert spoken_text(peer.received) == "Second."
    gc.collect()  # a coroutine that never ran is reported now, which fails the test
