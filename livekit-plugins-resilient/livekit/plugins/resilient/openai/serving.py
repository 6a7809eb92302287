"""Which connection serves a session just now, and what is known of it. No I/O, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.connection_log import ConnectionLog

if TYPE_CHECKING:
    from .websocket import SwappableSocket

__all__ = ["Serving"]


class Serving:
    """Written where connections begin and end, read by whoever must know whether there is one."""

    def __init__(self) -> None:
        self.log = ConnectionLog()
        """When connections came and went."""
        self.connection: SwappableSocket | None = None
        """The one that serves; None between two of them."""
        self.expired = False
        """The provider said that the session on it is as old as it may be."""

    @property
    def in_gap(self) -> bool:
        """Whether none serves although one did."""
        return self.connection is None and self.log.was_connected
