"""K8: generations that do not end, begin twice, or stay empty."""

from __future__ import annotations

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import (
    After,
    AtAudio,
    Before,
    CallAgent,
    EmptyTurns,
    Fault,
    OnConnection,
    PhantomInterruption,
    Reply,
    Silence,
    Swallow,
    ToolCall,
    TrailingAudio,
    UserStarts,
    UserStops,
    Wedge,
)

from ..lines import ANSWER, CUT_S, GO_ON, GREETING, STORY, TOLD, by_reason
from ..registry import scenario
from ..stage import GeminiStage

CUT = AtAudio(CUT_S, connection=1)
TALK = {"default_reply": by_reason}
LOOK = Reply("Let me have a look at the weather for you.")
TALE = {**TALK, "replies": [STORY]}
OVER_WITHIN_S = 26.0  # the bound on a complete reply, and what a busy loop is late by


@scenario(
    "gemini-audio-after-a-tool-call",
    kind="K8",
    rule="R18",
    provider="gemini",
    faults=[Fault(OnConnection(1), TrailingAudio(0.5))],
    server={
        **TALK,
        "replies": [ToolCall("get_weather", {"city": "Paris"}, say_first=LOOK.text)],
    },
    agent=lambda faulty: CallAgent(tool_delay_s=1.0),
    mutants="trailing-audio-begins-a-reply",
)
async def is_not_thrown_by_trailing_audio(stage: GeminiStage) -> None:
    """Audio that trails a tool call neither stops the tool nor keeps its result from being told."""
    await stage.call.say(1.0)
    await stage.call.until(
        lambda: stage.times_heard(TOLD), timeout_s=20, what="the weather that the caller asked for"
    )
    await stage.call.agent_done()
    stage.require([run.status for run in stage.call.tools] == ["done"], "the tool runs through")
    stage.require_heard(stage.times_heard(TOLD) == 1, "its result is told once")
    stage.require_heard(stage.heard_whole(LOOK), "what is said before the call is not cut")
    opened = stage.call.agent_texts()
    stage.require(len(opened) == 2, "the trailing audio makes no message of its own")
    stage.dead_air(stage.call.mic.utterances[0].ended_at)
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-no-turn-complete-after-barge-in",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(Before("turnComplete"), Swallow())],
    server={**TALE, "pace": "realtime"},
    mutants="next-turn-goes-into-the-interrupted-one",
)
async def closes_an_interrupted_reply(stage: GeminiStage) -> None:
    """The caller cuts in, the server forgets to end the turn, and the caller is still answered."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await call.wait_heard(2.0)
    await call.say(1.0)
    await call.reply(timeout_s=15)
    await call.agent_done()
    stage.dead_air(call.mic.utterances[0].ended_at)
    stage.require_heard(stage.heard_whole(ANSWER), "the caller's question is answered in full")
    await call.generate_reply(instructions="Go on.")
    await call.agent_done()
    stage.require_heard(stage.heard_whole(GO_ON), "the app's next request is answered in full")


@scenario(
    "gemini-no-turn-complete",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(Before("turnComplete"), Swallow())],
    server={**TALK, "replies": [GREETING]},
    mutants="complete-reply-stays-open",
)
async def closes_a_complete_reply(stage: GeminiStage) -> None:
    """A reply that the server forgets to end is over some time after it was heard."""
    reply = await stage.greet()
    over_s = stage.call.now - reply.ended_at
    stage.require_heard(stage.heard_whole(GREETING), "the greeting is heard in full")
    stage.require(over_s < OVER_WITHIN_S, f"it is over within 26 s, not after {over_s:.1f} s")
    request = await stage.call.generate_reply(instructions="Go on.")
    await stage.call.agent_done()
    stage.require(request.exception() is None, "the app's next request does not fail")
    stage.require_heard(stage.heard_whole(GO_ON), "it is answered in full")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the caller's question is answered in full")
    stage.dead_air(stage.call.mic.utterances[0].ended_at)


@scenario(
    "gemini-question-after-a-reply-without-an-end",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(Before("turnComplete"), Swallow())],
    server={**TALK, "replies": [GREETING]},
    mutants="next-turn-goes-into-the-complete-one",
)
async def closes_a_complete_reply_for_the_next(stage: GeminiStage) -> None:
    """A caller who speaks after a reply that the server forgot to end is answered at once."""
    await stage.call.generate_reply(instructions="Greet the caller.", wait=False)
    await stage.call.reply()
    await stage.rest(1.0)
    said = await stage.call.say(1.0)
    await stage.call.reply(after=said.ended_at, timeout_s=10)
    waited_s = stage.dead_air(said.ended_at)
    stage.require(waited_s < 3.0, f"the answer comes within 3 s, not {waited_s:.1f}")
    stage.require_heard(stage.heard_whole(GREETING), "the greeting is heard in full")
    stage.require_heard(stage.heard_whole(ANSWER), "the caller's question is answered in full")


PAUSES_S = (1.0, 8.0, 40.0)  # the last is beyond the bound on a complete reply
UNENDED = Fault(Before("turnComplete"), Swallow(), times="always")
AT_ONCE = {**TALK, "replies": [GREETING], "assume_playback": False}
UNTOLD = {"input_audio_transcription": None}


@scenario(
    "gemini-replies-without-an-end",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[UNENDED],
    server=AT_ONCE,
    model=UNTOLD,
    mutants="finalised-reply-swallows-the-next",
)
@scenario(
    "gemini-replies-without-an-end-and-no-ears",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[UNENDED],
    server=AT_ONCE,
    model=UNTOLD,
    resilience=ResilienceOptions(speech_hint=False),
    mutants="next-turn-must-be-announced",
)
async def hears_the_turns_after_replies_without_an_end(stage: GeminiStage) -> None:
    """Where the server ends no reply and tells no words of the caller, each question is answered
    within 3 s, however long after the reply it comes."""
    call = stage.call
    await call.generate_reply(instructions="Greet the caller.", wait=False)
    await call.reply()
    for asked, pause_s in enumerate(PAUSES_S, 1):
        await stage.rest(pause_s)
        said = await call.say(1.0)
        await call.reply(after=said.ended_at, timeout_s=10)
        waited_s = stage.dead_air(said.ended_at)
        stage.require_heard(waited_s < 3.0, f"the answer comes within 3 s, not {waited_s:.1f}")
        answers = stage.times_heard(ANSWER, first_s=ANSWER.duration_s)
        stage.require_heard(answers == asked, f"answer {asked} is heard in full, and once")
    stage.require_heard(stage.heard_whole(GREETING), "the greeting is heard in full")


@scenario(
    "gemini-barge-in-wedges-the-server",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(UserStarts(connection=1), Wedge())],
    server={**TALE, "pace": "realtime"},
    mutants="unended-turn-is-no-sign",
)
@scenario(
    "gemini-barge-in-mutes-the-server",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(After("interrupted", connection=1), Silence())],
    server={**TALE, "pace": "realtime"},
    mutants="unended-turn-is-no-sign",
)
async def outlives_a_barge_in_that_wedges(stage: GeminiStage) -> None:
    """A caller whose barge-in leaves the server stuck in the reply that it cut hears the agent
    within 8 s."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await call.wait_heard(2.0)
    said = await call.say(1.0)
    await call.reply(after=said.ended_at, timeout_s=20)
    waited_s = stage.dead_air(said.ended_at)
    stage.require_heard(waited_s < 8.0, f"the agent is heard within 8 s, not {waited_s:.1f}")
    await call.agent_done()
    stage.require_heard(not stage.heard_whole(STORY), "the reply was cut")
    heard = stage.times_heard(ANSWER, first_s=ANSWER.duration_s)
    await stage.ask()
    answered = stage.times_heard(ANSWER, first_s=ANSWER.duration_s)
    stage.require_heard(answered == heard + 1, "the next question is answered in full, and once")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


