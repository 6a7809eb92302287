"""K4: resumption handles that are late, empty, stale or poisoned."""

from __future__ import annotations

from livekit.agents import function_tool
from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    CallAgent,
    EmptyHandle,
    Fault,
    LateHandle,
    NoHandle,
    OnConnection,
    PoisonHandle,
    StaleHandle,
    ToolCall,
)

from ..lines import ANSWER, GO_ON, TOLD, by_reason
from ..registry import scenario
from ..stage import GeminiStage

TALK = {"default_reply": by_reason}
FEW = {"conn_options": APIConnectOptions(max_retry=4, retry_interval=0.5, timeout=4.0)}
DROP_AT_S = 30.0
IDLE_DROP = Fault(AtTime(DROP_AT_S, connection=1), Abort())


async def sit_out_the_drop(stage: GeminiStage, connection: int) -> None:
    """Stay quiet until the drop, and until `connection` serves the call."""
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for(
            "setupComplete", connection=connection, timeout_s=DROP_AT_S + 60
        )


@scenario(
    "gemini-handle-after-the-turn",
    kind="K4",
    rule="R5",
    provider="gemini",
    faults=[Fault(OnConnection(1), LateHandle(0.5)), IDLE_DROP],
    server=TALK,
    mutants="first-handle-is-kept",
)
async def resumes_with_the_newest_handle(stage: GeminiStage) -> None:
    """A handle that came half a second after the turn is the one that is used."""
    await stage.greet()
    await stage.ask()
    await sit_out_the_drop(stage, 2)
    if stage.faulty:
        issued = stage.server.store.handles.values()
        newest = [handle for handle in issued if handle.connection == 1][-1]
        stage.require(stage.server.session.resumed_from is newest, "the newest handle is used")
    await stage.ask()
    stage.require(stage.server.session.knows(GO_ON.text) == 1, "the greeting is known once")
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-empty-handle-comes-last",
    kind="K4",
    rule="R5",
    provider="gemini",
    faults=[Fault(After("turnComplete", connection=1), EmptyHandle()), IDLE_DROP],
    server=TALK,
    mutants="empty-handle-is-taken",
)
async def keeps_a_good_handle(stage: GeminiStage) -> None:
    """An empty handle does not replace a good one, and what came after it is told once."""
    await stage.greet()
    stage.server.user_says("what is the opening time", "and on Sundays")
    await stage.ask()
    await sit_out_the_drop(stage, 2)
    await stage.ask()
    session = stage.server.session
    stage.require(not stage.faulty or session.resumed_from, "the session is resumed")
    for text in (GO_ON.text, "what is the opening time"):
        stage.require(session.knows(text) == 1, "all that was said is known once")
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-difference-with-a-tool",
    kind="K4",
    rule="R6",
    provider="gemini",
    faults=[Fault(After("setupComplete", connection=1), NoHandle()), IDLE_DROP],
    server={**TALK, "replies": [GO_ON, ToolCall("get_weather", {"city": "Paris"})]},
    agent=lambda faulty: CallAgent(weather="cloudless"),
    mutants="restored-session-is-told-nothing",
)
async def tells_the_difference_once(stage: GeminiStage) -> None:
    """A handle from before the talk is completed by it: each item once, the tool's result too."""
    await stage.greet()
    stage.server.user_says("what is the weather", "thank you")
    await stage.call.say(1.0)
    await stage.call.until(lambda: stage.times_heard(TOLD), what="the weather")
    await stage.call.agent_done()
    await sit_out_the_drop(stage, 2)
    await stage.ask()
    session = stage.server.session
    for text in (GO_ON.text, "what is the weather", "cloudless", TOLD.text):
        stage.require(session.knows(text) == 1, f"{text!r} is known once")
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)


@scenario(
    "gemini-item-sent-while-a-handle-travels",
    kind="K4",
    rule="R6",
    provider="gemini",
    faults=[Fault(OnConnection(1), LateHandle(0.2)), IDLE_DROP],
    server=TALK,
    mutants="handle-covers-what-travels",
)
async def allows_for_a_handle_on_its_way(stage: GeminiStage) -> None:
    """What was sent just before a handle arrived is known once after the drop."""
    call = stage.call
    await call.generate_reply(instructions="Greet the caller.", wait=False)
    await stage.server.wait_for("turnComplete", connection=1)
    context = call.agent.chat_ctx.copy()
    context.add_message(role="user", content="My name is Ada.")
    await call.agent.update_chat_ctx(context)
    await call.agent_done()
    await sit_out_the_drop(stage, 2)
    await stage.ask()
    stage.require(stage.server.session.knows("Ada") == 1, "the caller's name is known once")
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air(call.mic.utterances[-1].ended_at)


