"""Connections that our model asks beside a slow one (R24): told apart, and as slow as that.

What is healthy and slow is slow because of what was asked, so that another connection which is
asked for it later gives nothing sooner.
"""

from __future__ import annotations

from collections import Counter

from livekit.plugins.resilient.events import HedgeDecided, HedgeOutcome, ResilienceEvent
from livekit.plugins.resilient.testing import OpenAIRealtimeServer, Reply, TurnRequest
from livekit.plugins.resilient.testing.openai.dialects import Dialect
from livekit.plugins.resilient.testing.script import Script, Turn
from livekit.plugins.resilient.testing.server import SimulatedServer

__all__ = ["Beside", "as_slow_beside"]

LATER = Reply("Nobody is to hear this.", first_token_s=60.0)
"""Longer than anything healthy takes."""


class Beside:
    """The connections of one run that were asked beside the one that serves.

    Attributes:
        connections: their numbers.
    """

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        self.connections: set[int] = set()

    def takes(self, event: ResilienceEvent) -> bool:
        """Whether an event tells of such a connection, and nothing else came of it."""
        if isinstance(event, HedgeDecided):
            self.connections.add(len(self._server.recording.handshakes) + 1)
            return True
        return isinstance(event, HedgeOutcome) and event.result != "served"


class _AsSlow(Script):
    """A script in which such connections get `LATER`, and do not count."""

    def __init__(self, script: Script, beside: Beside) -> None:
        super().__init__(script.replies, script.default_reply)
        self.replies = script.replies
        self.default_user_text = script.default_user_text
        self._beside = beside

    def next_turn(self, request: TurnRequest) -> Turn:
        return LATER if self._is_beside(request.connection) else super().next_turn(request)

    def next_seed(self, connection: int) -> int:
        return 0 if self._is_beside(connection) else super().next_seed(connection)

    def _is_beside(self, connection: int) -> bool:
        return connection in self._beside.connections


def _own_ids(server: OpenAIRealtimeServer, beside: Beside) -> None:
    """Have such connections number what is theirs apart."""
    new_id, theirs = server.new_id, Counter[str]()

    def id_for(prefix: str, dialect: Dialect, connection: int) -> str:
        if connection not in beside.connections:
            return new_id(prefix, dialect, connection)
        theirs[prefix] += 1
        return f"{prefix}_beside{theirs[prefix]}"

    server.new_id = id_for  # type: ignore[method-assign]


def as_slow_beside(server: SimulatedServer) -> Beside:
    """Follow the connections that are asked beside on a server on which no call has begun."""
    beside = Beside(server)
    server.script = _AsSlow(server.script, beside)
    if isinstance(server, OpenAIRealtimeServer):
        _own_ids(server, beside)
    return beside
