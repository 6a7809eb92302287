"""Faults that meet a swap under way: upstream's adapter does not hear a final error then."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.core.limits import FAILOVER_AFTER_S
from livekit.plugins.resilient.testing import Fault, HangHandshake, OnConnection, Refuse
from livekit.plugins.resilient.testing.faults import Action

from .calls import Order, calling, drop, server

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