@scenario(
    "gemini-stream-stalls",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(CUT, Silence())],
    server={**TALE, "pace": None},
    resilience=ResilienceOptions(hedge_after_s=None),
    mutants="stalled-reply-stays-open",
)
async def does_not_wait_for_a_stalled_stream(stage: GeminiStage) -> None:
    """A reply that stops in its middle while the socket stays up is taken up again."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    if stage.faulty:
        await stage.next_segment(timeout_s=60)
        waited_s = stage.dead_air()
        stage.require(waited_s < 34.0, f"it is given up after 30 s, not {waited_s:.0f}")
    await call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


@scenario(
    "gemini-empty-turn",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(UserStops(connection=1), EmptyTurns(1))],
    server=TALK,
    mutants="reply-without-output-is-an-answer",
)
@scenario(
    "gemini-deaf-after-phantom-interruption",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(After("turnComplete", connection=1), PhantomInterruption(deaf=True))],
    server=TALK,
    mutants="reply-without-output-is-an-answer",
)
async def asks_again_after_an_empty_turn(stage: GeminiStage) -> None:
    """A question that the model passes over in silence is answered without being repeated."""
    await stage.greet()
    await stage.call.say(1.0)
    asked_at = stage.call.now
    await stage.call.reply(timeout_s=30)
    stage.dead_air(asked_at)
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.times_heard(ANSWER) >= 1, "the next question is answered")


@scenario(
    "gemini-phantom-interruption",
    kind="K8",
    rule="R13",
    provider="gemini",
    faults=[Fault(CUT, PhantomInterruption())],
    server=TALE,
    mutants="request-is-held-on-a-live-connection",
)
async def is_not_lost_after_a_phantom_interruption(stage: GeminiStage) -> None:
    """An interruption that nobody made may cut the reply, but not the call."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    await stage.rest(8.0)
    await call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    request = await call.generate_reply(instructions="Go on.")
    await call.agent_done()
    stage.require(request.exception() is None, "the app's next request does not fail")
    stage.require_heard(stage.heard_whole(GO_ON), "it is answered in full")
    stage.dead_air(call.mic.utterances[0].ended_at)
