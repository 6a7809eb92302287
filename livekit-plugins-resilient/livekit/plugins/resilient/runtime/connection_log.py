"""When a session's connections came and went, as events. No I/O and no clock of its own."""

from __future__ import annotations

from ..core.limits import CERTIFICATE_DIALS
from ..endpoint import is_untrusted, is_unusable
from ..events import Disconnected, Reconnected, ReconnectMode

__all__ = ["ConnectionLog"]


class ConnectionLog:
    """Follows one session over its connections.

    Call `dialling` for each attempt, `failed` where it fails, `connected` once the new connection
    holds the session's context, and `ended` when a connection is gone, asked for or not. Times are
    monotonic, in seconds.
    """

    def __init__(self) -> None:
        self._attempts = 0
        self._ended_at: float | None = None
        self._was_connected = False
        self._untrusted_dials = 0

    @property
    def was_connected(self) -> bool:
        """Whether the session ever had a connection that held its context."""
        return self._was_connected

    @property
    def ended_at(self) -> float | None:
        """When the connection was lost, while none serves."""
        return self._ended_at

    def dialling(self) -> None:
        """Note an attempt to connect."""
        self._attempts += 1

    def failed(self, error: BaseException) -> bool:
        """Note that an attempt failed; returns whether another cannot end otherwise.

        What worked before is set up rightly, so that is judged before the first connection only;
        a certificate then as well, because one host of many may show another than the rest.
        """
        self._untrusted_dials = self._untrusted_dials + 1 if is_untrusted(error) else 0
        if self._was_connected:
            return self._untrusted_dials >= CERTIFICATE_DIALS
        return self._untrusted_dials > 0 or is_unusable(error)

    def connected(self, now: float, mode: ReconnectMode) -> Reconnected | None:
        """Note that a connection serves the session; returns the event of a reconnect."""
        attempts, self._attempts = self._attempts, 0
        ended_at, self._ended_at = self._ended_at, None
        self._was_connected = True
        self._untrusted_dials = 0
        if ended_at is None:
            return None
        return Reconnected(at=now, mode=mode, gap_s=now - ended_at, attempts=attempts)

    def ended(
        self, now: float, *, cause: BaseException | None, code: int | None = None
    ) -> Disconnected | None:
        """Note that the connection is gone; returns the event unless we asked for its end.

        Args:
            now: Monotonic time.
            cause: The error that ended it; None when we closed it ourselves.
            code: WebSocket close code, where one was received.
        """
        if self._ended_at is not None:
            return None
        self._ended_at = now
        if cause is None:
            return None
        return Disconnected(at=now, cause=type(cause).__name__, code=code)
