"""How long simulated servers take: what the times of both providers have in common."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, TypeVar

from .errors import SettingError, check_choice, check_number

TimesName: TypeAlias = Literal["recorded", "instant"]


@dataclass(frozen=True)
class ServerTimes:
    """Times in seconds, and paces in seconds of audio per second.

    Raises:
        SettingError: a time is no finite number from 0, or a pace is not above it; only `pace`
            itself may be None, which sends a reply at once.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not field.name.endswith("pace"):
                check_number(field.name, value, least=0)
            elif value is not None or field.name != "pace":
                check_number(field.name, value, least=0, above=True)


_Times = TypeVar("_Times", bound=ServerTimes)


def chosen(given: _Times | TimesName, recorded: _Times, instant: _Times) -> _Times:
    """The times by name, or the given ones.

    Raises:
        SettingError: neither; the message names what is allowed.
    """
    if isinstance(given, type(recorded)):
        return given
    if not isinstance(given, str):
        wanted, got = type(recorded).__name__, type(given).__name__
        raise SettingError(f"times must be a name or {wanted}, not {got}")
    check_choice("times", given, ["recorded", "instant"])
    return recorded if given == "recorded" else instant


async def pause(seconds: float) -> None:
    """Wait; where there is nothing to wait for, not even for one turn of the loop."""
    if seconds > 0:
        await asyncio.sleep(seconds)
