"""K9: replies that the application asks for around a drop, late, or against a running one."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Before,
    Fault,
    HangHandshake,
    LateReply,
    OnConnection,
    Received,
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


def requests(stage: OpenAIStage, connection: int) -> int:
    """How often a connection was asked to tell the story."""
    return sum(TELL in text for text in stage.server.recording.texts_sent(connection))


async def is_told_once(stage: OpenAIStage) -> None:
    """Ask for the story; require that it is told, once, and that the request did not fail."""
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    stage.require(handle.exception() is None, f"the request does not fail: {handle.exception()}")
    await quiet(stage, 10.0)
    stage.require(whole(stage, STORY), "the reply is heard to its end")
    stage.require(times_heard(stage, STORY) == 1, "the reply is heard once")
    if stage.faulty and len(stage.server.dials()) > 1:
        stage.require(requests(stage, 2) == 1, "the new connection is asked once")
    await next_question_is_answered(stage)


@scenario(
    "openai-request-pending-at-the-drop",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), Abort())],
    server=TALK,
)
@scenario(
    "openai-request-unanswered",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=[Fault(Before("response.created", connection=1), (Swallow(), Abort()))],
    server=TALK,
)
async def a_pending_request_is_answered_once(stage: OpenAIStage) -> None:
    """A request that a drop catches before its reply begins is answered on the new connection."""
    await is_told_once(stage)


@scenario(
    "openai-request-while-down",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=DOWN,
    server=TALK,
)
async def a_request_while_down_is_answered_once(stage: OpenAIStage) -> None:
    """A reply that is asked for while no connection is up is spoken once there is one."""
    await stage.rest(DROP_S + 1.0)
    await is_told_once(stage)


@scenario(
    "openai-request-withdrawn-while-down",
    kind="K9",
    rule="R11",
    provider="openai",
    faults=DOWN,
    server=TALK,
)
async def a_withdrawn_request_is_not_sent(stage: OpenAIStage) -> None:
    """A reply that was asked for and withdrawn while no connection was up is never spoken."""
    await stage.rest(DROP_S + 1.0)
    handle = await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.rest(0.5)
    await handle.interrupt()
    await reconnected(stage)
    await quiet(stage)
    if stage.faulty:
        stage.require(requests(stage, 2) == 0, "the new connection is not asked for it")
        stage.require(times_heard(stage, STORY) == 0, "it is not heard")
    stage.require(not whole(stage, STORY), "the request was withdrawn")
    await next_question_is_answered(stage)


@scenario(
    "openai-late-reply",
    kind="K9",
    rule="R18",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), LateReply(12.0))],
    server=TALK,
)
async def a_late_reply_is_not_spoken_twice(stage: OpenAIStage) -> None:
    """A reply that comes after its request had timed out is spoken once or not at all: never both
    failed and spoken."""
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    await quiet(stage, 15.0)
    expected = 1 if handle.exception() is None else 0
    stage.require(times_heard(stage, STORY) == expected, "it is heard once, or it failed")
    await next_question_is_answered(stage)


@scenario(
    "openai-request-against-a-running-response",
    kind="K9",
    rule="R3",
    provider="openai",
    faults=[Fault(UserStops(nth=1), LateReply(0.5))],
    server=TALK,
)
async def a_refused_request_comes_after_the_running_one(stage: OpenAIStage) -> None:
    """A request that is refused because the caller's question is being answered is made again
    after that, and the application hears of no error."""
    await stage.call.say(1.0)
    await stage.server.wait_for("input_audio_buffer.committed")
    handle = await stage.call.generate_reply(instructions=TELL, timeout_s=40)
    await quiet(stage)
    stage.require(handle.exception() is None, f"the request does not fail: {handle.exception()}")
    stage.require(whole(stage, ANSWER), "the question is answered")
    stage.require(whole(stage, STORY), "the application's reply is heard")
    stage.require(stage.call.errors == [], "the session is told of no error")
    await next_question_is_answered(stage)
