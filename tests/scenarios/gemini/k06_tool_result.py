"""K6: tool results that never reach the model."""

from __future__ import annotations

import asyncio

from livekit.agents import RunContext, function_tool

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    CallAgent,
    Fault,
    HangHandshake,
    OnConnection,
    Received,
    ToolCall,
)

from ..lines import ANSWER, GO_ON, RESULT, TOLD, told_once_known
from ..registry import scenario
from ..stage import GeminiStage

CALL = ToolCall("get_weather", {"city": "Paris"}, call_id="call-1")
WEATHER = {"replies": [CALL], "default_reply": told_once_known}


def slow_agent(faulty: bool) -> CallAgent:
    return CallAgent(weather=RESULT, tool_delay_s=1.0)


async def ask_for_the_weather(stage: GeminiStage) -> None:
    await stage.call.say(1.0)
    await stage.call.until(
        lambda: stage.times_heard(TOLD), timeout_s=30, what="the weather that the caller asked for"
    )
    await stage.call.agent_done()
    stage.dead_air(stage.call.mic.utterances[0].ended_at)
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    stage.require_heard(stage.times_heard(TOLD) == 1, "its result is told once")
    stage.require(stage.server.session.knows(RESULT) == 1, "its result is known once")


@scenario(
    "gemini-result-caught-in-the-gap",
    kind="K6",
    rule="R9",
    provider="gemini",
    faults=[Fault(After("toolCall"), Abort()), Fault(OnConnection(2), HangHandshake(3.0))],
    server={**WEATHER, "strict": True, "family": "3.1", "pace": None},
    agent=slow_agent,
    mutants="result-answers-any-session",
)
@scenario(
    "gemini-drop-before-the-result-is-ready",
    kind="K6",
    rule="R9",
    provider="gemini",
    faults=[Fault(After("toolCall"), Abort())],
    server={**WEATHER, "strict": True, "family": "3.1"},
    agent=slow_agent,
    mutants="result-answers-any-session",
)
@scenario(
    "gemini-drop-takes-the-result-along",
    kind="K6",
    rule="R9",
    provider="gemini",
    faults=[Fault(Received("toolResponse"), Abort())],
    server={**WEATHER, "strict": True, "family": "3.1", "pace": "realtime"},
    agent=slow_agent,
    mutants="result-answers-any-session",
)
async def tells_the_result_to_a_session_without_the_call(stage: GeminiStage) -> None:
    """A result that a drop caught is told to the restored session, and the caller hears it."""
    await ask_for_the_weather(stage)
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
    refused = [info.code for info in stage.server.recording.closes if info.code == 1007]
    stage.require(not refused, "no session is sent an answer to a call that it did not make")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-drop-with-a-call-in-the-snapshot",
    kind="K6",
    rule="R9",
    provider="gemini",
    # After set-up, at the turn's begin, and at its end: that last handle knows of the open call.
    faults=[Fault(After("sessionResumptionUpdate", connection=1, nth=3), Abort())],
    server={**WEATHER, "strict": True, "family": "3.8", "handle_while_busy": True},
    agent=lambda faulty: CallAgent(weather=RESULT, tool_delay_s=3.0),
    mutants="restored-call-is-unknown",
)
async def answers_the_call_that_was_restored(stage: GeminiStage) -> None:
    """A session that was restored with its open call gets the result as the call's answer."""
    await ask_for_the_weather(stage)
    answers = stage.server.recording.deliveries_of("call-1")
    stage.require(len(answers) == 1, "the call is answered once")
    stage.require(
        answers[0].connection == len(stage.server.dials()), "on the connection that serves the call"
    )
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


class SwappingAgent(CallAgent):
    """Its tool changes the tools, as an agent does that goes on to its next task."""

    def __init__(self, *, swaps: bool) -> None:
        super().__init__()
        self.swaps = swaps

    @function_tool
    async def next_step(self, context: RunContext[None]) -> str:
        """Go on to the next step."""
        if self.swaps:
            await self.update_tools([*self.tools, goodbye])
        await asyncio.sleep(0.1)
        return RESULT


@function_tool
async def goodbye() -> str:
    """Say goodbye."""
    return "bye"


@scenario(
    "gemini-tool-changes-the-tools",
    kind="K6",
    rule="R9",
    provider="gemini",
    by_script=True,
    server={
        **WEATHER,
        "replies": [GO_ON, ToolCall("next_step", {}, call_id="call-1")],
        "strict": True,
        "family": "3.1",
    },
    agent=lambda faulty: SwappingAgent(swaps=faulty),
    mutants="result-answers-any-session",
)
async def outlives_a_change_of_tools(stage: GeminiStage) -> None:
    """A tool that changes the agent's tools is answered, and the caller hears the result."""
    await stage.greet()
    await ask_for_the_weather(stage)
    if stage.faulty:
        stage.require(len(stage.server.dials()) == 2, "one new connection takes the new tools")
        declared = str(stage.server.session.setup.get("tools"))
        stage.require("goodbye" in declared, "the new tools are declared")
    stage.require(stage.server.session.knows(GO_ON.text) == 1, "the greeting is known once")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
