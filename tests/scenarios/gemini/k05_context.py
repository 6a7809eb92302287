"""K5: context that is told twice, lost, or answered twice."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    ContinueAlone,
    Fault,
    LateHandle,
    NoHandle,
    OnConnection,
)

from ..lines import ANSWER, CUT_S, GO_ON, STORY, by_reason
from ..registry import scenario
from ..stage import GeminiStage
from .steps import requests_sent

TALK = {"default_reply": by_reason}
DROP_AT_S = 20.0


def idle_drop(connection: int) -> Fault:
    return Fault(AtTime(DROP_AT_S, connection=connection), Abort())


@scenario(
    "gemini-resume-without-news",
    kind="K5",
    rule="R6",
    provider="gemini",
    faults=[idle_drop(1)],
    server=TALK,
    mutants="restored-session-is-told-everything",
)
async def says_nothing_that_is_known(stage: GeminiStage) -> None:
    """A drop while nobody speaks is not noticed: nothing is told again and nobody speaks up."""
    await stage.greet()
    await stage.ask()
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=DROP_AT_S + 30)
        turns = stage.server.script.turns
        await stage.rest(10.0)
        stage.require(not stage.server.recording.texts_sent(2), "nothing is told again")
        stage.require(stage.server.script.turns == turns, "nobody speaks unasked")
    await stage.ask()
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.require(stage.server.session.knows(GO_ON.text) == 1, "the greeting is known once")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-idle-drop-owes-nothing",
    kind="K5",
    rule="R12",
    provider="gemini",
    faults=[Fault(OnConnection(1), NoHandle()), idle_drop(1)],
    server=TALK,
    mutants="fresh-session-is-told-nothing",
)
async def stays_quiet_when_nothing_is_owed(stage: GeminiStage) -> None:
    """After a drop between turns the agent waits for the caller, even in a fresh session."""
    await stage.greet()
    await stage.ask()
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=DROP_AT_S + 30)
        turns = stage.server.script.turns
        await stage.rest(15.0)
        stage.require(stage.server.script.turns == turns, "nobody speaks unasked")
        stage.require(stage.server.session.knows(GO_ON.text) == 1, "but it knows the talk, once")
    await stage.ask()
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-history-once-after-three-drops",
    kind="K5",
    rule="R6",
    provider="gemini",
    faults=[idle_drop(1), idle_drop(2), idle_drop(3)],
    server={**TALK, "pace": None},
    mutants="restored-session-is-told-everything",
)
async def does_not_multiply_the_history(stage: GeminiStage) -> None:
    """However often the socket drops, the model knows each sentence once."""
    questions = ["what is the first thing", "what is the second", "what is the third", "and last"]
    stage.server.user_says(*questions)
    await stage.greet()
    for number, _ in enumerate(questions, start=1):
        if stage.faulty:
            await stage.server.wait_for("setupComplete", connection=number, timeout_s=60)
        await stage.ask()
        if stage.faulty and number < len(questions):
            await stage.server.wait_for("setupComplete", connection=number + 1, timeout_s=60)
    session = stage.server.session
    for text in (GO_ON.text, *questions):
        stage.require(session.knows(text) == 1, f"{text!r} is known once")
    stage.require_heard(
        stage.times_heard(ANSWER) == len(questions), "every question is answered once"
    )
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-model-goes-on-by-itself",
    kind="K5",
    rule="R12",
    provider="gemini",
    faults=[
        # A handle from the middle of the reply: what it resumes can go on by itself.
        Fault(OnConnection(1), LateHandle(1.0)),
        Fault(AtAudio(CUT_S, connection=1), Abort()),
        Fault(OnConnection(2), ContinueAlone(1.0)),
    ],
    server={**TALK, "replies": [STORY], "handle_while_busy": True, "pace": "realtime"},
    mutants="restored-session-is-asked-at-once",
)
async def does_not_talk_over_the_model(stage: GeminiStage) -> None:
    """A model that finishes its cut reply by itself is neither asked again nor talked over."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    if stage.faulty:
        rest = await stage.next_segment(timeout_s=15)
        stage.dead_air()
        await call.agent_done()
        stage.require_heard(not rest.interrupted, "the rest is not talked over")
        await stage.rest(15.0)
        stage.require(stage.server.script.turns == 2, "the model is not asked as well")
        stage.require(not requests_sent(stage, 2), "nobody asks it")
    await call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
