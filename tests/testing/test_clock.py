"""The limits' clock: it can be advanced, it can run fast, its timers fire in order."""

from __future__ import annotations

import asyncio

import pytest

from livekit.plugins.resilient.testing.clock import Clock


async def test_advance_fires_what_is_due_in_order() -> None:
    clock, fired = Clock(), []
    clock.call_later(600, lambda: fired.append("late"))
    clock.call_later(60, lambda: fired.append("early"))
    cancelled = clock.call_later(70, lambda: fired.append("never"))
    cancelled.cancel()
    clock.advance(59)
    assert fired == []
    clock.advance(541)
    assert fired == ["early", "late"]
    assert clock.now() == pytest.approx(600, abs=1)


@pytest.mark.virtual_time
async def test_speed_scales_loop_time() -> None:
    clock, loop = Clock(speed=60), asyncio.get_running_loop()
    began_at = loop.time()
    fired_at = loop.create_future()
    clock.call_later(600, lambda: fired_at.set_result(loop.time()))
    assert await fired_at - began_at == pytest.approx(10, abs=0.01)


async def test_stop_drops_every_timer() -> None:
    clock, fired = Clock(), []
    clock.call_later(1, lambda: fired.append("x"))
    clock.stop()
    clock.advance(10)
    assert fired == []


async def test_bad_values_are_refused() -> None:
    with pytest.raises(ValueError, match="speed must be above 0"):
        Clock(speed=0)
    with pytest.raises(ValueError, match="does not run backwards"):
        Clock().advance(-1)
