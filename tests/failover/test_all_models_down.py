"""Where no model is left to turn to, the whole budget is spent, once for the call."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from livekit.agents.llm import realtime_fallback_adapter

from livekit.plugins.resilient import fallback
from livekit.plugins.resilient.core.limits import (
    FAILOVER_AFTER_S,
    RECONNECT_DEADLINE_S,
    REDIAL_CAP_S,
)
from livekit.plugins.resilient.testing import Abort, Fault, OnConnection, Refuse
from livekit.plugins.resilient.testing.fault_plan import FaultEngine

from .calls import ORDERS, Order, calling, drop, server

pytestmark = pytest.mark.virtual_time

REFUSED = Refuse(503)
COOLDOWN_S = 10.0


@pytest.fixture
def cooldowns_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter's cooldowns are on the clock of the loop, which jumps."""

    class Clock(SimpleNamespace):
        @staticmethod
        def time() -> float:
            return asyncio.get_running_loop().time()

    for module in (realtime_fallback_adapter, fallback):
        monkeypatch.setattr(module, "time", Clock())


def gone(nth: int = 1) -> Fault:
    return Fault(OnConnection(None, nth=nth), REFUSED, times="always")


async def lasted(order: Order) -> tuple[float, list[Any], Any]:
    """Seconds from the drop to the call's end."""
    servers = [server(order[0], [drop("in-a-reply"), gone(2)])]
    servers += [server(provider, [gone()]) for provider in order[1:]]
    async with calling("ours", order, servers, cooldown=COOLDOWN_S) as it:
        lost_at = await it.lose("in-a-reply")
        await it.call.until(lambda: it.call.closed, timeout_s=600, what="the end of the call")
        ended_at = it.call.now
        dials = sum(len(one.dials()) for one in servers)
        await asyncio.sleep(30.0)
        assert sum(len(one.dials()) for one in servers) == dials
        assert sum(not error.recoverable for error in it.call.errors) == 1
    return ended_at - lost_at, servers, it


@pytest.mark.usefixtures("cooldowns_pass")
@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_the_call_ends_once_after_the_budget(order: Order) -> None:
    seconds, servers, it = await lasted(order)
    assert RECONNECT_DEADLINE_S - 10 < seconds <= RECONNECT_DEADLINE_S + 1
    # Each was tried in its turn, and none for less than it takes the other to be tried again.
    assert 4 <= len(it.left) <= 8
    assert {servers.index(one) for one in it.left} == {0, 1}


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_the_last_model_has_what_is_left_of_the_budget(order: Order) -> None:
    seconds, servers, it = await lasted(order)  # no cooldown ends
    assert RECONNECT_DEADLINE_S - 10 < seconds <= RECONNECT_DEADLINE_S + 1
    assert [servers.index(one) for one in it.left] == [0, 1]


@pytest.mark.parametrize("provider", ["gemini", "openai"])
async def test_an_adapter_with_one_model_spends_the_budget(provider: Any) -> None:
    seconds, _, it = await lasted((provider,))
    assert RECONNECT_DEADLINE_S - 10 < seconds <= RECONNECT_DEADLINE_S + 1
    assert len(it.left) == 1


@pytest.mark.usefixtures("cooldowns_pass")
@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_the_first_model_is_turned_to_again_once_it_may_be(order: Order) -> None:
    servers = [server(order[0], [drop("in-a-reply"), gone(2)]), server(order[1])]
    async with calling("ours", order, servers, cooldown=COOLDOWN_S) as it:
        lost_at = await it.lose("in-a-reply")
        await it.taken_over_after(lost_at)
        assert [servers.index(one) for one in it.left] == [0]
        servers[0].faults = FaultEngine(servers[0].vocabulary)
        await it.call.agent_done()
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        servers[1].inject(gone())
        opened = servers[0].recording.count("open")
        again_at = it.call.now
        await servers[1].do(Abort())
        await servers[0].wait_for("open", count=opened + 1, timeout_s=60)
        waited_s = servers[0].dials()[-1].at - again_at
        left_at = lost_at + FAILOVER_AFTER_S
        assert waited_s <= max(FAILOVER_AFTER_S, left_at + COOLDOWN_S - again_at) + 0.2
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert [servers.index(one) for one in it.left] == [0, 1]
        assert all(error.recoverable for error in it.call.errors)


@pytest.mark.usefixtures("cooldowns_pass")
@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_after_a_model_of_upstreams_served_the_budget_is_whole(order: Order) -> None:
    servers = [server(order[0], [drop("in-a-reply"), gone(2)]), server(order[1])]
    # Longer than two redials can be apart: the second model may not be turned to meanwhile.
    cooldown_s = 3 * REDIAL_CAP_S
    async with calling(["ours", "upstream"], order, servers, cooldown=cooldown_s) as it:
        lost_at = await it.lose("in-a-reply")
        assert await it.taken_over_after(lost_at) <= FAILOVER_AFTER_S + 0.1
        await asyncio.sleep(RECONNECT_DEADLINE_S)
        servers[1].inject(gone())
        await servers[1].do(Abort())
        await it.call.until(lambda: len(it.left) == 2, what="the end of the second model")
        dials = len(servers[0].dials())
        await asyncio.sleep(REDIAL_CAP_S)
        assert len(servers[0].dials()) > dials + 2
        servers[0].faults = FaultEngine(servers[0].vocabulary)
        await servers[0].wait_for("open", count=2, timeout_s=30)
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert [servers.index(one) for one in it.left] == [0, 1]
