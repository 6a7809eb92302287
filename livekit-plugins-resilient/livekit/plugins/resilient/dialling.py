"""How a session dials: by the application's `conn_options` where it gave any, else by ours (R2)."""

from __future__ import annotations

from dataclasses import dataclass

from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions

from .core.reconnect import RedialLimits
from .options import ResilienceOptions

__all__ = ["Dialling"]


@dataclass(frozen=True)
class Dialling:
    """The bounds of one session's dials.

    Attributes:
        connect_timeout_s: For one dial, up to the provider's first answer.
        limits: For the redials of one outage.
    """

    connect_timeout_s: float
    limits: RedialLimits

    @classmethod
    def of(cls, options: ResilienceOptions, given: APIConnectOptions) -> Dialling:
        """From the model's options; in `given`, a time of 0 leaves ours in force."""
        own = given is not DEFAULT_API_CONNECT_OPTIONS
        base_s = (own and given.retry_interval) or options.redial_base_s
        limits = RedialLimits(
            deadline_s=options.reconnect_deadline_s,
            base_s=base_s,
            cap_s=max(base_s, options.redial_cap_s),
            healthy_after_s=options.healthy_after_s,
            max_redials=given.max_retry if own else None,
        )
        return cls((own and given.timeout) or options.connect_timeout_s, limits)
