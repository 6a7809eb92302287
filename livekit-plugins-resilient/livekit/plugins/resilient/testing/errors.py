"""Errors of the test bed. Each names what was wrong and what would have been right."""

from __future__ import annotations

from collections.abc import Iterable


class TestBedError(Exception):
    """Root of every error that the test bed raises for bad input or a missing part."""

    __test__ = False  # pytest would otherwise try to collect the class


class FaultPlanError(TestBedError, ValueError):
    """A fault names a trigger, an event, an action or a field that does not exist."""


class ScriptError(TestBedError, ValueError):
    """A scripted reply or tool call cannot be performed as written."""


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
