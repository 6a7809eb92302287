"""K8: a reply that does not come, or stops, is asked of another connection beside."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    AtAudio,
    Before,
    CallAgent,
    Fault,
    OnConnection,
    Received,
    Refuse,
    Reply,
    Silence,
    ToolCall,
    TurnRequest,
    UserStops,
)
from livekit.plugins.resilient.testing.faults import LateReply

from ..lines import ANSWER, CUT_S, GO_ON, STORY, TOLD, by_reason
from ..registry import scenario
from ..stage import GeminiStage

TALK = {"default_reply": by_reason}
WEATHER = ToolCall("get_weather", {"city": "Paris"})
QUESTION = "what is the capital of France"
OTHER = Reply("Nobody is to hear this, which comes from another connection.")
SILENT = Fault(Before("outputTranscription", connection=1), Silence())


def _of_the_first(request: TurnRequest) -> Reply | ToolCall:
    """What only the first connection says; another one would run a tool."""
    return ANSWER if request.connection == 1 else WEATHER


def _tool_of_another(request: TurnRequest) -> Reply | ToolCall:
    """Another connection calls a tool before it speaks."""
    asks = request.connection > 1 and request.reason == "request"
    return WEATHER if asks else by_reason(request)


def _once_known(request: TurnRequest) -> Reply:
    """Answers only where the question is known when it is asked for."""
    return by_reason(request) if QUESTION in request.knows else OTHER


def _tool_of_the_first(request: TurnRequest) -> Reply | ToolCall:
    if request.connection > 1:
        return OTHER
    return WEATHER if request.reason == "speech" else by_reason(request)


async def _slow_question(stage: GeminiStage) -> float:
    """Have the caller ask; returns the seconds until the answer is heard."""
    said = await stage.call.say(1.0)
    assert said.ended_at is not None
    await stage.call.reply(after=said.ended_at, timeout_s=45)
    await stage.call.agent_done()
    return stage.dead_air(said.ended_at)


@scenario(
    "gemini-stops-in-mid-reply",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[Fault(AtAudio(CUT_S, connection=1), Silence())],
    server={**TALK, "replies": [STORY], "pace": None},
    mutants=("nothing-is-asked-beside", "read-ahead-is-lost"),
)
async def goes_on_with_a_reply_that_stops(stage: GeminiStage) -> None:
    """A reply that stops in its middle is gone on with some 6 s after its last sound."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    if stage.faulty:
        await stage.next_segment(timeout_s=45)
        waited_s = stage.dead_air()
        stage.require_heard(waited_s < 10.0, f"it goes on within 10 s, not {waited_s:.1f}")
    await call.agent_done()
    if stage.faulty:
        stage.require_heard(stage.times_heard(GO_ON) == 1, "what follows is told once")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


@scenario(
    "gemini-reply-never-begins",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[SILENT],
    server={"default_reply": _once_known},
    mutants=("nothing-is-asked-beside", "hedge-does-not-know-the-open-turn"),
)
async def answers_a_question_that_gets_nothing(stage: GeminiStage) -> None:
    """A question to which no answer begins is answered some 8 s after its end, by a session that
    knows its words."""
    stage.server.user_says(QUESTION, QUESTION)
    waited_s = await _slow_question(stage)
    stage.require_heard(waited_s < 12.0, f"the answer comes within 12 s, not {waited_s:.1f}")
    known = stage.server.session.knows(QUESTION)
    stage.require(known == 1, "the session that answers knows the question, once")
    answer = GO_ON if stage.faulty else ANSWER
    stage.require_heard(stage.heard_whole(answer), "the answer is heard in full")
    said = stage.call.user_texts()
    stage.require(said == [QUESTION], f"the record has it once: {said}")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


@scenario(
    "gemini-slow-answer",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[
        Fault(UserStops(connection=1), LateReply(11.0)),
        Fault(OnConnection(2), LateReply(6.0)),
    ],
    server={"default_reply": _of_the_first},
    mutants="hedge-is-kept-beside",
)
async def leaves_a_slow_answer_alone(stage: GeminiStage) -> None:
    """An answer that is slow is heard as it comes; the connection that was asked beside is neither
    heard nor runs a tool."""
    await _slow_question(stage)
    if stage.faulty:
        stage.require(len(stage.server.dials()) == 2, "another connection was asked")
    await stage.rest(20.0)
    stage.require_heard(stage.times_heard(ANSWER) == 1, "the answer is heard, once")
    stage.require(not stage.call.tools, "the tool that the other one would call does not run")
    sent = [frame.kind for frame in stage.server.recording.frames(connection=1)]
    extra = set(sent) - {"setup", "audio"}
    stage.require(not extra, f"the connection that serves is sent no more than else: {extra}")
    await stage.ask()
    stage.require_heard(stage.times_heard(ANSWER) == 2, "the next question is answered in full")
    frames = stage.server.recording.frames("audio", 2)
    stage.require(not frames, "the microphone is on the connection that serves")


