"""The recoverable error comes after the backoff, so whoever reacts to it meets a redial (R4)."""

from __future__ import annotations

import pytest
from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Refuse,
)

BACKOFF_S = 2.0


@pytest.mark.virtual_time
async def test_the_error_is_emitted_just_before_the_redial() -> None:
    faults = (
        Fault(AtAudio(1.0, connection=1), Abort()),
        # A refused redial, because upstream waits 0.1 s before its first retry whatever is asked.
        Fault(OnConnection(2), Refuse(503)),
    )
    async with OpenAIRealtimeServer(faults=faults) as server:
        options = APIConnectOptions(max_retry=3, retry_interval=BACKOFF_S, timeout=5)
        model = RealtimeModel(**server.model_kwargs(conn_options=options))
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet")
            await server.wait_for("session.update", connection=3)
        emitted = [error.at for error in call.errors if error.recoverable]
        redialled = [dial.at for dial in server.dials()[1:]]
        assert len(emitted) == len(redialled) == 2
        for error_at, dial_at in zip(emitted, redialled, strict=True):
            assert 0 <= dial_at - error_at < 0.05
