"""`clientContent`: prefill, context updates and requests, by the rules of the model family."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .codec import text_of
from .session import HistoryEntry

if TYPE_CHECKING:
    from .connection import GeminiConnection


def take_content(connection: GeminiConnection, content: Mapping[str, Any]) -> None:
    """Take turns into the context and, if the message completes a turn, answer."""
    turns = content.get("turns") or []
    complete = bool(content.get("turnComplete"))
    session, rules = connection.require_session(), connection.rules
    prefill = session.model_turns == 0 and session.resumed_from is None
    initial = connection.takes_initial_history

    if not _roles_are_taken(connection, turns) or not _parts_are_taken(connection, turns):
        connection.refuse()
        return
    if not prefill and not rules.mid_session_content:
        connection.refuse()
        return
    has_model_turn = any(turn.get("role") == "model" for turn in turns)
    if prefill and has_model_turn and rules.seed_model_turns_need_flag and not initial:
        connection.refuse()
        return

    for turn in turns:
        for entry in _entries(connection, turn):
            connection.learn(entry)
    if connection.closing:
        return
    if initial:
        # Announced history: it is never answered and ends with the first completed message.
        connection.takes_initial_history = not complete
        return
    if prefill and turns:
        session.seeded_unseen = (
            connection.server.strict and rules.seed_needs_turn_complete and not complete
        )
    turn_now = connection.turn
    if complete:
        connection.interrupt()
        text = "\n".join(filter(None, (text_of(turn) for turn in turns)))
        connection.ask(connection.request("request", text))
    elif turn_now is not None and not turn_now.waiting and rules.content_interrupts == "always":
        connection.interrupt()


def _roles_are_taken(connection: GeminiConnection, turns: list[Mapping[str, Any]]) -> bool:
    if not connection.server.strict:
        return True
    roles = connection.rules.roles
    if connection.server.vertex:
        roles = roles | {"system"}  # Vertex replaces the instructions with such a turn
    return all(turn.get("role") in roles for turn in turns)


def _parts_are_taken(connection: GeminiConnection, turns: list[Mapping[str, Any]]) -> bool:
    if not connection.server.strict or connection.rules.content_takes_calls:
        return True
    parts = [part for turn in turns for part in turn.get("parts") or []]
    return not any("functionCall" in part or "functionResponse" in part for part in parts)


def _entries(connection: GeminiConnection, turn: Mapping[str, Any]) -> Iterator[HistoryEntry]:
    role = turn.get("role") or "user"
    number = connection.number
    if role == "system":
        yield HistoryEntry("system", "instructions", text_of(turn), number)
        return
    speaker: Any = role if role in ("user", "model") else "user"
    for part in turn.get("parts") or []:
        if part.get("text"):
            yield HistoryEntry(speaker, "text", part["text"], number)
        if call := part.get("functionCall"):
            yield HistoryEntry(
                "model",
                "tool_call",
                json.dumps(call.get("args")),
                number,
                call_id=call.get("id") or "",
                name=call.get("name") or "",
                payload=call.get("args"),
            )
        if response := part.get("functionResponse"):
            yield HistoryEntry(
                "tool",
                "tool_response",
                json.dumps(response.get("response")),
                number,
                call_id=response.get("id") or "",
                name=response.get("name") or "",
                payload=response.get("response"),
            )
