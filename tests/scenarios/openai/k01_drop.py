"""K1: the connection ends without our asking for it, or nobody notices that it is dead."""

from __future__ import annotations

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Before,
    Blackhole,
    Close,
    Fault,
    HangHandshake,
    LateReply,
    Malformed,
    NoSetupAnswer,
    OnConnection,
    Refuse,
    Send,
    SlowPong,
    Swallow,
    UnknownMessage,
    UserStarts,
    UserStops,
)
from livekit.plugins.resilient.wording import RedriveContext, redrive_text

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    GO_ON,
    STORY,
    TELL,
    Lines,
    next_question_is_answered,
    quiet,
    reconnected,
    times_heard,
    whole,
    words_heard,
)

CUT = AtAudio(2.0, connection=1)
OUTAGE_S = 6.0
LONG_DIAL = Fault(OnConnection(2), HangHandshake(OUTAGE_S))
TALK = {"default_reply": Lines()}


@scenario(
    "openai-drop-1006-mid-reply",
    kind="K1",
    rule="R1",
    provider="openai",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-1000-mid-reply",
    kind="K1",
    rule="R1",
    provider="openai",
    faults=[Fault(CUT, Close(1000)), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-1001-mid-reply",
    kind="K1",
    rule="R1",
    provider="openai",
    faults=[Fault(CUT, Close(1001, "going away")), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-1011-mid-reply",
    kind="K1",
    rule="R1",
    provider="openai",
    faults=[Fault(CUT, Close(1011, "internal error")), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-azure",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="azure",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-azure-legacy",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="azure-legacy",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-inference",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="inference",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-inference-google",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="inference",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    model={"model": "google/gemini-3.8-live"},
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-inference-xai",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="inference",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    model={"model": "xai/grok-voice"},
    mutants="cut-streams-stay-open",
)
@scenario(
    "openai-drop-xai",
    kind="K1",
    rule="R1",
    provider="openai",
    flavour="xai",
    faults=[Fault(CUT, Abort()), LONG_DIAL],
    server=TALK,
    mutants="cut-streams-stay-open",
)
async def a_drop_ends_the_reply_at_once(stage: OpenAIStage) -> None:
    """The reply ends with its last audio although the redial takes seconds, and the next question
    is answered."""
    call = stage.call
    handle = await call.generate_reply(instructions=TELL)
    over_s = call.now - (await call.reply()).ended_at
    stage.require(handle.exception() is None, "the reply that was heard did not fail")
    stage.require(over_s < 0.5, f"the reply is over when its audio is, not {over_s:.1f} s later")
    await reconnected(stage)
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-reconnected-and-silent",
    kind="K1",
    rule="R12",
    provider="openai",
    faults=[Fault(CUT, Abort())],
    server=TALK,
    mutants=("redrive-says-nothing-of-the-cut", "cut-reply-is-not-owed"),
)
@scenario(
    "openai-reconnected-and-silent-xai",
    kind="K1",
    rule="R12",
    provider="openai",
    flavour="xai",
    faults=[Fault(CUT, Abort())],
    server=TALK,
    mutants=("redrive-says-nothing-of-the-cut", "cut-reply-is-not-owed"),
)
async def a_cut_reply_is_taken_up_again(stage: OpenAIStage) -> None:
    """After a drop in mid-reply the agent goes on by itself, once, without a silence."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.until_fault()
    await quiet(stage, 8.0)
    if stage.faulty:
        stage.require_heard(stage.dead_air() < 1.0, "less than a second of silence")
        stage.require_heard(whole(stage, GO_ON), "the agent goes on by itself")
        asked = stage.server.recording.frames("response.create")
        stage.require([f.connection for f in asked] == [1, 2], "it is asked to go on once")
        last = " ".join(words_heard(stage, STORY).split()[-4:-1])
        told = asked[1].texts[0]
        stage.require(last and last in told, f"it is told that {last!r} was heard last: {told}")
    stage.require_heard(times_heard(stage, STORY) == 1, "nothing is said twice")
    await next_question_is_answered(stage)


@scenario(
    "openai-drop-while-quiet",
    kind="K1",
    rule="R12",
    provider="openai",
    faults=[Fault(After("response.done", connection=1), Close(1011))],
    server=TALK,
    mutants="openai-history-is-not-told",
)
async def a_drop_in_silence_goes_unnoticed(stage: OpenAIStage) -> None:
    """A drop while nothing is owed makes the agent say nothing, and the history survives it."""
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage, 8.0)
    stage.require_heard(len(stage.call.heard.segments) == 1, "the agent says nothing unasked")
    stage.require(stage.server.session.texts() == [STORY.text], "the model is told the history")
    await next_question_is_answered(stage)


@scenario(
    "openai-question-lost-in-the-drop",
    kind="K1",
    rule="R12",
    provider="openai",
    faults=[Fault(Before("response.created", connection=1), Abort())],
    server=TALK,
    mutants=("nothing-is-asked-for-after-a-drop", "lost-words-are-not-owed"),
)
async def a_question_that_was_lost_is_asked_for(stage: OpenAIStage) -> None:
    """A question that dies with the connection is not met with silence, nor with an answer that
    is made up."""
    stage.server.user_says("where is my parcel")
    reply = await stage.ask(timeout_s=10)
    stage.require_heard(reply.position_s > 1.0, "the caller hears something")
    if stage.faulty:
        (asked,) = stage.server.recording.frames("response.create", 2)
        missed = redrive_text(RedriveContext("user_words_lost"))
        stage.require(missed in asked.texts[0], "the model is told that it missed the question")
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-question-known-at-the-drop",
    kind="K1",
    rule="R12",
    provider="openai",
    faults=[
        Fault(UserStops(connection=1), LateReply(1.0)),
        Fault(Before("response.created", connection=1), Abort()),
    ],
    server={"default_reply": Lines(questions={"where is my parcel": STORY})},
    mutants=("nothing-is-asked-for-after-a-drop", "openai-history-is-not-told"),
)
@scenario(
    "openai-question-known-at-the-drop-xai",
    kind="K1",
    rule="R12",
    provider="openai",
    flavour="xai",
    faults=[
        Fault(UserStops(connection=1), LateReply(1.0)),
        Fault(Before("response.created", connection=1), Abort()),
    ],
    server={"default_reply": Lines(questions={"where is my parcel": STORY})},
    mutants=("nothing-is-asked-for-after-a-drop", "openai-history-is-not-told"),
)
async def a_question_that_was_understood_is_answered(stage: OpenAIStage) -> None:
    """A question whose transcript had arrived is answered after the reconnect, once."""
    stage.server.user_says("where is my parcel")
    await stage.ask(timeout_s=20)
    await quiet(stage)
    stage.require(stage.server.session.knows("where is my parcel") == 1, "the question is known")
    stage.require_heard(whole(stage, STORY), "the question is answered")
    stage.require_heard(times_heard(stage, STORY) == 1, "the question is answered once")
    await next_question_is_answered(stage)


@scenario(
    "openai-blackhole-and-a-refused-dial",
    kind="K1",
    rule="R17",
    provider="openai",
    faults=[Fault(UserStarts(connection=1), Blackhole()), Fault(OnConnection(2), Refuse(503))],
    server=TALK,
    mutants="openai-suspected-connection-is-kept",
)
@scenario(
    "openai-blackhole",
    kind="K1",
    rule="R17",
    provider="openai",
    faults=[Fault(UserStarts(connection=1), Blackhole())],
    server=TALK,
    mutants="suspected-connection-is-kept",
)
async def a_dead_socket_is_noticed(stage: OpenAIStage) -> None:
    """A caller who speaks into a half-open connection hears the agent again within 12 s."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.call.agent_done()
    stage.server.user_says("where is my parcel")
    said = await stage.call.say(1.0)
    stage.require(len(stage.server.dials()) == 1, "the caller speaks before it is noticed")
    await stage.call.reply(after=said.ended_at, timeout_s=30)
    await stage.call.agent_done()
    waited_s = stage.dead_air(said.ended_at)
    stage.require(waited_s < 12.0, f"the agent is heard within 12 s, not {waited_s:.1f}")
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-late-pongs",
    kind="K1",
    rule="R17",
    provider="openai",
    faults=[Fault(OnConnection(1), SlowPong(12.0))],
    server=TALK,
    mutants="unanswered-pings-are-a-sign",
)
async def late_pongs_cost_nothing(stage: OpenAIStage) -> None:
    """Pongs that come 12 s late neither cut a reply nor make the agent speak unasked."""
    await stage.call.generate_reply(instructions=TELL)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    await quiet(stage, 30.0)
    stage.require_heard(len(stage.call.heard.segments) == 1, "the agent says nothing unasked")
    stage.require(stage.call.errors == [], "the session is told of no error")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.require(stage.server.session.texts() == [STORY.text], "the history is known, once")
    await next_question_is_answered(stage)


@scenario(
    "openai-set-up-never-answered",
    kind="K1",
    rule="R2",
    provider="openai",
    faults=[Fault(CUT, Abort()), Fault(OnConnection(2), NoSetupAnswer())],
    server=TALK,
    mutants="openai-restore-may-take-for-ever",
)
async def a_mute_new_session_is_left(stage: OpenAIStage) -> None:
    """A redial that is accepted but never answered is given up after 10 s."""
    await stage.call.generate_reply(instructions=TELL, timeout_s=15)
    if stage.faulty:
        await stage.server.wait_for("session.created", connection=3, timeout_s=15)
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-first-set-up-never-answered",
    kind="K1",
    rule="R2",
    provider="openai",
    faults=[Fault(OnConnection(1), NoSetupAnswer())],
    server=TALK,
    mutants="openai-mute-first-connection-is-kept",
)
async def a_mute_first_session_is_left(stage: OpenAIStage) -> None:
    """A first dial that is accepted but never answered is given up after 10 s."""
    stage.idle = True
    if stage.faulty:
        await stage.server.wait_for("session.created", connection=2, timeout_s=13)
    await stage.call.generate_reply(instructions=TELL)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    await next_question_is_answered(stage)


