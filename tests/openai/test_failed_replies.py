"""A reply that the server fails to give is asked for again, when it says so (R3, R4, R12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    Before,
    Delay,
    FailResponse,
    Fault,
    HeadlessCall,
    NoReply,
    OpenAIRealtimeServer,
    Received,
    Send,
    TurnRequest,
)
from livekit.plugins.resilient.testing.script import TurnSource

pytestmark = pytest.mark.virtual_time

ANSWER = "Yes, I can hear you well."


@asynccontextmanager
async def calling(
    *faults: Fault, say: TurnSource = ANSWER, **given: Any
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    async with (
        OpenAIRealtimeServer(default_reply=say, faults=faults) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs(**given))) as call,
    ):
        yield server, call
    assert call.leftover_tasks() == []


@pytest.mark.parametrize("kind", ["rate_limit", "server_error"])
async def test_a_requested_reply_that_fails_is_asked_for_again(kind: Any) -> None:
    async with calling(Fault(Received("response.create"), FailResponse(kind))) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await call.reply(timeout_s=30)
        await call.agent_done()
        assert server.session.texts("assistant") == [ANSWER]
        assert len(server.dials()) == 1
        requests = [frame.message for frame in server.recording.frames("response.create")]
        assert [r["response"]["instructions"] for r in requests] == ["Be brief.\ngreet"] * 2


async def test_a_requested_reply_that_a_drop_catches_before_its_first_sound_comes_once() -> None:
    drop = Fault(After("response.created", connection=1), Abort())
    async with calling(drop) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await call.reply(timeout_s=30)
        await call.agent_done()
        assert server.session.number == 2
        assert server.session.texts("assistant") == [ANSWER]
        assert len(call.heard.segments) == 1


def limited(wait: str) -> Send:
    """A rate limit that refuses a request, without saying which."""
    body = {"type": "invalid_request_error", "code": "rate_limit_exceeded", "event_id": None}
    message = f"Rate limit reached for requests. Please try again in {wait}."
    return Send({"type": "error", "event_id": "event_x", "error": {**body, "message": message}})


class Hesitant:
    """Says nothing when it is asked for the time that is given."""

    def __init__(self, silent: Container[int]) -> None:
        self._silent = silent
        self._asked = 0

    def __call__(self, _: TurnRequest) -> str | NoReply:
        self._asked += 1
        return NoReply() if self._asked in self._silent else ANSWER


@pytest.mark.parametrize(("times", "asked"), [(1, 2), (3, 4)])
async def test_a_request_that_a_rate_limit_refuses_is_made_again_after_the_stated_wait(
    times: int, asked: int
) -> None:
    refusals = Fault(Received("response.create"), limited("1.5s"), times=times)
    async with calling(refusals, say=Hesitant(range(1, times + 1))) as (server, call):
        handle = await call.generate_reply(instructions="greet", timeout_s=30)
        assert handle.exception() is None
        at = [frame.at for frame in server.recording.frames("response.create")]
        assert len(at) == asked
        assert at[1] - at[0] == pytest.approx(1.5, abs=0.05)
        assert call.errors == []
        assert server.session.texts("assistant") == [ANSWER]


async def test_a_redrive_that_a_rate_limit_refuses_is_made_again_after_the_stated_wait() -> None:
    cut = Fault(After("response.created", connection=1), Abort())
    refusals = Fault(Received("response.create", connection=2), limited("1.5s"), times=2)
    async with calling(cut, refusals, say=Hesitant({2, 3})) as (server, call):
        said = await call.say(1.0)
        await call.reply(after=said.ended_at, timeout_s=30)
        at = [frame.at for frame in server.recording.frames("response.create")]
        assert len(at) == 3
        assert [b - a for a, b in pairwise(at)] == pytest.approx([1.5, 1.5], abs=0.05)
        assert server.session.texts("assistant") == [ANSWER]


async def test_a_request_that_was_put_off_before_a_drop_is_made_once_after_it() -> None:
    refusal = Fault(Received("response.create", connection=1), limited("3s"))
    drop = Fault(AtTime(after_s=1.0), Abort())
    slow = Fault(Before("response.created", connection=2), Delay(4.0))
    async with calling(refusal, drop, slow, say=Hesitant({1})) as (server, call):
        handle = await call.generate_reply(instructions="greet", timeout_s=30)
        assert handle.exception() is None
        assert server.recording.count("response.create", connection=2) == 1
        assert server.session.texts("assistant") == [ANSWER]


async def test_a_rate_limit_that_does_not_lift_is_reported() -> None:
    refusals = Fault(Received("response.create"), limited("1s"), times="always")
    async with calling(refusals, say=Hesitant(range(100))) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await call.wait_error(recoverable=True, timeout_s=30)
        await asyncio.sleep(30)
        assert server.recording.count("response.create") == 4
        assert len(call.errors) == 1
