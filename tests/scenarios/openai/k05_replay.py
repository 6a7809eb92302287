"""K5: what the model is told after a reconnect: true, complete, and once."""

from __future__ import annotations

import asyncio
from typing import Any

from livekit.agents import llm
from livekit.agents.utils import http_context

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Close,
    Delay,
    Fault,
    Messages,
    Received,
    Reply,
    ToolCall,
)
from livekit.plugins.resilient.testing.call_agent import CallAgent

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    FORECAST,
    GO_ON,
    STORY,
    TELL,
    Lines,
    answered_calls,
    next_question_is_answered,
    quiet,
    reconnected,
    require_true_record,
    told_of,
    words_heard,
)

CUT = Fault(AtAudio(2.0, connection=1), Abort())
TALK = {"default_reply": Lines()}
LEAD_S = 1.5
ASK_WEATHER = "what is the weather in Paris"
WEATHER = ToolCall("get_weather", {"city": "Paris"})
FIRST = Reply("Your parcel left the depot this morning.")
SECOND = Reply("It will be with you before six tonight.")
NOTE = "The caller is a gold member."


@scenario(
    "openai-replay-as-heard",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[CUT],
    server=TALK,
    mutants=("openai-cut-reply-is-not-in-the-record", "unheard-words-are-recorded"),
)
@scenario(
    "openai-replay-as-heard-xai",
    kind="K5",
    rule="R14",
    provider="openai",
    flavour="xai",
    faults=[CUT],
    server=TALK,
    mutants="openai-cut-reply-is-not-in-the-record",
)
@scenario(
    "openai-replay-transcript-ahead",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[CUT],
    server={**TALK, "transcript_lead_s": LEAD_S},
    mutants="unheard-words-are-recorded",
)
@scenario(
    "openai-replay-as-heard-azure",
    kind="K5",
    rule="R14",
    provider="openai",
    flavour="azure",
    faults=[CUT],
    server={**TALK, "strict": True},
    mutants="openai-cut-reply-is-not-in-the-record",
)
@scenario(
    "openai-replay-as-heard-azure-legacy",
    kind="K5",
    rule="R14",
    provider="openai",
    flavour="azure-legacy",
    faults=[CUT],
    server={**TALK, "strict": True},
    mutants="openai-cut-reply-is-not-in-the-record",
)
@scenario(
    "openai-replay-as-heard-inference",
    kind="K5",
    rule="R14",
    provider="openai",
    flavour="inference",
    faults=[CUT],
    server={**TALK, "timed_transcript": True},
    mutants="openai-cut-reply-is-not-in-the-record",
)
async def the_model_is_told_what_was_heard(stage: OpenAIStage) -> None:
    """After a drop in mid-reply the model knows the words that the caller heard, and no others."""
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage)
    require_true_record(stage, STORY)
    stage.require(stage.server.recording.count("error") == 0, "the server refuses nothing")
    await next_question_is_answered(stage)


