"""K3: what is tried again, for how long, and what ends a session."""

from __future__ import annotations

from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Close,
    Fault,
    Malformed,
    OnConnection,
    Received,
    Refuse,
    Reply,
    Send,
    Silence,
    TurnRequest,
)

from ..lines import ANSWER, CUT_S, STORY, by_reason
from ..registry import scenario
from ..stage import GeminiStage
from .steps import told_of

CUT = AtAudio(CUT_S, connection=1)
TALE = {"replies": [STORY], "default_reply": by_reason}
FEW = {"conn_options": APIConnectOptions(max_retry=3, retry_interval=0.5, timeout=4.0)}
INVALID = Close(1007, "Request contains an invalid argument.")
APOLOGISE = "Apologise for the bad line."
APOLOGY = Reply("I am sorry, the line was bad for a moment.")


def apology_or_other(request: TurnRequest) -> Reply:
    return APOLOGY if APOLOGISE in request.user_text else by_reason(request)


@scenario(
    "gemini-accept-then-drop-for-ever",
    kind="K3",
    rule="R2",
    provider="gemini",
    faults=[Fault(After("sessionResumptionUpdate", nth=3), Abort(), times="always")],
    server=TALE,
    model=FEW,
    mutants="dial-alone-restores-the-budget",
)
async def gives_up_once(stage: GeminiStage) -> None:
    """A server that accepts and drops for ever is given up after a few dials, with one error."""
    await stage.greet()
    if not stage.faulty:
        await stage.ask()
        stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
        return
    stage.idle = True
    await stage.call.until(lambda: stage.call.closed, timeout_s=30, what="the end of the session")
    await stage.rest(10.0)
    dials = len(stage.server.dials())
    stage.require(dials <= 6, f"a few dials are enough, not {dials}")
    stage.require(stage.unrecoverable() == 1, "the session is told once that the model gave up")


