"""What a driver is to do: the answers of `TurnMachine.receive()` and `TurnMachine.due()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "CloseStreams",
    "DeathSign",
    "Decision",
    "FinaliseGeneration",
    "FinaliseReason",
    "HedgeResult",
    "RecordFirstAudio",
    "RecordOutcome",
    "Redrive",
    "RedriveCause",
    "RedriveResult",
    "SuspectDead",
    "TakeBack",
]

RedriveCause: TypeAlias = Literal[
    "reply_cut",
    "user_words_lost",
    "unanswered_turn",
    "tool_result_unanswered",
    "reply_requested",
]
"""Why a reply is owed: the agent's reply broke off; the caller's words reached no record; the
caller's turn is in the context but unanswered; a tool result is; the application's own request
is (issue that one again, with its own instructions)."""

RedriveResult: TypeAlias = Literal["rescued", "talked_over", "superseded", "failed"]
"""The caller heard the re-driven reply, or it went on to a tool; the model had gone on by itself
after all and was heard first; the caller or the application moved on before either; nothing was
heard of it."""

FinaliseReason: TypeAlias = Literal["interrupted", "complete", "stalled", "silent", "captions"]
"""No terminal event came: after an interruption; after complete output was heard; after a stream
stalled and all of it was heard; and nothing had been produced at all, or nothing but captions,
which are owed no reply."""

HedgeResult: TypeAlias = Literal["served", "false_alarm", "superseded", "refused", "failed"]
"""It answered first and serves; the connection that serves answered first, or nobody waited for an
answer any more; that one was lost or left meanwhile; the provider refused it for quota or rate; it
could not be made, or gave no answer either."""

DeathSign: TypeAlias = Literal[
    "nothing_arrived", "reply_silent", "caller_unheard", "passed_over", "turn_unended"
]
"""Not a byte arrived; no message since a reply was requested; no sign since the caller spoke; a
re-drive was ended without a reply; an interrupted reply never ended, and what the caller said, or
the application asked for, got no answer."""


@dataclass(frozen=True, slots=True)
class CloseStreams:
    """Close a generation's streams now: its connection is gone, or another one took its place."""

    generation_id: str


@dataclass(frozen=True, slots=True)
class FinaliseGeneration:
    """End a generation that got no terminal event: close its streams, release the gate, clear the
    interrupted state and drop whatever arrives for it later.

    Attributes:
        generation_id: The open generation.
        reason: Which bound it reached.
        open_s: Seconds since it opened.
        idle_s: Seconds since its last output, or since it opened where there was none.
    """

    generation_id: str
    reason: FinaliseReason
    open_s: float
    idle_s: float


@dataclass(frozen=True, slots=True)
class Redrive:
    """Ask the model for the reply that is owed; it joins on behind what is still playing.

    Attributes:
        redrive_id: Give it back as `GenerationOpened.for_request` of the reply, and to
            `ReplyRequestTimedOut` where the request failed.
        cause: Selects the wording.
        waited_s: Seconds since the reconnect or, without one, since the reply became owed.
        request_ids: With "reply_requested": the application's requests to issue again, in order,
            each with its own future; feed the replies with their own request id. A future that
            was resolved before needs no second answer: treat its reply as unasked.
        generation_id: With "reply_cut": the reply that broke off.
        heard_s: Seconds of that reply that the caller has heard by now.
        received_s: Seconds of it that arrived, and will have been heard if they play on.
    """

    redrive_id: str
    cause: RedriveCause
    waited_s: float
    request_ids: tuple[str, ...] = ()
    generation_id: str | None = None
    heard_s: float = 0.0
    received_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Take a re-drive back: the caller must not hear its reply, which nobody waits for any more.

    Attributes:
        redrive_id: Of the `Redrive`.
        generation_id: The reply to it, of which nothing was heard yet; None where none has begun.
    """

    redrive_id: str
    generation_id: str | None


@dataclass(frozen=True, slots=True)
class SuspectDead:
    """Hand over to a new connection: this one looks half-open. Decided once per silence.

    Attributes:
        sign: What gave rise to the suspicion.
        silent_s: Seconds since the last message, with "nothing_arrived" since the last byte.
    """

    sign: DeathSign
    silent_s: float


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """Report what became of a re-drive; exactly one for each, unless the session is closed."""

    redrive_id: str
    result: RedriveResult


@dataclass(frozen=True, slots=True)
class RecordFirstAudio:
    """Report the seconds from a reconnect to the first audio of a later generation."""

    seconds: float


Decision: TypeAlias = (
    CloseStreams
    | FinaliseGeneration
    | Redrive
    | TakeBack
    | SuspectDead
    | RecordOutcome
    | RecordFirstAudio
)
