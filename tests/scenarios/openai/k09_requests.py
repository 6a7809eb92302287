"""K9: replies that the application asks for around a drop, late, or against a running one."""

from __future__ import annotations

import asyncio
from typing import Any

from livekit.agents.voice.speech_handle import SpeechHandle

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    Before,
    Fault,
    HangHandshake,
    LateReply,
    OnConnection,
    Received,
    Reply,
    Swallow,
    UserStops,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    ANSWER,
    STORY,
    TELL,
    Lines,
    next_question_is_answered,
    quiet,
    reconnected,
    times_heard,
    whole,
)

TALK = {"default_reply": Lines()}
DROP_S = 5.0
DOWN = [Fault(AtTime(DROP_S, connection=1), Abort()), Fault(OnConnection(2), HangHandshake(3.0))]
AGAIN = Reply("Sorry, what did you say?")
# The story's audio comes at several times the speed of speech: most of it is still to be played.
CUT = Fault(AtAudio(6.0, connection=1), Abort())
CUT_TALK = {"default_reply": Lines({TELL: STORY, "swallowed": AGAIN})}
# The application says when the caller's turn ends.
UNDETECTED = {"turn_detection": None}


def detected_by_the_app() -> dict[str, Any]:
    return {"session_options": {"turn_handling": {"turn_detection": "manual"}}}


# Two dials are given up after 10 s each: longer than OpenAI is given to begin a reply.
LONG_OUTAGE = [
    Fault(OnConnection(2), HangHandshake()),
    Fault(OnConnection(3), HangHandshake()),
    Fault(OnConnection(4), HangHandshake(5.0)),
]


def requests(stage: OpenAIStage, connection: int) -> int:
    """How often a connection was asked to tell the story."""
    return sum(TELL in text for text in stage.server.recording.texts_sent(connection))


async def is_told_once(stage: OpenAIStage) -> None:
    """Ask for the story; require that it is told, once, and that the request did not fail."""
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    stage.require(handle.exception() is None, f"the request does not fail: {handle.exception()}")
    await quiet(stage, 10.0)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    stage.require_heard(times_heard(stage, STORY) == 1, "the reply is heard once")
    newest = len(stage.server.dials())
    if stage.faulty and newest > 1:
        stage.require(requests(stage, newest) == 1, "the new connection is asked once")
    await next_question_is_answered(stage)


@scenario(
    "openai-request-pending-at-the-drop",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), Abort())],
    server=TALK,
    mutants="request-dies-with-its-connection",
)
@scenario(
    "openai-request-unanswered",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(Before("response.created", connection=1), (Swallow(), Abort()))],
    server=TALK,
    mutants="request-dies-with-its-connection",
)
@scenario(
    "openai-request-pending-at-a-long-outage",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), Abort()), *LONG_OUTAGE],
    server=TALK,
    mutants="reply-timeouts-run-on-in-an-outage",
)
async def a_pending_request_is_answered_once(stage: OpenAIStage) -> None:
    """A request that a drop catches before its reply begins is answered on the new connection."""
    await is_told_once(stage)


@scenario(
    "openai-request-while-down",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[
        Fault(AtTime(DROP_S, connection=1), Abort()),
        *LONG_OUTAGE,
    ],
    server=TALK,
    mutants=("openai-timeout-begins-in-an-outage", "request-dies-with-its-connection"),
)
async def a_request_while_down_is_answered_once(stage: OpenAIStage) -> None:
    """A reply that is asked for while no connection is up is spoken once there is one, though that
    takes longer than a reply may take to begin."""
    await stage.rest(DROP_S + 1.0)
    await is_told_once(stage)


@scenario(
    "openai-request-withdrawn-while-down",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=DOWN,
    server=TALK,
    mutants="openai-withdrawn-request-is-sent",
)
async def a_withdrawn_request_is_not_sent(stage: OpenAIStage) -> None:
    """A reply that was asked for and withdrawn while no connection was up is never spoken."""
    await stage.rest(DROP_S + 1.0)
    handle = await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.rest(0.5)
    await handle.interrupt()
    stage.idle = True
    await reconnected(stage)
    await quiet(stage)
    if stage.faulty:
        stage.require(requests(stage, 2) == 0, "the new connection is not asked for it")
        stage.require_heard(times_heard(stage, STORY) == 0, "it is not heard")
    stage.require_heard(not whole(stage, STORY), "the request was withdrawn")
    await next_question_is_answered(stage)