@scenario(
    "gemini-provider-gone-for-good",
    kind="K3",
    rule="R2",
    provider="gemini",
    faults=[
        Fault(CUT, Abort()),
        Fault(OnConnection(None, nth=2), Refuse(503), times="always"),
    ],
    server=TALE,
    mutants=("outage-is-given-up-early", "outage-is-not-given-up"),
)
async def tries_for_a_minute(stage: GeminiStage) -> None:
    """A provider that is gone is tried for about a minute, and then reported once."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    dropped_at = await stage.until_fault()
    if stage.faulty:
        await call.until(lambda: stage.unrecoverable(), timeout_s=120, what="a final error")
        tried_s = stage.server.dials()[-1].at - dropped_at
        stage.require(tried_s > 45.0, f"it is tried for a minute, not {tried_s:.0f} s")
        await stage.rest(30.0)
        stage.require(stage.unrecoverable() == 1, "it is reported once")
        return
    await call.agent_done()
    stage.require_heard(stage.heard_whole(STORY), "the story is heard in full")


@scenario(
    "gemini-takes-dials-and-answers-nothing",
    kind="K3",
    rule="R2",
    provider="gemini",
    faults=[
        Fault(After("inputTranscription", nth=2), Silence()),
        Fault(Received("clientContent"), Silence(), times="always"),
    ],
    server={"default_reply": by_reason},
    mutants="dial-alone-restores-the-budget",
)
async def gives_up_a_mute_server(stage: GeminiStage) -> None:
    """A server that takes every dial and answers nothing is given up within three minutes, once."""
    said = await stage.call.say(1.5)
    if not stage.faulty:
        await stage.call.reply(after=said.ended_at)
        return
    await stage.call.until(lambda: stage.call.closed, timeout_s=180, what="the end of the session")
    stage.require(len(stage.server.dials()) <= 8, "a few dials are enough")
    stage.require(stage.unrecoverable() == 1, "the session is told once that the model gave up")


@scenario(
    "gemini-bad-key",
    kind="K3",
    rule="R3",
    provider="gemini",
    faults=[Fault(OnConnection(None), Refuse(401), times="always")],
    server={"default_reply": by_reason},
    model=FEW,
    mutants="bad-key-is-tried-again",
)
async def does_not_insist_on_a_bad_key(stage: GeminiStage) -> None:
    """A key that the provider refuses ends the session at once, with one error and one dial."""
    if not stage.faulty:
        await stage.greet()
        return
    error = await stage.call.wait_error(timeout_s=10)
    stage.require(not error.recoverable, "the error is final")
    await stage.rest(10.0)
    stage.require(len(stage.server.dials()) == 1, "nothing is dialled again")
    stage.require(stage.unrecoverable() == 1, "it is told once")


@scenario(
    "gemini-1007-mid-reply",
    kind="K3",
    rule="R3",
    provider="gemini",
    faults=[Fault(CUT, INVALID)],
    server=TALE,
    model=FEW,
    mutants=("invalid-argument-is-final", "restored-session-is-told-nothing"),
)
@scenario(
    "gemini-1007-again-after-resuming",
    kind="K3",
    rule="R3",
    provider="gemini",
    faults=[
        Fault(CUT, INVALID),
        Fault(After("setupComplete", connection=2), INVALID),
    ],
    server=TALE,
    model=FEW,
    mutants=("invalid-argument-is-final", "refused-handle-is-kept"),
)
async def outlives_an_invalid_argument(stage: GeminiStage) -> None:
    """A 1007 is tried again without what may have caused it, and the call goes on."""
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    closes = len(stage.scenario.faults) if stage.faulty else 0
    await stage.server.wait_for("setupComplete", connection=closes + 1, timeout_s=30)
    if closes == 2:
        handle = stage.server.recording.frames("setup", 3)[0].message["setup"]["sessionResumption"]
        stage.require("handle" not in handle, "the third session does without the handle")
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
    stage.require(len(stage.server.dials()) == closes + 1, "each 1007 costs one dial")
    told = told_of(stage, STORY)
    stage.require(len(told) == 1, f"the model knows what it had said, once: {told}")
    stage.dead_air()


@scenario(
    "gemini-malformed-json",
    kind="K3",
    rule="R19",
    provider="gemini",
    faults=[Fault(CUT, Malformed())],
    server={**TALE, "pace": "realtime"},
    mutants="unreadable-message-ends-the-connection",
)
@scenario(
    "gemini-frame-nested-without-end",
    kind="K3",
    rule="R19",
    provider="gemini",
    faults=[Fault(CUT, Malformed("[" * 100_000))],
    server={**TALE, "pace": "realtime"},
    mutants="deep-frame-ends-the-connection",
)
async def skips_what_is_not_json(stage: GeminiStage) -> None:
    """A frame that is not JSON is skipped, and the reply around it is heard to its end."""
    await stage.call.generate_reply(instructions="Tell a story.")
    await stage.call.agent_done()
    stage.require_heard(stage.heard_whole(STORY), "no sample of the running reply is lost")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.dead_air()


@scenario(
    "gemini-end-at-no-time",
    kind="K3",
    rule="R19",
    provider="gemini",
    faults=[Fault(CUT, Send({"goAway": {"timeLeft": "1e400s"}}))],
    server={**TALE, "pace": "realtime"},
    mutants="end-at-no-time-is-an-end",
)
@scenario(
    "gemini-call-of-no-tool",
    kind="K3",
    rule="R19",
    provider="gemini",
    faults=[Fault(CUT, Send({"toolCall": {"functionCalls": [{"id": "call-1", "args": {}}]}}))],
    server={**TALE, "pace": "realtime"},
    mutants="calls-of-no-tool-are-passed-on",
)
async def skips_what_it_cannot_use(stage: GeminiStage) -> None:
    """A message with nothing in it to go by costs neither the reply around it nor the
    connection."""
    await stage.call.generate_reply(instructions="Tell a story.")
    await stage.call.agent_done()
    stage.require_heard(stage.heard_whole(STORY), "no sample of the running reply is lost")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.require(stage.call.errors == [], "the session is told of no error")
    stage.dead_air()


@scenario(
    "gemini-app-reacts-to-the-error",
    kind="K3",
    rule="R4",
    provider="gemini",
    faults=[
        Fault(CUT, Abort()),
        Fault(After("setupComplete", connection=2), Abort()),
    ],
    server={**TALE, "default_reply": apology_or_other},
    model={"conn_options": APIConnectOptions(max_retry=3, retry_interval=7.0, timeout=4.0)},
    mutants="error-comes-before-the-wait",
)
async def lets_the_app_talk_after_an_error(stage: GeminiStage) -> None:
    """An app that answers the error with a request of its own is heard, once."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    if not stage.faulty:
        await call.agent_done()
        return
    await call.until(lambda: len(call.errors) >= 2, what="two errors")
    told_at = call.errors[1].at
    asked = await call.generate_reply(instructions=APOLOGISE)
    await call.agent_done()
    stage.require_heard(stage.times_heard(APOLOGY) == 1, "the app's apology is heard once")
    stage.require(asked.exception() is None, "the app's request does not fail")
    redial_s = stage.server.dials()[2].at - told_at
    stage.require(redial_s < 0.1, f"the error comes as it is dialled, not {redial_s:.1f} s before")
    stage.dead_air()
