"""K8: a reply that never begins, stops in the middle, or never ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from livekit.plugins.resilient.testing import (
    After,
    AtAudio,
    Before,
    Fault,
    Reply,
    Silence,
    Swallow,
    UserStarts,
    Wedge,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    ANSWER,
    GO_ON,
    QUESTION,
    STORY,
    TELL,
    Lines,
    next_question_is_answered,
    quiet,
    times_heard,
    whole,
)

BYE = "Say goodbye."
GOODBYE = Reply("Goodbye, and thank you for calling.")
UNSAID_S = 1.5  # longer than the model takes to say all of it

# Whole answers in the moment of their beginning meet a race of livekit-agents: when it tidies up
# after a speech that was cut before it began, it empties the item of a reply that is complete and
# still playing. Models take longer than that to their first word.
THOUGHT_OVER = replace(ANSWER, first_token_s=0.3)


@scenario(
    "openai-done-lost-after-barge-in",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(Before("response.done", connection=1), Swallow())],
    server={"default_reply": Lines({TELL: STORY, BYE: GOODBYE}), "pace": "realtime"},
    mutants="replaced-streams-stay-open",
)
async def a_barge_in_whose_end_is_lost_blocks_nothing(stage: OpenAIStage) -> None:
    """After a barge-in whose terminal event never comes, the caller's words are answered, the
    application can speak, and nothing keeps waiting for that event."""
    await stage.rest(1.0)
    before = asyncio.all_tasks()
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.call.wait_heard(2.0)
    # Held here, because tasks that nobody can wake any more may be collected.
    working = asyncio.all_tasks() - before
    await next_question_is_answered(stage)
    stage.require_heard(not whole(stage, STORY), "the reply was cut")
    handle = await stage.call.generate_reply(instructions=BYE, timeout_s=20)
    stage.require(handle.exception() is None, "the application's request is answered")
    stage.require_heard(whole(stage, GOODBYE), "it is heard to its end")
    await quiet(stage)
    stuck = [task.get_name() for task in working if not task.done()]
    stage.require(not stuck, f"nothing waits for the end of the cut reply: {stuck}")
    await next_question_is_answered(stage)


@scenario(
    "openai-barge-in-on-a-silent-reply",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[
        Fault(Before("response.output_audio_transcript.delta", connection=1), Silence(UNSAID_S))
    ],
    server={"default_reply": Lines({TELL: GOODBYE}, questions={QUESTION: THOUGHT_OVER})},
    mutants="replaced-streams-stay-open",
)
async def a_silent_reply_does_not_hold_up_the_answer(stage: OpenAIStage) -> None:
    """A caller who speaks into a reply that never came is answered within 3 s."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.rest(UNSAID_S + 1.0)
    stage.require_heard(not stage.faulty or times_heard(stage, GOODBYE) == 0, "nothing of it came")
    await next_question_is_answered(stage)
    (said,) = stage.call.mic.utterances
    waited_s = stage.dead_air(said.ended_at)
    stage.require_heard(waited_s < 3.0, f"the answer comes within 3 s, not {waited_s:.1f}")


STUCK = {"default_reply": Lines(questions={QUESTION: ANSWER}), "pace": "realtime"}


@scenario(
    "openai-barge-in-wedges-the-server",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(UserStarts(connection=1), Wedge())],
    server=STUCK,
    mutants="unended-turn-is-no-sign",
)
@scenario(
    "openai-barge-in-mutes-the-server",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(After("input_audio_buffer.speech_started", connection=1), Silence())],
    server=STUCK,
    mutants="unended-turn-is-no-sign",
)
async def a_barge_in_that_wedges_is_outlived(stage: OpenAIStage) -> None:
    """A caller whose barge-in leaves the server stuck in the reply that it cut is answered within
    8 s."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.call.wait_heard(2.0)
    await next_question_is_answered(stage)
    (said,) = stage.call.mic.utterances
    waited_s = stage.dead_air(said.ended_at)
    stage.require_heard(waited_s < 8.0, f"the answer comes within 8 s, not {waited_s:.1f}")
    stage.require_heard(not whole(stage, STORY), "the reply was cut")
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-done-lost",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(Before("response.done", connection=1), Swallow())],
    server={"default_reply": Lines()},
    mutants="stalled-reply-stays-open",
)
@scenario(
    "openai-done-lost-xai",
    kind="K8",
    rule="R13",
    provider="openai",
    flavour="xai",
    faults=[Fault(Before("response.done", connection=1), Swallow())],
    server={"default_reply": Lines()},
    mutants="stalled-reply-stays-open",
)
async def a_reply_without_an_end_is_ended(stage: OpenAIStage) -> None:
    """A reply that was heard to its end is over some time later, whatever the server says."""
    await stage.call.generate_reply(instructions=TELL, timeout_s=STORY.duration_s + 35.0)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    await quiet(stage)
    stage.require_heard(times_heard(stage, STORY) == 1, "the reply is heard once")
    await next_question_is_answered(stage)


@scenario(
    "openai-created-lost",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(Before("response.created", connection=1), Swallow())],
    server={"default_reply": Lines()},
    mutants="silent-reply-is-waited-for",
)
@scenario(
    "openai-created-lost-xai",
    kind="K8",
    rule="R13",
    provider="openai",
    flavour="xai",
    faults=[Fault(Before("response.created", connection=1), Swallow())],
    server={"default_reply": Lines()},
    mutants="silent-reply-is-waited-for",
)
async def a_reply_without_a_beginning_is_asked_for_again(stage: OpenAIStage) -> None:
    """A question whose reply never began is answered within 40 s."""
    stage.server.user_says("where is my parcel")
    await stage.ask(timeout_s=40)
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-stream-stalls",
    kind="K8",
    rule="R13",
    provider="openai",
    faults=[Fault(AtAudio(2.0, connection=1), Silence())],
    server={"default_reply": Lines()},
    mutants="stalled-reply-stays-open",
)
async def a_reply_that_stalls_is_taken_up_again(stage: OpenAIStage) -> None:
    """A reply that stops in the middle for good is taken up again within 40 s."""
    await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    await quiet(stage, 20.0)
    if stage.faulty:
        stage.require_heard(whole(stage, GO_ON), "the agent goes on by itself")
        stage.dead_air()
    stage.require_heard(times_heard(stage, STORY) == 1, "nothing is said twice")
    await next_question_is_answered(stage)
