"""What a session tells the application about its connection, as typed facts.

Receive them with ``session.on("resilience", callback)`` on a realtime session, or with
`ResilienceOptions.on_event` where the application does not hold the session. Every event is a
frozen dataclass; `at` is the running loop's monotonic time in seconds. No event carries a
transcript, a handle or a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Disconnected", "ReconnectMode", "Reconnected", "ResilienceEvent"]

ReconnectMode: TypeAlias = Literal["resumed", "replayed", "fresh"]
"""How the new connection got its context: from a handle, from our record, or not at all."""


@dataclass(frozen=True)
class Disconnected:
    """The connection ended without our asking for it.

    Attributes:
        at: Monotonic time of the drop, in seconds.
        cause: Class name of the error that ended it, or "eof" where there was none.
        code: WebSocket close code, where the peer sent one.
    """

    at: float
    cause: str
    code: int | None = None


@dataclass(frozen=True)
class Reconnected:
    """A new connection serves the session, its context restored.

    Attributes:
        at: Monotonic time at which the new connection could take audio, in seconds.
        mode: Where the context came from.
        gap_s: Seconds between the drop and `at`.
        attempts: Dials it took, counting the one that succeeded.
    """

    at: float
    mode: ReconnectMode
    gap_s: float
    attempts: int


ResilienceEvent: TypeAlias = Disconnected | Reconnected
