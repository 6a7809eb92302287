"""What a healthy script is, and how many come of a situation and its twists.

    SITUATION = Situation(
        name="turns", group="talk", run=turns,
        sentence="The app greets, and the caller asks twice",
    )
    add(SITUATION, *(mid_reply(seconds) for seconds in (1, 6, 20)))

makes one script for each provider and twist, named "gemini-turns-mid-reply-6s" and so on. A twist
is something that a healthy provider, network or application does: a pause, a late caption, a
blocked event loop. Scripts stand in `corpus/`, one module for each kind of situation.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from livekit.agents import Agent

from livekit.plugins.resilient.testing import Fault
from tests.scenarios.call_script import PROVIDERS, CallScript, Flavour, ProviderName, Run
from tests.scenarios.lines import by_reason

PerProvider: TypeAlias = Mapping[ProviderName, Any]

SETTLE_S = 24.0
"""Virtual seconds that every script listens on at its end, for what comes of it late."""


MIC_RATE: Mapping[ProviderName, int] = {"gemini": 16_000, "openai": 24_000}
"""What each plugin sends: its resampler adds noise of its own, which no two runs share."""


@dataclass(frozen=True, kw_only=True)
class HealthyScript(CallScript):
    """One call in which nothing goes wrong.

    Attributes:
        situation: name of the situation that it is one of.
        group: row of the table that it counts in.
        permits: names of resilience events that are no decision here.
        spare_upstream: upstream's model is run without the faults, because it does not bear what
            is healthy here; ours must then act as if they were not there.
        settle_s: seconds to listen on at the end; 0 where the script itself hangs up.
    """

    situation: str
    group: str
    permits: frozenset[str] = frozenset()
    spare_upstream: bool = False
    settle_s: float = SETTLE_S


@dataclass(frozen=True, kw_only=True)
class Twist:
    """Something healthy that happens in a call.

    Attributes:
        name: ends the script's name.
        sentence: goes on after that of the situation.
        faults: the simulator's part in it, by provider; a provider without an entry has no such
            twist, unless the mapping is empty.
        server, model: over those of the situation.
        run: in place of that of the situation.
        permits, spare_upstream, settle_s: see `HealthyScript`.
    """

    name: str
    sentence: str
    faults: Mapping[ProviderName, tuple[Fault, ...]] = field(default_factory=dict)
    server: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    run: Run | None = None
    permits: frozenset[str] = frozenset()
    spare_upstream: bool = False
    settle_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A kind of call.

    Attributes:
        name: kebab-case, the middle of the scripts' names.
        group: its row in the table.
        sentence: what happens, in a few words and without a full stop.
        run: drives the call.
        providers: those that have it.
        flavours: which of OpenAI's models; Gemini has only "plain".
        server, model: keywords for the simulator and the model; a value for each provider where
            the mapping's keys are their names.
        call, agent: see `CallScript`.
        permits, settle_s: see `HealthyScript`.
    """

    name: str
    group: str
    sentence: str
    run: Run
    providers: tuple[ProviderName, ...] = PROVIDERS
    flavours: tuple[Flavour, ...] = ("plain",)
    server: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[[], Mapping[str, Any]] = dict
    agent: Callable[[], Agent] | None = None
    permits: frozenset[str] = frozenset()
    settle_s: float = SETTLE_S


PLAIN = Twist(name="", sentence="")
"""No twist at all."""

_SCRIPTS: dict[str, HealthyScript] = {}


def add(situation: Situation, *twists: Twist) -> None:
    """Register the situation with each twist, for each provider that has both.

    Raises:
        ValueError: a name is taken.
    """
    for script in scripts_of(situation, *twists):
        if script.name in _SCRIPTS:
            raise ValueError(f"the name {script.name!r} is taken")
        _SCRIPTS[script.name] = script


def scripts_of(situation: Situation, *twists: Twist) -> list[HealthyScript]:
    """The scripts that `add` would register."""
    return [
        _script(situation, twist, provider, flavour)
        for twist in twists
        for provider in situation.providers
        if not twist.faults or provider in twist.faults
        for flavour in (situation.flavours if provider == "openai" else ("plain",))
    ]


def _script(
    situation: Situation, twist: Twist, provider: ProviderName, flavour: Flavour
) -> HealthyScript:
    first = provider if flavour == "plain" else flavour
    agent = situation.agent
    server = {
        "default_reply": by_reason,
        **_of(provider, situation.server),
        **_of(provider, twist.server),
    }
    return HealthyScript(
        name="-".join(filter(None, (first, situation.name, twist.name))).replace(".", "-"),
        provider=provider,
        run=twist.run or situation.run,
        promise=", ".join(filter(None, (situation.sentence, twist.sentence))) + ".",
        faults=tuple(twist.faults.get(provider, ())),
        server=server,
        model={**_of(provider, situation.model), **_of(provider, twist.model)},
        call=situation.call,
        agent=None if agent is None else lambda faulty: agent(),
        flavour=flavour,
        mic_rate=MIC_RATE[provider],
        situation=situation.name,
        group=situation.group,
        permits=situation.permits | twist.permits,
        spare_upstream=twist.spare_upstream,
        settle_s=situation.settle_s if twist.settle_s is None else twist.settle_s,
    )


def _of(provider: ProviderName, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is given for a provider: its own entry where the entries are the providers'."""
    own: Mapping[str, Any] = given
    if given and given.keys() <= set(PROVIDERS):
        own = given.get(provider, {})
    return own


def corpus() -> dict[str, HealthyScript]:
    """Every script by name, in the order of provider, module and definition."""
    for path in sorted((Path(__file__).parent / "corpus").glob("*.py")):
        importlib.import_module(f"{__package__}.corpus.{path.stem}")
    ordered = sorted(_SCRIPTS.values(), key=lambda script: PROVIDERS.index(script.provider))
    return {script.name: script for script in ordered}


def sample(scripts: Iterable[HealthyScript]) -> list[HealthyScript]:
    """A part of the corpus for every day: of each situation one script.

    Situations take turns with the providers where both have them, and the n-th takes its n-th
    script, counted round: so the sample has all kinds of twists too, and is the same everywhere.
    """
    situations: dict[tuple[str, str], dict[str, list[HealthyScript]]] = {}
    for script in scripts:
        models = situations.setdefault((script.situation, script.flavour), {})
        models.setdefault(script.provider, []).append(script)
    chosen = []
    for place, models in enumerate(situations.values()):
        alike = list(models.values())[place % len(models)]
        chosen.append(alike[place % len(alike)])
    return chosen
