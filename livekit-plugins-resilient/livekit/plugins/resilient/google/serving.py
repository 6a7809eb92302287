"""Which connection serves a session just now, and what is known of it. No I/O, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.connection_log import ConnectionLog

if TYPE_CHECKING:
    from ..events import ReconnectMode

__all__ = ["Serving"]


class Serving:
    """Written where connections begin and end, read by whoever must know whether there is one."""

    def __init__(self) -> None:
        self.log = ConnectionLog()
        """When connections came and went."""
        self.connected = False
        """Whether one serves."""
        self.number = 0
        """Of the one that serves, or served last, or is told the call; from 1."""
        self.mode: ReconnectMode = "fresh"
        """How it came by the conversation."""
        self.turn_finished = False
        """Whether the model has finished a turn on it."""

    @property
    def in_gap(self) -> bool:
        """Whether none serves although one did."""
        return not self.connected and self.log.was_connected

    def restoring(self, mode: ReconnectMode) -> None:
        """The next connection is about to be told the conversation."""
        self.number += 1
        self.mode = mode