@scenario(
    "gemini-no-second-session",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[
        Fault(UserStops(connection=1), LateReply(11.0), times=2),
        Fault(OnConnection(2), Refuse(429, "Resource has been exhausted (e.g. check quota).")),
    ],
    server=TALK,
    mutants="refused-hedge-is-tried-again",
)
async def does_without_a_second_session(stage: GeminiStage) -> None:
    """Where the account has no second session, slow answers are waited for, and none is tried for
    a minute."""
    await _slow_question(stage)
    await _slow_question(stage)
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both answers are heard, once each")
    if stage.faulty:
        dials = len(stage.server.dials())
        stage.require(dials == 2, f"a second session is tried once, not {dials - 1} times")
    stage.require(stage.unrecoverable() == 0, "the session is told of no failure")


@scenario(
    "gemini-tool-call-first-beside",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[SILENT],
    server={"default_reply": _tool_of_another},
    mutants=("nothing-is-asked-beside", "call-of-a-hedge-is-no-output"),
)
async def runs_a_tool_of_the_hedge_once(stage: GeminiStage) -> None:
    """Where the connection that was asked beside calls a tool first, it runs once and its result is
    told."""
    waited_s = await _slow_question(stage)
    stage.require_heard(waited_s < 15.0, f"the answer comes within 15 s, not {waited_s:.1f}")
    if stage.faulty:
        stage.require([run.status for run in stage.call.tools] == ["done"], "the tool runs once")
        stage.require_heard(stage.heard_whole(TOLD), "its result is told in full")
        answers = stage.server.recording.frames("toolResponse", 2)
        stage.require(len(answers) == 1, "it is given to the session that made the call, once")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-slow-tool-call",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[
        Fault(UserStops(connection=1), LateReply(11.0)),
        Fault(OnConnection(2), LateReply(6.0)),
    ],
    server={"default_reply": _tool_of_the_first},
    agent=lambda faulty: CallAgent(tool_delay_s=12.0),
    mutants="hedge-is-kept-beside",
)
async def runs_a_slow_tool_call_once(stage: GeminiStage) -> None:
    """A tool call that comes late runs once, on the connection that made it, however long it takes;
    what was asked beside is not heard."""
    await _slow_question(stage)
    stage.require([run.status for run in stage.call.tools] == ["done"], "the tool runs once")
    stage.require_heard(stage.heard_whole(TOLD), "its result is told in full")
    stage.require_heard(not stage.times_heard(OTHER), "nothing else is heard")
    answers = stage.server.recording.frames("toolResponse", 1)
    stage.require(len(answers) == 1, "it is given to the session that made the call, once")


@scenario(
    "gemini-request-gets-nothing",
    kind="K8",
    rule="R24",
    provider="gemini",
    faults=[Fault(Received("clientContent", connection=1), Silence())],
    server=TALK,
    mutants=("nothing-is-asked-beside", "request-is-not-asked-beside"),
)
async def answers_a_request_that_gets_nothing(stage: GeminiStage) -> None:
    """A reply that the application asked for and that does not begin comes some 8 s later, with the
    same future."""
    call = stage.call
    asked_at = call.now
    request = await call.generate_reply(instructions="Say how it goes on.", wait=False)
    await call.reply(timeout_s=45)
    waited_s = stage.dead_air(asked_at)
    stage.require_heard(waited_s < 12.0, f"it comes within 12 s, not {waited_s:.1f}")
    await call.agent_done()
    stage.require(request.exception() is None, "the request does not fail")
    stage.require_heard(stage.times_heard(GO_ON) == 1, "what it asked for is heard, once")
    texts = stage.server.recording.texts_sent()
    asked = sum("Say how it goes on." in text for text in texts)
    stage.require(asked == (2 if stage.faulty else 1), f"it is sent once to each, not {asked}")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