@scenario(
    "openai-late-reply",
    kind="K9",
    rule="R18",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), LateReply(12.0))],
    server=TALK,
    mutants="openai-reply-must-begin-within-5-s",
)
async def a_late_reply_is_not_spoken_twice(stage: OpenAIStage) -> None:
    """A reply that the server is late with is spoken once, and its request does not fail as
    well."""
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    await quiet(stage, 15.0)
    stage.require_heard(times_heard(stage, STORY) == 1, "the reply is heard once")
    stage.require(handle.exception() is None, f"the request does not fail: {handle.exception()}")
    await next_question_is_answered(stage)


@scenario(
    "openai-request-against-a-running-response",
    kind="K9",
    rule="R3",
    provider="openai",
    faults=[Fault(UserStops(nth=1), LateReply(0.5))],
    server=TALK,
    mutants="openai-refused-request-is-dropped",
)
async def a_refused_request_comes_after_the_running_one(stage: OpenAIStage) -> None:
    """A request that is refused because the caller's question is being answered is made again
    after that, and the application hears of no error."""
    await stage.call.say(1.0)
    # Without the fault the request comes when the answer is through: a real server is at work on it
    # for long enough to refuse one.
    answering = "input_audio_buffer.committed" if stage.faulty else "response.done"
    await stage.server.wait_for(answering)
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    await quiet(stage)
    stage.require(handle.exception() is None, f"the request does not fail: {handle.exception()}")
    stage.require_heard(whole(stage, ANSWER), "the question is answered")
    stage.require_heard(whole(stage, STORY), "the application's reply is heard")
    stage.require(len(stage.server.dials()) == 1, "both on the same connection")
    stage.require(stage.call.errors == [], "the session is told of no error")
    await next_question_is_answered(stage)


FIRST_DIALS_HANG = [
    Fault(OnConnection(1), HangHandshake()),
    Fault(OnConnection(2), HangHandshake()),
    Fault(OnConnection(3), HangHandshake(5.0)),
]


@scenario(
    "openai-request-while-the-first-dials-hang",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=FIRST_DIALS_HANG,
    server=TALK,
    mutants="openai-timeout-begins-in-an-outage",
)
async def a_request_before_the_first_connection_is_answered_once(stage: OpenAIStage) -> None:
    """A reply that is asked for at the start of a call, whose first dials hang, is spoken once
    there is a connection."""
    await is_told_once(stage)


@scenario(
    "openai-turn-committed-while-down",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(AtTime(DROP_S, connection=1), Abort()), *LONG_OUTAGE],
    server=TALK,
    mutants=("openai-timeout-begins-in-an-outage", "request-dies-with-its-connection"),
    model=UNDETECTED,
    call=detected_by_the_app,
)
async def a_turn_that_the_app_ends_while_down_is_answered(stage: OpenAIStage) -> None:
    """A turn that the app ends while no connection is up is heard and answered once there is one,
    however long that takes."""
    call = stage.call
    await stage.rest(DROP_S + 1.0)
    said = await call.say(1.0)
    call._inside(call.session.commit_user_turn)
    assert said.ended_at is not None
    answer = await call.reply(after=said.ended_at, timeout_s=40)
    await quiet(stage)
    (heard,) = (item.pcm for item in stage.server.session.items if item.role == "user")
    stage.require(said.pcm in heard, "the model hears the whole turn")
    later = [s for s in call.heard.segments if s.started_at and s.started_at >= said.ended_at]
    stage.require_heard(later == [answer], "the turn is answered, once")


@scenario(
    "openai-caller-cuts-in-while-down",
    kind="K9",
    rule="R12",
    provider="openai",
    faults=[CUT, Fault(OnConnection(2), HangHandshake(3.0))],
    server=CUT_TALK,
    mutants="openai-dropped-words-are-forgotten",
)
async def a_caller_who_cuts_in_while_down_is_asked_again(stage: OpenAIStage) -> None:
    """A caller who speaks over a reply while no connection is up is asked to say it again; the
    reply that the drop cut is not gone on with."""
    call = stage.call
    await call.generate_reply(instructions=TELL, wait=False)
    await stage.until_fault()
    await call.wait_heard(1.0)
    await call.say(0.6)
    await quiet(stage, 12.0)
    if stage.faulty:
        stage.require_heard(times_heard(stage, AGAIN) == 1, "the caller is asked, once")
        told = stage.server.recording.texts_sent(2)
        gone_on = any("Go on from" in text for text in told)
        stage.require(not gone_on, "the model is not asked to go on with the old reply")
    await next_question_is_answered(stage)