@scenario(
    "openai-unknown-message",
    kind="K1",
    rule="R19",
    provider="openai",
    faults=[Fault(AtAudio(1.0), UnknownMessage())],
    server=TALK,
    mutants="openai-newer-events-end-the-connection",
)
@scenario(
    "openai-malformed-message",
    kind="K1",
    rule="R19",
    provider="openai",
    faults=[Fault(AtAudio(1.0), Malformed())],
    server=TALK,
    mutants="openai-strange-messages-are-passed-on",
)
@scenario(
    "openai-frame-nested-without-end",
    kind="K1",
    rule="R19",
    provider="openai",
    faults=[Fault(AtAudio(1.0), Malformed("[" * 100_000))],
    server=TALK,
    mutants="openai-deep-frame-ends-the-connection",
)
async def a_strange_message_is_skipped(stage: OpenAIStage) -> None:
    """A message that nobody understands costs neither the reply nor the connection."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.call.agent_done()
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.require(stage.call.errors == [], "the session is told of no error")
    await next_question_is_answered(stage)


@scenario(
    "openai-end-without-a-response",
    kind="K1",
    rule="R19",
    provider="openai",
    faults=[
        Fault(
            Before("response.done"),
            (Swallow(), Send({"type": "response.done", "response": None})),
        )
    ],
    server=TALK,
    mutants="openai-odd-ends-are-skipped",
)
async def an_end_is_an_end_however_it_looks(stage: OpenAIStage) -> None:
    """A reply whose end says nothing of it is over when it was heard, and in the record."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    reply = await stage.call.reply()
    await stage.call.agent_done()
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    stage.require(stage.call.now - (reply.ended_at or 0.0) < 1.0, "it is over when it was heard")
    await next_question_is_answered(stage)
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.require(stage.call.errors == [], "the session is told of no error")
