"""What a model of ours leaves owed when it gives up is asked of the next one, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core import Bounds, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    AtTime,
    Before,
    Close,
    Fault,
    HangHandshake,
    OnConnection,
    Refuse,
    Reply,
    Swallow,
    ToolCall,
    UserStops,
)
from livekit.plugins.resilient.testing.call_agent import CallAgent
from livekit.plugins.resilient.testing.faults import Action
from livekit.plugins.resilient.testing.heard import HeardSegment

from ..pairs import pairwise
from .calls import (
    MOMENTS,
    ORDERS,
    OTHER,
    STORY,
    FallbackCall,
    Order,
    Provider,
    Which,
    calling,
    drop,
    server,
)
from .test_give_up import gone

pytestmark = pytest.mark.virtual_time

KINDS = ["refused-503", "hangs", "dropped-at-once", "dropped-after-set-up"]
TRANSCRIBED = {
    "gemini": "inputTranscription",
    "openai": "conversation.item.input_audio_transcription.completed",
}


def all_of(segment: HeardSegment, reply: Reply = OTHER) -> bool:
    return not segment.interrupted and abs(segment.position_s - reply.duration_s) < 0.05


def asked_of(one: Any) -> str:
    """All that a server was told."""
    return " ".join(str(frame.message) for frame in one.recording.received)


def lost(order: Order, moment: str = "in-a-reply", kind: str = "refused-503") -> list[Any]:
    """Two servers, of which the first is gone from a moment on."""
    return [server(order[0], [drop(moment), gone(kind, order[0], 2)]), server(order[1])]


async def expect_one_reply(it: FallbackCall, *, by: int = 1) -> None:
    """The server with this index speaks once, heard to its end, and answers the caller then."""
    (segment,) = await it.spoken_unasked(by=by)
    assert all_of(segment)
    assert it.servers[by].script.turns == 1
    assert it.call.agent_texts()[-1] == OTHER.text
    said = await it.call.say(1.0)
    await it.call.reply(after=said.ended_at)
    await it.call.agent_done()
    assert it.servers[by].script.turns == 2


@pairwise(order=ORDERS, moment=list(MOMENTS), kind=KINDS, second=["ours", "upstream"])
async def test_the_next_model_speaks_once(
    order: Order, moment: str, kind: str, second: Which
) -> None:
    servers = lost(order, moment, kind)
    async with calling(["ours", second], order, servers) as it:
        await it.lose(moment)
        await expect_one_reply(it)
        assert it.left == [servers[0]]
        told = asked_of(servers[1])
        assert ("swallowed what the caller" in told) == (moment != "in-a-reply")
        assert ("Go on from exactly there" in told) == (moment == "in-a-reply")


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_turn_that_is_in_the_record_is_answered(order: Order) -> None:
    last = 2 if order[0] == "gemini" else 1  # piece by piece
    drops = Fault(After(TRANSCRIBED[order[0]], connection=1, nth=last), Abort())
    servers = [server(order[0], [drops, gone("refused-503", order[0], 2)]), server(order[1])]
    servers[0].script.default_reply = Reply(STORY.text, first_token_s=3.0)
    async with calling("ours", order, servers) as it:
        it.call.mic.say(1.0)
        await expect_one_reply(it)
        assert it.call.user_texts()[0] == "hello there"
        assert "have had no answer yet" in asked_of(servers[1])


async def test_words_that_the_server_never_told_of_are_asked_for() -> None:
    silent = Fault(Before("input_audio_buffer.speech_started", connection=1), Swallow())
    stops = Fault(UserStops(connection=1), Abort())
    servers = [server("openai", [silent, stops, gone("refused-503", "openai", 2)])]
    servers.append(server("openai"))
    async with calling("ours", ("openai", "openai"), servers) as it:
        it.call.mic.say(1.0)
        await expect_one_reply(it)
        assert "swallowed what the caller" in asked_of(servers[1])


LINE_LOST = f.Disconnected(30.0)
BEGUN = (f.Connected(0.0), f.UserTurnEnded(10.0), f.GenerationOpened(11.0, "g"))
CUT = (*BEGUN, f.AudioReceived(12.0, "g", 2.0), LINE_LOST)
CALLED = (*BEGUN, f.ToolCallOpened(12.0, "g", "c"), f.GenerationEnded(13.0, "g"))


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ((f.Connected(0.0), LINE_LOST), None),
        ((*BEGUN[:2], LINE_LOST), "unanswered_turn"),
        (CUT, "reply_cut"),
        ((*CUT, f.ReplyRequested(31.0, "r")), "reply_cut"),
        ((f.Connected(0.0), f.ReplyRequested(10.0, "r"), LINE_LOST), None),
        ((*CALLED, LINE_LOST), None),
        ((*CALLED, f.ToolResultDelivered(20.0, "c"), LINE_LOST), "tool_result_unanswered"),
        ((f.Connected(0.0), f.UserSpeechStarted(20.0), LINE_LOST), "user_words_lost"),
        ((f.Connected(0.0), f.UserTurnEnded(10.0, certain=False), LINE_LOST), None),
    ],
)
def test_what_a_conversation_leaves(facts: tuple[f.Fact, ...], cause: str | None) -> None:
    machine = TurnMachine(Bounds())
    for fact in facts:
        machine.receive(fact)
    for _ in range(2):  # it changes nothing
        left = machine.left(33.0, words_lost=False)
        assert (left.cause if left else None) == cause
    heard_s = 2.0 if cause == "reply_cut" else 0.0
    assert left is None or left.received_s == heard_s


# -- nothing is owed


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("spoken", ["nothing", "a-turn"])
async def test_a_caller_who_waits_for_nothing_is_left_in_peace(order: Order, spoken: str) -> None:
    faults = [Fault(AtTime(12.0, connection=1), Close(1011)), gone("refused-503", order[0], 2)]
    servers = [server(order[0], faults), server(order[1])]
    async with calling("ours", order, servers) as it:
        if spoken == "a-turn":
            await it.call.say(1.0)
            await it.call.reply()
        assert await it.spoken_unasked() == []
        assert servers[1].script.turns == 0


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("off", ["in-the-adapter", "in-the-options"])
async def test_an_application_can_switch_it_off(order: Order, off: str) -> None:
    given = {"resilience": ResilienceOptions(redrive=off != "in-the-options")}
    regenerates = off != "in-the-adapter"
    async with calling("ours", order, lost(order), given=given, regenerates=regenerates) as it:
        await it.lose("in-a-reply")
        assert await it.spoken_unasked() == []


# -- somebody else asks


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("second", ["ours", "upstream"])
async def test_what_the_application_asks_for_meanwhile_comes_instead(
    order: Order, second: Which
) -> None:
    async with calling(["ours", second], order, lost(order)) as it:
        asking: list[asyncio.Task[Any]] = []

        async def ask() -> None:
            await asyncio.sleep(0)  # the adapter stops what was asked for before
            await asyncio.sleep(0)
            await it.call.generate_reply(instructions="Go on.", wait=False)

        it.adapter.on(
            "realtime_availability_changed",
            lambda _: asking.append(asyncio.ensure_future(ask())),
        )
        await it.lose("in-a-reply")
        await expect_one_reply(it)
        assert "Go on from exactly there" not in asked_of(it.servers[1])


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_request_whose_end_was_told_is_not_spoken(order: Order) -> None:
    faults = [Fault(AtTime(2.0, connection=1), Abort()), gone("refused-503", order[0], 2)]
    servers = [server(order[0], faults), server(order[1])]
    async with calling("ours", order, servers) as it:
        await servers[0].wait_for("fault")
        handle = await it.call.generate_reply(instructions="Greet.", wait=False)
        assert await it.spoken_unasked() == []
        assert handle.done()
        assert handle.interrupted or handle.exception()


@pairwise(
    order=ORDERS, second=["ours", "upstream"], speech_s=[2.5, 2.9, 3.1, 3.3, 3.5, 4.3, 5.0, 8.0]
)
async def test_a_caller_who_speaks_is_answered_and_not_talked_over(
    order: Order, second: Which, speech_s: float
) -> None:
    servers = lost(order, "in-the-callers-speech", "hangs")
    async with calling(["ours", second], order, servers) as it:
        said = it.call.mic.say(speech_s)
        (segment,) = await it.spoken_unasked()
        assert said.ended_at is not None
        assert segment.started_at is not None
        assert segment.started_at >= said.ended_at
        assert all_of(segment)
        assert servers[1].script.turns == 1


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("second", ["ours", "upstream"])
async def test_a_caller_who_goes_on_after_a_pause_is_listened_to(
    order: Order, second: Which
) -> None:
    async with calling(["ours", second], order, lost(order, "in-the-callers-speech")) as it:
        it.call.mic.say(1.5)
        await it.servers[1].wait_for("open", timeout_s=30)
        said = it.call.mic.say(3.0)
        (segment,) = await it.spoken_unasked()
        assert said.ended_at is not None
        assert segment.started_at is not None
        assert segment.started_at >= said.ended_at
        assert it.servers[1].script.turns == 1


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("second", ["ours", "upstream"])
@pytest.mark.parametrize("tool_s", [1.0, 6.0])
async def test_a_tools_result_is_told_once(order: Order, second: Which, tool_s: float) -> None:
    """It ends before the first model gives up, or after."""
    called = {"gemini": "toolCall", "openai": "response.done"}[order[0]]
    faults = [Fault(After(called, connection=1), Abort()), gone("refused-503", order[0], 2)]
    servers = [server(order[0], faults), server(order[1])]
    servers[0].script.replies.append(ToolCall("get_weather", {"city": "Oslo"}, say_first="Well."))
    agent = CallAgent(tool_delay_s=tool_s)
    async with calling(["ours", second], order, servers, call={"agent": agent}) as it:
        it.call.mic.say(1.0)
        await expect_one_reply(it)


@pytest.mark.parametrize("second", ["ours", "upstream"])
async def test_a_turn_that_was_committed_in_the_gap_is_asked_about(second: Which) -> None:
    """Nobody waits for the request that `commit_user_turn` makes."""
    order: Order = ("openai", "openai")
    faults = [Fault(AtTime(2.0, connection=1), Abort()), gone("refused-503", "openai", 2)]
    servers = [server("openai", faults), server("openai")]
    manual = {"session_options": {"turn_handling": {"turn_detection": "manual"}}}
    given = {"turn_detection": None}
    async with calling(["ours", second], order, servers, given=given, call=manual) as it:
        await servers[0].wait_for("fault")
        await it.call.say(1.0)
        it.call._inside(it.call.session.commit_user_turn)
        (segment,) = await it.spoken_unasked()
        assert all_of(segment)
        assert "swallowed what the caller" in asked_of(servers[1])


# -- further models


@pairwise(order=ORDERS, moment=list(MOMENTS), action=[Refuse(401), Refuse(503), HangHandshake()])
async def test_a_second_model_that_fails_hands_on_what_is_owed(
    order: Order, moment: str, action: Action
) -> None:
    fails = Fault(OnConnection(None), action, times="always")
    first, _ = lost(order, moment)
    servers = [first, server(order[1], [fails]), server("openai")]
    async with calling("ours", (*order, "openai"), servers) as it:
        await it.lose(moment)
        await expect_one_reply(it, by=2)


@pytest.mark.parametrize("second", ["gemini", "openai"])
@pytest.mark.parametrize("hangs_s", [2.0, 8.0])
async def test_a_third_model_is_asked_once_it_serves(second: Provider, hangs_s: float) -> None:
    """The second fails while the caller may still be speaking, and the third is slow."""
    first, _ = lost(("gemini", second), "in-the-callers-speech")
    fails = Fault(OnConnection(None), Refuse(401), times="always")
    slow = server("openai", [Fault(OnConnection(1), HangHandshake(hangs_s))])
    slow.script.default_reply = OTHER
    servers = [first, server(second, [fails]), slow]
    async with calling("ours", ("gemini", second, "openai"), servers) as it:
        await it.lose("in-the-callers-speech")
        await expect_one_reply(it, by=2)


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_second_model_that_is_lost_in_that_reply_leaves_it_to_the_third(
    order: Order,
) -> None:
    first, _ = lost(order)
    faults = [Fault(AtAudio(1.0, connection=1), Abort()), gone("refused-503", order[1], 2)]
    servers = [first, server(order[1], faults), server("openai")]
    async with calling("ours", (*order, "openai"), servers) as it:
        await it.lose("in-a-reply")
        await expect_one_reply(it, by=2)
        assert servers[1].script.turns == 1


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("after_s", [2.76, 2.9, 3.2])
async def test_a_call_can_be_closed_while_something_is_owed(order: Order, after_s: float) -> None:
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    async with calling("ours", order, lost(order, "in-the-callers-speech")) as it:
        await it.lose("in-the-callers-speech")
        await asyncio.sleep(after_s)
        began_at = it.call.now
        await it.call.aclose()
        assert it.call.now - began_at <= 1.0
        await asyncio.sleep(5.0)
        assert it.servers[1].script.turns == 0
        assert failed == []
