"""A call goes on over failed redials, and the application is told when it can react (R2, R4)."""

from __future__ import annotations

import pytest
from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Close,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OnConnection,
    Refuse,
)

BACKOFF_S = 2.0


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
