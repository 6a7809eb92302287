"""Remembers tool calls: each runs once, and none that was cancelled is answered (R10). No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass

from google.genai import types

from ..core.limits import REMEMBERED_CALLS

__all__ = ["ToolCalls"]


@dataclass
class _Call:
    name: str | None
    arguments: str
    response: types.FunctionResponse | None = None
    # Number of the connection that the response was given to.
    answered_on: int = 0
    cancelled: bool = False


class ToolCalls:
    """The calls of one session over all its connections.

    A call without an id is always new: nothing tells it from another. The newest
    `core.limits.REMEMBERED_CALLS` are remembered.
    """

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    def strip(
        self, message: types.LiveServerMessage, connection: int
    ) -> list[types.FunctionResponse]:
        """Take repeated calls out of a message.

        Args:
            message: As it arrived; the calls that are to run stay in it.
            connection: Number of the connection it arrived on.

        Returns:
            The answers of repeated calls that this connection was not given yet.
        """
        calls = (message.tool_call.function_calls if message.tool_call else None) or []
        new: list[types.FunctionCall] = []
        lost: list[types.FunctionResponse] = []
        for call in calls:
            known = self._calls.get(call.id) if call.id else None
            arguments = json.dumps(call.args, sort_keys=True)
            # Some servers number the calls of each session from one.
            repeated = known is not None and (known.name, known.arguments) == (call.name, arguments)
            if known is None or not repeated or known.cancelled:
                new.append(call)
                self._remember(call, arguments)
            elif known.response is not None and known.answered_on != connection:
                lost.append(known.response)
        if len(new) < len(calls):
            message.tool_call = types.LiveServerToolCall(function_calls=new) if new else None
        return lost

    def cancel(self, call_id: str) -> None:
        """The server does not want an answer to this call any more."""
        if call_id in self._calls:
            self._calls[call_id].cancelled = True

    def wanted(self, responses: list[types.FunctionResponse]) -> list[types.FunctionResponse]:
        """Those of `responses` whose call was not cancelled."""
        return [response for response in responses if not self._is_cancelled(response.id)]

    def answered(self, responses: list[types.FunctionResponse], connection: int) -> None:
        """Note what a connection is given."""
        for response in responses:
            known = self._calls.get(response.id or "")
            if known is not None:
                known.response, known.answered_on = response, connection

    def _is_cancelled(self, call_id: str | None) -> bool:
        known = self._calls.get(call_id or "")
        return known is not None and known.cancelled

    def _remember(self, call: types.FunctionCall, arguments: str) -> None:
        if not call.id:
            return
        self._calls.pop(call.id, None)
        self._calls[call.id] = _Call(call.name, arguments)
        if len(self._calls) > REMEMBERED_CALLS:
            del self._calls[next(iter(self._calls))]
