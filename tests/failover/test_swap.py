"""Faults that meet a swap under way: upstream's adapter does not hear a final error then."""

from __future__ import annotations

import asyncio

import pytest
from livekit.agents import function_tool

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import FAILOVER_AFTER_S
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    Fault,
    GoAway,
    HangHandshake,
    OnConnection,
    Refuse,
)
from livekit.plugins.resilient.testing.faults import Action

from ..pairs import pairwise
from .calls import ORDERS, Order, calling, drop, server

pytestmark = pytest.mark.virtual_time

HANDSHAKE_S = 0.1


def gone(action: Action, nth: int = 1) -> Fault:
    return Fault(OnConnection(None, nth=nth), action, times="always")


@pytest.mark.parametrize("second", ["gemini", "openai"])
@pytest.mark.parametrize(
    "action", [Refuse(401), Refuse(503), HangHandshake()], ids=["401", "503", "hangs"]
)
async def test_a_second_model_that_fails_leaves_the_call_to_the_third(
    second: str, action: Action
) -> None:
    order: Order = ("gemini", second, "openai")  # type: ignore[assignment]
    servers = [
        server("gemini", [drop("in-a-reply"), gone(Refuse(503), 2)]),
        server(order[1], [gone(action)]),
        server("openai"),
    ]
    async with calling("ours", order, servers) as it:
        lost_at = await it.lose("in-a-reply")
        # With a record to be told, an OpenAI session is not brought up before it is answered.
        waited_s = await it.taken_over_after(lost_at, by=2)
        assert waited_s <= 2 * (FAILOVER_AFTER_S + HANDSHAKE_S)
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert [servers.index(one) for one in it.left] == [0, 1]
        assert all(error.recoverable for error in it.call.errors)


CLOSE_AFTER_S = [0.0, 1.5, FAILOVER_AFTER_S - 0.01, FAILOVER_AFTER_S + 0.01, 5.5]


ACTIONS = {"401": Refuse(401), "503": Refuse(503), "hangs": HangHandshake()}


@pairwise(order=ORDERS, action=["503", "hangs"], then=["401", "hangs"], after_s=list(CLOSE_AFTER_S))
async def test_a_call_can_be_closed_at_any_time(
    order: Order, action: str, then: str, after_s: float
) -> None:
    """The second model is not to be had either, so that some of these times are in a swap."""
    servers = [
        server(order[0], [drop("in-a-reply"), gone(ACTIONS[action], 2)]),
        server(order[1], [gone(ACTIONS[then])]),
    ]
    async with calling("ours", order, servers) as it:
        await it.lose("in-a-reply")
        await asyncio.sleep(after_s)
        began_at = it.call.now
        await it.call.aclose()
        assert it.call.now - began_at <= 1.0
        dials = sum(len(one.dials()) for one in servers)
        await asyncio.sleep(15.0)
        assert sum(len(one.dials()) for one in servers) == dials


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_call_can_be_closed_on_the_error_that_ends_a_model(order: Order) -> None:
    servers = [server(order[0], [drop("in-a-reply"), gone(Refuse(401), 2)]), server(order[1])]
    async with calling("ours", order, servers) as it:
        await it.lose("in-a-reply")
        await it.call.until(lambda: it.left, what="the end of the first model")
        await it.call.aclose()
        dials = sum(len(one.dials()) for one in servers)
        await asyncio.sleep(15.0)
        assert sum(len(one.dials()) for one in servers) == dials


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("after_s", [0.5, 2.0])
async def test_the_application_may_switch_by_itself(order: Order, after_s: float) -> None:
    servers = [server(order[0], [drop("in-a-reply"), gone(HangHandshake(), 2)]), server(order[1])]
    async with calling("ours", order, servers) as it:
        await it.lose("in-a-reply")
        await asyncio.sleep(after_s)
        await it.adapter.restart_session(switch_model=True)
        await it.call.agent_done()
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        await asyncio.sleep(15.0)
        assert it.left == []
    assert len(servers[1].dials()) == 1


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_second_outage_right_after_the_first(order: Order) -> None:
    """The first model is still barred, so the second is dialled until it is back."""
    back_after_s = 5.0
    servers = [
        server(order[0], [drop("in-a-reply"), gone(Refuse(503), 2)]),
        server(
            order[1],
            [
                Fault(AtTime(1.0, connection=1), Abort()),
                Fault(OnConnection(2), HangHandshake(back_after_s)),
            ],
        ),
    ]
    async with calling("ours", order, servers) as it:
        await it.lose("in-a-reply")
        await servers[1].wait_for("open", count=2, timeout_s=30)
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert [servers.index(one) for one in it.left] == [0]
        assert all(error.recoverable for error in it.call.errors)


async def test_a_go_away_whose_successor_cannot_be_had() -> None:
    """The connection that is left serves to its end; only from there is it an outage."""
    leaves = Fault(After("setupComplete"), GoAway(6.0))
    servers = [server("gemini", [leaves, gone(Refuse(503), 2)]), server("openai")]
    async with calling("ours", ("gemini", "openai"), servers) as it:
        await servers[0].wait_for("close", timeout_s=30)
        closed_at = servers[0].recording.closes[0].at
        assert await it.taken_over_after(closed_at) <= FAILOVER_AFTER_S + HANDSHAKE_S
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert [servers.index(one) for one in it.left] == [0]


@pytest.mark.parametrize("action", [Refuse(429), HangHandshake()], ids=["429", "hangs"])
async def test_a_renewal_whose_successor_cannot_be_had(action: Action) -> None:
    """The provider takes no second connection and then none at all."""
    given = {"max_session_duration": 4.0, "resilience": ResilienceOptions(renewal_wait_s=1.0)}
    faults = [Fault(OnConnection(2), Refuse(429)), gone(action, 3)]
    servers = [server("openai", faults), server("openai")]
    async with calling("ours", ("openai", "openai"), servers, given=given) as it:
        await servers[0].wait_for("close", timeout_s=30)
        closed_at = servers[0].recording.closes[0].at
        assert await it.taken_over_after(closed_at) <= FAILOVER_AFTER_S + HANDSHAKE_S
        assert [servers.index(one) for one in it.left] == [0]


@pytest.mark.parametrize("action", [Refuse(503), HangHandshake()], ids=["503", "hangs"])
async def test_a_restart_that_the_application_caused(action: Action) -> None:
    @function_tool
    async def look_up(name: str) -> str:
        """Look something up."""
        return name

    servers = [server("gemini", [gone(action, 2)]), server("openai")]
    async with calling("ours", ("gemini", "openai"), servers) as it:
        await it.call.generate_reply(instructions="Tell a story.")
        await it.call.agent.update_tools([look_up])
        await servers[0].wait_for("close", timeout_s=30)
        closed_at = servers[0].recording.closes[0].at
        assert await it.taken_over_after(closed_at) <= FAILOVER_AFTER_S + HANDSHAKE_S
        assert [servers.index(one) for one in it.left] == [0]
