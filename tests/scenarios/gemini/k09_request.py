"""K9: requests for a reply that a fault meets while they are pending."""

from __future__ import annotations

from google.genai import types

from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Fault,
    HangHandshake,
    LateReply,
    OnConnection,
    PhantomInterruption,
    Received,
    Reply,
    TurnRequest,
)

from ..lines import ANSWER, GREETING, PACE, by_reason
from ..registry import scenario
from ..stage import GeminiStage

NEWS = Reply("Here is the news of today.")
TELL_NEWS = "Tell the news of today."


def lines(request: TurnRequest) -> Reply:
    return NEWS if TELL_NEWS in request.user_text else by_reason(request)


TALK = {"replies": [GREETING], "default_reply": lines, "pace": PACE}


async def tell_the_news(stage: GeminiStage) -> None:
    """Ask for the news; it must be told once, or fail once, but not both."""
    call = stage.call
    asked_at = call.now
    request = await call.generate_reply(instructions=TELL_NEWS)
    await stage.rest(10.0)
    await call.agent_done()
    told = stage.times_heard(NEWS)
    stage.require(told == 1, f"the news is told once, not {told} times")
    stage.dead_air(asked_at)
    stage.require(request.exception() is None, "the request does not fail")
    await stage.ask()
    stage.require(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-drop-with-a-request-pending",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), Abort())],
    server=TALK,
)
@scenario(
    "gemini-late-reply",
    kind="K9",
    rule="R18",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), LateReply(7.0))],
    server=TALK,
)
@scenario(
    "gemini-interrupted-for-the-old-turn",
    kind="K9",
    rule="R11",
    provider="gemini",
    faults=[Fault(Received("clientContent", nth=2), PhantomInterruption())],
    server=TALK,
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
        Fault(OnConnection(2), HangHandshake(7.0)),
    ],
    server=TALK,
)
async def keeps_a_request_until_it_is_connected(stage: GeminiStage) -> None:
    """A reply that the app asks for during an outage is spoken once it is over."""
    await stage.greet()
    await stage.until_fault()
    await stage.rest(1.0)
    await tell_the_news(stage)


UNDETECTED = types.RealtimeInputConfig(
    automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
)


@scenario(
    "gemini-interrupted-by-our-own-request",
    kind="K9",
    rule="R18",
    provider="gemini",
    by_script=True,
    server={"replies": [GREETING], "default_reply": ANSWER, "pace": PACE},
    model={"realtime_input_config": UNDETECTED},
    call=lambda: {"session_options": {"turn_handling": {"turn_detection": "manual"}}},
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
        stage.require(stage.times_heard(ANSWER) == number, "each turn is answered, and once")
        waited_s = stage.dead_air(said.ended_at)
        stage.require(waited_s < 2.0, f"the answer comes at once, not after {waited_s:.1f} s")
