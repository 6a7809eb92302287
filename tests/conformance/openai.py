"""OpenAI Realtime's events by name, and what is measured of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .facts import Step


def name_of(message: Mapping[str, Any]) -> str:
    """An event's type; where it shows an item, with what that is: a role, or a call's kind."""
    kind = str(message.get("type"))
    item = message.get("item")
    if not isinstance(item, Mapping):
        return kind
    return f"{kind}:{item.get('role') or item.get('type')}"


def recorded(steps: Sequence[Sequence[Any]]) -> list[Step]:
    """The session of a recording."""
    session = []
    for direction, at, message, *count in steps:
        name = name_of(message)
        step = Step(name if direction == "<" else f">{name}", message, at)
        session += [step] * (count[0] if count else 1)
    return session


def measures(session: Sequence[Step]) -> dict[str, float]:
    """Nothing yet."""
    return {}
