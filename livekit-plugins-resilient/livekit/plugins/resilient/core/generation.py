"""One reply of the model, and the table by which the open one moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import facts as f

__all__ = ["PHASE_MOVES", "Generation", "Phase", "Progress"]


class Phase(Enum):
    """The open generation, or NONE. The interrupted ones remember whether output was complete,
    because a false interruption takes them back to where they were."""

    # It is looked up with each fact, and an enumeration's own hash is slow.
    __hash__ = object.__hash__

    NONE = auto()
    SILENT = auto()
    PRODUCING = auto()
    COMPLETE = auto()
    INTERRUPTED = auto()
    INTERRUPTED_COMPLETE = auto()


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