@function_tool
async def goodbye() -> str:
    """Say goodbye."""
    return "bye"


@scenario(
    "gemini-new-tools-right-after-a-turn",
    kind="K4",
    rule="R5",
    provider="gemini",
    faults=[Fault(OnConnection(1), LateHandle(0.5))],
    server=TALK,
    mutants="restart-does-not-wait-for-the-handle",
)
async def restarts_with_the_handle_of_the_turn(stage: GeminiStage) -> None:
    """Tools that change right after a turn take effect in a session that knows of the turn from
    its handle, though that comes late."""
    await stage.call.generate_reply(instructions="Greet the caller.", wait=False)
    await stage.server.wait_for("turnComplete", connection=1)
    await stage.rest(0.1)
    await stage.call.agent.update_tools([*stage.call.agent.tools, goodbye])
    await stage.server.wait_for("setupComplete", count=2)
    await stage.call.agent_done()
    session = stage.server.session
    stage.require("goodbye" in str(session.setup.get("tools")), "the new tools are declared")
    if stage.faulty:
        known = session.resumed_from.history if session.resumed_from else ()
        stage.require(any(entry.kind == "speech" for entry in known), "the handle is of the turn")
        stage.require(not stage.server.recording.texts_sent(2), "nothing is told again")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air(stage.call.mic.utterances[0].ended_at)


@scenario(
    "gemini-stale-handle-before-setup",
    kind="K4",
    rule="R7",
    provider="gemini",
    faults=[IDLE_DROP, Fault(OnConnection(2), StaleHandle("before_setup"))],
    server=TALK,
    model=FEW,
    mutants=("refused-handle-is-kept", "fresh-session-is-told-nothing"),
)
@scenario(
    "gemini-stale-handle-after-setup",
    kind="K4",
    rule="R7",
    provider="gemini",
    faults=[IDLE_DROP, Fault(OnConnection(2), StaleHandle("after_setup"))],
    server=TALK,
    model=FEW,
    mutants=("refused-handle-is-kept", "fresh-session-is-told-nothing"),
)
@scenario(
    "gemini-poisoned-handle",
    kind="K4",
    rule="R7",
    provider="gemini",
    faults=[
        IDLE_DROP,
        Fault(OnConnection(2), (PoisonHandle(), NoHandle())),
        Fault(OnConnection(3), NoHandle()),
    ],
    server=TALK,
    model=FEW,
    mutants=("poisoned-handle-is-kept", "fresh-session-is-told-nothing"),
)
async def starts_afresh_without_a_greeting(stage: GeminiStage) -> None:
    """A handle that is refused is forgotten: the talk goes on in a new session that knows it."""
    await stage.greet()
    stage.server.user_says("what is the opening time", "and on Sundays")
    await stage.ask()
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_until(
            lambda: len(stage.server.sessions) > 1 and not stage.server.session.resumed_from,
            timeout_s=DROP_AT_S + 60,
            what="a fresh session",
        )
        fresh = stage.server.session.connection
        stage.require(fresh <= 4, "two refusals are enough to forget the handle")
        turns = stage.server.script.turns
        await stage.rest(10.0)
        stage.require(stage.server.script.turns == turns, "nobody greets again")
        frames = stage.server.recording.frames(connection=fresh)
        kinds = [frame.kind for frame in frames]
        stage.require(kinds.count("clientContent") == 1, "the history is told once")
        stage.require(kinds[1] == "clientContent", "it is told before the first microphone frame")
    await stage.ask()
    session = stage.server.session
    for text in (GO_ON.text, "what is the opening time"):
        stage.require(session.knows(text) == 1, f"{text!r} is known once")
    stage.require_heard(stage.times_heard(ANSWER) == 2, "both questions are answered")
    stage.dead_air(stage.call.mic.utterances[-1].ended_at)
