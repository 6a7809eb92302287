"""K2: the provider announces the end of a connection, and of a session's life."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    After,
    AtAudio,
    CallAgent,
    Fault,
    GoAway,
    LateHandle,
    Received,
    RefuseOverlap,
    Silence,
    ToolCall,
)

from ..lines import ANSWER, CUT_S, PACE, STORY, TOLD, by_reason
from ..registry import scenario
from ..stage import GeminiStage

MID_STORY = AtAudio(CUT_S, connection=1)
CALL = ToolCall("get_weather", {"city": "Paris"}, call_id="call-1")
TALE = {"replies": [STORY], "default_reply": by_reason}


@scenario(
    "gemini-goaway-300-s-during-speech",
    kind="K2",
    rule="R8",
    provider="gemini",
    faults=[Fault(MID_STORY, GoAway(300.0))],
    server={**TALE, "pace": "realtime"},
    mutants="goaway-cuts-the-turn",
)
@scenario(
    "gemini-goaway-300-s-no-overlap",
    kind="K2",
    rule="R8",
    provider="gemini",
    faults=[Fault(MID_STORY, (RefuseOverlap(), GoAway(300.0)))],
    server=TALE,
    mutants=("goaway-cuts-the-turn", "refused-overlap-is-tried-again"),
)
async def finishes_the_turn_before_it_moves(stage: GeminiStage) -> None:
    """A notice long before its deadline cuts nothing: the reply is heard to its last sample."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.")
    await call.agent_done()
    stage.require_heard(stage.heard_whole(STORY), "no sample of the running reply is lost")
    stage.dead_air(until=call.heard.spans()[-1].end)
    if stage.faulty:
        await stage.server.wait_for("setupComplete", count=2, timeout_s=290)
        turn_over_at = stage.server.recording.events("turnComplete", connection=1)[0].at
        stage.require(stage.server.dials()[1].at >= turn_over_at, "it moves after the turn")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require_heard(stage.times_heard(STORY) == 1, "the story is not told twice")


@scenario(
    "gemini-goaway-5-s-then-silence",
    kind="K2",
    rule="R8",
    provider="gemini",
    faults=[Fault(MID_STORY, GoAway(5.0)), Fault(After("goAway"), Silence())],
    server=TALE,
    mutants="goaway-has-no-deadline",
)
async def keeps_the_deadline_by_its_own_timer(stage: GeminiStage) -> None:
    """A server that falls silent after its notice is left before the deadline."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    noticed_at = await stage.until_fault()
    if stage.faulty:
        await stage.server.wait_for("setupComplete", count=2, timeout_s=30)
        left_s = noticed_at + 5.0 - stage.server.dials()[1].at
        stage.require(left_s > 0.5, f"it moves before the deadline, not {left_s:.1f} s before")
        arrived_s = CUT_S - CUT_S / PACE
        await stage.rest(3.0)
        stage.require_heard(
            call.heard.heard_between(noticed_at, noticed_at + 3.0) >= arrived_s - 0.05,
            "what had arrived before the silence is heard",
        )
    await call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air()


@scenario(
    "gemini-goaway-while-a-tool-runs",
    kind="K2",
    rule="R8",
    provider="gemini",
    faults=[Fault(After("toolCall"), GoAway(30.0))],
    server={"replies": [CALL], "default_reply": by_reason},
    agent=lambda faulty: CallAgent(tool_delay_s=4.0),
    mutants="move-waits-for-nothing",
)
async def answers_open_calls_before_it_moves(stage: GeminiStage) -> None:
    """A tool that runs when the notice comes is still answered, once, and the caller hears it."""
    await stage.call.say(1.0)
    await stage.call.reply(timeout_s=30)
    await stage.call.agent_done()
    stage.require_heard(stage.times_heard(TOLD) == 1, "the tool's result is told once")
    stage.dead_air(stage.call.mic.utterances[0].ended_at)
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    answers = stage.server.recording.deliveries_of("call-1")
    stage.require([frame.connection for frame in answers] == [1], "where it was called")
    if stage.faulty:
        await stage.server.wait_for("setupComplete", count=2, timeout_s=30)
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-goaway-just-before-a-late-handle",
    kind="K2",
    rule="R5",
    provider="gemini",
    faults=[
        # Later than the moment of leaving is spread, and in time for the margin.
        Fault(Received("setup"), LateHandle(1.2)),
        Fault(After("turnComplete", connection=1), GoAway(4.0)),
    ],
    server={"default_reply": by_reason},
    mutants="move-does-not-wait-for-the-handle",
)
async def waits_for_the_handle_of_the_turn(stage: GeminiStage) -> None:
    """A move right after a turn uses the handle that stands for this turn."""
    await stage.greet()
    if stage.faulty:
        await stage.server.wait_for("setupComplete", count=2, timeout_s=30)
        resumed = stage.server.session.resumed_from
        stage.require(resumed is not None, "the session is resumed")
        assert resumed is not None
        known = [entry for entry in resumed.history if entry.kind == "speech"]
        stage.require(known, "its handle was issued after the turn")
        stage.require(not stage.server.recording.texts_sent(2), "nothing needs to be told again")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air()
