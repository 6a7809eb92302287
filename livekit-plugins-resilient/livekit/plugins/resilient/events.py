"""What a session tells the application about its connection, as typed facts.

Receive them with ``session.on("resilience", callback)`` on a realtime session, or with
`ResilienceOptions.on_event` where the application does not hold the session. Every event is a
frozen dataclass; `at` is the running loop's monotonic time in seconds. No event carries a
transcript, a handle or a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .core.decisions import FinaliseReason, HedgeResult, RedriveCause, RedriveResult

__all__ = [
    "AudioDropped",
    "ContinuationRejected",
    "Disconnected",
    "FirstAudioAfterReconnect",
    "GenerationFinalised",
    "GoAwayReceived",
    "HandedOver",
    "HedgeDecided",
    "HedgeOutcome",
    "LoopStalled",
    "ReconnectMode",
    "Reconnected",
    "RedriveDecided",
    "RedriveOutcome",
    "ResilienceEvent",
    "ToolResultRedelivered",
]

ReconnectMode: TypeAlias = Literal["resumed", "replayed", "fresh"]
"""How the new connection got its context: from a handle, from our record, or not at all."""


@dataclass(frozen=True)
class Disconnected:
    """The connection ended without our asking for it.

    Attributes:
        at: Monotonic time of the drop, in seconds.
        cause: Class name of the error that ended it, or "eof" where there was none.
        code: WebSocket close code, where the peer sent one.
    """

    at: float
    cause: str
    code: int | None = None


@dataclass(frozen=True)
class Reconnected:
    """A new connection serves the session, its context restored.

    Attributes:
        at: Monotonic time at which the new connection could take audio, in seconds.
        mode: Where the context came from.
        gap_s: Seconds between the drop and `at`.
        attempts: Dials it took, counting the one that succeeded.
    """

    at: float
    mode: ReconnectMode
    gap_s: float
    attempts: int


@dataclass(frozen=True)
class HandedOver:
    """A new connection took the place of one that we gave up before it ended.

    Attributes:
        at: Monotonic seconds at which the new connection could take audio.
        overlapped: It held the context before the old one was left, so that there was no gap.
            False where it was dialled after that; `Reconnected` then has the gap.
    """

    at: float
    overlapped: bool


@dataclass(frozen=True)
class RedriveDecided:
    """A reply was owed and the model is asked for it.

    Attributes:
        at: Monotonic seconds.
        reason: Why it was owed.
        waited_s: Seconds since the reconnect or, without one, since the reply became owed.
    """

    at: float
    reason: RedriveCause
    waited_s: float


@dataclass(frozen=True)
class RedriveOutcome:
    """What became of a re-drive; one for each `RedriveDecided`, unless the session is closed.

    Attributes:
        at: Monotonic seconds.
        outcome: "rescued": the caller heard the reply, or it went on to a tool. "talked_over":
            the model had gone on by itself and was heard first. "superseded": the caller or the
            application moved on before. "failed": nothing was heard of it.
    """

    at: float
    outcome: RedriveResult


@dataclass(frozen=True)
class HedgeDecided:
    """A reply is slow, and a second connection is asked for it beside the one that serves.

    Attributes:
        at: Monotonic seconds.
        reason: Why it is owed.
        waited_s: Seconds since it became owed; where it stopped in the middle, since it began.
    """

    at: float
    reason: RedriveCause
    waited_s: float


@dataclass(frozen=True)
class HedgeOutcome:
    """What became of it; one for each `HedgeDecided`, unless the session is closed.

    Attributes:
        at: Monotonic seconds.
        result: "served": the second connection gave output first, and serves. "false_alarm": the
            first one did, or nobody waited any more. "superseded": the first one was lost or left.
            "refused": the provider has no more for this account now, so that no session of the
            process asks a second time for a while. "failed": the second could not be made, or gave
            nothing either.
    """

    at: float
    result: HedgeResult


@dataclass(frozen=True)
class GenerationFinalised:
    """A generation got no terminal event within its bound and was closed locally.

    Attributes:
        at: Monotonic seconds.
        reason: "interrupted", "complete", "stalled" or "silent": see `ResilienceOptions`. What only
            captions opened, and nobody waits for, is closed without a word.
        open_s: Seconds since it began.
        idle_s: Seconds since its last output, or since it began where there was none.
    """

    at: float
    reason: FinaliseReason
    open_s: float
    idle_s: float


@dataclass(frozen=True)
class FirstAudioAfterReconnect:
    """The caller hears the first reply that began after a reconnect.

    Attributes:
        at: Monotonic seconds.
        seconds: Since the reconnect.
    """

    at: float
    seconds: float


@dataclass(frozen=True)
class AudioDropped:
    """Microphone audio was lost because no connection could take it; once for each outage.

    Attributes:
        at: Monotonic seconds.
        seconds: Of audio, above 0.
    """

    at: float
    seconds: float


@dataclass(frozen=True)
class ContinuationRejected:
    """A session could not be restored from its handle, which is forgotten; a fresh one follows.

    Attributes:
        at: Monotonic seconds.
        code: WebSocket close code, where the server sent one.
    """

    at: float
    code: int | None = None


@dataclass(frozen=True)
class GoAwayReceived:
    """The server announced the end of the connection.

    Attributes:
        at: Monotonic seconds.
        time_left_s: Seconds until then, 0 or more, as the server said.
    """

    at: float
    time_left_s: float


@dataclass(frozen=True)
class ToolResultRedelivered:
    """A tool's result went to another connection than the one its call came from.

    Attributes:
        at: Monotonic seconds.
        form: "native": as the call's answer, where the session knows the call. "text": told in
            words, where it does not.
    """

    at: float
    form: Literal["native", "text"]


@dataclass(frozen=True)
class LoopStalled:
    """The event loop was blocked, by a tool that does not await or a stopped process; no silence
    of that time is held against the provider. Told from `core.limits.STALL_TOLD_S` on.

    Attributes:
        at: Monotonic seconds at which it went on.
        seconds: Length of the block, measured to a second, from below.
    """

    at: float
    seconds: float


ResilienceEvent: TypeAlias = (
    Disconnected
    | Reconnected
    | HandedOver
    | RedriveDecided
    | RedriveOutcome
    | HedgeDecided
    | HedgeOutcome
    | GenerationFinalised
    | FirstAudioAfterReconnect
    | AudioDropped
    | ContinuationRejected
    | GoAwayReceived
    | LoopStalled
    | ToolResultRedelivered
)
