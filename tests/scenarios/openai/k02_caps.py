"""K2: providers end a session at its cap, and we renew it before they do."""

from __future__ import annotations

from livekit.agents import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    Before,
    Close,
    Delay,
    Fault,
    HangHandshake,
    OnConnection,
    Refuse,
    SessionExpired,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    ANSWER,
    QUESTION,
    STORY,
    TELL,
    Lines,
    hang_up_the_microphone,
    next_question_is_answered,
    quiet,
    reconnected,
    times_heard,
    whole,
)

HOUR_S = 3600.0
NO_RETRY = {"conn_options": APIConnectOptions(max_retry=0)}
RENEW_AFTER_S = 30.0
ASKED_AT_S = RENEW_AFTER_S - 2.0


@scenario(
    "openai-session-expired",
    kind="K2",
    rule="R3",
    provider="openai",
    faults=[Fault(AtTime(HOUR_S, connection=1), SessionExpired())],
    server={"default_reply": Lines(), "session_cap_s": None},
    model=NO_RETRY,
)
@scenario(
    "openai-session-cap-without-error",
    kind="K2",
    rule="R3",
    provider="openai",
    faults=[Fault(AtTime(HOUR_S, connection=1), SessionExpired(error_first=False))],
    server={"default_reply": Lines(), "session_cap_s": None},
    model=NO_RETRY,
)
async def the_cap_costs_no_retry(stage: OpenAIStage) -> None:
    """At the session cap the call moves to a new session with its history and tools, even where
    no retry is allowed."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.call.agent_done()
    stage.server.clock.advance(HOUR_S)
    await reconnected(stage)
    await quiet(stage)
    session = stage.server.session
    stage.require(session.texts() == [STORY.text], "the model is told the history, once")
    tools = [tool["name"] for tool in session.config["tools"]]
    stage.require(tools == ["get_weather"], "the tools are declared")
    stage.require(session.config["instructions"] == "Be brief.", "the instructions are set")
    await next_question_is_answered(stage)


@scenario(
    "openai-drop-while-renewal-waits",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(AtAudio(5.0, connection=1), Abort())],
    server={"default_reply": Lines(), "pace": "realtime"},
    model={"max_session_duration": RENEW_AFTER_S},
)
async def a_drop_while_renewal_waits_is_noticed(stage: OpenAIStage) -> None:
    """A socket that dies while a renewal waits for the end of a reply is replaced."""
    await stage.rest(ASKED_AT_S)
    await stage.call.generate_reply(instructions=TELL, timeout_s=20)
    await quiet(stage)
    stage.require(len(stage.server.dials()) > 1, "a new connection is dialled")
    await next_question_is_answered(stage)


@scenario(
    "openai-renewal-due-during-a-reply",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(AtTime(RENEW_AFTER_S + 12.0, connection=1), Close(1001, "maximum duration"))],
    server={"default_reply": Lines(), "pace": "realtime"},
    model={"max_session_duration": RENEW_AFTER_S},
)
async def a_renewal_cuts_no_reply(stage: OpenAIStage) -> None:
    """A renewal that falls due during a reply waits for its end, and no sample is lost."""
    await stage.rest(ASKED_AT_S)
    await stage.call.generate_reply(instructions=TELL)
    stage.require(whole(stage, STORY), "the reply is heard to its end")
    await quiet(stage)
    stage.require(len(stage.server.dials()) > 1, "the session is renewed")
    stage.require(stage.server.session.texts() == [STORY.text], "the model is told the history")
    await next_question_is_answered(stage, averted=True)


@scenario(
    "openai-renewal-as-the-next-question-begins",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(Before("input_audio_buffer.speech_started", connection=1), Delay(0.4))],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
)
@scenario(
    "openai-overlap-refused",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(OnConnection(2), Refuse(429))],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
)
@scenario(
    "openai-renewal-dial-fails",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(OnConnection(2), HangHandshake())],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
)
async def a_renewal_is_not_noticed(stage: OpenAIStage) -> None:
    """A question that begins as the connection is renewed is heard, known with what was said
    before, and answered once."""
    call = stage.call
    await call.generate_reply(instructions=TELL)
    await call.agent_done()
    stage.server.user_says(QUESTION)
    due_at = stage.server.dials()[0].at + RENEW_AFTER_S
    await stage.rest(due_at - 0.2 - call.now)
    await stage.ask(timeout_s=20)
    await quiet(stage, 25.0)
    stage.require(whole(stage, ANSWER), "the question is answered in full")
    stage.require(times_heard(stage, ANSWER) == 1, "and once")
    session = stage.server.session
    stage.require(session.number > 1, "the session is renewed")
    stage.require(session.texts("assistant") == [STORY.text, ANSWER.text], "it knows all, once")
    stage.require(not call.errors, "the session is told of no error")
    await next_question_is_answered(stage)


@scenario(
    "openai-inference-google-cap",
    kind="K2",
    rule="R16",
    provider="openai",
    flavour="inference",
    faults=[Fault(AtTime(15 * 60.0, connection=1), Close(1000, "session ended"))],
    server={"default_reply": Lines(), "pace": "realtime"},
    model={"model": "google/gemini-3.8-live"},
)
@scenario(
    "openai-azure-cap",
    kind="K2",
    rule="R16",
    provider="openai",
    flavour="azure",
    faults=[Fault(AtTime(15 * 60.0, connection=1), Close(1001, "session_expired"))],
    server={"default_reply": Lines(), "pace": "realtime"},
    model={"max_session_duration": 14 * 60.0},
)
async def the_session_is_renewed_before_its_cap(stage: OpenAIStage) -> None:
    """A reply that is spoken when the first session would have reached its cap is not cut."""
    hang_up_the_microphone(stage)
    await stage.rest(15 * 60.0 - STORY.duration_s / 2)
    handle = await stage.call.generate_reply(instructions=TELL)
    stage.require(handle.exception() is None, "the request is answered")
    stage.require(whole(stage, STORY), "the reply is heard to its end")
    stage.require(len(stage.server.dials()) <= 2, "the session is renewed no more than once")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
