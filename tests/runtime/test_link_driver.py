"""What a `LinkDriver` makes of a line that is given up while something else is under way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core import link_facts as f
from livekit.plugins.resilient.core.handover import Rest
from livekit.plugins.resilient.core.link import Dial, DialBeside, GiveUp
from livekit.plugins.resilient.fallback import Fallback, GivenUp
from livekit.plugins.resilient.runtime.driver import Driver
from livekit.plugins.resilient.runtime.link_driver import LinkDriver, link_limits
from livekit.plugins.resilient.runtime.timer import Timer
from livekit.plugins.resilient.testing import VirtualTimeLoop

from .busy import keep_busy

pytestmark = pytest.mark.virtual_time


class NoFallback(Fallback):
    given_up: GivenUp | None = None

    def __init__(self) -> None:
        pass

    def other_model_in_s(self) -> float | None:
        return None


class Clock(SimpleNamespace):
    """As much of a driver as the link looks at."""

    owes_reply = is_stuck = awaits_hedge = False
    replies_heard = 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def notice_stall(self) -> None: ...


async def serving() -> tuple[LinkDriver, Any]:
    clock = Clock(timer=Timer())
    options = ResilienceOptions()
    limits = link_limits(options, DEFAULT_API_CONNECT_OPTIONS)
    link = LinkDriver(limits, cast(Driver, clock), lambda: Rest(None), NoFallback())
    link.opened()
    assert isinstance(await link.decided(), Dial)
    link.feed(f.DialAnswered(clock.now))
    link.feed(f.Restored(clock.now))
    return link, clock


async def test_a_line_that_is_given_up_while_the_next_is_made_takes_no_other() -> None:
    link, clock = await serving()
    clock.owes_reply = True
    clock.watch()
    link.suspect("silent")
    assert isinstance(await link.decided(), DialBeside)
    link.feed(f.SuspicionCleared(clock.now))
    await asyncio.sleep(70.0)
    link.suspect("silent")
    assert not link.may_switch()
    link.feed(f.SuccessorFailed(clock.now))
    link.suspect("silent")
    assert not link.lost()
    assert isinstance(await link.decided(), GiveUp)


async def test_a_fact_counts_as_of_the_one_before_it() -> None:
    """What a connection did is stamped before what the conversation made of it is fed."""
    link, clock = await serving()
    stamped_at = clock.now
    await asyncio.sleep(0.5)
    clock.owes_reply = True
    clock.watch()
    link.feed(f.SuspicionCleared(stamped_at))
    assert link.lost()


async def test_what_is_decided_while_nobody_waits_is_told_later() -> None:
    link, _ = await serving()
    link.ends_in(0.0)
    await asyncio.sleep(1.0)
    assert isinstance(await link.decided(), DialBeside)
    link.left()
    assert isinstance(await link.decided(), Dial)


async def test_a_timer_that_fires_early_does_not_keep_the_loop_busy() -> None:
    """A loop takes a timer for due that is less than its clock's resolution ahead."""
    link, clock = await serving()
    link.ends_in(30.0)
    due_at = link._link.next_deadline()
    assert due_at is not None
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(due_at - clock.now - 1e-10)
    assert 0 < due_at - clock.now < 1e-9
    looked = 0

    def look() -> None:
        nonlocal looked
        looked += 1
        assert looked < 100

    clock.notice_stall = look

    keep_busy(500)
    assert isinstance(await link.decided(), DialBeside)
