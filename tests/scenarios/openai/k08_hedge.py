"""K8: a reply that is slow, or stops, on a connection that is alive: another is asked beside."""

from __future__ import annotations

from livekit.plugins.resilient.core.limits import HEDGE_AFTER_S, HEDGE_STALLED_AFTER_S
from livekit.plugins.resilient.testing import (
    AtAudio,
    Before,
    Delay,
    Fault,
    Silence,
    ToolCall,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    ANSWER,
    FORECAST,
    GO_ON,
    QUESTION,
    STORY,
    TELL,
    Lines,
    heard_s,
    next_question_is_answered,
    quiet,
    times_heard,
    whole,
)

ASK = "what is the weather in Paris"
LOST_S = 2.0
"""Dial, first token and the beginning of playout, with room."""

# The caller's words are known before anything goes wrong: else no other connection is asked.
KNOWN = {"transcription_delay_s": 0.05}


@scenario(
    "openai-slow-reply-never-comes",
    kind="K8",
    rule="R24",
    provider="openai",
    faults=[Fault(Before("response.output_item.added", connection=1), Silence())],
    server={"default_reply": Lines(questions={QUESTION: ANSWER}, otherwise=ANSWER), **KNOWN},
    mutants="nothing-is-asked-beside",
)
async def a_reply_that_never_comes_is_given_by_another(stage: OpenAIStage) -> None:
    """A question whose reply never comes is answered by a second connection within 10 s."""
    stage.server.user_says(QUESTION)
    await stage.ask(timeout_s=30)
    (said,) = stage.call.mic.utterances
    waited_s = stage.dead_air(said.ended_at)
    within_s = HEDGE_AFTER_S + LOST_S
    stage.require_heard(waited_s < within_s, f"the answer comes in time, not after {waited_s:.1f}")
    stage.require_heard(times_heard(stage, ANSWER) == 1, "the answer is heard once")
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-reply-stops-for-good",
    kind="K8",
    rule="R24",
    provider="openai",
    faults=[Fault(AtAudio(2.0, connection=1), Silence())],
    server={"default_reply": Lines(), "pace": "realtime", **KNOWN},
    mutants="nothing-is-asked-beside",
)
async def a_reply_that_stops_is_gone_on_with(stage: OpenAIStage) -> None:
    """A reply that stops in the middle is gone on with by a second connection within 8 s."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    if stage.faulty:
        await stage.call.until(
            lambda: times_heard(stage, GO_ON), timeout_s=60, what="the rest of the reply"
        )
        gap_s = stage.dead_air(stage.fault_at)
        within_s = HEDGE_STALLED_AFTER_S + LOST_S
        stage.require_heard(gap_s < within_s, f"the rest comes in time, not after {gap_s:.1f}")
        stage.require_heard(heard_s(stage, STORY) >= 1.9, "what came of it is heard")
    await stage.call.agent_done()
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-slow-reply-is-a-call",
    kind="K8",
    rule="R24",
    provider="openai",
    faults=[Fault(Before("response.output_item.added", connection=1), Silence())],
    server={
        "default_reply": Lines(
            questions={ASK: ToolCall("get_weather", {"city": "Paris"})},
            otherwise=ToolCall("get_weather", {"city": "Paris"}),
        ),
        **KNOWN,
    },
    mutants="nothing-is-asked-beside",
)
@scenario(
    "openai-slow-call-comes-first",
    kind="K8",
    rule="R24",
    provider="openai",
    faults=[
        Fault(Before("response.output_item.added", connection=1), Delay(HEDGE_AFTER_S)),
        Fault(Before("response.output_item.added", connection=2), Delay(1.0)),
    ],
    server={
        "default_reply": Lines(
            questions={ASK: ToolCall("get_weather", {"city": "Paris"})},
            otherwise=ToolCall("get_weather", {"city": "Paris"}),
        ),
        **KNOWN,
    },
    mutants="hedge-is-kept-beside",
)
async def a_slow_call_runs_once(stage: OpenAIStage) -> None:
    """A tool call that comes late runs once, on whichever connection it comes first, and the caller
    is told its result within 11 s."""
    stage.server.user_says(ASK)
    await stage.ask(timeout_s=30)
    (said,) = stage.call.mic.utterances
    waited_s = stage.dead_air(said.ended_at)
    within_s = HEDGE_AFTER_S + LOST_S + 1.0
    stage.require_heard(waited_s < within_s, f"the result comes in time, not after {waited_s:.1f}")
    stage.require_heard(whole(stage, FORECAST), "the result is told")
    await quiet(stage)
    stage.require_heard(times_heard(stage, FORECAST) == 1, "the result is told once")
    stage.require(len(stage.call.tools) == 1, "the tool runs once")
    await next_question_is_answered(stage)
