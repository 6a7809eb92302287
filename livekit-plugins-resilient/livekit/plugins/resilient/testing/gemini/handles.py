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
        """The model starts to generate: with some families the state cannot be resumed then."""
        if not self.wanted:
            return
        if self.connection.server.handle_while_busy:
            self._issue()
        elif self.connection.server.dialect.announces_busy:
            self._emit({"resumable": False})

    def set_up(self) -> None:
        """The session was set up: a handle for that state, which arrives a little later."""
        server = self.connection.server
        if not server.handle_at_setup:
            return
        if self.wanted:
            self.offer(server.times.handle_s)
        elif server.dialect.unasked_handle == "after_setup":
            self._issue(server.times.handle_s)

    def result_taken(self) -> None:
        """The last open call was answered, and the model has not spoken yet."""
        if self.connection.server.dialect.unasked_handle == "after_result":
            self._issue()

    def offer(self, delay_s: float = 0.0) -> None:
        """Issue a handle if the client wants one and nothing is going on; it is sent `delay_s`
        later."""
        if not self.wanted:
            return
        connection = self.connection
        busy = connection.turn is not None or bool(connection.require_session().open_calls)
        if not busy or connection.server.handle_while_busy:
            self._issue(delay_s)
        elif connection.server.dialect.announces_busy:
            self._emit({"resumable": False})

    def _issue(self, delay_s: float = 0.0) -> None:
        mode, connection = self.mode, self.connection
        if isinstance(mode, NoHandle):
            return
        if isinstance(mode, EmptyHandle):
            self._emit({"newHandle": "", "resumable": True})
            return
        server = connection.server
        snapshot = server.store.issue(connection.require_session(), connection.number)
        update = {"newHandle": snapshot.handle, "resumable": True}
        if isinstance(mode, LateHandle):
            delay_s += mode.delay_s
        connection.later(delay_s, lambda: self._emit(update))

    def _emit(self, update: Mapping[str, Any]) -> None:
        self.connection.emit("sessionResumptionUpdate", {"sessionResumptionUpdate": dict(update)})
