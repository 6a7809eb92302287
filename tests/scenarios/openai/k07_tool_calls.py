"""K7: a call that comes twice, and several calls at once."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    Fault,
    RepeatCall,
    ToolCall,
    ToolCalls,
)
from livekit.plugins.resilient.testing.call_agent import CallAgent

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    FORECAST,
    Lines,
    answered_calls,
    next_question_is_answered,
    quiet,
    times_heard,
    whole,
)

ASK_WEATHER = "what is the weather in Paris"
PARIS = ToolCall("get_weather", {"city": "Paris"})
ROME = ToolCall("get_weather", {"city": "Rome"})
CALLED = After("response.done", connection=1)


@scenario(
    "openai-same-call-twice",
    kind="K7",
    rule="R10",
    provider="openai",
    faults=[Fault(CALLED, RepeatCall("this"))],
    server={"default_reply": Lines(questions={ASK_WEATHER: PARIS})},
    mutants="openai-repeated-call-runs-again",
)
@scenario(
    "openai-same-call-twice-xai",
    kind="K7",
    rule="R10",
    provider="openai",
    flavour="xai",
    faults=[Fault(CALLED, RepeatCall("this"))],
    server={"default_reply": Lines(questions={ASK_WEATHER: PARIS})},
    mutants="openai-repeated-call-runs-again",
)
@scenario(
    "openai-same-call-on-two-connections",
    kind="K7",
    rule="R10",
    provider="openai",
    faults=[Fault(CALLED, (RepeatCall("next"), Abort()))],
    server={"default_reply": Lines(questions={ASK_WEATHER: PARIS})},
    mutants="openai-repeated-call-runs-again",
)
@scenario(
    "openai-same-call-on-two-connections-xai",
    kind="K7",
    rule="R10",
    provider="openai",
    flavour="xai",
    faults=[Fault(CALLED, (RepeatCall("next"), Abort()))],
    server={"default_reply": Lines(questions={ASK_WEATHER: PARIS})},
    mutants="openai-repeated-call-runs-again",
)
async def a_call_runs_once(stage: OpenAIStage) -> None:
    """A call that is delivered twice runs the tool once, and is answered once."""
    stage.server.user_says(ASK_WEATHER)
    await stage.ask(timeout_s=20)
    await quiet(stage)
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    stage.require_heard(whole(stage, FORECAST), "the result is answered")
    stage.require_heard(times_heard(stage, FORECAST) == 1, "the result is answered once")
    await next_question_is_answered(stage)


@scenario(
    "openai-two-calls-and-a-drop",
    kind="K7",
    rule="R9",
    provider="openai",
    faults=[Fault(CALLED, Abort())],
    server={"default_reply": Lines(questions={ASK_WEATHER: ToolCalls((PARIS, ROME))})},
    agent=lambda *_: CallAgent(tool_delay_s=1.0),
    mutants="openai-history-is-not-told",
)
async def two_calls_are_answered_together(stage: OpenAIStage) -> None:
    """Two calls of one response are answered by one reply, also over a drop."""
    stage.server.user_says(ASK_WEATHER)
    await stage.ask(timeout_s=20)
    await quiet(stage)
    cities = sorted(run.args["city"] for run in stage.call.tools)
    stage.require(cities == ["Paris", "Rome"], "each tool runs once")
    known = answered_calls(stage.server.session)
    kinds = [kind for kind, _ in known]
    stage.require(
        kinds == ["function_call"] * 2 + ["function_call_output"] * 2 and len(set(known)) == 4,
        f"both calls and then both results are known, once: {known}",
    )
    asked = stage.server.recording.frames("response.create")
    stage.require(len(asked) == 1, f"one reply is asked for, not {len(asked)}")
    stage.require_heard(times_heard(stage, FORECAST) == 1, "the results are answered once")
    await next_question_is_answered(stage)
