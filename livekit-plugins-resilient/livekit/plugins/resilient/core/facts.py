"""What has happened on the wire, at the microphone and at the speaker.

A driver feeds these to `TurnMachine.receive()` in the order in which they happened. Every fact
carries `at`, the running loop's monotonic time in seconds; it never runs backwards. The vocabulary
is in one file, long as it is, to be read in one go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from livekit.plugins.resilient.errors import ResilienceError

__all__ = [
    "AudioReceived",
    "Closed",
    "Connected",
    "Disconnected",
    "Ending",
    "Fact",
    "GenerationEnded",
    "GenerationOpened",
    "HedgeBegun",
    "IllegalFactError",
    "InputAwaited",
    "Interrupted",
    "LocalSpeechHinted",
    "LoopStalled",
    "MessageArrived",
    "NoticeArrived",
    "OutputCompleted",
    "PauseExpected",
    "PlaybackFinished",
    "PlaybackPaused",
    "PlaybackProgressed",
    "PlaybackResumed",
    "PlaybackStarted",
    "PongArrived",
    "ReplyCancelled",
    "ReplyRequestTimedOut",
    "ReplyRequested",
    "TextReceived",
    "ToolCallCancelled",
    "ToolCallOpened",
    "ToolResultDelivered",
    "TurnPassedOver",
    "UserSpeechStarted",
    "UserSpeechStopped",
    "UserTurnEnded",
    "WaitStated",
]

Ending: TypeAlias = Literal["completed", "cancelled", "failed", "continued", "overtaken"]
"""How the provider ended a generation; "cancelled" means that nobody waits for it any more,
"continued" that the provider itself is at work on more, "overtaken" that the next turn began though
it said nothing of the end."""


class IllegalFactError(ResilienceError, ValueError):
    """A fact that cannot be, or cannot have happened in this state. It changed nothing."""


def _check_seconds(fact: object, field: str, seconds: float) -> None:
    if not seconds >= 0:
        raise IllegalFactError(f"{type(fact).__name__}.{field}={seconds!r} must be 0 or more")


# --- the connection ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection serves the session, its context restored.

    The first one begins the call. Each later one is a reconnect edge, whether or not a
    `Disconnected` came before it: a handover has no gap, but it leaves the old session's
    unfinished work behind just the same.

    Attributes:
        at: Monotonic seconds.
        knows_turn: The new session may hold what is pending (user turn, request, tool result) as
            something to answer, and go on by itself. False for a fresh or replayed session, which
            answers nothing unasked, and for a resume whose handle is older than the turn.
        words_lost: The caller spoke, and the words are in no record that the new session has.
        speaking: The caller speaks, as the application says (push-to-talk); the turn goes on here.
        hedge_id: The hedge that serves now: it was asked for what is owed, and has begun to answer.
            Feed its `GenerationOpened` next.
    """

    at: float
    knows_turn: bool = False
    words_lost: bool = False
    speaking: bool = False
    hedge_id: str | None = None


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection ended without our asking for it. Saying so twice is harmless."""

    at: float


@dataclass(frozen=True, slots=True)
class Closed:
    """The application closed the session; whatever comes later is ignored."""

    at: float


@dataclass(frozen=True, slots=True)
class LoopStalled:
    """Our own event loop was blocked, or the process stopped, and has just gone on.

    Every deadline moves by that time: what looks like silence is what nobody has read yet.

    Attributes:
        at: Monotonic seconds; the block is over.
        slept_s: How long it lasted.

    Raises:
        IllegalFactError: `slept_s` is below 0.
    """

    at: float
    slept_s: float

    def __post_init__(self) -> None:
        _check_seconds(self, "slept_s", self.slept_s)


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """Any server message, known or not; feed it before the facts that the message holds."""

    at: float


@dataclass(frozen=True, slots=True)
class NoticeArrived:
    """A server message about the connection, not the call. Shows a live path, not a live model."""

    at: float


@dataclass(frozen=True, slots=True)
class PongArrived:
    """The peer's socket answered a ping. Shows a live path, not a live model.

    Attributes:
        at: Monotonic seconds.
        after_s: Seconds since the ping was sent.

    Raises:
        IllegalFactError: `after_s` is below 0.
    """

    at: float
    after_s: float = 0.0

    def __post_init__(self) -> None:
        _check_seconds(self, "after_s", self.after_s)


# --- the caller's voice ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserSpeechStarted:
    """The provider's voice detection heard the caller begin; of Gemini's families the newer ones
    say so. Or the application, which detects turns itself, does. Saying so twice is harmless."""

    at: float


@dataclass(frozen=True, slots=True)
class UserSpeechStopped:
    """Whoever detects turns heard the caller stop; the turn may still go on.

    Attributes:
        at: Monotonic seconds.
        in_turn: What was heard belongs to a turn. False where it may have been a noise: unless
            its words are told, there was none.
    """

    at: float
    in_turn: bool = True


@dataclass(frozen=True, slots=True)
class UserTurnEnded:
    """The caller's turn is with the provider, which is to answer it without being asked.

    Where the provider announces no end (Gemini), feed it for every input transcription that
    arrives before the answer's first output; a repeat only refreshes the turn. Leave it out where
    the application decides when to reply, and feed `ReplyRequested` then.

    Attributes:
        at: Monotonic seconds.
        certain: The caller is known to have taken a turn that is to be answered. False for words
            that may belong to a turn which was answered before, or that a model is free to pass
            over: silence is then no fault, and only a reconnect has the model asked.
    """

    at: float
    certain: bool = True


@dataclass(frozen=True, slots=True)
class InputAwaited:
    """The provider says that it waits for more of the caller before it answers: no answer is
    owed until the caller has gone on."""

    at: float


@dataclass(frozen=True, slots=True)
class LocalSpeechHinted:
    """A microphone frame sounded like speech (energy). Feed it for each such frame, or a few a
    second while they last. A hint is no proof: it delays, and it raises suspicion, no more.

    Attributes:
        at: Monotonic seconds.
        to_be_heard: The provider finds the caller's turns by itself, so that it says something
            about speech. False where the application does: silence is then no sign of anything.
    """

    at: float
    to_be_heard: bool = True


# --- replies that the application asks for -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyRequested:
    """The application asked for a reply (`generate_reply`).

    A request still pending at a reconnect edge, also one made during the gap, is handed back
    through `Redrive.request_ids`: let nothing else send it again, and do not feed this fact again.
    """

    at: float
    request_id: str


@dataclass(frozen=True, slots=True)
class ReplyCancelled:
    """The application takes a request back; with `request_id` None, any reply that is owed."""

    at: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class ReplyRequestTimedOut:
    """A request's future was failed because no reply began; it must not be issued again."""

    at: float
    request_id: str


