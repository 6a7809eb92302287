"""K13: the end of a call, and what many drops leave behind."""

from __future__ import annotations

import asyncio
import gc
import logging
import os

import aiohttp
from livekit import rtc
from livekit.agents.utils import aio
from livekit.agents.voice.events import ErrorEvent

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AtTime,
    Fault,
    HangHandshake,
    NoCloseAnswer,
    OnConnection,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import TELL, Lines, hang_up_the_microphone, next_question_is_answered

TALK = {"default_reply": Lines()}
DROPS = int(os.environ.get("RESILIENT_TEST_DROPS", "40"))
"""How many drops the growth scenario makes; 200 for a thorough run."""
EVERY_S = 4.0
SETTLED = 10
"""Drops after which nothing may grow any more."""


async def ends_at_once(stage: OpenAIStage) -> None:
    """Hang up; require that it takes less than a second and that nothing is dialled after."""
    dials = len(stage.server.dials())
    took_s = await stage.hang_up()
    stage.require(took_s <= 1.0, f"hanging up takes at most a second, not {took_s:.1f}")
    await asyncio.sleep(30)
    stage.require(len(stage.server.dials()) == dials, "nothing is dialled after the call")


@scenario(
    "openai-close-never-answered",
    kind="K13",
    rule="R21",
    provider="openai",
    faults=[Fault(OnConnection(1), NoCloseAnswer())],
    server=TALK,
    mutants="openai-dials-after-the-end",
)
async def hanging_up_does_not_wait_for_the_server(stage: OpenAIStage) -> None:
    """Hanging up takes at most a second although the server never answers the CLOSE."""
    await next_question_is_answered(stage)
    await ends_at_once(stage)


@scenario(
    "openai-hang-up-during-the-redial",
    kind="K13",
    rule="R21",
    provider="openai",
    faults=[Fault(AtAudio(2.0, connection=1), Abort()), Fault(OnConnection(2), HangHandshake())],
    server=TALK,
    mutants="openai-close-waits-for-the-dial",
)
async def hanging_up_ends_a_redial(stage: OpenAIStage) -> None:
    """Hanging up while a redial hangs takes at most a second."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.rest(3.0)
    await ends_at_once(stage)


def live_objects() -> int:
    """How many sockets, channels and audio frames of the client are alive."""
    gc.collect()
    kinds = (aiohttp.ClientWebSocketResponse, aio.Chan, rtc.AudioFrame)
    return sum(type(thing) in kinds for thing in gc.get_objects())


def forget_where(event: ErrorEvent) -> None:
    """The session keeps every error for its report: take from it what holds the dead socket."""
    error = getattr(event.error, "error", None)
    if isinstance(error, BaseException):
        error.__traceback__ = error.__cause__ = error.__context__ = None


@scenario(
    "openai-many-drops",
    kind="K13",
    rule="R22",
    provider="openai",
    faults=[Fault(AtTime(EVERY_S), Abort(), times="always")],
    server=TALK,
    resilience=ResilienceOptions(healthy_after_s=EVERY_S / 2),
    mutants="openai-tasks-outlive-their-connection",
)
async def many_drops_leave_nothing_behind(stage: OpenAIStage) -> None:
    """After the last of many drops there are as many tasks and sockets as after the first few."""
    stage.call.session.on("error", forget_where)
    await stage.call.generate_reply(instructions=TELL)
    hang_up_the_microphone(stage)
    # A test runner keeps every log record, and with its traceback the dead socket.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        (tasks, objects), (tasks_after, objects_after) = await census(stage)
    finally:
        logging.disable(before)
    stage.require(tasks_after <= tasks, f"tasks do not grow: {tasks} to {tasks_after}")
    stage.require(
        objects_after <= objects,
        f"sockets, channels and frames do not grow: {objects} to {objects_after}",
    )
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


async def census(stage: OpenAIStage) -> list[tuple[int, int]]:
    """Tasks and live objects after a few drops and after all of them."""
    counts = []
    for drops in (SETTLED, DROPS):
        if stage.faulty:
            await stage.server.wait_for("open", count=drops, timeout_s=drops * EVERY_S * 2)
        await stage.rest(EVERY_S / 2)
        counts.append((len(asyncio.all_tasks()), live_objects()))
    return counts
