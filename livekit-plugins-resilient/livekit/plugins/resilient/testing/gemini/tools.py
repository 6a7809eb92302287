"""Tool calls of one Gemini connection: which are open, which block, what their results start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing.script import ToolCall, TurnRequest

from .session import HistoryEntry, OpenCall

if TYPE_CHECKING:
    from .connection import GeminiConnection
    from .turns import ModelTurn

UNKNOWN_CALL = "Request contains an invalid argument."


class ToolDesk:
    """Issues calls, takes results, and decides when the model goes on.

    Results of blocking calls are answered once the last of them is there. Results of non-blocking
    calls follow their `scheduling`: WHEN_IDLE (the default) waits for a gap, INTERRUPT cuts the
    running turn but lets a speaking user finish, SILENT only informs the model.
    """

    def __init__(self, connection: GeminiConnection) -> None:
        self.connection = connection
        self.without_id = False
        self._results: dict[str, Any] = {}  # of blocking calls, until the last is answered

    def blocks(self, name: str) -> bool:
        """Whether a call of this tool blocks the model."""
        rules = self.connection.rules
        if not rules.non_blocking:
            return True
        behavior = self.connection.declared_behavior(name)
        return rules.tools_block if behavior is None else behavior == "BLOCKING"

    def call(self, turn: ModelTurn, calls: Sequence[ToolCall]) -> bool:
        """Send the calls in one message. Returns whether the turn must wait for a result."""
        connection, session = self.connection, self.connection.require_session()
        written = []
        for call in calls:
            call_id = call.call_id or connection.server.next_call_id()
            blocking = self.blocks(call.name)
            opened = OpenCall(call_id, call.name, call.args, blocking, connection.loop.time())
            session.open_calls[call_id] = opened
            session.add(
                HistoryEntry(
                    "model",
                    "tool_call",
                    json.dumps(dict(call.args)),
                    connection.number,
                    call_id=call_id,
                    name=call.name,
                    payload=call.args,
                )
            )
            body: dict[str, Any] = {"id": call_id, "name": call.name, "args": dict(call.args)}
            if self.without_id:
                del body["id"]
            written.append(body)
        message = {"toolCall": {"functionCalls": written}}
        session.lineage.last_call = message
        connection.emit("toolCall", message)
        return any(call.blocking for call in session.open_calls.values())

    def repeat(self) -> None:
        """Send the latest call once more, and let this session wait for its result."""
        connection, session = self.connection, self.connection.require_session()
        message = session.lineage.last_call
        if message is None:
            return
        for body in message["toolCall"]["functionCalls"]:
            call_id = body.get("id", "")
            opened = OpenCall(
                call_id,
                body["name"],
                body["args"],
                self.blocks(body["name"]),
                connection.loop.time(),
            )
            session.open_calls.setdefault(call_id, opened)
        connection.emit("toolCall", message)

    def cancel(self, *, blocking_only: bool) -> None:
        """Cancel open calls and tell the client."""
        connection, session = self.connection, self.connection.session
        if session is None:
            return
        ids = [
            call_id
            for call_id, call in session.open_calls.items()
            if call.blocking or not blocking_only
        ]
        if not ids:
            return
        for call_id in ids:
            del session.open_calls[call_id]
        self._results.clear()
        connection.emit("toolCallCancellation", {"toolCallCancellation": {"ids": ids}})

    def take(self, responses: Sequence[Mapping[str, Any]]) -> None:
        """Act on a `toolResponse` message."""
        connection, session = self.connection, self.connection.require_session()
        prompt: dict[str, Any] = {}
        scheduling = "WHEN_IDLE"
        silent = blocking = False
        for response in responses:
            call = self._match(response)
            if call is None:
                session.ignored_responses.append(str(response.get("id", "")))
                if connection.refuses_unknown_calls:
                    connection.close(1007, UNKNOWN_CALL)
                    return
                continue
            payload = response.get("response")
            if not response.get("willContinue"):
                del session.open_calls[call.call_id]
            session.add(
                HistoryEntry(
                    "tool",
                    "tool_response",
                    json.dumps(payload),
                    connection.number,
                    call_id=call.call_id,
                    name=call.name,
                    payload=payload if isinstance(payload, Mapping) else None,
                )
            )
            if call.blocking:
                blocking = True
                self._results[call.call_id] = payload
            elif self._scheduling(response) == "SILENT":
                silent = True
            else:
                prompt[call.call_id] = payload
                if self._scheduling(response) == "INTERRUPT":
                    scheduling = "INTERRUPT"
        if blocking and not any(call.blocking for call in session.open_calls.values()):
            results, self._results = {**self._results, **prompt}, {}
            connection.end_wait()
            connection.handles.result_taken()
            connection.ask(self._request(results))
        elif prompt:
            connection.ask(self._request(prompt), interrupt=scheduling == "INTERRUPT")
        elif silent:
            connection.handles.offer()

    def _scheduling(self, response: Mapping[str, Any]) -> str:
        if self.connection.server.vertex:
            return "WHEN_IDLE"  # Vertex ignores the field
        return str(response.get("scheduling") or "WHEN_IDLE").upper()

    def _match(self, response: Mapping[str, Any]) -> OpenCall | None:
        open_calls = self.connection.require_session().open_calls
        call_id = response.get("id")
        if call_id:
            return open_calls.get(call_id)
        if not (self.without_id or self.connection.server.vertex):
            return None
        named = [call for call in open_calls.values() if call.name == response.get("name")]
        return named[0] if named else None

    def _request(self, results: Mapping[str, Any]) -> TurnRequest:
        connection = self.connection
        return TurnRequest(
            "tool_result",
            "",
            connection.number,
            tool_results=dict(results),
            knows=tuple(connection.require_session().texts()),
        )
