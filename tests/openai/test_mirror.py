"""After a drop and after a barge-in, both records hold what the caller heard: the model's, and the
application's."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.core.playout import UNTRANSCRIBED
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Before,
    CallAgent,
    Delay,
    Fault,
    HangHandshake,
    HeadlessCall,
    Messages,
    OnConnection,
    OpenAIRealtimeServer,
    Reply,
    Swallow,
    ToolCall,
)

pytestmark = pytest.mark.virtual_time

STORY = Reply(
    "Your parcel left the depot this morning and will be with you before six tonight, "
    "unless the bridge over the river is still closed to heavy traffic by then."
)
FIRST = Reply("Your parcel left the depot this morning on its way.")
SECOND = Reply("It will be with you before six tonight, I hope.")
ANSWER = Reply("Yes, I can hear you well.")
CUT_S = 6.0
AT_THE_CUT = AtAudio(CUT_S, connection=1)


def begin(
    server: OpenAIRealtimeServer, playout: Literal["finish", "flush"] = "finish", **options: Any
) -> HeadlessCall:
    resilience = resilient.ResilienceOptions(redrive=False, playout_on_drop=playout)
    model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs(), resilience=resilience)
    return HeadlessCall(model, **options)


def assistant_messages(call: HeadlessCall) -> list[llm.ChatMessage]:
    return [m for m in call.session.history.messages() if m.role == "assistant"]


def recorded(call: HeadlessCall) -> list[str]:
    """What the application's record says that the agent said."""
    return [text for message in assistant_messages(call) if (text := message.text_content)]


async def told(server: OpenAIRealtimeServer, connection: int) -> None:
    """Wait until a connection was told the session, and what follows that."""
    await server.wait_for("session.update", connection=connection, timeout_s=30)
    await asyncio.sleep(0.5)


