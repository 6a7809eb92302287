"""K1: the connection ends without our asking for it, or dies without a word."""

from __future__ import annotations

from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Blackhole,
    Close,
    Fault,
    Flap,
    HangHandshake,
    NoCloseAnswer,
    NoSetupAnswer,
    OnConnection,
    Refuse,
    RefuseOverlap,
    Silence,
    SlowPong,
    UserStarts,
    UserStops,
)

from ..lines import ANSWER, CUT_S, PACE, STORY, by_reason
from ..registry import scenario
from ..stage import OUTPUT_RATE, GeminiStage
from .steps import requests_sent, told_of

CUT = AtAudio(CUT_S, connection=1)
TALE = {"replies": [STORY], "default_reply": by_reason}
PATIENT = {"conn_options": APIConnectOptions(max_retry=3, retry_interval=0.5, timeout=4.0)}


@scenario(
    "gemini-drop-1006-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Abort())],
    server={**TALE, "pace": "realtime"},
    mutants=("restored-session-is-told-nothing", "unlisted-failures-are-final"),
)
@scenario(
    "gemini-drop-1000-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Close(1000, "The operation was cancelled."))],
    server=TALE,
    mutants=("restored-session-is-told-nothing", "unlisted-failures-are-final"),
)
@scenario(
    "gemini-drop-1001-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Close(1001, "going away"))],
    server={**TALE, "pace": None},
    mutants=("restored-session-is-told-nothing", "unlisted-failures-are-final"),
)
@scenario(
    "gemini-drop-1011-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Close(1011, "Internal error encountered."))],
    server=TALE,
    mutants=("restored-session-is-told-nothing", "unlisted-failures-are-final"),
)
async def answers_after_a_drop(stage: GeminiStage) -> None:
    """All audio that had arrived is heard and known to the model, then the next question is
    answered in full."""
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    await stage.call.until(lambda: stage.call.heard.segments, what="the end of the cut reply")
    await stage.ask()
    arrived = STORY.pcm(OUTPUT_RATE, seed=1)[: round(CUT_S * OUTPUT_RATE) * 2]
    stage.require_heard(arrived in stage.call.heard.heard_pcm(), "what had arrived was heard")
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
    told = told_of(stage, STORY)
    stage.require(len(told) == 1, f"the model knows what it had said, once: {told}")
    stage.dead_air()


@scenario(
    "gemini-drop-and-slow-redial-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Abort()), Fault(OnConnection(2), HangHandshake(3.0))],
    server=TALE,
    model=PATIENT,
    mutants="unlisted-failures-are-final",
)
async def ends_the_cut_reply_at_once(stage: GeminiStage) -> None:
    """The agent stops speaking when its audio is over, not only once it is connected again."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    dropped_at = await stage.until_fault()
    await call.until(lambda: call.heard.segments, what="the end of the cut reply")
    await call.until(
        lambda: call.session.agent_state != "speaking", what="an agent that listens again"
    )
    buffered_s = CUT_S - CUT_S / PACE
    late_s = call.now - dropped_at - buffered_s
    stage.require(not stage.faulty or late_s < 0.3, "the reply ends with its last sample")
    await stage.server.wait_for("setupComplete", count=len(stage.server.dials()))
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air()


@scenario(
    "gemini-redial-refused-503-twice",
    kind="K1",
    rule="R2",
    provider="gemini",
    faults=[
        Fault(CUT, Abort()),
        Fault(OnConnection(2), Refuse(503)),
        Fault(OnConnection(3), Refuse(503)),
    ],
    server=TALE,
    model=PATIENT,
    mutants="one-redial-is-all",
)
@scenario(
    "gemini-redial-hangs-then-503",
    kind="K1",
    rule="R2",
    provider="gemini",
    faults=[
        Fault(CUT, Abort()),
        Fault(OnConnection(2), HangHandshake()),
        Fault(OnConnection(3), Refuse(503)),
    ],
    server=TALE,
    model=PATIENT,
    mutants="one-redial-is-all",
)
@scenario(
    "gemini-redial-gets-no-setup-answer",
    kind="K1",
    rule="R2",
    provider="gemini",
    faults=[Fault(CUT, Abort()), Fault(OnConnection(2), NoSetupAnswer())],
    server=TALE,
    model=PATIENT,
    mutants="dial-may-take-for-ever",
)
@scenario(
    "gemini-redial-refused-five-times",
    kind="K1",
    rule="R2",
    provider="gemini",
    faults=[
        Fault(CUT, Abort()),
        *(Fault(OnConnection(number), Refuse(503)) for number in range(2, 7)),
    ],
    server=TALE,
    mutants="one-redial-is-all",
)
async def dials_until_one_succeeds(stage: GeminiStage) -> None:
    """A dial that fails is given up in time and tried again, and the call goes on."""
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    dropped_at = await stage.until_fault()
    failing = len(stage.scenario.faults) - 1
    dials = failing + 2 if stage.faulty else 1
    await stage.server.wait_for("setupComplete", connection=dials, timeout_s=30)
    waited_s = stage.call.now - dropped_at
    stage.require(waited_s < 4.0 * failing + 4.0, "each dial is bounded by the timeout asked for")
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
    stage.dead_air()


@scenario(
    "gemini-cut-reply-is-taken-up-again",
    kind="K1",
    rule="R12",
    provider="gemini",
    faults=[Fault(CUT, Abort())],
    server={**TALE, "pace": "realtime"},
    mutants=("redrive-says-nothing-of-the-cut", "cut-reply-is-not-owed"),
)
async def goes_on_by_itself(stage: GeminiStage) -> None:
    """After a drop in mid-reply the agent goes on by itself while the caller just waits."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    if stage.faulty:
        await stage.next_segment(timeout_s=15)
        stage.require_heard(stage.times_heard(STORY) == 1, "it does not begin again")
        stage.dead_air()
        asked = requests_sent(stage, 2)
        stage.require(len(asked) == 1, f"it is asked to go on once, not {len(asked)} times")
        last = " ".join(STORY.words_until(CUT_S).split()[-4:-1])
        stage.require(last in asked[0], f"it is told that {last!r} was heard last")
    await call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-three-drops-within-300-ms",
    kind="K1",
    rule="R2",
    provider="gemini",
    faults=[Fault(CUT, Flap(drops=3, within_ms=300))],
    server=TALE,
    mutants="one-redial-is-all",
)
async def outlives_a_flapping_front_end(stage: GeminiStage) -> None:
    """Several drops in a row are one interruption to the caller."""
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    dials = 4 if stage.faulty else 1
    await stage.server.wait_for("setupComplete", connection=dials, timeout_s=30)
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.require(len(stage.server.dials()) == dials, "no more dials than drops")
    stage.dead_air()