@dataclass(frozen=True, slots=True)
class ReplyRefused:
    """No reply comes of a re-drive, or of the caller's turn, because something else is under way.

    Feed it for a re-drive when that is over; for the turn at once, since the generation that is
    open, if there is one, began without knowing of it.

    Attributes:
        at: Monotonic seconds.
        request_id: The `redrive_id`, or the `request_id` that was issued again; None for the turn.
        retry_after_s: The seconds after which the provider would give it, where it said so.

    Raises:
        IllegalFactError: `retry_after_s` is below 0.
    """

    at: float
    request_id: str | None
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if self.retry_after_s is not None:
            _check_seconds(self, "retry_after_s", self.retry_after_s)


@dataclass(frozen=True, slots=True)
class WaitStated:
    """The provider said that it gives no reply for so long, as at a rate limit: until then, its
    silence is no sign.

    Attributes:
        at: Monotonic seconds.
        seconds: From then on, 0 or more.

    Raises:
        IllegalFactError: `seconds` is below 0.
    """

    at: float
    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self, "seconds", self.seconds)


@dataclass(frozen=True, slots=True)
class HedgeBegun:
    """Another connection is made beside, to be asked for what `TurnMachine.hedge()` said."""

    at: float


# --- generations -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GenerationOpened:
    """The model began a reply.

    Attributes:
        at: Monotonic seconds.
        generation_id: Never used before in this session.
        for_request: The `request_id` or `redrive_id` it answers; None for the model's own.
        by_caption: Only a transcript opened it, which has no order against the turns: until
            output comes it may be no reply at all.
    """

    at: float
    generation_id: str
    for_request: str | None = None
    by_caption: bool = False


@dataclass(frozen=True, slots=True)
class PauseExpected:
    """The provider may be at work for long within this generation, without any output."""

    at: float
    generation_id: str


@dataclass(frozen=True, slots=True)
class AudioReceived:
    """Audio of a generation arrived and went towards the speaker.

    Raises:
        IllegalFactError: `duration_s` is below 0.
    """

    at: float
    generation_id: str
    duration_s: float

    def __post_init__(self) -> None:
        _check_seconds(self, "duration_s", self.duration_s)


