"""What a Gemini session knows. State lives here, not in connections: that is what resumption is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from livekit.plugins.resilient.testing.faults import PoisonHandle
from livekit.plugins.resilient.testing.script import Reply

from .usage import AUDIO_TOKENS_PER_S

if TYPE_CHECKING:
    from .connection import GeminiConnection

HANDLE_VALID_S = 7200.0
"""A handle can be used for 2 h after the session's last connection ended (ai.google.dev)."""

_CHARACTERS_PER_TOKEN = 4
_TRIGGER_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that the model knows.

    Attributes:
        role: who said it; "tool" for a tool's result.
        kind: how it came into the context.
        text: the words; for a call its arguments, for a result its payload, as text.
        connection: the connection it came over; entries keep it through a resumption.
        call_id: the call it belongs to, if any.
        name: the tool's name, if any.
        payload: arguments or result as sent.
        audio_s: seconds of audio, for speech.
    """

    role: Literal["user", "model", "system", "tool"]
    kind: Literal["text", "speech", "instructions", "tool_call", "tool_response"]
    text: str
    connection: int
    call_id: str = ""
    name: str = ""
    payload: Mapping[str, Any] | None = None
    audio_s: float = 0.0

    @property
    def tokens(self) -> int:
        """A plausible count for usage reports."""
        return len(self.text) // _CHARACTERS_PER_TOKEN + round(self.audio_s * AUDIO_TOKENS_PER_S)


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call that waits for its result."""

    call_id: str
    name: str
    args: Mapping[str, Any]
    blocking: bool
    called_at: float


@dataclass
class Lineage:
    """What a session and its resumptions share: age, open sockets, what the last drop cut."""

    started_at: float
    connections: list[GeminiConnection] = field(default_factory=list)
    ended_at: float | None = None
    cut: tuple[Reply, float] | None = None
    last_call: dict[str, Any] | None = None

    def open_connections(self) -> list[GeminiConnection]:
        """The connections whose socket is still open."""
        return [connection for connection in self.connections if connection.is_open]


@dataclass
class Snapshot:
    """What a handle stands for: the session's state when the handle was issued."""

    handle: str
    connection: int
    history: tuple[HistoryEntry, ...]
    open_calls: dict[str, OpenCall]
    lineage: Lineage
    poison: PoisonHandle | None = None


class Session:
    """One context: fresh, or restored from a snapshot.

    Attributes:
        number: counted from 1 over the server's life.
        connection: the connection that it was set up on.
        setup: the client's set-up message.
        history: all that the model knows, oldest first, restored entries included.
        open_calls: calls without a result, by id.
        resumed_from: the snapshot that it was restored from.
        ignored_responses: ids of tool responses that matched no open call.
        forgetful_answers: answers that did not know the prefilled history.
    """

    def __init__(
        self,
        number: int,
        connection: int,
        setup: Mapping[str, Any],
        lineage: Lineage,
        resumed_from: Snapshot | None,
    ) -> None:
        self.number = number
        self.connection = connection
        self.setup = setup
        self.lineage = lineage
        self.resumed_from = resumed_from
        self.history: list[HistoryEntry] = list(resumed_from.history) if resumed_from else []
        self.open_calls: dict[str, OpenCall] = dict(resumed_from.open_calls) if resumed_from else {}
        self.context_tokens = sum(entry.tokens for entry in self.history)
        self.ignored_responses: list[str] = []
        self.forgetful_answers = 0
        self.model_turns = 0
        self.seeded_unseen = False

    def add(self, entry: HistoryEntry) -> None:
        """Let the model know one more thing."""
        self.history.append(entry)
        self.context_tokens += entry.tokens

    def compress(self, window_tokens: int) -> bool:
        """Drop the oldest turns if the client switched that on and the context has grown enough.

        The trigger is 80 % of the window and the target half of the trigger, unless set-up says
        otherwise; the cut is at the start of a user's turn, and instructions stay (Live API
        reference).

        Returns:
            Whether it is switched on.
        """
        config = self.setup.get("contextWindowCompression")
        if config is None:
            return False
        trigger = int(config.get("triggerTokens") or _TRIGGER_SHARE * window_tokens)
        target = int((config.get("slidingWindow") or {}).get("targetTokens") or trigger // 2)
        if self.context_tokens > trigger:
            turns = [entry for entry in self.history if entry.kind != "instructions"]
            kept = self.context_tokens
            while len(turns) > 1 and (kept > target or turns[0].role != "user"):
                kept -= turns.pop(0).tokens
            fixed = [entry for entry in self.history if entry.kind == "instructions"]
            self.history[:] = [*fixed, *turns]
            self.context_tokens = kept
        return True

    def knows(self, text: str) -> int:
        """In how many entries of the context `text` occurs: 1 is right, 0 is lost, 2 is doubled."""
        return sum(text in entry.text for entry in self.history)

    def texts(self, role: str | None = None) -> list[str]:
        """The entries' texts, oldest first."""
        return [entry.text for entry in self.history if role in (None, entry.role)]

    def responses_to(self, call_id: str) -> list[HistoryEntry]:
        """The results that the model has for one call."""
        return [
            entry
            for entry in self.history
            if entry.kind == "tool_response" and entry.call_id == call_id
        ]


class SessionStore:
    """The sessions of a server, and the handles that stand for their states."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.handles: dict[str, Snapshot] = {}
        self._numbers = itertools.count(1)

    def open(
        self,
        connection: GeminiConnection,
        setup: Mapping[str, Any],
        now: float,
        snapshot: Snapshot | None,
    ) -> Session:
        """Set a session up for `connection`, restored from `snapshot` if there is one."""
        lineage = snapshot.lineage if snapshot is not None else Lineage(now)
        lineage.connections.append(connection)
        lineage.ended_at = None
        number = len(self.sessions) + 1
        session = Session(number, connection.number, setup, lineage, snapshot)
        self.sessions.append(session)
        return session

    def close(self, connection: GeminiConnection, session: Session, now: float) -> None:
        """Note that a session's connection ended."""
        lineage = session.lineage
        if connection in lineage.connections:
            lineage.connections.remove(connection)
        if not lineage.connections:
            lineage.ended_at = now

    def issue(self, session: Session, connection: int) -> Snapshot:
        """Issue a handle for the session's present state."""
        handle = str(UUID(int=next(self._numbers), version=4))
        snapshot = Snapshot(
            handle,
            connection,
            tuple(session.history),
            dict(session.open_calls),
            session.lineage,
        )
        self.handles[handle] = snapshot
        return snapshot

    def find(self, handle: str, now: float) -> Snapshot | None:
        """The snapshot of a handle; None if it is unknown or no longer valid."""
        snapshot = self.handles.get(handle)
        if snapshot is None:
            return None
        ended_at = snapshot.lineage.ended_at
        if ended_at is not None and now - ended_at > HANDLE_VALID_S:
            return None
        return snapshot
