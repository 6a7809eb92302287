"""K11: the microphone while no session can take it."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Delay,
    Fault,
    HangHandshake,
    OnConnection,
    UserStarts,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import Lines, next_question_is_answered, quiet

TALK = {"default_reply": Lines()}
DROP_S, OUTAGE_S = 5.0, 8.0
GAP_AUDIO_S = 1.0
SLACK_S = 0.3  # a frame of 100 ms on its way at either end, and the dial


@scenario(
    "openai-gap-audio",
    kind="K11",
    rule="R15",
    provider="openai",
    faults=[
        Fault(AtTime(DROP_S, connection=1), Abort()),
        Fault(OnConnection(2), HangHandshake(OUTAGE_S)),
    ],
    server=TALK,
    mutants="outage-audio-is-kept-whole",
)
async def old_audio_is_not_sent(stage: OpenAIStage) -> None:
    """After an outage the model hears at most a second of what was said meanwhile."""
    await stage.rest(DROP_S + OUTAGE_S + 3.0)
    recording = stage.server.recording
    newest = max(stage.server.connections)
    opened_at = recording.events("session.created", newest)[0].at
    heard_s = recording.audio_seconds(newest)
    allowed_s = stage.call.now - opened_at + GAP_AUDIO_S + SLACK_S
    stage.require(heard_s <= allowed_s, f"{heard_s:.1f} s of audio is at most {allowed_s:.1f} s")
    await next_question_is_answered(stage)


@scenario(
    "openai-half-said-question",
    kind="K11",
    rule="R15",
    provider="openai",
    faults=[Fault(UserStarts(connection=1), (Delay(1.0), Abort()))],
    server=TALK,
    mutants="openai-half-said-question-is-lost",
)
@scenario(
    "openai-half-said-question-xai",
    kind="K11",
    rule="R15",
    provider="openai",
    flavour="xai",
    faults=[Fault(UserStarts(connection=1), (Delay(1.0), Abort()))],
    server=TALK,
    mutants=("openai-half-said-question-is-lost", "openai-blank-items-are-told"),
)
async def a_half_said_question_is_heard_whole(stage: OpenAIStage) -> None:
    """A question that a drop cuts in two reaches the model in one piece, and is answered."""
    await stage.ask(3.0, timeout_s=20)
    await quiet(stage)
    (said,) = stage.call.mic.utterances
    questions = [item.pcm for item in stage.server.session.items if item.role == "user"]
    stage.require(len(questions) == 1, f"the model hears one question, not {len(questions)}")
    stage.require(said.pcm in questions[0], "the model hears the whole question")
    await next_question_is_answered(stage)
