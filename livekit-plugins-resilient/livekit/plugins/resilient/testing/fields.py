"""Checks of the fields of triggers and actions, by their declared types and by their names."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .errors import FaultPlanError

NOT_NEGATIVE = frozenset(
    {
        "after_s",
        "count",
        "delay_s",
        "duration_s",
        "eof_after_s",
        "position_s",
        "seconds",
        "time_left_s",
        "within_ms",
    }
)
COUNTED_FROM_ONE = frozenset({"connection", "drops", "nth"})

_NAMES = {float: "a finite number", int: "a whole number", str: "a string", bool: "a boolean"}


_hints: dict[type, Mapping[str, Any]] = {}


def hints_of(cls: type) -> Mapping[str, Any]:
    """The declared types of a dataclass's fields."""
    if cls not in _hints:
        _hints[cls] = get_type_hints(cls)
    return _hints[cls]


def check_fields(part: Any) -> None:
    """Check every field of a trigger or an action.

    Raises:
        FaultPlanError: a value is not of the declared type, or out of the range that fields of its
            name have; the message names the field and what is allowed.
    """
    hints = hints_of(type(part))
    for field in dataclasses.fields(part):
        name, value = f"{type(part).__name__}.{field.name}", getattr(part, field.name)
        check_type(name, value, hints[field.name])
        if value is None:
            continue
        if field.name in NOT_NEGATIVE and value < 0:
            raise FaultPlanError(f"{name} must not be negative: {value}")
        if field.name in COUNTED_FROM_ONE and value < 1:
            raise FaultPlanError(f"{name} counts from 1: {value}")


def check_type(name: str, value: object, hint: Any) -> None:
    """Raise FaultPlanError, with `name` and what is allowed, if `value` is not of type `hint`."""
    if not _fits(value, hint):
        raise FaultPlanError(f"{name} must be {_describe(hint)}, not {value!r}")


def _fits(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is not None:
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, hint)


def _describe(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(option) for option in get_args(hint))
    if origin is not None:
        return "a table"
    return _NAMES.get(hint, "None")
