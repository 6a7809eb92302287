"""A call that the server takes back stops its tool, where that may be stopped (R10)."""

from __future__ import annotations

import asyncio

import pytest
from livekit.agents import function_tool, llm
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import (
    After,
    CallAgent,
    CancelCall,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    Reply,
    ToolCall,
)

pytestmark = pytest.mark.virtual_time

RUNS_S = 3.0


class Booking:
    """A tool that takes its time, and says how it ended."""

    def __init__(self, flags: llm.ToolFlag) -> None:
        self.ending = "running"

        @function_tool(name="book", flags=flags)
        async def book() -> str:
            """Book a table."""
            try:
                await asyncio.sleep(RUNS_S)
            except asyncio.CancelledError:
                self.ending = "stopped"
                raise
            self.ending = "finished"
            return "booked"

        self.tool = book


@pytest.mark.parametrize(
    ("flags", "ending"),
    [(llm.ToolFlag.CANCELLABLE, "stopped"), (llm.ToolFlag.NONE, "finished")],
    ids=["cancellable", "not-cancellable"],
)
async def test_a_cancelled_call_stops_its_tool(flags: llm.ToolFlag, ending: str) -> None:
    booking = Booking(flags)
    faults = [Fault(After("toolCall"), CancelCall())]
    server = GeminiLiveServer(
        [ToolCall("book", {}, call_id="call-1"), Reply("What else?")], faults=faults
    )
    async with server:
        model = resilient.google.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model, agent=CallAgent(tools=[booking.tool])) as call:
            await call.say(1.0)
            await server.wait_for("toolCallCancellation")
            await call.until(lambda: booking.ending != "running", what="the end of the tool")
            await call.agent_done()
        assert booking.ending == ending
        assert server.recording.deliveries_of("call-1") == []
