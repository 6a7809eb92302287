"""K6: the result of a tool reaches the model, once, whatever happens to the connection."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    Fault,
    HangHandshake,
    OnConnection,
    Received,
    ToolCall,
)
from livekit.plugins.resilient.testing.call_agent import CallAgent

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    FORECAST,
    Lines,
    answered_calls,
    call_id_of,
    next_question_is_answered,
    quiet,
    times_heard,
    whole,
)

ASK_WEATHER = "what is the weather in Paris"
WEATHER = {"default_reply": Lines(questions={ASK_WEATHER: ToolCall("get_weather", {"city": "P"})})}
CALLED = After("response.done", connection=1)


@scenario(
    "openai-tool-result-in-the-gap",
    kind="K6",
    rule="R9",
    provider="openai",
    faults=[Fault(CALLED, Abort()), Fault(OnConnection(2), HangHandshake(9.0))],
    server=WEATHER,
    agent=lambda *_: CallAgent(tool_delay_s=3.0),
    mutants="openai-history-is-not-told",
)
@scenario(
    "openai-tool-result-in-the-gap-xai",
    kind="K6",
    rule="R9",
    provider="openai",
    flavour="xai",
    faults=[Fault(CALLED, Abort()), Fault(OnConnection(2), HangHandshake(9.0))],
    server=WEATHER,
    agent=lambda *_: CallAgent(tool_delay_s=3.0),
    mutants="openai-history-is-not-told",
)
@scenario(
    "openai-tool-outlasts-the-gap",
    kind="K6",
    rule="R9",
    provider="openai",
    faults=[Fault(CALLED, Abort())],
    server=WEATHER,
    agent=lambda *_: CallAgent(tool_delay_s=3.0),
    mutants="openai-history-is-not-told",
)
@scenario(
    "openai-tool-result-unconfirmed",
    kind="K6",
    rule="R9",
    provider="openai",
    faults=[Fault(Received("conversation.item.create", connection=1), Abort())],
    server=WEATHER,
    mutants="openai-unconfirmed-item-is-lost",
)
async def a_result_is_delivered_once(stage: OpenAIStage) -> None:
    """A tool that ends around a drop runs once, its result is known once and answered once."""
    stage.server.user_says(ASK_WEATHER)
    await stage.ask(timeout_s=30)
    await quiet(stage)
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    call_id = call_id_of(stage.call.tools[0].call_id)
    pair = [("function_call", call_id), ("function_call_output", call_id)]
    known = answered_calls(stage.server.session)
    stage.require(known == pair, f"the call and its result are known, once: {known}")
    stage.require_heard(whole(stage, FORECAST), "the result is answered")
    stage.require_heard(times_heard(stage, FORECAST) == 1, "the result is answered once")
    await next_question_is_answered(stage)
