"""A call goes on over failed redials, and the application is told when it can react (R2, R4)."""

from __future__ import annotations

import asyncio
import re

import pytest
from livekit.agents import llm
from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import GoAwayReceived, ResilienceEvent
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    Close,
    Delay,
    Fault,
    GeminiLiveServer,
    GoAway,
    HeadlessCall,
    OnConnection,
    Received,
    Refuse,
    StaleHandle,
)

BACKOFF_S = 2.0
INVALID = Close(1007, "Request contains an invalid argument.")


@pytest.mark.virtual_time
async def test_the_error_is_emitted_just_before_the_redial() -> None:
    drops = (
        Fault(AtAudio(1.0, connection=1), Abort()),
        # The first redial is immediate.
        Fault(AtAudio(1.0, connection=2), Abort()),
    )
    async with GeminiLiveServer(faults=drops) as server:
        options = APIConnectOptions(max_retry=3, retry_interval=BACKOFF_S, timeout=5)
        model = RealtimeModel(**server.model_kwargs(conn_options=options))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet")
            await server.wait_for("setup", connection=2)
            await call.generate_reply(instructions="go on")
            await server.wait_for("setup", connection=3)
        emitted = [error.at for error in call.errors if error.recoverable]
        redialled = [dial.at for dial in server.dials()[1:]]
        assert len(emitted) == len(redialled) == 2
        for error_at, dial_at in zip(emitted, redialled, strict=True):
            assert 0 <= dial_at - error_at < 0.05


OPTIONS = APIConnectOptions(max_retry=3, retry_interval=0.5, timeout=5)


@pytest.mark.virtual_time
@pytest.mark.parametrize("failure", [Refuse(503), Close(1011, "unavailable")], ids=["503", "1011"])
async def test_the_call_goes_on_after_a_refused_redial(failure: Refuse | Close) -> None:
    faults = (
        Fault(AtAudio(1.0, connection=1), Abort()),
        Fault(OnConnection(2), failure),
    )
    async with GeminiLiveServer(faults=faults) as server:
        model = RealtimeModel(**server.model_kwargs(conn_options=OPTIONS))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet")
            await server.wait_for("setup", connection=3)
            asked_at = call.now
            await call.say(1.0)
            await call.until(
                lambda: [
                    s
                    for s in call.heard.segments
                    if (s.started_at or 0) > asked_at and s.position_s > 1.0
                ],
                what="an answer",
            )
        assert [error.recoverable for error in call.errors] == [True, True]


@pytest.mark.virtual_time
async def test_a_first_dial_that_fails_still_ends_the_session() -> None:
    async with GeminiLiveServer(faults=[Fault(OnConnection(1), Refuse(401))]) as server:
        model = RealtimeModel(**server.model_kwargs(conn_options=OPTIONS))
        async with HeadlessCall(model) as call:
            error = await call.wait_error()
            assert not error.recoverable
        assert len(server.dials()) == 1


def told(server: GeminiLiveServer, connection: int) -> tuple[str, ...]:
    """The history that a connection was told, by content or in its set-up."""
    contents = server.recording.frames("clientContent", connection)
    (setup,) = server.recording.frames("setup", connection)
    texts = [text for frame in contents for text in frame.texts]
    return tuple(re.findall(r"line-\d", str([setup.message, *texts])))


def history(lines: int) -> llm.ChatContext:
    context = llm.ChatContext.empty()
    for number in range(lines):
        context.add_message(role=("user", "assistant")[number % 2], content=f"line-{number}")
    return context


@pytest.mark.virtual_time
async def test_a_history_that_is_refused_is_told_in_plainer_forms_then_halved() -> None:
    refusals = 5
    refused = tuple(
        Fault(Received("clientContent" if number < 2 else "setup", connection=number + 1), INVALID)
        for number in range(refusals)
    )
    async with GeminiLiveServer(faults=refused, family="3.1") as server:
        session = RealtimeModel(**server.model_kwargs()).session()
        errors: list[bool] = []
        session.on("error", lambda error: errors.append(error.recoverable))
        await session.update_chat_ctx(history(8))
        await server.wait_for("setupComplete", connection=refusals + 1)
        lines = [told(server, number + 1) for number in range(refusals + 1)]
        # As turns, announced, in the instructions; there with a plainer set-up, then less of it.
        assert [len(seed) for seed in lines] == [8, 8, 8, 8, 4, 2]
        assert lines[4] == ("line-4", "line-5", "line-6", "line-7"), "the newest are kept"
        setups = [frame.message["setup"] for frame in server.recording.frames("setup")]
        assert ["historyConfig" in setup for setup in setups] == [False, True, *[False] * 4]
        assert ["contextWindowCompression" in setup for setup in setups] == [True] * 3 + [False] * 3
        assert errors == [True] * refusals
        await session.aclose()


@pytest.mark.virtual_time
async def test_a_refused_update_is_not_put_down_to_the_history() -> None:
    """A family that takes no content in mid-session is told all of it once more, not less."""
    faults = (Fault(OnConnection(2), StaleHandle()),)
    async with GeminiLiveServer(faults=faults, family="3.1-release", strict=True) as server:
        model = RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="Greet the caller.")
            await call.agent_done()
            await server.do(Abort())
            await server.wait_for("setupComplete", connection=4)  # the third takes no history
            server.user_says("the question")
            await call.say(1.0)
            await call.wait_heard(1.0)
            record = call.agent.chat_ctx.copy()
            record.add_message(role="user", content="the news")
            await call.agent.update_chat_ctx(record)
            await asyncio.sleep(10.0)
            await call.agent_done()
            for text in ("simulated model speaking", "the question", "the news"):
                assert server.session.knows(text) >= 1, text
        assert all(error.recoverable for error in call.errors)


@pytest.mark.virtual_time
async def test_a_session_that_is_refused_without_any_history_ends() -> None:
    faults = tuple(
        Fault(After("setupComplete", connection=number + 1), (Delay(0.2), INVALID))
        for number in range(9)
    )
    async with GeminiLiveServer(faults=faults) as server:
        session = RealtimeModel(**server.model_kwargs()).session()
        errors: list[bool] = []
        ended = asyncio.Event()

        def on_error(error: llm.RealtimeModelError) -> None:
            errors.append(error.recoverable)
            if not error.recoverable:
                ended.set()

        session.on("error", on_error)
        await session.update_chat_ctx(history(2))
        await asyncio.wait_for(ended.wait(), 60)
        assert [len(told(server, dial.connection)) for dial in server.dials()] == [2, 2, 1, 0, 0, 0]
        assert errors == [True] * 5 + [False]
        await session.aclose()


@pytest.mark.virtual_time
async def test_what_comes_ahead_of_the_answer_to_the_set_up_is_taken_after_it() -> None:
    """What is told before the server takes anything would count as known to its first handle."""
    events: list[ResilienceEvent] = []
    async with GeminiLiveServer(family="3.8") as server:
        options = ResilienceOptions(on_event=events.append)
        session = RealtimeModel(**server.model_kwargs(resilience=options)).session()
        record = llm.ChatContext.empty()
        record.add_message(role="user", content="it was told early")
        await session.update_chat_ctx(record)
        await server.wait_for("setup")
        await server.do(GoAway(30.0, close=False))
        await server.wait_for("clientContent")
        (answer,) = server.recording.events("setupComplete", 1)
        (told,) = server.recording.frames("clientContent", 1)
        (announced,) = server.recording.events("goAway", 1)
        assert announced.at < answer.at <= told.at
        assert [event.time_left_s for event in events if isinstance(event, GoAwayReceived)] == [
            30.0
        ]
        await session.aclose()
