"""All mutants by name. Nothing here imports the product."""

from __future__ import annotations

from collections.abc import Mapping

from . import google, openai, shared
from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Mapping[str, Mutant] = {
    mutant.name: mutant for mutant in (*shared.MUTANTS, *google.MUTANTS, *openai.MUTANTS)
}
