"""When a Gemini connection issues resumption handles, and how faults spoil them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing.faults import EmptyHandle, LateHandle, NoHandle

if TYPE_CHECKING:
    from .connection import GeminiConnection


class HandleDesk:
    """Issues a handle whenever the state can be resumed, and says so when it cannot."""

    def __init__(self, connection: GeminiConnection) -> None:
        self.connection = connection
        self.mode: LateHandle | EmptyHandle | NoHandle | None = None

    @property
    def wanted(self) -> bool:
        """Whether the client asked for session resumption."""
        session = self.connection.session
        return session is not None and "sessionResumption" in session.setup

    def turn_begins(self) -> None:
        """The model starts to generate: the state cannot be resumed until it is done."""
        if self.wanted and self.connection.server.handle_while_busy:
            self._issue()
        elif self.wanted:
            self._emit({"resumable": False})

    def offer(self) -> None:
        """Issue a handle if the client wants one and nothing is going on."""
        if not self.wanted:
            return
        connection = self.connection
        busy = connection.turn is not None or bool(connection.require_session().open_calls)
        if busy and not connection.server.handle_while_busy:
            self._emit({"resumable": False})
        else:
            self._issue()

    def _issue(self) -> None:
        mode, connection = self.mode, self.connection
        if isinstance(mode, NoHandle):
            return
        if isinstance(mode, EmptyHandle):
            self._emit({"newHandle": "", "resumable": True})
            return
        server = connection.server
        snapshot = server.store.issue(
            connection.require_session(), connection.number, server.clock.now()
        )
        update = {"newHandle": snapshot.handle, "resumable": True}
        if isinstance(mode, LateHandle):
            connection.after(mode.delay_s, lambda: self._emit(update))
        else:
            self._emit(update)

    def _emit(self, update: Mapping[str, Any]) -> None:
        self.connection.emit("sessionResumptionUpdate", {"sessionResumptionUpdate": dict(update)})
