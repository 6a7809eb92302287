"""That every scenario can fail, as far as that shows without playing: `scripts/bench.sh mutants`
plays them."""

from __future__ import annotations

import ast
import importlib.util

import mutants as bench
import pytest
from livekit.plugins import resilient

from .mutants.known import MUTANTS
from .mutants.mutant import Mutant
from .registry import catalogue

CATALOGUE = catalogue()


def changed(**fields: str) -> Mutant:
    given = {"name": "a-mutant", "sentence": "It works.", "module": "notify", "old": "", "new": ""}
    return Mutant(**{**given, **fields})


def test_every_scenario_names_a_mutant() -> None:
    assert [entry.name for entry in CATALOGUE.values() if not entry.mutants] == []


def test_every_mutant_is_named_by_a_scenario() -> None:
    named = {mutant for entry in CATALOGUE.values() for mutant in entry.mutants}
    assert sorted(MUTANTS.keys() - named) == []


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_a_mutant_fits_its_module(mutant: Mutant) -> None:
    source = mutant.source()
    tree = ast.parse(mutant.applied_to(source))
    assert ast.dump(tree) != ast.dump(ast.parse(source)), "it changes something"


def test_text_that_is_not_there_once_is_refused() -> None:
    mutant = changed(old="x")
    for source in ("", "xx"):
        with pytest.raises(ValueError, match="a-mutant"):
            mutant.applied_to(source)
    assert mutant.applied_to("axb") == "ab"


def test_a_module_is_loaded_with_the_change() -> None:
    mutant = changed(module="version", old='__version__ = "', new='__version__ = "mutated-')
    finder = bench.MutantFinder(mutant)
    spec = finder.find_spec(mutant.module_name, resilient.__path__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__version__ == f"mutated-{resilient.__version__}"
    assert finder.find_spec("livekit.plugins.resilient.runtime.log", resilient.__path__) is None
