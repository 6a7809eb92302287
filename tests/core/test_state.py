"""The two tables, walked cell by cell against the code."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import get_args

import pytest

from livekit.plugins.resilient.core import Bounds, Fact, IllegalFactError, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.generation import PHASE_MOVES, Phase
from livekit.plugins.resilient.core.state import CONNECTION_MOVES, Connection

KINDS: tuple[type[Fact], ...] = get_args(Fact)
NOW = 9.0


def example(kind: type[Fact], at: float = NOW) -> Fact:
    """A fact of each kind about generation g, request r, call c."""
    values: dict[str, object] = {
        "at": at,
        "generation_id": "g",
        "request_id": "r",
        "call_id": "c",
        "duration_s": 1.0,
        "heard_until_s": 1.0,
        "slept_s": 1.0,
        "seconds": 1.0,
    }
    return kind(**{n: v for n, v in values.items() if n in kind.__dataclass_fields__})  # type: ignore[arg-type]


TO_CONNECTION: dict[Connection, tuple[Fact, ...]] = {
    Connection.NEW: (),
    Connection.UP: (f.Connected(0.0),),
    Connection.DOWN: (f.Connected(0.0), f.Disconnected(1.0)),
    Connection.CLOSED: (f.Connected(0.0), f.Closed(1.0)),
}
OPEN = (f.Connected(0.0), f.GenerationOpened(1.0, "g"))
TO_PHASE: dict[Phase, tuple[Fact, ...]] = {
    Phase.NONE: (f.Connected(0.0),),
    Phase.SILENT: OPEN,
    Phase.PRODUCING: (*OPEN, f.AudioReceived(2.0, "g", 1.0), f.PlaybackStarted(2.0, "g")),
    Phase.COMPLETE: (
        *OPEN,
        f.AudioReceived(2.0, "g", 1.0),
        f.PlaybackStarted(2.0, "g"),
        f.OutputCompleted(3.0, "g"),
    ),
    Phase.INTERRUPTED: (
        *OPEN,
        f.AudioReceived(2.0, "g", 1.0),
        f.PlaybackStarted(2.0, "g"),
        f.Interrupted(3.0, "g"),
    ),
    Phase.INTERRUPTED_COMPLETE: (
        *OPEN,
        f.AudioReceived(2.0, "g", 1.0),
        f.PlaybackStarted(2.0, "g"),
        f.OutputCompleted(3.0, "g"),
        f.Interrupted(3.0, "g"),
    ),
}
# Watchdogs off, so that only the fact under test moves anything.
OFF = Bounds(
    redrive=False,
    interrupted_after_s=None,
    complete_after_s=None,
    stalled_after_s=None,
    silent_after_s=None,
    liveness_timeout_s=None,
    reply_silent_after_s=None,
    unheard_after_s=None,
)


def after(facts: tuple[Fact, ...]) -> TurnMachine:
    machine = TurnMachine(OFF)
    for fact in facts:
        machine.receive(fact)
    return machine


def snapshot(machine: TurnMachine) -> bytes:
    """Everything it holds, comparable."""
    return pickle.dumps(machine)


def test_every_state_has_a_row_and_a_way_to_it() -> None:
    assert set(CONNECTION_MOVES) == set(TO_CONNECTION) == set(Connection)
    assert set(PHASE_MOVES) == set(TO_PHASE) == set(Phase)
    for connection, facts in TO_CONNECTION.items():
        assert after(facts).connection is connection
    for phase, facts in TO_PHASE.items():
        assert after(facts).phase is phase


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("connection", Connection, ids=lambda at: at.name)
def test_the_connection_moves_as_its_table_says(connection: Connection, kind: type[Fact]) -> None:
    machine = after(TO_CONNECTION[connection])
    if kind in CONNECTION_MOVES[connection]:
        machine.receive(example(kind))
        assert machine.connection is CONNECTION_MOVES[connection][kind]
    else:
        before = snapshot(machine)
        with pytest.raises(IllegalFactError, match=kind.__name__):
            machine.receive(example(kind))
        assert snapshot(machine) == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
def test_the_generation_moves_as_its_table_says(phase: Phase, kind: type[Fact]) -> None:
    machine = after(TO_PHASE[phase])
    in_table = any(kind in row for row in PHASE_MOVES.values())
    if kind in (f.Connected, f.Disconnected):
        machine.receive(example(kind))
        assert machine.phase is Phase.NONE
    elif not in_table:
        machine.receive(example(kind))
        assert machine.phase is phase
    elif kind in PHASE_MOVES[phase]:
        machine.receive(example(kind))
        assert machine.phase is PHASE_MOVES[phase][kind]
    else:
        before = snapshot(machine)
        with pytest.raises(IllegalFactError, match=kind.__name__):
            machine.receive(example(kind))
        assert snapshot(machine) == before


def test_the_tables_have_illegal_cells() -> None:
    assert f.Disconnected not in CONNECTION_MOVES[Connection.NEW]
    assert f.GenerationOpened not in PHASE_MOVES[Phase.SILENT]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (f.AudioReceived, "duration_s"),
        (f.PlaybackProgressed, "heard_until_s"),
        (f.PlaybackFinished, "heard_until_s"),
    ],
)
@pytest.mark.parametrize("seconds", [-0.1, float("nan")])
def test_negative_seconds_are_refused_by_name(
    kind: Callable[[float, str, float], Fact], field: str, seconds: float
) -> None:
    with pytest.raises(IllegalFactError, match=field):
        kind(NOW, "g", seconds)


@pytest.mark.parametrize("at", [0.5, float("nan")])
def test_time_that_runs_backwards_is_refused_and_changes_nothing(at: float) -> None:
    machine = after(TO_PHASE[Phase.PRODUCING])
    before = snapshot(machine)
    with pytest.raises(IllegalFactError, match=r"MessageArrived\.at="):
        machine.receive(f.MessageArrived(at))
    assert snapshot(machine) == before


def test_a_generation_id_is_not_used_twice_while_its_audio_plays() -> None:
    machine = after((*TO_PHASE[Phase.COMPLETE], f.GenerationEnded(4.0, "g")))
    with pytest.raises(IllegalFactError, match="generation_id"):
        machine.receive(f.GenerationOpened(NOW, "g"))


def test_a_driver_without_a_speaker_costs_no_memory() -> None:
    machine = after(TO_CONNECTION[Connection.UP])

    def talk(first: int, last: int) -> int:
        for number in range(first, last):
            name = f"{number:05}"
            machine.receive(f.GenerationOpened(NOW, name))
            machine.receive(f.AudioReceived(NOW, name, 1.0))
            machine.receive(f.GenerationEnded(NOW, name))
        return len(snapshot(machine))

    assert talk(0, 50) == talk(50, 500)
