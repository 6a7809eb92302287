"""Takes what waits in a session's queue out of it, to sort it."""

from __future__ import annotations

from typing import TypeVar

from livekit.agents.utils.aio import Chan

__all__ = ["drain"]

_Event = TypeVar("_Event")


def drain(queue: Chan[_Event]) -> list[_Event]:
    """Empty a queue; returns what was in it, oldest first."""
    events: list[_Event] = []
    while not queue.empty():
        events.append(queue.recv_nowait())
    return events
