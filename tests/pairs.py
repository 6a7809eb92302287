"""Of several axes, combinations in which every two values meet: most faults need no more than two.

All combinations are tried where RESILIENT_TEST_ALL is set in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["pairwise"]


def pairwise(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test over these axes, by the names of its parameters."""
    chosen = list(product(*axes.values()))
    if not os.environ.get("RESILIENT_TEST_ALL"):
        chosen = _covering(chosen)
    return pytest.mark.parametrize(tuple(axes), chosen, ids=["-".join(map(_id, c)) for c in chosen])


def _covering(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Greedy, so that it is small and always the same."""
    met = [set(combinations(((i, repr(v)) for i, v in enumerate(row)), 2)) for row in rows]
    missing = set().union(*met)
    chosen = []
    while missing:
        best = max(range(len(rows)), key=lambda index: len(met[index] & missing))
        chosen.append(rows[best])
        missing -= met[best]
    return chosen


def _id(value: Any) -> str:
    return "-then-".join(value) if isinstance(value, tuple) else str(value)
