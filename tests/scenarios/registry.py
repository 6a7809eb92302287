"""The catalogue of faults: what a scenario is, and how one is written.

    @scenario(
        "gemini-drop-mid-reply", kind="K1", rule="R1", provider="gemini",
        faults=[Fault(AtAudio(1.5, connection=1), Abort())],
        server={"replies": [LONG, SHORT]},
        mutants="a-cut-reply-is-not-asked-for",
    )
    async def answers_after_a_drop(stage: Stage[GeminiLiveServer]) -> None:
        \"\"\"The reply stops, and the caller's next question is answered.\"\"\"
        await stage.call.generate_reply(instructions="greet")
        ...
        stage.require(len(stage.server.dials()) == 2, "the connection was dialled once again")

Scenarios live in `gemini/kNN_*.py` and `openai/kNN_*.py`, by the kind of fault. `test_scenarios.py`
runs the control (no fault) with upstream's model, some also with ours, and the fault with ours.
`scripts/bench.sh survival` runs the fault with both. Decorators can be stacked to give one function
several names with different faults: those are variants of one promise, which is counted once.

`scripts/bench.sh mutants` shows that a scenario can fail: each names the mutants of our code (see
`mutants/`) with which it must.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing.faults import Fault

from .call_script import PROVIDERS, CallScript, Flavour, ProviderName, check
from .mutants.known import MUTANTS

if TYPE_CHECKING:
    from livekit.agents import Agent

__all__ = [
    "PROVIDERS",
    "Flavour",
    "Promise",
    "ProviderName",
    "Scenario",
    "catalogue",
    "promises",
    "scenario",
]

_Run = TypeVar("_Run", bound="Callable[[Any], Awaitable[None]]")

RULES = (*(f"R{number}" for number in range(1, 23)), "R24")
KINDS = tuple(f"K{number}" for number in range(1, 14))


@dataclass(frozen=True, kw_only=True)
class Scenario(CallScript):
    """One named fault in one call; left out in the control.

    Attributes:
        kind: the kind of bug report, K1 to K13.
        rule: the rule of the product that it tests, one of `RULES`.
        by_script: the fault is not the server's: `run` or `agent` brings it about.
        waits_for: rules that our model does not keep yet; the scenario must fail until it does.
        mutants: names of mutants of our code that must fail it, at least one.
    """

    kind: str
    rule: str
    by_script: bool = False
    waits_for: tuple[str, ...] = ()
    mutants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check("kind", self.kind, self.kind in KINDS, f"one of {', '.join(KINDS)}")
        for rule in (self.rule, *self.waits_for):
            check("rule", rule, rule in RULES, f"one of {', '.join(RULES)}")
        for mutant in self.mutants:
            check("mutant", mutant, mutant in MUTANTS, "one of those in mutants/")


_SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    *,
    kind: str,
    rule: str,
    provider: ProviderName,
    faults: Iterable[Fault] = (),
    server: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    call: Callable[[], Mapping[str, Any]] = dict,
    agent: Callable[[bool], Agent] | None = None,
    flavour: Flavour = "plain",
    resilience: ResilienceOptions | None = None,
    by_script: bool = False,
    waits_for: str | Iterable[str] = (),
    mutants: str | Iterable[str] = (),
) -> Callable[[_Run], _Run]:
    """Register an `async def run(stage)` under `name`; see `Scenario` for the fields.

    Raises:
        ValueError: a field is malformed, or the name is taken.
    """
    waiting = (waits_for,) if isinstance(waits_for, str) else tuple(waits_for)
    failed_by = (mutants,) if isinstance(mutants, str) else tuple(mutants)

    def register(run: _Run) -> _Run:
        check("name", name, name not in _SCENARIOS, "unique")
        _SCENARIOS[name] = Scenario(
            name=name,
            kind=kind,
            rule=rule,
            provider=provider,
            run=run,
            promise=" ".join((inspect.getdoc(run) or "").split()),
            faults=tuple(faults),
            server=server or {},
            model=model or {},
            call=call,
            agent=agent,
            flavour=flavour,
            resilience=resilience,
            by_script=by_script,
            waits_for=waiting,
            mutants=failed_by,
        )
        return run

    return register


def catalogue() -> dict[str, Scenario]:
    """Every scenario by name, in the order of provider, kind and definition."""
    here = Path(__file__).parent
    for provider in PROVIDERS:
        for path in sorted((here / provider).glob("k*.py")):
            importlib.import_module(f"{__package__}.{provider}.{path.stem}")
    order = sorted(
        _SCENARIOS.values(), key=lambda s: (PROVIDERS.index(s.provider), int(s.kind[1:]))
    )
    return {entry.name: entry for entry in order}


@dataclass(frozen=True)
class Promise:
    """What one `run` asserts, in all the calls that it is registered for.

    Attributes:
        name: the provider and the function's name, kebab-case; no scenario has the same.
        function: the function's name.
        source: its file, relative to the root of the repository.
        variants: the calls in which it must hold, in the order of the catalogue.
    """

    name: str
    function: str
    source: str
    variants: tuple[Scenario, ...]

    @property
    def sentence(self) -> str:
        return self.variants[0].promise

    @property
    def provider(self) -> ProviderName:
        return self.variants[0].provider

    @property
    def kind(self) -> str:
        return self.variants[0].kind

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that its variants test, by number."""
        return tuple(sorted({entry.rule for entry in self.variants}, key=RULES.index))


def promises() -> dict[str, Promise]:
    """Every promise of the catalogue by name, in its order."""
    variants: dict[str, list[Scenario]] = {}
    for entry in catalogue().values():
        name = f"{entry.provider}-{entry.run.__name__.replace('_', '-')}"
        variants.setdefault(name, []).append(entry)
    return {name: _promise(name, entries) for name, entries in variants.items()}


def _promise(name: str, variants: list[Scenario]) -> Promise:
    run = variants[0].run
    check("name", name, name not in _SCENARIOS, "that of no scenario")
    check("run", name, all(entry.run is run for entry in variants), "one function of its name")
    kinds = {(entry.provider, entry.kind) for entry in variants}
    check("kind", name, len(kinds) == 1, "one of one provider in all variants of a promise")
    root = Path(__file__).parents[2]
    source = Path(inspect.getfile(run)).relative_to(root).as_posix()
    return Promise(name, run.__name__, source, tuple(variants))
