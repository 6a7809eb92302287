"""Errors raised by this package. Catch `ResilienceError` to catch them all."""

from __future__ import annotations

__all__ = ["ConnectionSuspectedError", "MissingPluginError", "OptionError", "ResilienceError"]


class ResilienceError(Exception):
    """Root of every error this package raises itself."""


class ConnectionSuspectedError(ResilienceError):
    """A connection looked half-open and was replaced; never raised, the cause of `Disconnected`."""


class MissingPluginError(ResilienceError, ImportError):
    """A provider's plugin is not installed; the message says how to install it.

    Args:
        distribution: What is missing.
        extra: The extra of this package that brings it.
    """

    def __init__(self, distribution: str, *, extra: str) -> None:
        super().__init__(
            f"{distribution} is not installed: pip install livekit-plugins-resilient[{extra}]"
        )


class OptionError(ResilienceError, ValueError):
    """An option has a value that is not allowed; the message names the field and what is.

    Args:
        field: Name of the option.
        value: What was given.
        allowed: What would have been accepted, as the rest of a sentence.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}={value!r} is not allowed: {allowed}")
        self.field = field
