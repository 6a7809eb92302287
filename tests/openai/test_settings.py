"""Whatever is changed while a connection is lost or replaced, the next one has the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from livekit.agents import function_tool

from livekit.plugins.resilient.openai.realtime import RealtimeModel, RealtimeSession
from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
)

pytestmark = pytest.mark.virtual_time

RENEW_AFTER_S = 10.0


@function_tool
async def look_up(topic: str) -> str:
    """Look something up."""
    return topic


class Changes:
    """What an application may change, made once."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._making: asyncio.Task[None] | None = None

    def make(self, *_: Any) -> None:
        if self._making is None:
            self._making = asyncio.create_task(self._make())

    async def _make(self) -> None:
        await self._session.update_instructions("Be kind.")
        await self._session.update_tools([look_up])
        self._session.update_options(tool_choice="required", voice="coral")


Moment: TypeAlias = Callable[[OpenAIRealtimeServer, RealtimeSession, Changes], Any]


async def as_it_drops(server: OpenAIRealtimeServer, _: RealtimeSession, changes: Changes) -> None:
    changes.make()
    await server.do(Abort())


async def without_a_connection(
    server: OpenAIRealtimeServer, _: RealtimeSession, changes: Changes
) -> None:
    await server.do(Abort())
    await asyncio.sleep(0.5)
    changes.make()


async def as_the_next_is_told(
    server: OpenAIRealtimeServer, session: RealtimeSession, changes: Changes
) -> None:
    session.on("openai_client_event_queued", changes.make)
    await server.do(Abort())


async def during_a_renewal(_: Any, session: RealtimeSession, changes: Changes) -> None:
    # The microphone is still, so the first event is one that the new connection is told.
    session.on(
        "openai_client_event_queued",
        lambda event: changes.make() if event["type"] == "session.update" else None,
    )


async def as_a_renewal_is_announced(_: Any, session: RealtimeSession, changes: Changes) -> None:
    session.on("session_reconnected", changes.make)


@pytest.mark.parametrize(
    ("moment", "renew_after_s"),
    [
        (as_it_drops, None),
        (without_a_connection, None),
        (as_the_next_is_told, None),
        (during_a_renewal, RENEW_AFTER_S),
        (as_a_renewal_is_announced, RENEW_AFTER_S),
    ],
)
async def test_the_newest_settings_reach_the_next_connection(
    moment: Moment, renew_after_s: float | None
) -> None:
    slow = Fault(OnConnection(2), HangHandshake(1.0))
    async with (
        OpenAIRealtimeServer(default_reply="I can hear you well.", faults=[slow]) as server,
        HeadlessCall(
            RealtimeModel(**server.model_kwargs(max_session_duration=renew_after_s))
        ) as call,
    ):
        await call.generate_reply(instructions="greet")
        session = call.realtime_session
        assert isinstance(session, RealtimeSession)
        await moment(server, session, Changes(session))
        await server.wait_for("session.updated", connection=2, timeout_s=30)
        await asyncio.sleep(1.0)
        told = server.session.wire()
        assert server.session.number == 2
        assert told["instructions"] == "Be kind."
        assert [tool["name"] for tool in told["tools"]] == ["look_up"]
        assert told["tool_choice"] == "required"
        assert told["audio"]["output"]["voice"] == "coral"
        assert server.recording.count("error") == 0