@scenario(
    "gemini-drop-while-the-caller-speaks",
    kind="K1",
    rule="R12",
    provider="gemini",
    faults=[Fault(UserStarts(connection=1), Abort()), Fault(OnConnection(2), HangHandshake(4.0))],
    server={"default_reply": by_reason},
    mutants="nothing-is-asked-for-after-a-drop",
)
@scenario(
    "gemini-drop-right-after-the-question",
    kind="K1",
    rule="R12",
    provider="gemini",
    faults=[Fault(UserStops(connection=1), Abort())],
    server={"default_reply": by_reason},
    mutants="nothing-is-asked-for-after-a-drop",
)
async def answers_the_question_that_the_drop_caught(stage: GeminiStage) -> None:
    """The socket drops around a question, and the caller is answered without asking again."""
    await stage.greet()
    await stage.call.say(2.0)
    asked_at = stage.call.now
    await stage.call.reply(timeout_s=10)
    stage.dead_air(asked_at)
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")


@scenario(
    "gemini-blackhole-while-the-caller-speaks",
    kind="K1",
    rule="R17",
    provider="gemini",
    faults=[Fault(UserStarts(connection=1), Blackhole())],
    server={"default_reply": by_reason},
    mutants="unheard-caller-is-no-sign",
)
async def notices_a_half_open_connection(stage: GeminiStage) -> None:
    """A connection that died without a word is replaced soon after the caller has spoken."""
    await stage.greet()
    await stage.call.say(2.0)
    asked_at = stage.call.now
    await stage.call.reply(timeout_s=15)
    stage.dead_air(asked_at)
    stage.require(len(stage.server.dials()) <= 2, "it is replaced once")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


@scenario(
    "gemini-deaf-connection-in-the-way",
    kind="K1",
    rule="R17",
    provider="gemini",
    faults=[Fault(UserStarts(connection=1), (RefuseOverlap(), NoCloseAnswer(), Silence()))],
    server={"default_reply": by_reason, "pace": PACE},
    mutants="suspected-connection-is-closed-politely",
)
async def cuts_a_deaf_connection_that_is_in_the_way(stage: GeminiStage) -> None:
    """Where a connection that hears nobody must end before there can be another, it is cut at once
    and not asked to close."""
    await stage.greet()
    await stage.call.say(2.0)
    if stage.faulty:
        await stage.server.wait_for("setupComplete", connection=3, timeout_s=40)
        refused, left = (stage.server.recording.closed(number) for number in (2, 1))
        assert refused is not None
        took_s = (stage.call.now if left is None else left.at) - refused.at
        stage.require(took_s < 0.2, f"the first is cut at once, not {took_s:.1f} s later")
    await stage.call.agent_done()
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-pongs-come-25-s-late",
    kind="K1",
    rule="R17",
    provider="gemini",
    faults=[Fault(OnConnection(1), SlowPong(25.0))],
    server={"default_reply": by_reason},
    mutants="late-pong-ends-the-connection",
)
async def keeps_a_connection_whose_pongs_are_late(stage: GeminiStage) -> None:
    """A healthy call goes on for minutes although the server's pongs are slow."""
    await stage.greet()
    for _ in range(6):
        await stage.ask()
        await stage.rest(10.0)
    stage.require_heard(stage.times_heard(ANSWER) == 6, "every question is answered")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)