@scenario(
    "openai-drop-with-flush",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[Fault(AtAudio(6.0, connection=1), Abort())],
    server={**TALK, "pace": 3.0},
    resilience=ResilienceOptions(playout_on_drop="flush"),
    mutants="openai-drop-does-not-flush",
)
async def stops_at_the_drop_if_told_to(stage: OpenAIStage) -> None:
    """Where the application wants it so, a dropped reply stops at once, and the model is told no
    word that came after."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    dropped_at = await stage.until_fault()
    await stage.next_segment()
    await reconnected(stage)
    await quiet(stage)
    if stage.faulty:
        late_s = stage.call.heard.spans()[0].end - dropped_at
        stage.require_heard(late_s < 0.3, f"it stops at the drop, not {late_s:.1f} s later")
    require_true_record(stage, STORY)
    await next_question_is_answered(stage)


@scenario(
    "openai-replay-audio-ahead",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[CUT],
    server={**TALK, "transcript_lead_s": -LEAD_S},
    mutants="openai-cut-reply-is-not-in-the-record",
)
@scenario(
    "openai-replay-without-transcript",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[CUT],
    server={**TALK, "transcript_lead_s": -60.0},
    mutants="wordless-audio-is-forgotten",
)
async def a_reply_without_its_words_is_not_forgotten(stage: OpenAIStage) -> None:
    """Where the transcript lags, the model is told that it spoke, and no word too many."""
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage)
    told = [text for text in stage.server.session.texts("assistant") if text != GO_ON.text]
    stage.require(len(told) == 1, "the model is told of its reply, once")
    words = told[0].partition("[")[0].strip()
    stage.require(words_heard(stage, STORY).startswith(words), "it is told no word too many")
    await next_question_is_answered(stage)


@scenario(
    "openai-replay-of-several-messages",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[Fault(AtAudio(1.0, connection=1, nth=2), Abort())],
    server={"default_reply": Lines({TELL: Messages.of(FIRST.text, SECOND.text)})},
    mutants="openai-cut-reply-is-not-in-the-record",
)
async def every_message_is_told_as_heard(stage: OpenAIStage) -> None:
    """Of a response with two messages the model knows the first, and of the second what was
    heard."""
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage)
    require_true_record(stage, FIRST)
    require_true_record(stage, SECOND)
    await next_question_is_answered(stage)


@scenario(
    "openai-replay-of-a-tool-call",
    kind="K5",
    rule="R9",
    provider="openai",
    faults=[Fault(AtAudio(4.0, connection=1), Abort())],
    server={"default_reply": Lines(questions={ASK_WEATHER: WEATHER}), "strict": True},
    mutants="openai-history-is-not-told",
)
async def calls_and_results_are_told_in_pairs(stage: OpenAIStage) -> None:
    """After a drop the model knows an earlier call with its arguments and its result."""
    stage.server.user_says(ASK_WEATHER)
    await stage.ask()
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage)
    session = stage.server.session
    (run,) = stage.call.tools
    pair = [("function_call", run.call_id), ("function_call_output", run.call_id)]
    stage.require(answered_calls(session) == pair, "the call is followed by its result, once")
    stage.require(session.knows('get_weather({"city": "Paris"})') == 1, "the call is complete")
    stage.require(session.knows(ASK_WEATHER) == 1, "the question is known")
    stage.require(told_of(session, FORECAST) == [FORECAST.text], "the answer is known")
    stage.require(stage.server.recording.count("error") == 0, "the server refuses nothing")
    await next_question_is_answered(stage)


@scenario(
    "openai-drops-during-the-replay",
    kind="K5",
    rule="R14",
    provider="openai",
    faults=[
        CUT,
        Fault(Received("conversation.item.create", connection=2), Abort()),
        Fault(Received("session.update", connection=3), Abort()),
    ],
    server=TALK,
    mutants="openai-history-is-not-told",
)
async def a_replay_that_is_cut_loses_nothing(stage: OpenAIStage) -> None:
    """However often the replay is cut, the model is told everything, once."""
    stage.server.user_says("where is my parcel")
    await stage.ask()
    await stage.call.generate_reply(instructions=TELL)
    if stage.faulty:
        await stage.server.wait_for("session.updated", connection=4, timeout_s=30)
    await quiet(stage)
    stage.require(stage.server.session.knows("where is my parcel") == 1, "the question is known")
    require_true_record(stage, STORY)
    await next_question_is_answered(stage)


@scenario(
    "openai-item-unconfirmed-at-the-drop",
    kind="K5",
    rule="R9",
    provider="openai",
    faults=[Fault(Received("conversation.item.create", connection=1), Abort())],
    server=TALK,
    mutants=("openai-unconfirmed-item-is-lost", "openai-item-waits-for-a-dead-server"),
)
@scenario(
    "openai-item-dropped-with-its-server",
    kind="K5",
    rule="R9",
    provider="openai",
    faults=[Fault(Received("conversation.item.create", connection=1), Close(1011))],
    server=TALK,
    mutants=("openai-unconfirmed-item-is-lost", "openai-item-waits-for-a-dead-server"),
)
async def an_unconfirmed_item_goes_again(stage: OpenAIStage) -> None:
    """A message added to the context as the socket drops reaches the model once, and whoever
    added it does not wait."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.call.agent_done()
    context = stage.call.agent.chat_ctx.copy()
    context.add_message(role="system", content=NOTE)
    since = stage.call.now
    problem = None
    try:
        await stage.call.agent.update_chat_ctx(context)
    except llm.RealtimeError as exc:
        problem = exc
    stage.require(problem is None, f"the update does not fail: {problem}")
    stage.require(stage.call.now - since < 2.0, "the update does not stall")
    await quiet(stage)
    stage.require(stage.server.session.knows(NOTE) == 1, "the model knows it, once")
    await next_question_is_answered(stage)


class _SlowSocket:
    """A client socket on which tool results take a moment to be written."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def send_str(self, data: str) -> None:
        if "function_call_output" in data:
            await asyncio.sleep(0.05)
        await self._socket.send_str(data)


class _SlowSession:
    """Stands in for an aiohttp session; its sockets are slow."""

    async def ws_connect(self, **given: Any) -> _SlowSocket:
        return _SlowSocket(await http_context.http_session().ws_connect(**given))


@scenario(
    "openai-failed-send",
    kind="K5",
    rule="R9",
    provider="openai",
    faults=[Fault(After("response.done", connection=1), (Delay(1.02), Abort()))],
    server={"default_reply": Lines(questions={ASK_WEATHER: WEATHER})},
    model={"http_session": _SlowSession()},
    agent=lambda *_: CallAgent(tool_delay_s=1.0),
    mutants="openai-unconfirmed-item-is-lost",
)
async def an_event_whose_send_failed_is_not_lost(stage: OpenAIStage) -> None:
    """A tool result that the drop catches while it is being written is delivered and answered."""
    stage.server.user_says(ASK_WEATHER)
    await stage.ask(timeout_s=20)
    await quiet(stage)
    (run,) = stage.call.tools
    stage.require(len(stage.server.session.responses_to(run.call_id)) == 1, "the result is known")
    stage.require(told_of(stage.server.session, FORECAST) == [FORECAST.text], "it is answered")
    await next_question_is_answered(stage)
