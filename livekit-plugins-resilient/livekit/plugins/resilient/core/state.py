"""What a `TurnMachine` remembers of the connection, of the caller's voice and of what is owed.

`CONNECTION_MOVES` and, of the open reply, `PHASE_MOVES` are the tables by which it moves: a fact
without an entry is illegal in that state. An entry that leads back to its own state is a fact that
is taken, or late and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, get_args

from . import facts as f
from .decisions import RedriveCause
from .generation import Generation

__all__ = [
    "CONNECTION_MOVES",
    "Claim",
    "Connection",
    "Edge",
    "Owed",
    "Question",
    "Speech",
    "Voice",
]


class Connection(Enum):
    """The connection: never had one, serving, in the gap, closed by the application."""

    # It is looked up with each fact, and an enumeration's own hash is slow.
    __hash__ = object.__hash__

    NEW = auto()
    UP = auto()
    DOWN = auto()
    CLOSED = auto()


class Voice(Enum):
    """The caller, as the provider's voice detection tells it; PAUSED: stopped, turn not ended."""

    QUIET = auto()
    SPEAKING = auto()
    PAUSED = auto()


_NEEDS_CONNECTION: Final = (
    f.Disconnected,
    f.UserSpeechStarted,
    f.UserSpeechStopped,
    f.GenerationOpened,
    f.PauseExpected,
    f.AudioReceived,
    f.TextReceived,
    f.OutputCompleted,
    f.Interrupted,
    f.GenerationEnded,
    f.TurnPassedOver,
    f.ToolCallOpened,
)
_ALL: Final[tuple[type[f.Fact], ...]] = get_args(f.Fact)


def _stays(state: Connection, *without: type[f.Fact]) -> dict[type[f.Fact], Connection]:
    return {kind: state for kind in _ALL if kind not in without}


CONNECTION_MOVES: Final[Mapping[Connection, Mapping[type[f.Fact], Connection]]] = {
    Connection.NEW: {
        **_stays(Connection.NEW, *_NEEDS_CONNECTION),
        f.Connected: Connection.UP,
        f.Closed: Connection.CLOSED,
    },
    Connection.UP: {
        **_stays(Connection.UP),
        f.Disconnected: Connection.DOWN,
        f.Closed: Connection.CLOSED,
    },
    Connection.DOWN: {
        **_stays(Connection.DOWN),
        f.Connected: Connection.UP,
        f.Closed: Connection.CLOSED,
    },
    Connection.CLOSED: _stays(Connection.CLOSED),
}


@dataclass(slots=True)
class Owed:
    """A reply that the caller waits for.

    `answer` is the generation that may settle it, open or still to be heard. `failed_at` is when
    that one failed it, `by_provider` that the provider had ended it: with nothing in it, or as
    failed, so that it deserves a moment before the next try: `retry_after_s`, where the provider
    said how long. `puts_off` counts how often it did. Where it is not `certain` to be owed,
    silence is no fault. `hedged` says whether another connection was asked for it beside.
    """

    cause: RedriveCause
    since: float
    certain: bool = True
    answer: str | None = None
    request_id: str | None = None
    cut: Generation | None = None
    failed_at: float | None = None
    by_provider: bool = False
    retry_after_s: float | None = None
    puts_off: int = 0
    retried: bool = False
    hedged: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A reconnect whose one re-drive is unspent; `request_ids` were pending across it."""

    at: float
    knows_turn: bool
    request_ids: tuple[str, ...]


@dataclass(slots=True)
class Question:
    """A re-drive of which the outcome is open, or a hedge, of which the link tells it."""

    redrive_id: str
    at: float
    request_ids: tuple[str, ...]
    generation_id: str | None = None
    is_hedge: bool = False

    def asked(self, request_id: str | None) -> bool:
        """Whether a reply for `request_id` is a reply to it."""
        return request_id == self.redrive_id or request_id in self.request_ids


@dataclass(slots=True)
class Speech:
    """The caller's voice: by the provider's detection, and by the last sign of it at all."""

    voice: Voice = Voice.QUIET
    started_at: float = float("-inf")
    paused_at: float = 0.0
    last_at: float | None = None

    @property
    def heard_at(self) -> float:
        """When the caller was last heard to begin, or to speak; -inf for never."""
        return self.started_at if self.last_at is None else max(self.started_at, self.last_at)


@dataclass(frozen=True, slots=True)
class Claim:
    """What another connection would be asked for; `since` is when it became owed.

    `stopped` says that the reply had begun, and `hedged` that another one was asked before.
    """

    cause: RedriveCause
    since: float
    request_ids: tuple[str, ...] = ()
    cut: Generation | None = None
    stopped: bool = False
    hedged: bool = False
