"""A machine that is fed a call, and everything it decides in it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import Decision, RecordOutcome, Redrive, RedriveCause

# Short ones, to reckon with.
QUIET = Bounds(
    complete_after_s=5.0,
    stalled_after_s=4.0,
    silent_after_s=15.0,
    liveness_timeout_s=None,
    unheard_after_s=None,
)
UP = f.Connected(0.0)
DROP = f.Disconnected(20.0)


def changed(bounds: Bounds = QUIET, **fields: Any) -> Bounds:
    return dataclasses.replace(bounds, **fields)


class Call:
    """A machine and everything it has decided, with the time of each decision."""

    def __init__(self, *facts: Fact, bounds: Bounds = QUIET) -> None:
        self.machine = TurnMachine(bounds)
        self.log: list[tuple[float, Decision]] = []
        self.feed(*facts)

    def feed(self, *facts: Fact) -> list[Decision]:
        """Feed facts, jumping to each deadline on the way; returns what was decided."""
        before = len(self.log)
        for fact in facts:
            self._pass(math.nextafter(fact.at, 0.0))
            self._note(fact.at, self.machine.receive(fact))
        return [decision for _, decision in self.log[before:]]

    def run(self, until: float) -> list[Decision]:
        before = len(self.log)
        self._pass(until)
        return [decision for _, decision in self.log[before:]]

    def _pass(self, until: float) -> None:
        while (at := self.machine.next_deadline()) is not None and at <= until:
            self._note(at, self.machine.due(at))

    def _note(self, at: float, decisions: tuple[Decision, ...]) -> None:
        self.log += [(at, decision) for decision in decisions]

    def redrives(self) -> list[tuple[float, RedriveCause]]:
        return [(at, d.cause) for at, d in self.log if isinstance(d, Redrive)]

    def outcomes(self) -> list[str]:
        return [d.result for _, d in self.log if isinstance(d, RecordOutcome)]


TURN = (UP, f.UserTurnEnded(10.0))
SPEAKING = (
    *TURN,
    f.GenerationOpened(11.0, "g"),
    f.AudioReceived(11.0, "g", 30.0),
    f.PlaybackStarted(11.0, "g"),
)
ANSWERED = (*SPEAKING, f.GenerationEnded(12.0, "g"))
CALLED = (*TURN, f.GenerationOpened(11.0, "g"), f.ToolCallOpened(11.0, "g", "c"))
RESULT = (*CALLED, f.GenerationEnded(12.0, "g"), f.ToolResultDelivered(13.0, "c"))
