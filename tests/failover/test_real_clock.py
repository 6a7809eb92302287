"""The same on an ordinary event loop."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core.limits import FAILOVER_AFTER_S
from livekit.plugins.resilient.testing import Fault, HangHandshake, OnConnection, Refuse
from livekit.plugins.resilient.testing.faults import Action

from .calls import ORDERS, Order, calling, drop, server

LATE_S = 4.0
"""For a machine under load; without a fallback it would be a minute."""


@pytest.mark.parametrize(
    ("order", "action"),
    [(ORDERS[0], Refuse(503)), (ORDERS[1], HangHandshake())],
    ids=["gemini-refuses", "openai-hangs"],
)
async def test_the_second_model_takes_over_in_time(order: Order, action: Action) -> None:
    gone = Fault(OnConnection(None, nth=2), action, times="always")
    servers = [server(order[0], [drop("in-a-reply"), gone]), server(order[1])]
    async with calling("ours", order, servers) as it:
        lost_at = await it.lose("in-a-reply")
        assert await it.taken_over_after(lost_at) <= FAILOVER_AFTER_S + LATE_S
        said = await it.call.say(1.0)
        await it.call.reply(after=said.ended_at)
        assert it.left == [servers[0]]


@pytest.mark.parametrize(
    ("order", "moment"),
    [(ORDERS[0], "in-the-callers-speech"), (ORDERS[1], "in-a-reply")],
    ids=["gemini-in-speech", "openai-in-a-reply"],
)
async def test_the_second_model_is_asked_for_what_is_owed(order: Order, moment: str) -> None:
    gone = Fault(OnConnection(None, nth=2), Refuse(503), times="always")
    servers = [server(order[0], [drop(moment), gone]), server(order[1])]
    async with calling("ours", order, servers) as it:
        await it.lose(moment)
        (segment,) = await it.spoken_unasked(within_s=4.0)
        assert not segment.interrupted
        assert servers[1].script.turns == 1
