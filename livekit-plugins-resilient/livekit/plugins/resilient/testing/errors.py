"""Errors of the test bed. Each names what was wrong and what would have been right."""

from __future__ import annotations

import math
from collections.abc import Iterable


class TestBedError(Exception):
    """Root of every error that the test bed raises for bad input or a missing part."""

    __test__ = False  # pytest would otherwise try to collect the class


class FaultPlanError(TestBedError, ValueError):
    """A fault names a trigger, an event, an action or a field that does not exist."""


class ScriptError(TestBedError, ValueError):
    """A scripted reply or tool call cannot be performed as written."""


class SettingError(TestBedError, ValueError):
    """An argument of a server is not what it can be."""


class AudioFileError(TestBedError, ValueError):
    """A recording cannot be read as 16-bit PCM."""


class PortInUseError(TestBedError, OSError):
    """The requested port is taken by another process."""


class MissingDependencyError(TestBedError, ImportError):
    """An optional library of the test bed is not installed."""


class ServerTimeoutError(TestBedError, TimeoutError):
    """What a test waited for did not happen in time."""


class CallEndedError(TestBedError, RuntimeError):
    """What a test waited for can no longer happen, because the call is over.

    The message names the reason; `__cause__` is the error that ended the call, if one did.
    """


def missing_dependency(library: str, purpose: str) -> MissingDependencyError:
    """Build the error for a `library` that `purpose` needs and that is not installed."""
    return MissingDependencyError(
        f"{purpose} needs the library {library!r}; "
        "install it with: pip install livekit-plugins-resilient[testing]"
    )


def unknown(what: str, name: object, known: Iterable[str]) -> FaultPlanError:
    """Build the error for an unknown `name`, listing the `known` ones."""
    return FaultPlanError(f"unknown {what} {name!r}; known: {', '.join(sorted(known))}")


def check_number(
    name: str,
    value: object,
    *,
    least: float = -math.inf,
    above: bool = False,
    error: type[TestBedError] = SettingError,
) -> None:
    """Check that `value` is a finite number of at least `least`, or more than it with `above`.

    Raises:
        TestBedError: it is not; of type `error`. The message names it and what is allowed.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        in_range = value >= least and not (above and value == least)
        if in_range and math.isfinite(value):
            return
    bound = "" if least == -math.inf else f" above {least:g}" if above else f" from {least:g}"
    raise error(f"{name} must be a finite number{bound}, not {value!r}")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Check that `value` is one of the `allowed` strings.

    Raises:
        SettingError: it is not; the message lists them.
    """
    allowed = tuple(allowed)
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise SettingError(f"{name} must be one of {choices}, not {value!r}")