@scenario(
    "openai-app-stops-a-cut-reply",
    kind="K9",
    rule="R12",
    provider="openai",
    faults=[CUT, Fault(OnConnection(2), HangHandshake(3.0))],
    server=CUT_TALK,
    mutants="stopped-reply-is-gone-on-with",
)
async def a_cut_reply_that_the_app_stops_is_over(stage: OpenAIStage) -> None:
    """What a drop left of a reply is still playing when the app interrupts it: the reply is not
    gone on with."""
    call = stage.call
    await call.generate_reply(instructions=TELL, wait=False)
    await stage.until_fault()
    await call.wait_heard(2.0)
    await call._inside(call.session.interrupt)
    stage.idle = True
    await reconnected(stage)
    await quiet(stage)
    asked = stage.server.recording.frames("response.create")
    stage.require(len(asked) == 1, "nobody asks for the rest of it")
    await next_question_is_answered(stage)


@scenario(
    "openai-caller-cuts-in-on-the-rest",
    kind="K9",
    rule="R12",
    provider="openai",
    faults=[CUT],
    server=CUT_TALK,
    mutants="redrive-is-not-taken-back",
    model=UNDETECTED,
    call=detected_by_the_app,
)
async def a_redrive_is_taken_back_when_the_caller_cuts_in(stage: OpenAIStage) -> None:
    """A caller who cuts in on what a drop left of a reply does not hear the reply that was asked
    for meanwhile, but is answered."""
    call = stage.call
    await call.generate_reply(instructions=TELL, wait=False)
    await stage.until_fault()
    await call.wait_heard(1.0)
    if stage.faulty:
        await stage.server.wait_for("response.create", connection=2)
    call._inside(call.session.interrupt)
    said = await call.say(1.0)
    call._inside(call.session.commit_user_turn)
    assert said.started_at is not None
    assert said.ended_at is not None
    answer = await call.reply(after=said.started_at, timeout_s=20)
    await quiet(stage)
    later = [s for s in call.heard.segments if s.started_at and s.started_at >= said.started_at]
    stage.require_heard(later == [answer], "one reply is heard after the caller cut in")
    assert answer.started_at is not None
    stage.require_heard(answer.started_at >= said.ended_at, "it answers the caller")


@scenario(
    "openai-line-pending-at-the-drop-xai",
    kind="K9",
    rule="R11",
    provider="openai",
    flavour="xai",
    faults=[Fault(Received("conversation.item.create", connection=1), Abort())],
    server=TALK,
    mutants="request-dies-with-its-connection",
)
@scenario(
    "openai-line-pending-at-a-long-outage-xai",
    kind="K9",
    rule="R11",
    provider="openai",
    flavour="xai",
    faults=[Fault(Received("conversation.item.create", connection=1), Abort()), *LONG_OUTAGE],
    server=TALK,
    mutants="reply-timeouts-run-on-in-an-outage",
)
async def a_pending_line_is_said_once(stage: OpenAIStage) -> None:
    """A line that the application gives, and that a drop catches before it begins, is said on the
    new connection, once."""
    handle = await say(stage, STORY.text)
    stage.require(handle.exception() is None, f"the line does not fail: {handle.exception()}")
    await quiet(stage, 10.0)
    stage.require_heard(whole(stage, STORY), "the line is heard to its end")
    stage.require_heard(times_heard(stage, STORY) == 1, "the line is heard once")
    await next_question_is_answered(stage)


@scenario(
    "openai-line-cut-xai",
    kind="K9",
    rule="R12",
    provider="openai",
    flavour="xai",
    faults=[Fault(AtAudio(2.0, connection=1), Abort())],
    server=TALK,
    mutants="xai-rest-of-a-line-is-left-to-the-model",
)
async def a_line_that_is_cut_is_said_to_its_end(stage: OpenAIStage) -> None:
    """Of a line of the application's that a drop cuts, the caller hears the rest word for word."""
    await say(stage, STORY.text)
    await quiet(stage, 8.0)
    if stage.faulty:
        stage.require_heard(stage.dead_air() < 1.0, "less than a second of silence")
    said = " ".join(m.text_content or "" for m in stage.call.agent.chat_ctx.messages())
    stage.require_heard(said == STORY.text, f"the line is heard to its end, and once: {said}")
    await next_question_is_answered(stage)


async def say(stage: OpenAIStage, line: str) -> SpeechHandle:
    """Have the application give a line; return once it was heard, or has failed."""
    handle = stage.call._inside(stage.call.session.say, text=line)
    await asyncio.wait([asyncio.ensure_future(handle.wait_for_playout())], timeout=60.0)
    return handle
