"""Remembers tool calls: each runs once, and is answered where it is known (R9, R10). No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from google.genai import types
from livekit.agents import utils

from ..core.limits import REMEMBERED_CALLS

__all__ = ["ToolCalls"]


@dataclass
class _Call:
    name: str | None
    arguments: str
    # Number of the connection it came from first, and of the one whose session waits for it.
    came_on: int
    known_on: int
    has_id: bool = True
    response: types.FunctionResponse | None = None
    # Number of the connection that the response was given to.
    answered_on: int = 0
    cancelled: bool = False
    runs_again: bool = False

    def is_for(self, call: types.FunctionCall, arguments: str) -> bool:
        return (self.name, self.arguments) == (call.name, arguments)


class ToolCalls:
    """The calls of one session over all its connections.

    The newest `core.limits.REMEMBERED_CALLS` are remembered. A call without an id is given one of
    ours, and is new unless an earlier connection left one like it unanswered.
    """

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self.without_id: set[str] = set()
        """The ids that are ours: the server must not be sent them."""

    def strip(self, message: types.LiveServerMessage, connection: int) -> list[str]:
        """Take repeated calls out of a message.

        Args:
            message: As it arrived; the calls that are to run stay in it, each with an id.
            connection: Number of the connection it arrived on.

        Returns:
            The ids of repeated calls whose answers this connection was not given yet.
        """
        calls = (message.tool_call.function_calls if message.tool_call else None) or []
        new: list[types.FunctionCall] = []
        lost: list[str] = []
        for call in calls:
            arguments = json.dumps(call.args, sort_keys=True)
            known_id = self._known(call, arguments, connection)
            known = None if known_id is None else self._calls[known_id]
            if known_id is None or known is None or known.cancelled or known.runs_again:
                new.append(call)
                self._remember(call, arguments, connection)
                continue
            known.known_on = connection
            if known.response is not None and known.answered_on != connection:
                lost.append(known_id)
        if len(new) < len(calls):
            message.tool_call = types.LiveServerToolCall(function_calls=new) if new else None
        return lost

    def seen(self, call: types.FunctionCall, connection: int) -> str:
        """The id of a call that is to run, which is remembered where `strip` did not see it."""
        if not call.id or call.id not in self._calls:
            self._remember(call, json.dumps(call.args, sort_keys=True), connection)
        assert call.id is not None  # given one where it had none
        return call.id

    def restored(self, call_id: str, name: str, arguments: str, connection: int) -> None:
        """A session that was resumed from a handle of another process waits for a call.

        Should the server make it again, it runs: nobody knows whether it did before.
        """
        self._add(call_id, _Call(name, arguments, connection, connection, runs_again=True))

    def cancel(self, call_id: str) -> None:
        """The server does not want an answer to this call any more."""
        if call_id in self._calls:
            self._calls[call_id].cancelled = True

    def is_cancelled(self, call_id: str) -> bool:
        """Whether the result of a call is to be thrown away."""
        return call_id in self._calls and self._calls[call_id].cancelled

    def is_known(self, call_id: str, connection: int) -> bool:
        """Whether the session on a connection waits for this call, so that it can be answered."""
        return call_id in self._calls and self._calls[call_id].known_on == connection

    def came_on(self, call_id: str) -> int | None:
        """Number of the connection that a call came from; None for an unknown call."""
        return self._calls[call_id].came_on if call_id in self._calls else None

    def arguments(self, call_id: str) -> str | None:
        """A call's arguments in JSON; None for an unknown call."""
        return self._calls[call_id].arguments if call_id in self._calls else None

    def response_to(self, call_id: str) -> types.FunctionResponse | None:
        """The result that was passed on, or None."""
        return self._calls[call_id].response if call_id in self._calls else None

    def answered(self, call_id: str, response: types.FunctionResponse, connection: int) -> None:
        """Note the result that a connection is given."""
        known = self._calls.get(call_id)
        if known is not None:
            known.response, known.answered_on = response, connection

    def open_on(self, connection: int) -> list[str]:
        """The ids of the calls for which the session on a connection waits, for sure."""
        return [
            call_id
            for call_id, call in self._calls.items()
            # One that was answered may be open or not: it is never answered twice.
            if call.known_on == connection and call.response is None
        ]

    def resumed(self, connection: int, open_calls: Iterable[str]) -> None:
        """A connection was restored from a handle which holds these calls open."""
        for call_id in open_calls:
            if call_id in self._calls:
                self._calls[call_id].known_on = connection

    def _known(self, call: types.FunctionCall, arguments: str, connection: int) -> str | None:
        """The id of the call that this one repeats. Some servers number the calls of each session
        from one, so the server's id alone is not enough."""
        if call.id:
            known = self._calls.get(call.id)
            return call.id if known is not None and known.is_for(call, arguments) else None
        for call_id, known in self._calls.items():
            left_open = not known.has_id and known.response is None
            if left_open and known.known_on != connection and known.is_for(call, arguments):
                return call_id
        return None

    def _remember(self, call: types.FunctionCall, arguments: str, connection: int) -> None:
        has_id = bool(call.id)
        if not call.id:
            call.id = utils.shortuuid("fnc-call-")
            self.without_id.add(call.id)
        self._add(call.id, _Call(call.name, arguments, connection, connection, has_id))

    def _add(self, call_id: str, call: _Call) -> None:
        self._calls.pop(call_id, None)
        self._calls[call_id] = call
        if len(self._calls) > REMEMBERED_CALLS:
            oldest = next(iter(self._calls))
            del self._calls[oldest]
            self.without_id.discard(oldest)
