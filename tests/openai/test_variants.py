"""Azure, legacy Azure, Inference and xAI survive what OpenAI survives, in their own words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import Disconnected, HandedOver, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Before,
    Close,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
    Send,
    Swallow,
    ToolCall,
    TurnRequest,
)

pytestmark = pytest.mark.virtual_time

RENEW_AFTER_S = 30.0
TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
CUT_S = 2.0
ANSWER = "Yes, I can hear you well."
SUNNY = "It is sunny in Paris."

Make = Callable[..., Any]
_openai = resilient.openai.realtime.RealtimeModel
_inference = resilient.inference.RealtimeModel
_xai = resilient.xai.realtime.RealtimeModel


def hosted(model: str, **given: Any) -> Make:
    return lambda server, **more: _inference(
        **server.inference_kwargs(model=model, **given, **more)
    )


FLAVOURS: dict[str, Make] = {
    "openai": lambda server, **given: _openai(**server.model_kwargs(**given)),
    "openai-2.1": lambda server, **given: _openai(
        **server.model_kwargs(model="gpt-realtime-2.1", **given)
    ),
    "azure": lambda server, **given: _openai.with_azure(**server.azure_kwargs(**given)),
    "azure-legacy": lambda server, **given: _openai.with_azure(
        **server.azure_kwargs(legacy=True, **given)
    ),
    "inference-openai": hosted("openai/gpt-realtime"),
    "inference-azure": hosted("openai/gpt-realtime", provider="azure"),
    "inference-google": hosted("google/gemini-3.8-live"),
    "inference-xai": hosted("xai/grok-voice"),
    "xai": lambda server, **given: _xai(**server.model_kwargs(**given)),
}
XAI = [flavour for flavour in FLAVOURS if flavour.endswith("xai")]


@dataclass
class Stage:
    server: OpenAIRealtimeServer
    call: HeadlessCall
    events: list[ResilienceEvent] = field(default_factory=list)

    async def ask(self, text: str) -> None:
        self.server.user_says(text)
        said = await self.call.say(1.0)
        await self.call.reply(after=said.ended_at)
        await self.call.agent_done()

    @property
    def said(self) -> list[str]:
        """What both sides said, as the newest session knows it."""
        return [item.text for item in self.server.session.items if item.kind == "message"]

    def happened(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def say(asked: TurnRequest) -> Any:
    if asked.tool_results:
        return SUNNY
    if "tell" in asked.user_text:
        return TALE
    return ToolCall("get_weather", {"city": "Paris"}) if "weather" in asked.user_text else ANSWER


@asynccontextmanager
async def calling(flavour: str, *faults: Fault, **given: Any) -> AsyncIterator[Stage]:
    events: list[ResilienceEvent] = []
    given.setdefault("resilience", ResilienceOptions(on_event=events.append))
    async with OpenAIRealtimeServer(default_reply=say, faults=faults, pace="realtime") as server:
        async with HeadlessCall(FLAVOURS[flavour](server, **given)) as call:
            yield Stage(server, call, events)
            assert call.errors == [e for e in call.errors if e.recoverable]
        assert call.close_problem is None
        assert call.leftover_tasks() == []


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_drop_in_a_reply_costs_no_word_that_was_heard(flavour: str) -> None:
    async with calling(flavour, Fault(AtAudio(CUT_S, connection=1), Abort())) as on:
        await on.ask("where are you")
        on.server.user_says("tell me where it is")
        await on.call.say(1.0)
        await on.server.wait_for("session.updated", connection=2)
        await on.call.reply(timeout_s=30)
        await on.ask("and now")
        told = on.said
        assert told.count("where are you") == told.count("tell me where it is") == 1
        assert told.count(TALE.words_until(CUT_S)) == 1
        assert on.server.session.texts("user")[-1] == "and now"
        assert [text for text in on.call.user_texts() if text == "and now"] == ["and now"]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_renewal_overlaps_and_tells_all(flavour: str) -> None:
    async with calling(flavour, max_session_duration=RENEW_AFTER_S) as on:
        await on.ask("how is the weather")
        await on.ask("where are you")
        await on.call.until(lambda: on.happened(HandedOver), timeout_s=60, what="a handover")
        await on.ask("and now")
        assert [event.overlapped for event in on.happened(HandedOver)] == [True]
        assert on.happened(Disconnected) == []
        assert on.call.errors == []
        assert len(on.call.tools) == 1
        expected = ["how is the weather", SUNNY, "where are you", ANSWER, "and now", ANSWER]
        assert on.said == expected
        calls = [item.kind for item in on.server.session.items if item.call_id]
        assert calls == ["function_call", "function_call_output"]
        assert on.call.user_texts() == ["how is the weather", "where are you", "and now"]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_renewal_goes_on_from_a_replayed_session(flavour: str) -> None:
    async with calling(flavour, max_session_duration=RENEW_AFTER_S) as on:
        await on.ask("where are you")
        await on.server.do(Close(1011))
        await on.server.wait_for("session.updated", connection=2)
        await on.ask("how is the weather")
        await on.call.until(lambda: on.happened(HandedOver), timeout_s=60, what="a handover")
        await on.server.do(Abort(), connection=3)
        await on.server.wait_for("session.updated", connection=4)
        await on.ask("and now")
        expected = ["where are you", ANSWER, "how is the weather", SUNNY, "and now", ANSWER]
        assert on.said == expected
        assert len(on.call.tools) == 1


@pytest.mark.parametrize("flavour", XAI)
async def test_an_xai_deletion_that_names_no_item_is_taken_as_the_answer(flavour: str) -> None:
    nameless = {"type": "conversation.item.deleted", "event_id": "event_x", "item_id": ""}
    fault = Fault(Before("conversation.item.deleted"), (Swallow(), Send(nameless)))
    async with calling(flavour, fault) as on:
        await on.ask("where are you")
        kept = on.call.agent.chat_ctx.copy()
        kept.items = [item for item in kept.items if item not in kept.messages()[-1:]]
        since = on.call.now
        await on.call.agent.update_chat_ctx(kept)
        assert on.call.now - since < 1.0
        await on.server.do(Abort())
        await on.server.wait_for("session.updated", connection=2)
        await on.ask("and now")
        assert on.said == ["where are you", "and now", ANSWER]


@pytest.mark.parametrize("flavour", XAI)
async def test_what_xai_has_transcribed_so_far_is_no_turn_yet(flavour: str) -> None:
    """It says "completed" of each piece; that of the whole turn says so in its status too."""
    completed = "conversation.item.input_audio_transcription.completed"
    drop = Fault(After(completed, nth=2, connection=1), Abort())
    async with calling(flavour, drop) as on:
        on.server.user_says("tell me where it is")
        await on.call.say(1.0)
        await on.server.wait_for("response.create", connection=2)
        (asked,) = on.server.recording.frames("response.create", 2)
        assert "swallowed what the caller" in asked.texts[0]


@pytest.mark.parametrize("moment", ["speech_started", "committed"])
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_turn_without_words_is_not_told(flavour: str, moment: str) -> None:
    drop = Fault(After(f"input_audio_buffer.{moment}", connection=1), Abort())
    async with calling(flavour, drop) as on:
        on.server.user_says("tell me where it is")
        await on.call.say(1.0)
        await on.call.reply(timeout_s=30)
        told = [item for item in on.server.session.items if item.made_by == "client"]
        assert [item for item in told if not item.text and not item.pcm] == []


@pytest.mark.parametrize("flavour", [f for f in FLAVOURS if f.startswith("inference")])
async def test_every_dial_has_a_token_of_its_own(flavour: str) -> None:
    async with calling(flavour, max_session_duration=RENEW_AFTER_S) as on:
        tokens: list[str] = []
        session: Any = on.call.realtime_session
        create = session._create_ws_url_and_headers

        def noting() -> tuple[str, dict[str, str]]:
            url, headers = create()
            tokens.append(headers["Authorization"])
            return url, headers

        session._create_ws_url_and_headers = noting
        await on.ask("where are you")
        await on.call.until(lambda: on.happened(HandedOver), timeout_s=60, what="a handover")
        await on.server.do(Abort(), connection=2)
        await on.server.wait_for("session.updated", connection=3)
        assert len(tokens) == 2
