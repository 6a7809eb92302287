"""K12: the rules of the model families, and what they do with tools."""

from __future__ import annotations

from typing import Any

from livekit.agents import function_tool

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    CallAgent,
    Fault,
    NoHandle,
    OnConnection,
    ToolCall,
    UnknownMessage,
)

from ..lines import ANSWER, CUT_S, GO_ON, STORY, TOLD, by_reason
from ..registry import scenario
from ..stage import GeminiStage

TALK = {"default_reply": by_reason, "strict": True}
FRESH_START = [
    Fault(OnConnection(1), NoHandle()),
    Fault(AtTime(25.0, connection=1), Abort()),
]


@scenario(
    "gemini-fresh-start-2-5",
    kind="K12",
    rule="R7",
    provider="gemini",
    faults=FRESH_START,
    server={**TALK, "family": "2.5", "pace": "realtime"},
    agent=lambda faulty: CallAgent(weather="cloudless"),
    mutants="fresh-session-is-told-nothing",
)
@scenario(
    "gemini-fresh-start-3-1",
    kind="K12",
    rule="R7",
    provider="gemini",
    faults=FRESH_START,
    server={**TALK, "family": "3.1", "pace": None},
    agent=lambda faulty: CallAgent(weather="cloudless"),
    mutants="fresh-session-is-told-nothing",
)
@scenario(
    "gemini-fresh-start-3-8",
    kind="K12",
    rule="R7",
    provider="gemini",
    faults=FRESH_START,
    server={**TALK, "family": "3.8"},
    agent=lambda faulty: CallAgent(weather="cloudless"),
    mutants="fresh-session-is-told-nothing",
)
async def seeds_by_the_rules_of_the_family(stage: GeminiStage) -> None:
    """A drop before any handle costs nothing: the new session knows the talk, tools included."""
    stage.server.replies.extend([GO_ON, ToolCall("get_weather", {"city": "Paris"})])
    stage.server.user_says("what is the weather", "and tomorrow")
    await stage.greet()
    await stage.call.say(1.0)
    await stage.call.until(lambda: stage.times_heard(TOLD), what="the weather")
    await stage.call.agent_done()
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=60)
        turns = stage.server.script.turns
        await stage.rest(10.0)
        stage.require(stage.server.script.turns == turns, "nobody greets again")
        kinds = [frame.kind for frame in stage.server.recording.frames(connection=2)]
        stage.require(kinds.count("clientContent") == 1, "the history is told once")
        stage.require(kinds[1] == "clientContent", "it is told before the first microphone frame")
    await stage.ask()
    session = stage.server.session
    for text in (GO_ON.text, "what is the weather", "cloudless", TOLD.text):
        stage.require(session.knows(text) == 1, f"{text!r} is known once")
    stage.require(session.forgetful_answers == 0, "the history is told in the form that is kept")
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    refused = [info for info in stage.server.recording.closes if info.code == 1007]
    stage.require(not refused, "the server refuses nothing")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@function_tool
async def book_table(people: int, when: str = "tonight") -> str:
    """Book a table."""
    return f"booked for {people}, {when}"


@function_tool
async def book_table_now(people: int) -> str:
    """Book a table."""
    return f"booked for {people}"


class BookingAgent(CallAgent):
    def __init__(self, *, with_default: bool) -> None:
        super().__init__(tools=[book_table if with_default else book_table_now])


@scenario(
    "gemini-tool-with-a-default",
    kind="K12",
    rule="R20",
    provider="gemini",
    by_script=True,
    server={"default_reply": by_reason},
    agent=lambda faulty: BookingAgent(with_default=faulty),
    mutants=("defaults-are-not-declared", "compression-is-off"),
)
async def declares_defaults(stage: GeminiStage) -> None:
    """The model is told that an argument has a default, so that it need not ask the caller."""
    await stage.greet()
    if stage.faulty:
        when = _parameter(stage.server.session.setup, "book_table", "when")
        stage.require(when.get("default") == "tonight", "the default is declared")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    setup = stage.server.session.setup
    stage.require("sessionResumption" in setup, "session resumption is on")
    if stage.faulty:
        stage.require("contextWindowCompression" in setup, "context compression is on")


def _parameter(setup: Any, tool: str, name: str) -> dict[str, Any]:
    for group in setup.get("tools") or []:
        for declared in group.get("functionDeclarations") or []:
            if declared["name"] == tool:
                schema = declared.get("parameters") or declared.get("parametersJsonSchema") or {}
                found: dict[str, Any] = schema.get("properties", {}).get(name, {})
                return found
    return {}


@scenario(
    "gemini-unknown-message",
    kind="K12",
    rule="R19",
    provider="gemini",
    faults=[Fault(AtAudio(CUT_S, connection=1), UnknownMessage())],
    server={"replies": [STORY], "default_reply": by_reason, "pace": None},
    mutants="unreadable-message-ends-the-connection",
)
async def skips_an_unknown_message(stage: GeminiStage) -> None:
    """A message of a newer protocol is skipped, and the reply around it is heard to its end."""
    await stage.call.generate_reply(instructions="Tell a story.")
    await stage.call.agent_done()
    stage.require_heard(stage.heard_whole(STORY), "no sample of the running reply is lost")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.dead_air()
