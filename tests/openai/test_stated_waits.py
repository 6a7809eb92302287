"""A wait that the provider states is no silence (R17): nothing is expected before it is over (R3).

It states one in an `error` event, or in a response that it fails, on OpenAI, Azure and Inference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.core.limits import LONGEST_PUT_OFF_S
from livekit.plugins.resilient.events import Disconnected, HandedOver, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    FailResponse,
    Fault,
    HeadlessCall,
    NoReply,
    OpenAIRealtimeServer,
    Received,
    Send,
    TurnRequest,
    UserStops,
)

pytestmark = pytest.mark.virtual_time

ANSWER = "Yes, I can hear you well."
WAITS = [12, 20, 60]

_openai = resilient.openai.realtime.RealtimeModel
_inference = resilient.inference.RealtimeModel

FLAVOURS: dict[str, Callable[..., Any]] = {
    "openai": lambda server, **given: _openai(**server.model_kwargs(**given)),
    "azure": lambda server, **given: _openai.with_azure(**server.azure_kwargs(**given)),
    "azure-legacy": lambda server, **given: _openai.with_azure(
        **server.azure_kwargs(legacy=True, **given)
    ),
    "inference": lambda server, **given: _inference(
        **server.inference_kwargs(model="openai/gpt-realtime", **given)
    ),
}


@pytest.fixture(params=sorted(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refusals(wait_s: int, flavour: str) -> list[Fault]:
    """Has each request refused until `wait_s` seconds are over, and the rest of the wait stated."""
    left = range(wait_s, 0, -round(LONGEST_PUT_OFF_S))
    return [
        Fault(Received("response.create", nth=number), limited(left_s, flavour))
        for number, left_s in enumerate(left, 1)
    ]


def limited(wait_s: int, flavour: str) -> Send:
    stated = f"Please try again in {wait_s}s."
    if flavour.startswith("azure"):
        stated = f"Please retry after {wait_s} seconds."
    code = "inference_rate_limit_exceeded" if flavour == "inference" else "rate_limit_exceeded"
    error = {"type": "invalid_request_error", "code": code, "event_id": None, "message": stated}
    return Send({"type": "error", "event_id": "event_x", "error": error})


class Limited:
    """Answers nothing that it was not to be asked for yet."""

    def __init__(self, refused: int) -> None:
        self._left = refused

    def __call__(self, _: TurnRequest) -> str | NoReply:
        self._left -= 1
        return NoReply() if self._left >= 0 else ANSWER


@asynccontextmanager
async def calling(
    flavour: str, *faults: Fault, refused: int = 0
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall]]:
    events: list[ResilienceEvent] = []
    options = resilient.ResilienceOptions(on_event=events.append)
    async with OpenAIRealtimeServer(default_reply=Limited(refused), faults=faults) as server:
        async with HeadlessCall(FLAVOURS[flavour](server, resilience=options)) as call:
            yield server, call
        assert len(server.dials()) == 1
        assert not [event for event in events if isinstance(event, Disconnected | HandedOver)]


def asked_after(server: OpenAIRealtimeServer) -> list[float]:
    at = [frame.at for frame in server.recording.frames("response.create")]
    return [round(later - at[0], 1) for later in at]


@pytest.mark.parametrize("wait_s", WAITS)
async def test_a_request_waits_as_long_as_an_error_says(flavour: str, wait_s: int) -> None:
    faults = refusals(wait_s, flavour)
    async with calling(flavour, *faults, refused=len(faults)) as (server, call):
        handle = await call.generate_reply(instructions="greet", timeout_s=90)
        assert handle.exception() is None
        assert call.errors == []
        assert asked_after(server)[-1] == pytest.approx(wait_s, abs=0.1)
        assert server.session.texts("assistant") == [ANSWER]


@pytest.mark.parametrize("wait_s", WAITS)
async def test_a_request_waits_as_long_as_a_failed_response_says(flavour: str, wait_s: int) -> None:
    failure = FailResponse("rate_limit", retry_in=f"{wait_s}s")
    async with calling(flavour, Fault(Received("response.create"), failure)) as (server, call):
        await call.generate_reply(instructions="greet", wait=False)
        await call.reply(timeout_s=90)
        failed_s = server.times.created_s  # the wait is counted from the failure
        expected_s = failed_s + min(wait_s, LONGEST_PUT_OFF_S)
        assert asked_after(server) == pytest.approx([0, expected_s], abs=0.1)
        assert server.session.texts("assistant") == [ANSWER]


@pytest.mark.parametrize("wait_s", WAITS)
async def test_the_callers_turn_waits_as_long_as_a_failed_response_says(
    flavour: str, wait_s: int
) -> None:
    failure = FailResponse("rate_limit", retry_in=f"{wait_s}s")
    async with calling(flavour, Fault(UserStops(), failure)) as (server, call):
        said = await call.say(1.0)
        reply = await call.reply(timeout_s=90)
        assert said.ended_at is not None
        assert reply.started_at is not None
        expected_s = min(wait_s, LONGEST_PUT_OFF_S)
        assert reply.started_at - said.ended_at == pytest.approx(expected_s, abs=2.0)
        assert server.recording.count("response.create") == 1
        assert server.session.texts("assistant") == [ANSWER]


@pytest.mark.parametrize("wait_s", WAITS)
async def test_the_callers_turn_waits_as_long_as_an_error_says(wait_s: int) -> None:
    refusal = Fault(After("input_audio_buffer.committed"), limited(wait_s, "openai"))
    async with calling("openai", refusal, refused=1) as (server, call):
        said = await call.say(1.0)
        reply = await call.reply(timeout_s=90)
        assert said.ended_at is not None
        assert reply.started_at is not None
        expected_s = min(wait_s, LONGEST_PUT_OFF_S)
        assert reply.started_at - said.ended_at == pytest.approx(expected_s, abs=2.0)
        assert server.recording.count("response.create") == 1
        # As without us, the application is told that the provider refused to answer.
        assert [error.recoverable for error in call.errors] == [True]


async def test_a_stated_wait_holds_over_a_drop() -> None:
    refusal = Fault(Received("response.create", connection=1), limited(12, "openai"))
    drop = Fault(AtTime(2.0, connection=1), Abort())
    async with (
        OpenAIRealtimeServer(default_reply=Limited(1), faults=[refusal, drop]) as server,
        HeadlessCall(FLAVOURS["openai"](server)) as call,
    ):
        handle = await call.generate_reply(instructions="greet", timeout_s=90)
        assert handle.exception() is None
        assert asked_after(server) == pytest.approx([0, 12], abs=0.1)
        assert len(server.dials()) == 2


async def test_a_request_that_is_taken_back_in_its_wait_is_made_no_more() -> None:
    faults = refusals(12, "openai")
    async with calling("openai", *faults, refused=1) as (server, call):
        handle = await call.generate_reply(instructions="greet", wait=False)
        await server.wait_for("response.create")
        await asyncio.sleep(3)
        handle.interrupt()
        await asyncio.sleep(30)
        assert server.recording.count("response.create") == 1
        assert call.errors == []


async def test_a_request_that_nobody_refused_fails_when_upstream_has_it_fail() -> None:
    async with (
        OpenAIRealtimeServer(default_reply=NoReply()) as server,
        HeadlessCall(FLAVOURS["openai"](server)) as call,
    ):
        handle = await call.generate_reply(instructions="greet", timeout_s=30)
        assert handle.exception() is not None


async def test_a_request_fails_at_once_when_it_is_put_off_too_often() -> None:
    refusal = Fault(Received("response.create"), limited(1, "openai"), times="always")
    async with calling("openai", refusal, refused=9) as (server, call):
        asked_at = call.now
        handle = await call.generate_reply(instructions="greet", timeout_s=30)
        assert handle.exception() is not None
        assert call.now - asked_at == pytest.approx(3.0, abs=0.2)
        assert server.recording.count("response.create") == 4
        assert [error.recoverable for error in call.errors] == [True]
