"""K9: requests for a reply that a fault meets while they are pending."""

from __future__ import annotations

from google.genai import types

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    Delay,
    Fault,
    HangHandshake,
    LateReply,
    OnConnection,
    PhantomInterruption,
    Received,
    Reply,
    TurnRequest,
    UserStarts,
)
from livekit.plugins.resilient.testing.call_log import GenerationCreated

from ..lines import ANSWER, CUT_S, GREETING, PACE, STORY, by_reason
from ..registry import scenario
from ..stage import GeminiStage

NEWS = Reply("Here is the news of today.")
TELL_NEWS = "Tell the news of today."
# Three dials are given up after 10 s each: longer than Gemini is given to begin a reply.
LONG_OUTAGE = [
    *(Fault(OnConnection(number), HangHandshake()) for number in (2, 3, 4)),
    Fault(OnConnection(5), HangHandshake(7.0)),
]


def lines(request: TurnRequest) -> Reply:
    return NEWS if TELL_NEWS in request.user_text else by_reason(request)


TALK = {"replies": [GREETING], "default_reply": lines}


async def tell_the_news(stage: GeminiStage) -> None:
    """Ask for the news; it must be told once, or fail once, but not both."""
    call = stage.call
    asked_at = call.now
    request = await call.generate_reply(instructions=TELL_NEWS)
    await stage.rest(10.0)
    await call.agent_done()
    told = stage.times_heard(NEWS)
    stage.require_heard(told == 1, f"the news is told once, not {told} times")
    stage.dead_air(asked_at)
    stage.require(request.exception() is None, "the request does not fail")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-drop-with-a-request-pending",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), Abort())],
    server=TALK,
    mutants="request-dies-with-its-connection",
)
@scenario(
    "gemini-request-pending-at-a-long-outage",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), Abort()), *LONG_OUTAGE],
    server=TALK,
    mutants="reply-timeouts-run-on-in-an-outage",
)
@scenario(
    "gemini-late-reply",
    kind="K9",
    rule="R18",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), LateReply(7.0))],
    server={**TALK, "pace": "realtime"},
    mutants="reply-must-begin-within-5-s",
)
@scenario(
    "gemini-interrupted-for-the-old-turn",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), PhantomInterruption())],
    server=TALK,
    mutants="request-is-held-on-a-live-connection",
)
async def answers_a_request_once(stage: GeminiStage) -> None:
    """A reply that the app asked for is spoken once, and its request does not fail as well."""
    await stage.greet()
    await tell_the_news(stage)


@scenario(
    "gemini-request-while-disconnected",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[
        Fault(AtTime(5.0, connection=1), Abort()),
        *LONG_OUTAGE,
    ],
    server=TALK,
    mutants=("google-timeout-begins-in-an-outage", "request-dies-with-its-connection"),
)
async def keeps_a_request_until_it_is_connected(stage: GeminiStage) -> None:
    """A reply that the app asks for during an outage is spoken once it is over, though that takes
    longer than a reply may take to begin."""
    await stage.greet()
    await stage.until_fault()
    await stage.rest(1.0)
    await tell_the_news(stage)


UNDETECTED = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
)


@scenario(
    "gemini-drop-while-the-button-is-held",
    kind="K9",
    rule="R12",
    provider="gemini",
    faults=[Fault(UserStarts(connection=1), (Delay(1.0), Abort()))],
    server={"replies": [GREETING], "default_reply": ANSWER, "strict": True},
    model={"realtime_input_config": UNDETECTED},
    call=lambda: {"session_options": {"turn_handling": {"turn_detection": "manual"}}},
    mutants="activity-is-not-begun-anew",
)
async def answers_a_held_turn_over_a_drop(stage: GeminiStage) -> None:
    """A turn that a drop catches while the app holds it is begun anew on the next connection, and
    answered there once the app ends it."""
    call = stage.call
    await stage.greet()
    if not stage.faulty and stage.which == "upstream":
        return  # which begins an activity of its own here that nobody ends
    call._inside(call.session.interrupt)
    said = await call.say(4.0)
    newest = len(stage.server.dials())
    if stage.faulty:
        begun = stage.server.recording.frames("activityStart", newest)
        stage.require(newest == 2 and len(begun) == 1, "the turn is begun anew, once")
    call._inside(call.session.commit_user_turn)
    await call.reply(after=said.ended_at, timeout_s=30)
    await call.agent_done()
    ended = stage.server.recording.frames("activityEnd", newest)
    stage.require(len(ended) == 1, "and ended there")
    stage.require(len(stage.server.dials()) == newest, "on a connection that takes it")
    stage.require_heard(stage.times_heard(ANSWER) == 1, "the turn is answered, once")
    stage.dead_air(said.ended_at)


@scenario(
    "gemini-interrupted-by-our-own-request",
    kind="K9",
    rule="R18",
    provider="gemini",
    by_script=True,
    server={"replies": [GREETING], "default_reply": ANSWER},
    model={"realtime_input_config": UNDETECTED},
    call=lambda: {"session_options": {"turn_handling": {"turn_detection": "manual"}}},
    mutants="own-request-passes-for-a-barge-in",
)
async def answers_a_committed_turn(stage: GeminiStage) -> None:
    """A turn that the app ends is answered at once, though its request cuts the server's own
    answer to it."""
    call = stage.call
    await stage.greet()
    if not stage.faulty:
        return
    for number in (1, 2):
        call._inside(call.session.interrupt)
        said = await call.say(1.0)
        assert said.ended_at is not None
        call._inside(call.session.commit_user_turn)
        await call.reply(after=said.ended_at, timeout_s=30)
        await call.agent_done()
        stage.require_heard(stage.times_heard(ANSWER) == number, "each turn is answered, and once")
        waited_s = stage.dead_air(said.ended_at)
        stage.require_heard(waited_s < 2.0, f"the answer comes at once, not after {waited_s:.1f} s")
    replies = [event for event in call.events if isinstance(event, GenerationCreated)]
    stage.require(all(event.requested for event in replies), "it is the reply that was asked for")


@scenario(
    "gemini-request-while-the-first-dials-hang",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[
        *(Fault(OnConnection(number), HangHandshake()) for number in (1, 2, 3)),
        Fault(OnConnection(4), HangHandshake(5.0)),
    ],
    server={"default_reply": lines},
    mutants="google-timeout-begins-in-an-outage",
)
async def answers_a_request_before_the_first_connection(stage: GeminiStage) -> None:
    """A reply that the app asks for at the start of a call, whose first dials hang, is spoken once
    there is a connection."""
    await tell_the_news(stage)


@scenario(
    "gemini-app-stops-a-cut-reply",
    kind="K9",
    rule="R12",
    provider="gemini",
    faults=[
        Fault(AtAudio(CUT_S, connection=1), Abort()),
        Fault(OnConnection(2), HangHandshake(3.0)),
    ],
    server={"replies": [STORY], "default_reply": by_reason, "pace": PACE},
    mutants="stopped-reply-is-gone-on-with",
)
async def does_not_go_on_with_what_the_app_stopped(stage: GeminiStage) -> None:
    """A reply that a drop cut is over once the app interrupts what is still playing of it; the
    restored session is not asked for the rest."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    await call.wait_heard(1.0)
    await call._inside(call.session.interrupt)
    stage.idle = True
    await stage.rest(12.0)
    asked = [f for f in stage.server.recording.frames("clientContent") if f.message]
    gone_on = [f for f in asked if any("cut your reply off" in text for text in f.texts)]
    stage.require(not gone_on, "nobody asks for the rest of it")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
