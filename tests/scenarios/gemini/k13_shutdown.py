"""K13: hanging up, and what is left behind."""

from __future__ import annotations

import asyncio
import os

from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    AtTime,
    CallAgent,
    Fault,
    HangHandshake,
    NoCloseAnswer,
    OnConnection,
    Refuse,
    ScriptedMicrophone,
    ToolCall,
)

from ..lines import ANSWER, CUT_S, STORY, by_reason
from ..registry import scenario
from ..stage import GeminiStage

TALK = {"default_reply": by_reason}
TALE = {**TALK, "replies": [STORY]}
CUT = Fault(AtAudio(CUT_S, connection=1), Abort())
SLOW = {"conn_options": APIConnectOptions(max_retry=3, retry_interval=5.0, timeout=10.0)}
CLOSE_LIMIT_S = 1.0
DROPS = int(os.environ.get("RESILIENT_TEST_DROPS", "20"))
HEALTHY_S = 11.0  # a connection that lasted this long restores the budget of an outage


async def hang_up_for_good(stage: GeminiStage) -> None:
    dials = len(stage.server.dials())
    seconds = await stage.hang_up()
    stage.require(seconds < CLOSE_LIMIT_S, f"hanging up takes less than 1 s, not {seconds:.2f} s")
    await asyncio.sleep(30.0)
    stage.require(len(stage.server.dials()) == dials, "nothing is dialled afterwards")


@scenario(
    "gemini-server-never-answers-close",
    kind="K13",
    rule="R21",
    provider="gemini",
    faults=[Fault(OnConnection(1), NoCloseAnswer())],
    server=TALK,
    mutants="google-close-waits-for-the-server",
)
async def hangs_up_on_a_server_that_does_not_answer(stage: GeminiStage) -> None:
    """Hanging up takes no longer because the server does not answer it."""
    await stage.greet()
    await hang_up_for_good(stage)


@scenario(
    "gemini-hang-up-while-dialling",
    kind="K13",
    rule="R21",
    provider="gemini",
    faults=[CUT, Fault(OnConnection(2), HangHandshake())],
    server=TALE,
    model=SLOW,
    mutants="dial-outlives-the-call",
)
@scenario(
    "gemini-hang-up-while-backing-off",
    kind="K13",
    rule="R21",
    provider="gemini",
    faults=[CUT, Fault(OnConnection(None, nth=2), Refuse(503), times="always")],
    server=TALE,
    model=SLOW,
    mutants="wait-outlives-the-call",
)
async def hangs_up_during_an_outage(stage: GeminiStage) -> None:
    """Hanging up during an outage ends it: nothing is dialled any more."""
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault(2)
    await stage.rest(0.2)
    await hang_up_for_good(stage)


@scenario(
    "gemini-hang-up-while-a-tool-runs",
    kind="K13",
    rule="R21",
    provider="gemini",
    faults=[Fault(After("toolCall"), Abort())],
    server={**TALK, "replies": [ToolCall("get_weather", {"city": "Paris"})]},
    agent=lambda faulty: CallAgent(tool_delay_s=0.6),
    mutants="pings-outlive-their-connection",
)
async def hangs_up_during_a_tool(stage: GeminiStage) -> None:
    """Hanging up while a tool runs and the socket is gone leaves nothing behind."""
    await stage.call.say(1.0)
    await stage.server.wait_for("toolCall")
    if stage.faulty:  # a redial that is on its way counts as one that was made before
        await stage.server.wait_for("open", count=2)
    await hang_up_for_good(stage)


@scenario(
    "gemini-many-drops-leave-no-trace",
    kind="K13",
    rule="R22",
    provider="gemini",
    faults=[Fault(AtTime(HEALTHY_S), Abort(), times=DROPS)],
    server=TALK,
    # Longer frames, because most of the work of a quiet call is its microphone.
    call=lambda: {"mic": ScriptedMicrophone(frame_ms=100)},
    mutants="tasks-outlive-their-connection",
)
async def does_not_grow(stage: GeminiStage) -> None:
    """After dozens of drops the call has as many tasks as before and is answered as before."""
    await stage.greet()
    await stage.ask()
    before = len(asyncio.all_tasks())
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=60)
        await stage.rest(1.0)
        first = len(stage.server.recording.texts_sent(2))
        await stage.server.wait_for("fault", count=DROPS, timeout_s=DROPS * 30)
        await stage.server.wait_for("setupComplete", count=DROPS + 1, timeout_s=60)
        await stage.rest(1.0)
        after = len(asyncio.all_tasks())
        stage.require(after <= before + 1, f"no tasks pile up: {before} before, {after} after")
        last = len(stage.server.recording.texts_sent(DROPS + 1))
        stage.require(last <= first + 1, "what is told at a reconnect does not grow")
    await stage.ask()
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)
