"""What a `TurnMachine` remembers, and the two tables by which it moves.

`CONNECTION_MOVES` and `PHASE_MOVES` are the whole machine: a fact without an entry is illegal in
that state. An entry that leads back to its own state is a fact that is taken, or late and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias, get_args

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import facts as f
from .decisions import DeathSign, RedriveCause

__all__ = [
    "CONNECTION_MOVES",
    "PHASE_MOVES",
    "Claim",
    "Connection",
    "Edge",
    "Generation",
    "Liveness",
    "Owed",
    "Phase",
    "Progress",
    "Question",
    "Speech",
    "Unended",
    "Voice",
]


class Connection(Enum):
    """The connection: never had one, serving, in the gap, closed by the application."""

    NEW = auto()
    UP = auto()
    DOWN = auto()
    CLOSED = auto()


class Phase(Enum):
    """The open generation, or NONE. The interrupted ones remember whether output was complete,
    because a false interruption takes them back to where they were."""

    NONE = auto()
    SILENT = auto()
    PRODUCING = auto()
    COMPLETE = auto()
    INTERRUPTED = auto()
    INTERRUPTED_COMPLETE = auto()


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

PHASE_MOVES: Final[Mapping[Phase, Mapping[type[f.Fact], Phase]]] = {
    Phase.NONE: {
        f.GenerationOpened: Phase.SILENT,
        f.PauseExpected: Phase.NONE,
        f.AudioReceived: Phase.NONE,
        f.TextReceived: Phase.NONE,
        f.ToolCallOpened: Phase.NONE,
        f.OutputCompleted: Phase.NONE,
        f.Interrupted: Phase.NONE,
        f.PlaybackResumed: Phase.NONE,
        f.GenerationEnded: Phase.NONE,
    },
    Phase.SILENT: {
        f.PauseExpected: Phase.SILENT,
        f.AudioReceived: Phase.PRODUCING,
        f.TextReceived: Phase.PRODUCING,
        f.ToolCallOpened: Phase.PRODUCING,
        f.OutputCompleted: Phase.COMPLETE,
        f.Interrupted: Phase.INTERRUPTED,
        f.PlaybackResumed: Phase.SILENT,
        f.GenerationEnded: Phase.NONE,
    },
    Phase.PRODUCING: {
        f.PauseExpected: Phase.PRODUCING,
        f.AudioReceived: Phase.PRODUCING,
        f.TextReceived: Phase.PRODUCING,
        f.ToolCallOpened: Phase.PRODUCING,
        f.OutputCompleted: Phase.COMPLETE,
        f.Interrupted: Phase.INTERRUPTED,
        f.PlaybackResumed: Phase.PRODUCING,
        f.GenerationEnded: Phase.NONE,
    },
    Phase.COMPLETE: {
        f.PauseExpected: Phase.COMPLETE,
        f.AudioReceived: Phase.PRODUCING,
        f.TextReceived: Phase.COMPLETE,
        f.ToolCallOpened: Phase.COMPLETE,
        f.OutputCompleted: Phase.COMPLETE,
        f.Interrupted: Phase.INTERRUPTED_COMPLETE,
        f.PlaybackResumed: Phase.COMPLETE,
        f.GenerationEnded: Phase.NONE,
    },
    Phase.INTERRUPTED: {
        f.PauseExpected: Phase.INTERRUPTED,
        f.AudioReceived: Phase.INTERRUPTED,
        f.TextReceived: Phase.INTERRUPTED,
        f.ToolCallOpened: Phase.INTERRUPTED,
        f.OutputCompleted: Phase.INTERRUPTED_COMPLETE,
        f.Interrupted: Phase.INTERRUPTED,
        f.PlaybackResumed: Phase.PRODUCING,
        f.GenerationEnded: Phase.NONE,
    },
    Phase.INTERRUPTED_COMPLETE: {
        f.PauseExpected: Phase.INTERRUPTED_COMPLETE,
        f.AudioReceived: Phase.INTERRUPTED,
        f.TextReceived: Phase.INTERRUPTED_COMPLETE,
        f.ToolCallOpened: Phase.INTERRUPTED_COMPLETE,
        f.OutputCompleted: Phase.INTERRUPTED_COMPLETE,
        f.Interrupted: Phase.INTERRUPTED_COMPLETE,
        f.PlaybackResumed: Phase.COMPLETE,
        f.GenerationEnded: Phase.NONE,
    },
}
"""Of the generation that is open. One that opens while another is open first closes that."""


Progress: TypeAlias = (
    f.PauseExpected
    | f.AudioReceived
    | f.TextReceived
    | f.ToolCallOpened
    | f.OutputCompleted
    | f.Interrupted
    | f.PlaybackResumed
)
"""What can happen to an open generation, short of its end."""


@dataclass(slots=True)
class Generation:
    """One reply of the model: what arrived of it, and what the caller has heard of it."""

    id: str
    opened_at: float
    request_id: str | None = None
    retried: bool = False  # came of a re-drive, so its own failure earns no other
    cancelled: bool = False  # taken back by the application while it was open
    cut_in: bool = False  # what was heard of it was stopped, whether or not the provider knows
    by_caption: bool = False  # nothing but captions has shown that it is a reply
    working: bool = False  # the provider may be at work without a sign
    phase: Phase = Phase.SILENT
    received_s: float = 0.0
    output_at: float | None = None  # last output
    completed_at: float | None = None
    interrupted_at: float | None = None
    has_content: bool = False  # audio or text, not only a tool call
    is_written: bool = False  # text that is not spoken here, or by somebody else
    has_call: bool = False
    heard_at: float | None = None  # first audio became audible
    position_s: float = 0.0  # heard at running_at, or where it stands still
    running_at: float | None = None
    finished_at: float | None = None
    hedged: bool = False

    @property
    def interrupted(self) -> bool:
        return self.phase in (Phase.INTERRUPTED, Phase.INTERRUPTED_COMPLETE)

    @property
    def last_sign_at(self) -> float:
        """When its last output arrived, or when it opened."""
        return self.opened_at if self.output_at is None else self.output_at

    def heard_s(self, now: float) -> float:
        """Seconds of audio heard by `now`, never more than arrived."""
        if self.running_at is None:
            return self.position_s
        return min(self.received_s, self.position_s + now - self.running_at)

    def heard_all_at(self, ahead: Generation | None) -> float | None:
        """When the caller will have heard all that has arrived; None while nobody can tell.

        Audio that no playback fact accounts for is taken to begin with its last frame, or when
        the generation `ahead` of it at the speaker has been heard.
        """
        if self.finished_at is not None:
            return self.finished_at
        if not self.received_s:
            return self.opened_at
        if self.running_at is not None:
            return self.running_at + self.received_s - self.position_s
        if self.heard_at is not None:
            return None  # paused
        begins_at = self.last_sign_at
        if ahead is not None and ahead is not self and ahead.finished_at is None:
            free_at = ahead.heard_all_at(None)
            if free_at is None:
                return None
            begins_at = max(begins_at, free_at)
        return begins_at + self.received_s

    def advance(self, fact: Progress) -> None:
        """Take a fact about it while it is open."""
        self.phase = PHASE_MOVES[self.phase][type(fact)]
        match fact:
            case f.PauseExpected():
                self.working = True
            case f.AudioReceived():
                self.add_audio(fact.at, fact.duration_s)
            case f.TextReceived():
                self.output_at = fact.at
                self.has_content = True
                self.by_caption &= fact.is_caption
                self.is_written |= not fact.is_caption
            case f.ToolCallOpened():
                self.output_at = fact.at
                self.has_call = True
                self.by_caption = False
            case f.OutputCompleted():
                self.completed_at = fact.at
            case f.Interrupted():
                if self.interrupted_at is None:
                    self.interrupted_at = fact.at
            case f.PlaybackResumed():
                self.interrupted_at = None
            case _:
                assert_never(fact)

    def add_audio(self, at: float, duration_s: float) -> None:
        """Count audio that arrived; after a gap the speaker goes on from where it ran dry."""
        if self.running_at is not None:
            self.move_speaker(at, self.heard_s(at), running=True)
        self.received_s += duration_s
        self.output_at = at
        self.has_content = True
        self.by_caption = False

    def move_speaker(self, at: float, position_s: float, *, running: bool) -> None:
        """Fix the position at `at`; from there it runs with the clock, or stands still."""
        self.position_s = min(position_s, self.received_s)
        self.running_at = at if running else None


@dataclass(slots=True)
class Unended:
    """A reply that was interrupted, and of whose end nothing came: healthy servers tell it at once.

    `output_at` is when it last gave output all the same. `suspected` says whether the connection is
    to be replaced for it.
    """

    generation_id: str
    at: float
    output_at: float
    suspected: bool = False


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


@dataclass(slots=True)
class Liveness:
    """When this connection last showed life, and since when something is expected of it.

    `answers_pings` says whether the peer did so in this call; one that never does says nothing by
    it. `slowest_pong_s` is None until a ping was answered. `false_alarms` counts how often the
    caller's voice raised a suspicion in this call since one last proved right.
    """

    byte_at: float
    message_at: float
    hinted_at: float | None = None
    hinted_at_rest_at: float | None = (
        None  # with no reply, owed or heard, and no tool to explain it
    )
    suspected: DeathSign | None = None
    answers_pings: bool = False
    quiet_until: float = float("-inf")  # as the provider said
    slowest_pong_s: float | None = None
    false_alarms: int = 0

    @property
    def waits_to_hear(self) -> bool:
        """Whether something sounded like speech of which the server has said nothing yet."""
        return self.hinted_at is not None and self.hinted_at > self.message_at

    def message_arrived(self, at: float) -> None:
        self.byte_at = self.message_at = at
        self.suspected = None

    def pong_arrived(self, at: float, after_s: float) -> None:
        self.byte_arrived(at)
        self.answers_pings = True
        self.slowest_pong_s = max(after_s, self.slowest_pong_s or 0.0)

    def byte_arrived(self, at: float) -> None:
        self.byte_at = at
        if self.suspected == "nothing_arrived":
            self.suspected = None
