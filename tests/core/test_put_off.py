"""A provider that puts a reply off is asked again when it said, a few times (R4, R12)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import Redrive
from livekit.plugins.resilient.core.facts import IllegalFactError
from livekit.plugins.resilient.core.limits import TIMES_PUT_OFF, Bounds
from livekit.plugins.resilient.core.turn import TurnMachine

BOUNDS = Bounds(liveness_timeout_s=None, redrive_after_s=3.0)


def unanswered(at: float) -> TurnMachine:
    machine = TurnMachine(BOUNDS)
    machine.receive(f.Connected(at))
    machine.receive(f.UserTurnEnded(at))
    return machine


@pytest.mark.parametrize(("wait_s", "due_s"), [(None, 3.0), (0.0, 0.0), (0.5, 0.5), (12.0, 12.0)])
def test_the_next_try_is_when_the_provider_says(wait_s: float | None, due_s: float) -> None:
    machine = unanswered(10.0)
    machine.receive(f.GenerationOpened(10.0, "g1"))
    at_once = machine.receive(f.GenerationEnded(10.0, "g1", "failed", wait_s))
    if due_s:
        assert at_once == ()
        assert machine.next_deadline() == 10.0 + due_s
        at_once = machine.due(10.0 + due_s)
    assert [type(decision) for decision in at_once] == [Redrive]


def test_a_reply_is_put_off_a_few_times_and_not_for_ever() -> None:
    machine, at = unanswered(0.0), 0.0
    asked: list[str | None] = [None]
    for number in range(TIMES_PUT_OFF + 1):
        machine.receive(f.GenerationOpened(at, f"g{number}", asked[-1]))
        machine.receive(f.GenerationEnded(at, f"g{number}", "failed", 1.0))
        if (due_at := machine.next_deadline()) is not None:
            at = due_at
            decisions = machine.due(at)
            asked += [d.redrive_id for d in decisions if isinstance(d, Redrive)]
    assert len(asked) - 1 == TIMES_PUT_OFF
    assert machine.next_deadline() is None


def test_a_wait_below_0_is_refused() -> None:
    with pytest.raises(IllegalFactError, match="retry_after_s"):
        f.GenerationEnded(0.0, "g1", "failed", -1.0)


def test_a_redrive_is_put_off_a_few_times_and_not_for_ever() -> None:
    machine, asked_at = unanswered(0.0), list[float]()
    machine.receive(f.GenerationOpened(0.0, "g1"))
    machine.receive(f.GenerationEnded(0.0, "g1", "failed"))
    while (due_at := machine.next_deadline()) is not None:
        for decision in machine.due(due_at):
            if isinstance(decision, Redrive):
                asked_at.append(due_at)
                machine.receive(f.ReplyRefused(due_at, decision.redrive_id, 1.5))
    assert [b - a for a, b in pairwise(asked_at)] == [1.5] * TIMES_PUT_OFF
