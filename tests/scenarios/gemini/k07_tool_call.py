"""K7: tool calls that come twice, are cancelled, or carry no id."""

from __future__ import annotations

import asyncio

from livekit.agents import function_tool, llm

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    CallAgent,
    CallWithoutId,
    CancelCall,
    Fault,
    OnConnection,
    Received,
    RepeatCall,
    ToolCall,
)
from livekit.plugins.resilient.testing.call_log import GenerationCreated

from ..lines import ANSWER, RESULT, TOLD, told_once_known
from ..registry import scenario
from ..stage import GeminiStage

CALL = ToolCall("get_weather", {"city": "Paris"}, call_id="call-1")
WEATHER = {"replies": [CALL], "default_reply": told_once_known}


def slow_agent(faulty: bool) -> CallAgent:
    # It ends once the next connection serves, however late that is dialled.
    return CallAgent(weather=RESULT, tool_delay_s=1.5)


@scenario(
    "gemini-same-call-twice",
    kind="K7",
    rule="R10",
    provider="gemini",
    faults=[Fault(After("toolCall"), RepeatCall())],
    server={**WEATHER, "pace": None},
    agent=slow_agent,
    mutants="repeated-call-runs-again",
)
@scenario(
    "gemini-same-call-again-after-its-result",
    kind="K7",
    rule="R10",
    provider="gemini",
    faults=[Fault(Received("toolResponse"), RepeatCall())],
    server=WEATHER,
    agent=slow_agent,
    mutants="repeated-call-runs-again",
)
@scenario(
    "gemini-same-call-on-two-connections",
    kind="K7",
    rule="R10",
    provider="gemini",
    faults=[Fault(After("toolCall"), (RepeatCall("next"), Abort()))],
    server=WEATHER,
    agent=slow_agent,
    mutants="repeated-call-runs-again",
)
@scenario(
    "gemini-call-without-id",
    kind="K7",
    rule="R9",
    provider="gemini",
    faults=[Fault(OnConnection(1), CallWithoutId())],
    server=WEATHER,
    agent=slow_agent,
    mutants="made-up-id-is-sent",
)
async def runs_the_tool_once(stage: GeminiStage) -> None:
    """A call that comes twice or without an id is one run of the tool and one answer."""
    await stage.call.say(1.0)
    await stage.call.until(
        lambda: stage.times_heard(TOLD), timeout_s=30, what="the weather that the caller asked for"
    )
    await stage.call.agent_done()
    stage.dead_air(stage.call.mic.utterances[0].ended_at)
    await stage.rest(5.0)
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    stage.require_heard(stage.times_heard(TOLD) == 1, "its result is told once")
    stage.require(stage.server.session.knows(RESULT) == 1, "its result is known once")
    answers = stage.server.recording.deliveries_of("call-1")
    stage.require(len(answers) <= 1, "the call is not answered twice")
    turns = sum(isinstance(event, GenerationCreated) for event in stage.call.events)
    stage.require(turns == 2, f"one turn calls and one answers, not {turns} in all")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


class StoppableAgent(CallAgent):
    """Its tool may be stopped while it runs."""

    @function_tool(flags=llm.ToolFlag.CANCELLABLE)
    async def get_weather(self, city: str) -> str:  # type: ignore[override]
        """Tell the weather in a city."""
        await asyncio.sleep(1.0)
        return RESULT


@scenario(
    "gemini-call-is-cancelled",
    kind="K7",
    rule="R10",
    provider="gemini",
    faults=[Fault(After("toolCall"), CancelCall())],
    server=WEATHER,
    agent=lambda faulty: StoppableAgent(),
    mutants=("cancelled-tool-runs-on", "cancelled-call-is-answered"),
)
async def discards_the_result_of_a_cancelled_call(stage: GeminiStage) -> None:
    """A call that the server cancels is stopped, and its result is not sent."""
    await stage.call.say(1.0)
    await stage.server.wait_for("toolCall", timeout_s=10)
    await stage.rest(5.0)
    await stage.call.agent_done()
    if stage.faulty:
        answers = stage.server.recording.deliveries_of("call-1")
        stage.require(not answers, "nothing is sent for the cancelled call")
        stage.require_heard(stage.times_heard(TOLD) == 0, "nothing is told of it")
        stage.require([run.status for run in stage.call.tools] == ["cancelled"], "it is stopped")
    else:
        stage.require_heard(stage.times_heard(TOLD) == 1, "the result is told")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)
