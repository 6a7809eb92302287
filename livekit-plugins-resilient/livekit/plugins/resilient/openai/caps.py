"""How old each provider lets a session grow, and when we renew it before that (R16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core import limits
from ..core.handover import RenewalLimits

__all__ = ["Host", "renewal_limits"]


@dataclass(frozen=True, slots=True)
class Host:
    """Who serves a session.

    Attributes:
        model: As the application named it.
        azure: Azure OpenAI, directly or by name behind LiveKit Inference.
        inference: LiveKit Inference, whose models have their provider's name before a slash.
        xai: xAI, directly.
    """

    model: str
    azure: bool = False
    inference: bool = False
    xai: bool = False


@dataclass(frozen=True)
class _Row:
    applies: Callable[[Host], bool]
    after_s: float
    wait_s: float


# Read from the top; the last one applies to all.
_TABLE = (
    _Row(lambda host: host.azure, limits.AZURE_RENEW_AFTER_S, limits.AZURE_RENEWAL_WAIT_S),
    _Row(lambda host: host.xai, limits.XAI_RENEW_AFTER_S, limits.XAI_RENEWAL_WAIT_S),
    _Row(
        lambda host: host.inference and host.model.startswith("google/"),
        limits.GEMINI_RENEW_AFTER_S,
        limits.GEMINI_RENEWAL_WAIT_S,
    ),
    _Row(
        lambda host: not host.inference or host.model.startswith("openai/"),
        limits.OPENAI_RENEW_AFTER_S,
        limits.OPENAI_RENEWAL_WAIT_S,
    ),
    _Row(lambda _: True, limits.OTHER_RENEW_AFTER_S, limits.OTHER_RENEWAL_WAIT_S),
)


def renewal_limits(host: Host) -> RenewalLimits:
    """When a session is renewed where the application did not say."""
    row = next(row for row in _TABLE if row.applies(host))
    return RenewalLimits(after_s=row.after_s, wait_s=row.wait_s)