@pytest.mark.parametrize("lead_s", [0.0, 3.0], ids=["aligned", "transcript-ahead"])
async def test_a_drop_cuts_the_applications_record_too(lead_s: float) -> None:
    cut = Fault(AT_THE_CUT, Abort())
    async with (
        OpenAIRealtimeServer([STORY, ANSWER], faults=[cut], transcript_lead_s=lead_s) as server,
        begin(server) as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        (message,) = assistant_messages(call)
        assert message.text_content == STORY.words_until(CUT_S)
        assert message.interrupted
        # An update with the application's own record tells the model nothing it knows.
        await told(server, 2)
        sent = len(server.recording.frames("conversation.item.create"))
        await call.agent.update_chat_ctx(call.agent.chat_ctx.copy())
        assert len(server.recording.frames("conversation.item.create")) == sent
        assert server.session.texts("assistant") == [STORY.words_until(CUT_S)]


async def test_a_barge_in_on_what_outlived_its_connection_cuts_both_records() -> None:
    faults = [Fault(AT_THE_CUT, Abort()), Fault(OnConnection(2), HangHandshake(4.0))]
    async with (
        OpenAIRealtimeServer([STORY, ANSWER], faults=faults) as server,
        begin(server) as call,
    ):
        await call.generate_reply(instructions="go", wait=False)
        await call.wait_heard(2.5)
        call.session.interrupt()
        await call.agent_done()
        heard = STORY.words_until(call.heard.segments[0].position_s)
        assert recorded(call) == [heard]
        await told(server, 2)
        assert server.session.texts("assistant") == [heard]


@pytest.mark.parametrize(
    ("pace", "ends_late_s"),
    [(1.5, 0.0), (1.5, 1.0), (None, 0.0)],
    ids=["speaking", "done-comes-late", "all-sent"],
)
async def test_without_a_drop_a_barge_in_leaves_both_records_true(
    pace: float | None, ends_late_s: float
) -> None:
    late = Fault(Before("response.done", connection=1), Delay(ends_late_s))
    async with (
        OpenAIRealtimeServer([STORY], default_reply=ANSWER, pace=pace, faults=[late]) as server,
        begin(server) as call,
    ):
        await call.generate_reply(instructions="go", wait=False)
        await call.wait_heard(3.0)
        call.session.interrupt()
        await call.agent_done()
        heard = STORY.words_until(call.heard.segments[0].position_s)
        await server.wait_for("response.done")
        await asyncio.sleep(0.5)
        assert recorded(call) == [heard]
        mirror = call.realtime_session.chat_ctx.messages()
        assert [m.text_content for m in mirror if m.role == "assistant"] == [heard]
        # Nor is the server told again what it was told by the truncation.
        await call.agent.update_chat_ctx(call.agent.chat_ctx.copy())
        assert server.recording.frames("conversation.item.create") == []
        await server.do(Abort())
        await told(server, 2)
        assert server.session.texts("assistant") == [heard]


@pytest.mark.parametrize("away_s", [0.0, 4.0], ids=["redialled-at-once", "outage"])
async def test_a_flushed_reply_ends_in_both_records_where_it_was_stopped(away_s: float) -> None:
    faults = [Fault(AT_THE_CUT, Abort()), Fault(OnConnection(2), HangHandshake(away_s))]
    async with (
        OpenAIRealtimeServer([STORY], faults=faults, pace=2.0) as server,
        begin(server, playout="flush") as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        (segment,) = call.heard.segments
        assert segment.position_s == pytest.approx(CUT_S / 2, abs=0.2)
        heard = STORY.words_until(segment.position_s)
        assert recorded(call) == [heard]
        await told(server, 2)
        assert server.session.texts("assistant") == [heard]


async def test_a_flushed_message_that_had_not_begun_is_recorded_nowhere() -> None:
    two = Messages.of(FIRST.text, SECOND.text)
    cut = Fault(AtAudio(2.0, connection=1, nth=2), Abort())
    async with (
        OpenAIRealtimeServer([two], faults=[cut], pace=4.0) as server,
        begin(server, playout="flush") as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        (segment,) = [s for s in call.heard.segments if s.position_s]
        heard = FIRST.words_until(segment.position_s)
        assert recorded(call) == [heard]
        await told(server, 2)
        assert server.session.texts("assistant") == [heard]


async def test_text_of_which_no_audio_came_is_recorded_nowhere() -> None:
    silent = Reply(STORY.text, transcript_lead_s=60.0)
    faults = [
        Fault(Before("response.output_audio.delta", connection=1), Abort()),
    ]
    async with (
        OpenAIRealtimeServer([silent], faults=faults) as server,
        begin(server) as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        assert recorded(call) == []
        await told(server, 2)
        assert server.session.texts("assistant") == []


async def test_audio_of_which_no_text_came_is_marked_in_both_records() -> None:
    cut = Fault(AT_THE_CUT, Abort())
    async with (
        OpenAIRealtimeServer([STORY], faults=[cut], transcript_lead_s=-60.0) as server,
        begin(server) as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        (message,) = assistant_messages(call)
        assert message.text_content == UNTRANSCRIBED
        assert message.interrupted
        await told(server, 2)
        assert server.session.texts("assistant") == [UNTRANSCRIBED]


@pytest.mark.parametrize("turns_of_the_loop", range(14))
async def test_a_barge_in_anywhere_between_two_messages(turns_of_the_loop: int) -> None:
    two = Messages.of(FIRST.text, SECOND.text)
    async with OpenAIRealtimeServer([two]) as server, begin(server) as call:
        first_is_over = asyncio.Event()
        await call.generate_reply(instructions="go", wait=False)
        await call.wait_heard(1.0)
        output = call.session.output.audio
        assert output is not None
        output.on("playback_finished", lambda _: first_is_over.set())
        await first_is_over.wait()
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        call.session.interrupt()
        await call.agent_done()
        await asyncio.sleep(1.0)
        heard_s = [segment.position_s for segment in call.heard.segments]
        heard = [
            text
            for reply, seconds in zip((FIRST, SECOND), heard_s, strict=False)
            if (text := reply.words_until(seconds) or (reply.words[0].text if seconds else ""))
        ]
        assert recorded(call) == heard
        known = [i.known_text for i in server.session.items if i.role == "assistant"]
        assert known == heard
        await server.do(Abort())
        await told(server, 2)
        assert server.session.texts("assistant") == heard
        assert server.recording.count("error") == 0


async def test_a_call_whose_arguments_were_cut_is_not_left_open() -> None:
    call_weather = ToolCall("get_weather", {"city": "Paris"}, say_first=FIRST.text)
    faults = [
        Fault(Before("response.function_call_arguments.done", connection=1), Swallow()),
        Fault(Before("response.output_item.done", connection=1, nth=2), Abort()),
    ]
    async with (
        OpenAIRealtimeServer([call_weather], faults=faults) as server,
        begin(server, agent=CallAgent()) as call,
    ):
        await call.generate_reply(instructions="go")
        await call.agent_done()
        await told(server, 2)
        assert server.session.texts("assistant") == [FIRST.text]
        assert [i for i in server.session.items if i.kind == "function_call"] == []
        assert call.tools == []


@pytest.mark.parametrize("modalities", [["text"], ["audio"]])
async def test_a_reply_that_is_only_shown_stays_known(modalities: list[str]) -> None:
    async with OpenAIRealtimeServer([STORY]) as server:
        model = resilient.openai.realtime.RealtimeModel(
            **server.model_kwargs(modalities=modalities)
        )
        async with HeadlessCall(model) as call:
            call.session.output.set_audio_enabled(False)
            await call.say(1.0)
            await server.wait_for("response.done")
            await asyncio.sleep(1.0)
            assert recorded(call) == [STORY.text]
            assert server.session.texts("assistant") == [STORY.text]
            await server.do(Abort())
            await told(server, 2)
            assert server.session.texts("assistant") == [STORY.text]


async def test_text_for_a_speech_synthesiser_is_kept_as_it_came() -> None:
    cut = Fault(Before("response.output_text.done", connection=1), Abort())
    async with OpenAIRealtimeServer([STORY], faults=[cut]) as server:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs(modalities=["text"]))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="go", wait=False)
            await told(server, 2)
            assert server.session.texts("assistant")[:1] == [STORY.text]
