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
RENEW_AFTER_S = 30.07  # when a frame of the microphone waits for the rest of a message
ASKED_AT_S = RENEW_AFTER_S - 2.0


@scenario(
    "openai-session-expired",
    kind="K2",
    rule="R3",
    provider="openai",
    faults=[Fault(AtTime(HOUR_S, connection=1), SessionExpired())],
    server={"default_reply": Lines(), "session_cap_s": None},
    model=NO_RETRY,
    mutants=("openai-settings-are-not-told", "openai-expired-error-is-reported"),
)
@scenario(
    "openai-session-cap-without-error",
    kind="K2",
    rule="R3",
    provider="openai",
    faults=[Fault(AtTime(HOUR_S, connection=1), SessionExpired(error_first=False))],
    server={"default_reply": Lines(), "session_cap_s": None},
    model=NO_RETRY,
    mutants=("openai-settings-are-not-told", "openai-expiry-is-a-failure"),
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
    stage.require(not stage.call.errors, "the session is told of no error")
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
    mutants="openai-loss-is-final",
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
    mutants=("openai-renewal-does-not-wait", "openai-sessions-are-not-renewed"),
)
async def a_renewal_cuts_no_reply(stage: OpenAIStage) -> None:
    """A renewal that falls due during a reply waits for its end, and no sample is lost."""
    await stage.rest(ASKED_AT_S)
    await stage.call.generate_reply(instructions=TELL)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    await quiet(stage)
    stage.require(len(stage.server.dials()) > 1, "the session is renewed")
    stage.require(not stage.server.recording.faults, "before its server ends it")
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
    mutants=("openai-half-a-frame-is-heard-twice", "openai-handover-loses-the-newest-words"),
)
@scenario(
    "openai-renewal-as-the-next-question-begins-xai",
    kind="K2",
    rule="R16",
    provider="openai",
    flavour="xai",
    faults=[Fault(Before("input_audio_buffer.speech_started", connection=1), Delay(0.4))],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
    mutants=("openai-half-a-frame-is-heard-twice", "openai-handover-loses-the-newest-words"),
)
@scenario(
    "openai-overlap-refused",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(OnConnection(2), Refuse(429)), Fault(OnConnection(3), HangHandshake(0.5))],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
    mutants="openai-refused-overlap-is-tried-again",
)
@scenario(
    "openai-renewal-dial-fails",
    kind="K2",
    rule="R16",
    provider="openai",
    faults=[Fault(OnConnection(2), HangHandshake())],
    server={"default_reply": Lines()},
    model={"max_session_duration": RENEW_AFTER_S},
    mutants="openai-handover-dial-may-take-for-ever",
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
    stage.require_heard(whole(stage, ANSWER), "the question is answered in full")
    stage.require_heard(times_heard(stage, ANSWER) == 1, "and once")
    session = stage.server.session
    stage.require(session.number > 1, "the session is renewed")
    stage.require(session.texts("assistant") == [STORY.text, ANSWER.text], "it knows all, once")
    stage.require(not call.errors, "the session is told of no error")
    if stage.faulty:
        require_heard_once(stage)
        if any(dial.status == 429 for dial in stage.server.dials()):
            require_left_first(stage)
    await next_question_is_answered(stage)


def require_heard_once(stage: OpenAIStage) -> None:
    """The model heard all of the one question, and no connection any sound of it twice."""
    (said,) = stage.call.mic.utterances
    server = stage.server
    heard = [item.pcm for each in server.sessions for item in each.items if item.role == "user"]
    stage.require(said.pcm.strip(b"\0") in b"".join(heard), "the model hears the whole question")
    for number in server.connections:
        sound = server.recording.audio(number).strip(b"\0")
        stage.require(sound in said.pcm, f"connection {number} hears no sound of it twice")


def require_left_first(stage: OpenAIStage) -> None:
    """Where the provider has no two connections, the first ends before the next is dialled."""
    left, dials = stage.server.recording.closed(1), stage.server.dials()
    stage.require(left and left.at <= dials[2].at, "the first is left before the next is dialled")


@scenario(
    "openai-inference-google-cap",
    kind="K2",
    rule="R16",
    provider="openai",
    flavour="inference",
    faults=[Fault(AtTime(15 * 60.0, connection=1), Close(1000, "session ended"))],
    server={"default_reply": Lines(), "pace": "realtime"},
    model={"model": "google/gemini-3.8-live"},
    mutants="openai-sessions-are-not-renewed",
)
@scenario(
    "openai-xai-cap",
    kind="K2",
    rule="R16",
    provider="openai",
    flavour="xai",
    faults=[Fault(AtTime(30 * 60.0, connection=1), Close(1001, "session ended"))],
    server={"default_reply": Lines(), "pace": "realtime"},
    mutants=("openai-sessions-are-not-renewed", "xai-sessions-are-renewed-as-openais"),
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
    mutants="openai-sessions-are-not-renewed",
)
async def the_session_is_renewed_before_its_cap(stage: OpenAIStage) -> None:
    """A reply that is spoken when the first session would have reached its cap is not cut."""
    hang_up_the_microphone(stage)
    (cap,) = (fault.trigger for fault in stage.scenario.faults)
    assert isinstance(cap, AtTime)
    await stage.rest(cap.after_s - STORY.duration_s / 2)
    handle = await stage.call.generate_reply(instructions=TELL)
    stage.require(handle.exception() is None, "the request is answered")
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    stage.require(len(stage.server.dials()) <= 2, "the session is renewed no more than once")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
