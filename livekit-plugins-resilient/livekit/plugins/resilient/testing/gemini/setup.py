"""Set-up: open or resume a session, refuse bad handles, start the clocks of the connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .codec import text_of
from .session import HistoryEntry, Snapshot

if TYPE_CHECKING:
    from .connection import GeminiConnection

SESSION_NOT_FOUND = "BidiGenerateContent session not found"
INVALID_HANDLE = "Invalid session handle"
INTERNAL_ERROR = "Internal error encountered."
DEADLINE = "Deadline expired before operation could complete."
CANCELLED = "The operation was cancelled."


async def answer_setup(connection: GeminiConnection, setup: Mapping[str, Any]) -> None:
    """Answer the set-up message, or close as a real server would."""
    server = connection.server
    if not await connection.still_there(server.times.set_up_s):
        return
    if server.strict and not _is_taken(connection, setup):
        connection.refuse()
        return
    handle = (setup.get("sessionResumption") or {}).get("handle")
    snapshot: Snapshot | None = None
    if handle:
        snapshot = server.store.find(handle, server.clock.now())
        if snapshot is None or connection.stale is not None:
            _refuse_handle(connection)
            return
        if server.refuse_overlap and snapshot.lineage.open_connections():
            connection.close(1011, INTERNAL_ERROR)
            return
        if connection.poison is not None:
            snapshot.poison = connection.poison
    _open(connection, setup, snapshot)


def _is_taken(connection: GeminiConnection, setup: Mapping[str, Any]) -> bool:
    resumption = setup.get("sessionResumption")
    if resumption is not None and "handle" in resumption and not resumption["handle"]:
        return False  # a null handle: strands-agents/harness-sdk#1999
    if (resumption or {}).get("transparent") and not connection.server.vertex:
        return False  # only Vertex has it: google/adk-python#5771
    thinking = (setup.get("generationConfig") or {}).get("thinkingConfig") or {}
    if "thinkingLevel" in thinking and not connection.rules.thinking_level:
        return False
    return bool(setup.get("model"))


def _refuse_handle(connection: GeminiConnection) -> None:
    stale = connection.stale
    when = connection.server.stale_handle if stale is None else stale.when
    if when == "before_setup":
        connection.close(1008, SESSION_NOT_FOUND)
        return
    connection.emit("setupComplete", {"setupComplete": {}})
    connection.close(1007, INVALID_HANDLE)


def _open(
    connection: GeminiConnection, setup: Mapping[str, Any], snapshot: Snapshot | None
) -> None:
    server = connection.server
    now = server.clock.now()
    session = server.store.open(connection, setup, now, snapshot)
    connection.session = session
    detection = setup.get("realtimeInputConfig") or {}
    connection.hearing.manual = bool(
        (detection.get("automaticActivityDetection") or {}).get("disabled")
    )
    connection.hearing.interruptible = detection.get("activityHandling") != "NO_INTERRUPTION"
    connection.transcribes = "outputAudioTranscription" in setup
    connection.takes_initial_history = bool(
        (setup.get("historyConfig") or {}).get("initialHistoryInClientContent")
    )
    instructions = text_of(setup.get("systemInstruction"))
    if instructions and snapshot is None:
        session.add(HistoryEntry("system", "instructions", instructions, connection.number))
    named = {"sessionId": str(UUID(int=session.number))} if server.dialect.session_id else {}
    connection.emit("setupComplete", {"setupComplete": named})
    connection.handles.set_up()
    _start_clocks(connection)
    if snapshot is None:
        return
    if snapshot.poison is not None:
        poison = snapshot.poison
        connection.after(poison.after_s, lambda: connection.close(poison.code, poison.reason))
    if server.repeats_call_on_next:
        server.repeats_call_on_next = False
        connection.tools.repeat()
    if connection.continue_alone_s is not None and snapshot.lineage.cut is not None:
        connection.after(connection.continue_alone_s, lambda: _continue(connection))


def _continue(connection: GeminiConnection) -> None:
    lineage = connection.require_session().lineage
    cut, lineage.cut = lineage.cut, None
    if cut is None or connection.turn is not None:
        return
    reply, heard_s = cut
    connection.server.replies.appendleft(reply.rest_after(heard_s))
    connection.ask(connection.request("continuation", ""))


def _start_clocks(connection: GeminiConnection) -> None:
    server, session = connection.server, connection.require_session()
    code, reason = (1000, CANCELLED) if server.vertex else (1011, DEADLINE)
    limit_s = server.connection_limit_s
    if limit_s is not None:
        notice_s = min(server.go_away_notice_s, limit_s)
        connection.on_clock(limit_s - notice_s, lambda: connection.go_away(notice_s))
        connection.on_clock(limit_s, lambda: connection.close(code, reason))
    if server.session_limit_s is not None and "contextWindowCompression" not in session.setup:
        left_s = server.session_limit_s - (server.clock.now() - session.lineage.started_at)
        connection.on_clock(left_s, connection.refuse)
