"""Cost of the core per fact, after short and long histories: scripts/bench_core.py [ROUNDS].

Prints microseconds per `TurnMachine.receive()` with the `next_deadline()` that a driver asks
after it. Asserts nothing: the figure is the machine's.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f

DROP_EVERY = 5  # turns


def turn(at: float, number: int) -> Iterator[Fact]:
    """One user turn, its answer in 40 frames, and now and then a drop in the middle of it."""
    name = f"g{number}"
    yield f.UserSpeechStarted(at)
    for frame in range(40):
        yield f.LocalSpeechHinted(at + 0.02 * frame)
    yield f.UserSpeechStopped(at + 0.9)
    yield f.UserTurnEnded(at + 1.0)
    yield f.MessageArrived(at + 1.1)
    yield f.GenerationOpened(at + 1.1, name)
    for frame in range(40):
        moment = at + 1.2 + 0.02 * frame
        yield f.MessageArrived(moment)
        yield f.AudioReceived(moment, name, 0.1)
        if not frame:
            yield f.PlaybackStarted(moment, name)
        yield f.PlaybackProgressed(moment, name, 0.02 * (frame + 1))
    if number % DROP_EVERY == 0:
        yield f.Disconnected(at + 2.1)
        yield f.Connected(at + 2.2)
        return
    yield f.OutputCompleted(at + 2.1, name)
    yield f.GenerationEnded(at + 2.2, name)
    yield f.PlaybackFinished(at + 2.3, name, 4.0)


def measure(machine: TurnMachine, first: int, turns: int) -> float:
    """Microseconds per fact over `turns` turns."""
    facts = [fact for number in range(first, first + turns) for fact in turn(number * 10.0, number)]
    started = time.process_time()
    for fact in facts:
        machine.receive(fact)
        machine.next_deadline()
    return (time.process_time() - started) / len(facts) * 1e6


def main() -> None:
    gc.disable()  # the prepared facts, not the core, are what it would walk
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print("turns of history   us per fact (best)")
    for history in (0, 100, 5000):
        costs = []
        for _ in range(rounds):
            machine = TurnMachine(Bounds())
            machine.receive(f.Connected(0.0))
            if history:
                measure(machine, 1, history)
            costs.append(measure(machine, history + 1, 100))
        print(f"{history:16d}   {min(costs):6.2f}")


if __name__ == "__main__":
    main()