@dataclass(frozen=True, slots=True)
class TextReceived:
    """Text or transcript of a generation arrived.

    Attributes:
        at: Monotonic seconds.
        generation_id: The open generation.
        is_caption: It only tells what is, was or will be spoken.
    """

    at: float
    generation_id: str
    is_caption: bool = False


@dataclass(frozen=True, slots=True)
class OutputCompleted:
    """The provider says all output was sent, though the generation is not over (Gemini's
    `generationComplete`). The end of one item says nothing of the next. More output takes it
    back."""

    at: float
    generation_id: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The provider, or we, stopped a generation because the caller cut in."""

    at: float
    generation_id: str


@dataclass(frozen=True, slots=True)
class GenerationEnded:
    """The terminal event (`turnComplete`, `response.done`), or a tool call that ends it.

    Attributes:
        at: Monotonic seconds.
        generation_id: The open generation, or one that was finalised and ends late.
        ending: How it ended.
        retry_after_s: With "failed", the seconds after which the provider would give it; None
            where it did not say.

    Raises:
        IllegalFactError: `retry_after_s` is below 0.
    """

    at: float
    generation_id: str
    ending: Ending = "completed"
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if self.retry_after_s is not None:
            _check_seconds(self, "retry_after_s", self.retry_after_s)


@dataclass(frozen=True, slots=True)
class TurnPassedOver:
    """The provider ended a turn of which no generation had been opened.

    Attributes:
        at: Monotonic seconds.
        interrupted: Because it was interrupted, as it is where the caller cuts in on a model that
            still thinks.
    """

    at: float
    interrupted: bool = False


# --- tools -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCallOpened:
    """The model asked for a tool; feed each call id once over all connections."""

    at: float
    generation_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolResultDelivered:
    """A call's result was sent, in whatever form; `expects_reply` False where it asks for none."""

    at: float
    call_id: str
    expects_reply: bool = True


@dataclass(frozen=True, slots=True)
class ToolCallCancelled:
    """The provider, or we, gave up a call; no result will be sent."""

    at: float
    call_id: str


# --- the speaker -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaybackStarted:
    """The first audio of a generation became audible."""

    at: float
    generation_id: str


@dataclass(frozen=True, slots=True)
class PlaybackProgressed:
    """The caller has heard a generation up to `heard_until_s` seconds. Optional: between facts
    the position is taken to run with the clock, bounded by the audio that arrived.

    Raises:
        IllegalFactError: `heard_until_s` is below 0.
    """

    at: float
    generation_id: str
    heard_until_s: float

    def __post_init__(self) -> None:
        _check_seconds(self, "heard_until_s", self.heard_until_s)


@dataclass(frozen=True, slots=True)
class PlaybackPaused:
    """The speaker holds its audio, because the caller may be cutting in."""

    at: float


@dataclass(frozen=True, slots=True)
class PlaybackResumed:
    """The interruption was a false one; the speaker plays on from where it paused."""

    at: float


@dataclass(frozen=True, slots=True)
class PlaybackFinished:
    """Nothing more of a generation will be heard: played through, cleared or flushed at
    `heard_until_s` seconds (0 where the caller heard nothing of it).

    Attributes:
        at: Monotonic seconds.
        generation_id: Of any connection.
        heard_until_s: Seconds of it that were heard.
        cut_in: Somebody stopped it before its end: the caller, or the application. False where we
            did, because of a drop.

    Raises:
        IllegalFactError: `heard_until_s` is below 0.
    """

    at: float
    generation_id: str
    heard_until_s: float
    cut_in: bool = False

    def __post_init__(self) -> None:
        _check_seconds(self, "heard_until_s", self.heard_until_s)


Fact: TypeAlias = (
    Connected
    | Disconnected
    | Closed
    | LoopStalled
    | MessageArrived
    | NoticeArrived
    | PongArrived
    | UserSpeechStarted
    | UserSpeechStopped
    | UserTurnEnded
    | InputAwaited
    | LocalSpeechHinted
    | ReplyRequested
    | ReplyCancelled
    | ReplyRequestTimedOut
    | ReplyRefused
    | WaitStated
    | HedgeBegun
    | GenerationOpened
    | PauseExpected
    | AudioReceived
    | TextReceived
    | OutputCompleted
    | Interrupted
    | GenerationEnded
    | TurnPassedOver
    | ToolCallOpened
    | ToolResultDelivered
    | ToolCallCancelled
    | PlaybackStarted
    | PlaybackProgressed
    | PlaybackPaused
    | PlaybackResumed
    | PlaybackFinished
)
