"""The catalogue, run: controls pass with both models, faults are survived by ours."""

from __future__ import annotations

import pytest

from .expected import LEAST, NOT_APPLICABLE
from .play import play
from .registry import KINDS, PROVIDERS, RULES, ProviderName, Scenario, catalogue
from .stage import ScenarioFailed, Which

CATALOGUE = catalogue()


def _survival() -> list[object]:
    """Scenarios with their faults; those that wait for a rule must fail, by what the caller
    experiences and not by an error of the scenario or the simulator."""
    params: list[object] = []
    for entry in CATALOGUE.values():
        marks = []
        if entry.waits_for:
            reason = f"waits for {', '.join(entry.waits_for)}"
            marks.append(pytest.mark.xfail(reason=reason, raises=ScenarioFailed, strict=True))
        params.append(pytest.param(entry, id=entry.name, marks=marks))
    return params


def _controls() -> list[object]:
    """With upstream's model, each scenario that differs in more than its faults from those before
    it; with ours, the first of each kind."""
    params: list[object] = []
    kinds: set[tuple[str, str]] = set()
    groups: dict[object, list[Scenario]] = {}
    for entry in CATALOGUE.values():
        alike = groups.setdefault(entry.run, [])
        if any(_same_control(entry, other) for other in alike):
            continue
        kind = (entry.provider, entry.kind)
        sides: tuple[Which, ...] = ("upstream",) if kind in kinds else ("upstream", "ours")
        kinds.add(kind)
        params += [pytest.param(entry, which, id=f"{entry.name}-{which}") for which in sides]
        alike.append(entry)
    return params


def _same_control(one: Scenario, other: Scenario) -> bool:
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("server", "model", "call", "agent", "flavour", "resilience")
    )


@pytest.mark.virtual_time
@pytest.mark.parametrize(("entry", "which"), _controls())
async def test_the_control_passes(entry: Scenario, which: Which) -> None:
    await play(entry, which, faults=False)


@pytest.mark.virtual_time
@pytest.mark.parametrize("entry", _survival())
async def test_our_model_survives(entry: Scenario) -> None:
    await play(entry, "ours", faults=True)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_catalogue_is_large_enough(provider: ProviderName) -> None:
    names = [entry.name for entry in CATALOGUE.values() if entry.provider == provider]
    assert len(names) >= LEAST[provider]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_rule_and_kind_of_a_provider_has_a_scenario(provider: ProviderName) -> None:
    own = [entry for entry in CATALOGUE.values() if entry.provider == provider]
    covered = {entry.rule for entry in own} | {entry.kind for entry in own}
    missing = {*RULES, *KINDS} - covered - NOT_APPLICABLE[provider]
    assert not LEAST[provider] or not missing, sorted(missing)


def test_every_scenario_has_something_that_its_control_leaves_out() -> None:
    assert [
        entry.name for entry in CATALOGUE.values() if bool(entry.faults) == entry.by_script
    ] == []
