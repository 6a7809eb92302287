"""Anything that a run shows, as plain data that two runs can be compared by."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

_RANDOM_ID = re.compile(
    r"(?<![0-9a-zA-Z])([a-zA-Z]+[_-](?:[a-zA-Z]+[_-])*)?"
    r"(?!0{6})([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|"
    r"[0-9a-f]{12})(?![0-9a-zA-Z])"
)
"""What livekit-agents and its plugins make of `uuid4`; the simulators' ids begin with zeros."""

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")

_DROPPED = frozenset({"created_at", "timestamp", "started_at", "stopped_at"})
"""Readings of a clock: the times at which things happened are compared by themselves."""

_LONGEST = 400


class Names:
    """Random ids by the order in which they appear, one count for each prefix.

    Without `count` they all look alike.
    """

    def __init__(self, *, count: bool = True) -> None:
        self._count = count
        self._known: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def stable(self, text: str) -> str:
        """`text` with "item_<1>" for the first random id that begins with "item_", and so on."""
        return _RANDOM_ID.sub(self._name, _ADDRESS.sub("the server", text))

    def _name(self, match: re.Match[str]) -> str:
        found = match.group(0)
        if found not in self._known:
            prefix = match.group(1) or ""
            self._counts[prefix] += 1
            number = str(self._counts[prefix]) if self._count else ""
            self._known[found] = f"{prefix}<{number}>"
        return self._known[found]


def plain(value: Any, names: Names) -> Any:
    """Mappings, lists, texts and numbers in place of `value`; another object is just one."""
    match value:
        case None | bool() | int() | float():
            return value
        case enum.Enum():
            return str(value.value)
        case str():
            return _text(value, names)
        case bytes():
            return f"{len(value)} bytes"
        case BaseException():
            return {"class": type(value).__name__, "text": names.stable(str(value))[:_LONGEST]}
        case BaseModel():
            known = type(value).model_fields.items()
            own = {name: getattr(value, name) for name, field in known if not field.deprecated}
            return _fields(own, names)
        case Mapping():
            return _fields(value, names)
        case list() | tuple() | set() | frozenset():
            return [plain(element, names) for element in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _fields(own, names)
    return "an object"


def _text(value: str, names: Names) -> Any:
    """A text, or what it holds where it is JSON, so that numbers in it are compared as numbers."""
    if value[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            return plain(json.loads(value), names)
    return names.stable(value)


def _fields(value: Mapping[Any, Any], names: Names) -> dict[str, Any]:
    return {
        names.stable(str(name)): plain(below, names)
        for name, below in value.items()
        if name not in _DROPPED
    }
