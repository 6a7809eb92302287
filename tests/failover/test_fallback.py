"""What upstream's adapter would do next, read from where it keeps it."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from livekit import rtc
from livekit.agents import llm
from livekit.agents.llm import realtime_fallback_adapter
from livekit.plugins import google

from livekit.plugins.resilient import fallback
from livekit.plugins.resilient.fallback import Fallback, GivenUp, seconds_until_taken_over

NOW = 100.0


def taken_over(
    active: int, available: list[bool], cooled_down_at: list[float], cooldown_s: float = 10.0
) -> float | None:
    return seconds_until_taken_over(
        active, available, cooled_down_at, cooldown_s=cooldown_s, now=NOW
    )


@pytest.mark.parametrize(
    ("active", "available", "cooled_down_at", "cooldown_s", "expected"),
    [
        (0, [True], [0.0], 10.0, None),
        (0, [True, True], [0.0, 0.0], 10.0, 0.0),
        (1, [True, True], [0.0, 0.0], 10.0, 0.0),
        (1, [False, True], [NOW + 7, 0.0], 10.0, 7.0),
        (1, [False, True], [NOW - 7, 0.0], 10.0, 0.0),
        (1, [False, True, False], [NOW + 7, 0.0, NOW + 4], 10.0, 4.0),
        (0, [True, True], [0.0, 0.0], 0.0, None),  # the same again
        (1, [True, True], [0.0, 0.0], 0.0, 0.0),
        (0, [False, True], [NOW - 1, 0.0], 10.0, None),
        (0, [False, True], [NOW + 1, 0.0], 10.0, 0.0),
    ],
)
def test_when_another_model_is_taken(
    active: int,
    available: list[bool],
    cooled_down_at: list[float],
    cooldown_s: float,
    expected: float | None,
) -> None:
    assert taken_over(active, available, cooled_down_at, cooldown_s) == expected


async def test_the_adapter_does_what_is_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every state of three models the adapter's own choice is the one that was read."""
    clock = SimpleNamespace(time=lambda: NOW)
    for module in (realtime_fallback_adapter, fallback):
        monkeypatch.setattr(module, "time", clock)
    states = [(True, 0.0), (False, NOW - 1), (False, NOW + 1)]
    checked = 0
    for cooldown in (0.0, 10.0):
        adapter = llm.RealtimeModelFallbackAdapter(
            [google.realtime.RealtimeModel(api_key="test-key") for _ in range(3)],
            cooldown=cooldown,
        )
        holder: Any = adapter.session()
        try:
            for active, state in itertools.product(range(3), itertools.product(states, repeat=3)):
                holder._active_index = active
                holder._available = [free for free, _ in state]
                holder._cooldown_deadline = [until for _, until in state]
                foretold = Fallback(holder._active).other_model_in_s()
                holder._set_available(active, False)
                chosen = holder._next_available_index()
                assert (foretold == 0) == (chosen not in (None, active)), (cooldown, active, state)
                checked += 1
        finally:
            await holder.aclose()
    assert checked == 2 * 3 * 27


class Session(rtc.EventEmitter[Any]):
    """Stands for one of ours."""


class Listener:
    """Listens to errors as upstream's adapter does, and keeps what it is given."""

    def __init__(self, session: Session, **kept: Any) -> None:
        self._active = session
        self.__dict__.update(kept)
        session.on("error", self.on_error)

    def on_error(self, error: object) -> None: ...


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"_adapter": object()},
        {"_adapter": SimpleNamespace(_cooldown=None), "_active_index": 0, "_available": [True] * 2},
        {
            "_adapter": SimpleNamespace(_cooldown=1.0),
            "_active_index": 2,
            "_available": [True, True],
            "_cooldown_deadline": [0.0, 0.0],
        },
        {
            "_adapter": SimpleNamespace(_cooldown=1.0),
            "_active_index": 0,
            "_available": [True, True],
            "_cooldown_deadline": [0.0],
        },
    ],
)
async def test_an_adapter_of_another_make_is_none(kept: dict[str, Any]) -> None:
    session = Session()
    _ = Listener(session, **kept)
    found = Fallback(session)
    assert found.other_model_in_s() is None
    assert not found.is_swapping
    assert await found.hears()


async def test_a_session_that_nobody_holds() -> None:
    found = Fallback(Session())
    found.given_up = GivenUp(1.0, 2.0)
    assert found.other_model_in_s() is None
    assert found.given_up is None
    assert await found.hears()


async def test_an_outage_is_known_to_the_next_session_of_the_same_call() -> None:
    first = Session()
    holder = Listener(first, _adapter=object())
    Fallback(first).given_up = GivenUp(1.0, 2.0)
    second, elsewhere = Session(), Session()
    holder._active = second
    second.on("error", holder.on_error)
    _ = Listener(elsewhere, _adapter=object())
    assert Fallback(second).given_up == GivenUp(1.0, 2.0)
    assert Fallback(elsewhere).given_up is None
    assert Fallback(first).given_up is None  # it serves no more
    Fallback(second).given_up = None
    assert Fallback(second).given_up is None


async def test_a_swap_is_waited_for() -> None:
    session, proceed = Session(), asyncio.Event()
    swap = asyncio.create_task(proceed.wait())
    _ = Listener(session, _adapter=object(), _swap_task=swap)
    hearing = asyncio.create_task(Fallback(session).hears())
    await asyncio.sleep(0)
    assert not hearing.done()
    proceed.set()
    assert await hearing


async def test_a_swap_that_is_cancelled_hears_nothing() -> None:
    session = Session()
    swap = asyncio.create_task(asyncio.Event().wait())
    _ = Listener(session, _adapter=object(), _swap_task=swap)
    hearing = asyncio.create_task(Fallback(session).hears())
    await asyncio.sleep(0)
    swap.cancel()
    assert not await hearing
