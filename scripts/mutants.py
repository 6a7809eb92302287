"""Scenarios that can tell: plays each with a mutant of our code that must fail it.

    scripts/bench.sh mutants [--only NAME] [--provider gemini|openai]

A mutant (`tests/scenarios/mutants`) is our code with one decision left out. Each scenario names at
least one that it must fail with: this is on virtual time, with our model, faults on. NAME is that
of a mutant or of a scenario, or a part of it. That the scenarios pass without a mutant is what the
test suite checks.

A mutant gets a process of its own, forked from one that has imported all of livekit-agents but none
of ours. Ends with 1 where a mutant survives, or is no mutant: it cannot be imported, or is not run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import logging
import multiprocessing
import multiprocessing.connection
import random
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from benching import WORKERS, Progress, print_columns  # noqa: E402

from tests.scenarios.mutants.known import MUTANTS  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.scenarios.mutants.mutant import Mutant
    from tests.scenarios.registry import Scenario

RUN_LIMIT_S = 60
"""Real seconds after which a run is killed; most take less than one."""
HANG_LIMIT_S = 45.0
"""Real seconds after which a run itself says that it hangs."""
PRELOADED = (
    "livekit.agents",
    "livekit.plugins.google.realtime.realtime_api",
    "livekit.plugins.openai.realtime.realtime_model",
    "google.genai.live",
    "websockets.asyncio.server",
    "aiohttp",
    "trustme",
)
"""What every run needs and no mutant changes."""

# A mutant that raises these is broken, and tells nothing about the scenario.
_BROKEN = (ImportError, SyntaxError, NameError)

_processes = multiprocessing.get_context("fork")

Status: TypeAlias = Literal["killed", "survived", "broken"]


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant in one scenario.

    Attributes:
        mutant: Its name.
        scenario: Likewise.
        status: "killed" is what it must be; "broken" says that the mutant is none.
        why: How the scenario failed.
    """

    mutant: str
    scenario: str
    status: Status
    why: str = ""


@dataclass(frozen=True)
class Order:
    """A mutant and the scenarios that name it."""

    mutant: str
    scenarios: tuple[str, ...]


# Putting a mutant in the place of the module ------------------------------------------------


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Loads one module from changed source, past any compiled copy of it."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(self._mutant.applied_to(source), self.path, "exec", dont_inherit=True)


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the module of a mutant where the others find it, and has it loaded changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module_name:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.origin is not None:
                spec.loader = MutantLoader(fullname, spec.origin, self._mutant)
                return spec
        return None


# In processes of their own -----------------------------------------------------------------


def _in_a_fork(work: Callable[[], Any]) -> Any:
    """What `work` returns, run in a fork of this process; None where that died of it."""
    reader, writer = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_answer, args=(writer, work))
    process.start()
    writer.close()
    try:
        return reader.recv()
    except EOFError:
        return None
    finally:
        process.join()


def _answer(writer: Connection, work: Callable[[], Any]) -> None:
    writer.send(work())


