"""Inside upstream's fallback adapter the caller waits no longer for the next model than it must.

Upstream's own models are held to the same faults in the same run.
"""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import FAILOVER_AFTER_S, FIRST_REDIAL_S, REDIAL_BASE_S
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtTime,
    Fault,
    HangHandshake,
    NoSetupAnswer,
    OnConnection,
    Refuse,
)

from ..pairs import pairwise
from .calls import MOMENTS, ORDERS, Order, Provider, Which, calling, drop, server

pytestmark = pytest.mark.virtual_time

HANDSHAKE_S = 0.1
SET_UP: dict[Provider, str] = {"gemini": "setupComplete", "openai": "session.created"}


def gone(kind: str, provider: Provider, nth: int = 1) -> Fault:
    """From the nth dial on, the server is not to be had."""
    actions: dict[str, Any] = {
        "refused-503": Refuse(503),
        "refused-429": Refuse(429),
        "hangs": HangHandshake(),
        "never-answered": NoSetupAnswer(),
        "dropped-at-once": Abort(),
        "dropped-after-set-up": Abort(),
    }
    where = OnConnection(None, nth=nth)
    if kind == "dropped-after-set-up":
        return Fault(After(SET_UP[provider], nth=nth), actions[kind], times="always")
    return Fault(where, actions[kind], times="always")


async def waited(which: Which, order: Order, moment: str, kind: str) -> float:
    """Seconds that a call was without a model, until the second one served and answered."""
    servers = [server(order[0], [drop(moment), gone(kind, order[0], 2)]), server(order[1])]
    async with calling(which, order, servers) as it:
        lost_at = await it.lose(moment)
        waited_s = await it.taken_over_after(lost_at)
        dials = len(servers[0].dials())
        await it.call.agent_done()
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert it.left == [servers[0]]  # it gave up once
        assert all(error.recoverable for error in it.call.errors)
        assert len(servers[0].dials()) == dials
        assert len(servers[1].dials()) == 1
    return waited_s


@pairwise(
    order=ORDERS,
    moment=list(MOMENTS),
    kind=["refused-503", "refused-429", "hangs", "dropped-at-once", "dropped-after-set-up"],
)
async def test_the_second_model_takes_over_in_time(order: Order, moment: str, kind: str) -> None:
    ours = await waited("ours", order, moment, kind)
    assert ours <= FAILOVER_AFTER_S + HANDSHAKE_S
    if kind == "dropped-after-set-up" and order[0] == "openai":
        return  # upstream dials for ever
    upstream = await waited("upstream", order, moment, kind)
    assert ours <= max(upstream, FAILOVER_AFTER_S) + HANDSHAKE_S


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_redial_that_is_never_answered_holds_nobody(order: Order) -> None:
    # Upstream's sessions wait for ever.
    ours = await waited("ours", order, "in-a-reply", "never-answered")
    assert ours <= FAILOVER_AFTER_S + HANDSHAKE_S


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize("kind", ["refused-503", "refused-429", "hangs", "dropped-at-once"])
async def test_a_first_dial_that_fails_holds_nobody_longer_than_upstreams(
    order: Order, kind: str
) -> None:
    ours, upstream = [await first_wait(which, order, kind) for which in ("ours", "upstream")]
    assert ours <= upstream + HANDSHAKE_S


async def first_wait(which: Which, order: Order, kind: str) -> float:
    """Seconds from the beginning of a call until the second model was dialled."""
    servers = [server(order[0], [gone(kind, order[0])]), server(order[1])]
    async with calling(which, order, servers) as it:
        await it.taken_over_after(0.0)
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert it.left == [servers[0]]
    return float(servers[1].dials()[0].at - servers[0].dials()[0].at)


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_slow_first_dial_is_waited_for(order: Order) -> None:
    slow = Fault(OnConnection(1), HangHandshake(2 * FAILOVER_AFTER_S))
    servers = [server(order[0], [slow]), server(order[1])]
    async with calling("ours", order, servers) as it:
        await servers[0].wait_for("open", timeout_s=30)
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
    assert servers[1].dials() == []


BLIPS = {
    "refused": [Fault(OnConnection(nth), Refuse(503)) for nth in (2, 3, 4)],
    # With the wait before it and the set-up after it, a handshake takes that much longer.
    "hangs": [Fault(OnConnection(2), HangHandshake(FAILOVER_AFTER_S - FIRST_REDIAL_S - 1.0))],
}


@pairwise(order=ORDERS, moment=list(MOMENTS), blip=list(BLIPS))
async def test_an_outage_that_heals_in_time_stays(order: Order, moment: str, blip: str) -> None:
    servers = [server(order[0], [drop(moment), *BLIPS[blip]]), server(order[1])]
    async with calling("ours", order, servers) as it:
        await it.lose(moment)
        await servers[0].wait_for("open", count=2, timeout_s=30)
        await it.call.agent_done()
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert it.left == []
    assert servers[1].dials() == []


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_drops_that_each_heal_are_no_long_outage(order: Order) -> None:
    """Three drops 4 s apart, without a finished turn between them."""
    drops = [Fault(AtTime(4.0, connection=number), Abort()) for number in (1, 2, 3)]
    servers = [server(order[0], drops), server(order[1])]
    async with calling("ours", order, servers):
        await servers[0].wait_for("open", count=4, timeout_s=30)
    assert servers[1].dials() == []


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
async def test_a_fatal_error_is_told_at_once(order: Order) -> None:
    refused = Fault(OnConnection(None, nth=2), Refuse(401), times="always")
    servers = [server(order[0], [drop("in-a-reply"), refused]), server(order[1])]
    async with calling("ours", order, servers) as it:
        lost_at = await it.lose("in-a-reply")
        assert await it.taken_over_after(lost_at) <= HANDSHAKE_S + REDIAL_BASE_S
    assert len(servers[0].dials()) == 2


@pytest.mark.parametrize("order", ORDERS, ids="-then-".join)
@pytest.mark.parametrize(
    ("after_s", "least_s", "most_s"), [(1.0, 0.5, 1.0), (6.0, 5.0, 6.0), (None, 10.0, 14.0)]
)
async def test_the_application_says_how_long(
    order: Order, after_s: float | None, least_s: float, most_s: float
) -> None:
    options = ResilienceOptions(failover_after_s=after_s, reconnect_deadline_s=14.0, redial_cap_s=2)
    servers = [server(order[0], [drop("in-a-reply"), gone("refused-503", order[0], 2)])]
    servers.append(server(order[1]))
    async with calling("ours", order, servers, given={"resilience": options}) as it:
        lost_at = await it.lose("in-a-reply")
        waited_s = await it.taken_over_after(lost_at)
    assert least_s <= waited_s <= most_s + HANDSHAKE_S
