"""K9: requests for a reply that a fault meets while they are pending."""

from __future__ import annotations

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