def _orders() -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, provider and mutants of every scenario; imports the product."""
    from tests.scenarios.registry import catalogue

    return [(entry.name, entry.provider, entry.mutants) for entry in catalogue().values()]


def _play_all(writer: Connection, order: Order) -> None:
    """Be the process of one mutant: import the product with it, then fork for each scenario."""
    mutant = MUTANTS[order.mutant]
    sys.meta_path.insert(0, MutantFinder(mutant))
    try:
        importlib.import_module("tests.scenarios.play")
        importlib.import_module("tests.scenarios.registry").catalogue()
    except Exception as exc:
        why = f"{type(exc).__name__}: {exc}"
        for name in order.scenarios:
            writer.send(Verdict(mutant.name, name, "broken", why))
        return
    for name in order.scenarios:
        died = Verdict(mutant.name, name, "killed", f"no end within {RUN_LIMIT_S} real seconds")
        writer.send(_in_a_fork(functools.partial(_play, mutant, name)) or died)


def _play(mutant: Mutant, name: str) -> Verdict:
    """Play one scenario on the mutant that this process has imported."""
    from livekit.plugins.resilient.testing import virtual_time
    from tests.scenarios.play import play
    from tests.scenarios.registry import catalogue
    from tests.scenarios.stage import ScenarioFailed

    def verdict(status: Status, why: str = "") -> Verdict:
        return Verdict(mutant.name, name, status, why)

    module = sys.modules.get(mutant.module_name)
    if module is None or not isinstance(module.__loader__, MutantLoader):
        return verdict("broken", f"nothing imports {mutant.module}")
    signal.alarm(RUN_LIMIT_S)
    random.seed(0)  # a wait with little jitter can hide what a mutant does
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    scenario = catalogue()[name]
    try:
        virtual_time.run(play(_alone(scenario), "ours", faults=True), run_limit_s=HANG_LIMIT_S)
    except ScenarioFailed as exc:
        return verdict("killed", str(exc))
    except virtual_time.VirtualTimeHang:
        return verdict("killed", "the call hung")
    except _BROKEN as exc:
        return verdict("broken", f"{type(exc).__name__}: {exc}")
    except Exception as exc:
        return verdict("killed", f"{type(exc).__name__}: {exc}")
    return verdict("survived")


def _alone(scenario: Scenario) -> Scenario:
    """A scenario without the answer hedge, unless it is about that: a second net under other rules,
    it would catch what their mutants drop."""
    if scenario.rule == "R24":
        return scenario
    from livekit.plugins.resilient import ResilienceOptions

    options = dataclasses.replace(scenario.resilience or ResilienceOptions(), hedge_after_s=None)
    return dataclasses.replace(scenario, resilience=options)


def play_all(orders: Sequence[Order]) -> list[Verdict]:
    """Play every order, `WORKERS` at a time."""
    progress = Progress(sum(len(order.scenarios) for order in orders))
    left = iter(orders)
    running: dict[Connection, tuple[Any, Order, list[Verdict]]] = {}
    verdicts: list[Verdict] = []

    def begin() -> None:
        for order in left:
            reader, writer = _processes.Pipe(duplex=False)
            process = _processes.Process(target=_play_all, args=(writer, order))
            process.start()
            writer.close()
            running[reader] = (process, order, [])
            return

    for _ in range(WORKERS):
        begin()
    while running:
        for ready in multiprocessing.connection.wait(list(running)):
            assert isinstance(ready, multiprocessing.connection.Connection)
            process, order, own = running[ready]
            try:
                own.append(ready.recv())
                progress.finished(f"{own[-1].mutant} {own[-1].scenario}", own[-1].status)
            except EOFError:
                process.join()
                del running[ready]
                seen = {verdict.scenario for verdict in own}
                for name in order.scenarios:
                    if name not in seen:
                        own.append(Verdict(order.mutant, name, "broken", "its process died"))
                verdicts += own
                begin()
    places = {order.mutant: number for number, order in enumerate(orders)}
    return sorted(verdicts, key=lambda verdict: places[verdict.mutant])


# Command line ------------------------------------------------------------------------------


def chosen(only: Sequence[str], provider: str | None) -> list[Order]:
    """The mutants to play, each with its scenarios.

    Raises:
        SystemExit: with 2, where nothing has such a name.
    """
    scenarios = _in_a_fork(_orders)
    wanted: dict[str, list[str]] = {name: [] for name in MUTANTS}
    unmatched = set(only)
    for scenario, of_provider, mutants in scenarios:
        if provider not in (None, of_provider):
            continue
        for mutant in mutants:
            asked = {name for name in only if name in mutant or name in scenario}
            unmatched -= asked
            if asked or not only:
                wanted[mutant].append(scenario)
    if unmatched:
        print(f"no mutant and no scenario is named {min(unmatched)!r}", file=sys.stderr)
        raise SystemExit(2)
    return [Order(mutant, tuple(names)) for mutant, names in wanted.items() if names]


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """A table, and then how many there were."""
    words = {"killed": "killed", "survived": "SURVIVED", "broken": "BROKEN"}
    rows = [(v.mutant, v.scenario, words[v.status], " ".join(v.why.split())) for v in verdicts]
    print_columns([("mutant", "scenario", "", "why"), *rows])
    print()
    for verdict in verdicts:
        if verdict.status == "survived":
            print(f"{verdict.scenario} does not notice: {MUTANTS[verdict.mutant].sentence}")
    played = len({verdict.mutant for verdict in verdicts})
    killed = sum(verdict.status == "killed" for verdict in verdicts)
    print(f"{played} mutants, {killed} of {len(verdicts)} plays killed them.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    parser.add_argument("--provider", choices=("gemini", "openai"))
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOADED:
            importlib.import_module(name)
    gc.freeze()
    orders = chosen(given.only, given.provider)
    if not orders:
        print("no scenario is to be played", file=sys.stderr)
        return 2
    verdicts = play_all(orders)
    print_verdicts(verdicts)
    return 0 if all(verdict.status == "killed" for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
