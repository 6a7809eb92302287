"""A machine on short bounds, and what it decides at a deadline and not before it."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import Decision, FinaliseGeneration

# Short ones, to reckon with; what the defaults are is tested apart.
SHORT = Bounds(complete_after_s=5.0, stalled_after_s=4.0, silent_after_s=15.0, working_after_s=40.0)
QUIET = dataclasses.replace(SHORT, liveness_timeout_s=None)
CONNECTED = f.Connected(0.0)
OPENED = (CONNECTED, f.GenerationOpened(10.0, "g"))
SPOKEN = (*OPENED, f.AudioReceived(11.0, "g", 2.0))
HEARD = (*SPOKEN, f.PlaybackStarted(11.5, "g"))  # all of it at 13.5


def changed(bounds: Bounds, **fields: Any) -> Bounds:
    return dataclasses.replace(bounds, **fields)


def after(*facts: Fact, bounds: Bounds = QUIET) -> TurnMachine:
    machine = TurnMachine(bounds)
    for fact in facts:
        assert not [d for d in machine.receive(fact) if isinstance(d, FinaliseGeneration)]
    return machine


def fires(machine: TurnMachine, at: float) -> tuple[Decision, ...]:
    """What is decided at `at`, having shown that nothing is before it, and the same after it."""
    assert machine.next_deadline() == at
    assert machine.next_deadline() == at, "asking must not change it"
    assert machine.due(math.nextafter(at, 0.0)) == ()
    late = copy.deepcopy(machine).due(at + 0.5)
    decisions = machine.due(at)
    assert [type(d) for d in late] == [type(d) for d in decisions]
    deadline = machine.next_deadline()
    assert deadline is None or deadline > at
    return decisions
