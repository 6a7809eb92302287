"""The fault vocabulary: a fault is data, a trigger that says when and an action that says what.

    Fault(AtAudio(position_s=1.0), Abort())
    Fault(OnConnection(2), (StaleHandle(), NoHandle()))
    Fault(Before("turnComplete", nth=2), Swallow())

Every action names the real event that it imitates, with public report numbers, and what it cannot
show. `fault_plan` reads the same vocabulary from TOML; `server` performs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import FaultPlanError, unknown
from .fields import check_fields


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """When a fault fires.

    Attributes:
        connection: only on this connection, counted from 1 over all dials, refused ones included;
            None means any.
        nth: fire on this match, counted from 1 over all connections that qualify.
    """

    connection: int | None = None
    nth: int = 1

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class OnConnection(Trigger):
    """A client dials. `Refuse` and `HangHandshake` act on the HTTP upgrade, all else right after.

    `OnConnection(2)` is the second dial; `OnConnection(None)` is any dial.
    """

    connection: int | None = 1


@dataclass(frozen=True)
class Before(Trigger):
    """Just before the server sends `event`; the event follows unless the action prevents it."""

    event: str


@dataclass(frozen=True)
class After(Trigger):
    """Just after the server sent `event`."""

    event: str


@dataclass(frozen=True)
class Received(Trigger):
    """The client's message `event` arrived; the action comes before the server's answer."""

    event: str


@dataclass(frozen=True)
class AtAudio(Trigger):
    """The next piece of a reply's audio would pass `position_s` seconds.

    Everything before that position has been sent. A reply that is not longer than `position_s`
    does not match; for the end of a reply use `Before` with the event that ends it.
    """

    position_s: float


@dataclass(frozen=True)
class UserStarts(Trigger):
    """The server hears the user begin to speak."""


@dataclass(frozen=True)
class UserStops(Trigger):
    """The server hears the user's utterance end."""


@dataclass(frozen=True)
class AtTime(Trigger):
    """`after_s` seconds on the server's clock after a connection opened."""

    after_s: float


@dataclass(frozen=True)
class Action:
    """What a fault does. Subclasses are the vocabulary."""

    def __post_init__(self) -> None:
        check_fields(self)


# Transport ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Abort(Action):
    """The TCP connection ends without a CLOSE frame; the client sees 1006.

    Imitates a lost network path or a crashed backend (livekit/agents-js#2366: about 30 sessions a
    day). What was sent before has left the process. Cannot show packet loss or a slow path.
    """


@dataclass(frozen=True)
class Close(Action):
    """The server closes with `code` and `reason`, before or after set-up as the trigger says.

    Imitates every close in public reports: 1000 in mid-turn (pydantic/pydantic-ai#6704), 1001,
    1007 (livekit/agents#6144), 1008 (livekit/agents#4545), 1011 (googleapis/python-genai#2935).
    Cannot show why a real server closed.
    """

    code: int = 1011
    reason: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_close(self.code, self.reason)


@dataclass(frozen=True)
class Refuse(Action):
    """The HTTP upgrade is answered with `status` instead of 101.

    Imitates an overloaded or unreachable front end (503), a bad key (401), a rate limit (429).
    Only with `OnConnection`.
    """

    status: int = 503
    body: str = "refused by the simulator\n"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 300 <= self.status <= 599:
            raise FaultPlanError(f"status must be an HTTP error from 300 to 599: {self.status}")


@dataclass(frozen=True)
class HangHandshake(Action):
    """The HTTP upgrade is not answered for `duration_s`; None: never. Only with `OnConnection`.

    Imitates a dial that times out (livekit/agents#3101, #3145; livekit/agents-js#934).
    Cannot show a TCP connect that hangs: on loopback the kernel accepts at once.
    """

    duration_s: float | None = None


@dataclass(frozen=True)
class NoSetupAnswer(Action):
    """The upgrade succeeds but set-up is never answered. Only with `OnConnection`.

    Imitates a front end that accepts while its backend is gone; upstream's Gemini client then
    waits for ever.
    """


@dataclass(frozen=True)
class Silence(Action):
    """The server sends no message for `duration_s` (None: for good), yet reads and pongs.

    Imitates sessions that stay connected and stop answering (googleapis/python-genai#2333).
    """

    duration_s: float | None = None


@dataclass(frozen=True)
class Blackhole(Action):
    """Reads and writes stop, pongs included, while TCP stays up.

    Imitates a half-open connection after a network change. Cannot show the kernel's own
    retransmission time-out, since loopback still acknowledges.
    """


@dataclass(frozen=True)
class NoCloseAnswer(Action):
    """The client's CLOSE is never answered; TCP ends after `eof_after_s` (None: never).

    Imitates the slow shutdown of livekit/agents#6336 and #6334.
    """

    eof_after_s: float | None = None


@dataclass(frozen=True)
class SlowPong(Action):
    """Pongs are sent `delay_s` late.

    Imitates pongs measured 8 to 30 s late (aicc2025/sip-to-ai#14), which cut healthy calls
    (googleapis/python-genai#2935).
    """

    delay_s: float = 8.0


@dataclass(frozen=True)
class Flap(Action):
    """`drops` connections in a row, this one first, are aborted within `within_ms` altogether.

    Each later one is aborted `within_ms / drops` after it opened. Imitates a front end that
    accepts and drops (google/adk-go#1312; upstream redials such a server without end).
    """

    drops: int = 3
    within_ms: int = 300


# Messages ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Delay(Action):
    """The event, and all that is sent after it, leaves `seconds` later.

    Imitates a congested path. Other delays are `LateReply` and `LateHandle`.
    """

    seconds: float


@dataclass(frozen=True)
class Duplicate(Action):
    """The event is sent twice. Only with `Before`.

    Imitates repeated items (livekit/agents#7351).
    """


@dataclass(frozen=True)
class Reorder(Action):
    """The event is sent after the one that follows it. Only with `Before`.

    Imitates events without a guaranteed order, such as transcriptions. If nothing follows, it
    stays away.
    """


@dataclass(frozen=True)
class Swallow(Action):
    """The event is never sent. Only with `Before`.

    Imitates lost terminal events (livekit/agents#4979: no turnComplete; #6421).
    """


@dataclass(frozen=True)
class Malformed(Action):
    """A frame that is not JSON is sent.

    Imitates a broken proxy. Cannot show an invalid WebSocket frame.
    """

    text: str = '{"truncated": '


@dataclass(frozen=True)
class UnknownMessage(Action):
    """A message that no client version knows is sent.

    Imitates a server that is newer than the client; google-genai raises TypeError on it.
    """

    message: Mapping[str, Any] = field(default_factory=lambda: {"brandNewMessage": {"x": 1}})


@dataclass(frozen=True)
class Send(Action):
    """Any one message is sent as it is: for what this vocabulary lacks."""

    message: Mapping[str, Any]


# Conversation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LateReply(Action):
    """The next reply begins `seconds` later.

    Imitates answers that came after the client's time-out (livekit/agents#6222, #7184).
    """

    seconds: float = 7.0


@dataclass(frozen=True)
class EmptyTurns(Action):
    """The next `count` turns have no output: they begin and end. 0 means all that follow.

    Imitates silent turns (googleapis/python-genai#2117, #2333; livekit/agents-js#1544).
    """

    count: int = 1


@dataclass(frozen=True)
class ShiftTranscript(Action):
    """From now on the output transcript leads the audio by `lead_s`; negative lags.

    Imitates transcripts that promise words nobody heard (livekit/agents#2201) or come late.
    """

    lead_s: float


@dataclass(frozen=True)
class RepeatCall(Action):
    """The latest tool call is sent again with the same id, now or on the next connection.

    Imitates calls that were delivered twice (livekit/agents#7351).
    """

    on: Literal["this", "next"] = "this"


@dataclass(frozen=True)
class IgnoreToolResponse(Action):
    """From now on this connection takes no notice of tool responses.

    Imitates a resumed session that did not issue the call (pipecat-ai/pipecat#5465).
    """


@dataclass(frozen=True)
class GoAway(Action):
    """Gemini's `goAway` with `time_left_s`; the close follows after it unless `close` is False.

    Imitates the notice at the connection limit (kizuna-ai-lab/sokuji#179: 50 s before;
    livekit/agents-js#2507: 300 s, one second into the session).
    """

    time_left_s: float = 10.0
    close: bool = True
    code: int = 1011
    reason: str = "Deadline expired before operation could complete."

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_close(self.code, self.reason)


@dataclass(frozen=True)
class LateHandle(Action):
    """From now on resumption handles come `delay_s` late.

    Imitates handles that arrive after turnComplete (googleapis/python-genai#2527).
    """

    delay_s: float = 1.0


@dataclass(frozen=True)
class EmptyHandle(Action):
    """From now on updates say `resumable: true` with an empty handle.

    Imitates clients that overwrote a good handle with an empty one.
    """


@dataclass(frozen=True)
class NoHandle(Action):
    """From now on no resumption handle is sent.

    Imitates a drop before the first handle (pipecat-ai/pipecat#4328).
    """


@dataclass(frozen=True)
class StaleHandle(Action):
    """The handle that this connection presents is refused. With `OnConnection`.

    `before_setup`: 1008 instead of setupComplete; `after_setup`: setupComplete, then 1007.
    Imitates both refusals seen in public; which one a given backend uses is not known.
    """

    when: Literal["before_setup", "after_setup"] = "before_setup"


@dataclass(frozen=True)
class PoisonHandle(Action):
    """The handle that this connection presents resumes, then kills every connection that uses it.

    Each dies `after_s` after set-up with `code`. With `OnConnection`. Imitates
    googleapis/python-genai#2290 and kazunori279/adk-streaming-guide#11.
    """

    after_s: float = 0.5
    code: int = 1011
    reason: str = "Internal error encountered."

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_close(self.code, self.reason)


@dataclass(frozen=True)
class RefuseOverlap(Action):
    """A resume is refused with 1011 while the old socket is open, from now on.

    Imitates aicc2025/sip-to-ai#14.
    """


@dataclass(frozen=True)
class TrailingAudio(Action):
    """From now on `duration_s` of audio follows each tool call in the same turn.

    Imitates livekit/agents#7195, #5742 and #6569.
    """

    duration_s: float = 0.5


@dataclass(frozen=True)
class CancelCall(Action):
    """Open tool calls are cancelled with `toolCallCancellation`.

    Imitates a barge-in during a tool (livekit/agents#7302, on which upstream only logs).
    """


@dataclass(frozen=True)
class CallWithoutId(Action):
    """From now on tool calls carry no id. Imitates Vertex (livekit/agents#2194)."""


@dataclass(frozen=True)
class ContinueAlone(Action):
    """A resumed session finishes the reply that the drop cut, by itself, after `delay_s`.

    With `OnConnection`. Imitates resumptions that answered without being asked
    (google/adk-python#3395).
    """

    delay_s: float = 0.5


@dataclass(frozen=True)
class PhantomInterruption(Action):
    """`interrupted` with nobody speaking; with `deaf`, all later turns are empty.

    Imitates googleapis/python-genai#2333 and google-gemini/cookbook#1228.
    """

    deaf: bool = False


@dataclass(frozen=True)
class Wedge(Action):
    """The next reply that is cut never ends, whoever cuts it, and no other begins.

    The caller is still heard. Imitates livekit/livekit#4484: an interruption, then nothing more.
    What a real server goes on to say of the caller meanwhile is assumed; for one that says nothing
    at all, use `Silence` after the interruption.
    """


@dataclass(frozen=True)
class SessionExpired(Action):
    """OpenAI's session cap: an `error` event with code session_expired, then close 1001.

    Without `error_first` the close comes alone (pollen-robotics/reachy_mini#134,
    sonichi/sutando#1307).
    """

    error_first: bool = True


@dataclass(frozen=True)
class FailResponse(Action):
    """The next `count` responses end as failed; 0 means all that follow.

    Imitates livekit/agents#6040 (server_error in a row), rate limits, and livekit/agents#6352
    (insufficient quota). The exact shape of a rate-limit failure is not confirmed.
    """

    kind: Literal["server_error", "rate_limit", "quota"] = "server_error"
    count: int = 1
    retry_in: str | None = None
    """With "rate_limit": the wait that the message states, such as "12s"."""


Times = int | Literal["always"]


@dataclass(frozen=True)
class Fault:
    """When `trigger` matches, perform `action`, or several in order.

    Attributes:
        trigger: when.
        action: what; a tuple is performed in order.
        times: how many matches in a row fire, from the trigger's `nth` on; or "always".
    """

    trigger: Trigger
    action: Action | tuple[Action, ...]
    times: Times = 1

    def __post_init__(self) -> None:
        whole = isinstance(self.times, int) and not isinstance(self.times, bool)
        if self.times != "always" and (not whole or self.times < 1):
            raise FaultPlanError(
                f'times must be a whole number from 1, or "always", not {self.times!r}'
            )
        if type(self.trigger) not in TRIGGERS:
            raise unknown("trigger", _written(self.trigger), (t.__name__ for t in TRIGGERS))
        if not self.actions:
            raise FaultPlanError("a fault needs at least one action")
        for action in self.actions:
            if type(action) not in ACTIONS:
                raise unknown("action", _written(action), (a.__name__ for a in ACTIONS))
            need = _NEEDS.get(type(action))
            if need is not None and not isinstance(self.trigger, need):
                raise FaultPlanError(
                    f"{type(action).__name__} needs the trigger {need.__name__}, "
                    f"not {type(self.trigger).__name__}"
                )
        stages = {type(action) in HANDSHAKE_ACTIONS for action in self.actions}
        if len(stages) > 1:
            raise FaultPlanError(
                "Refuse and HangHandshake come before all other actions: "
                "give them a fault of their own"
            )

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions in order."""
        return self.action if isinstance(self.action, tuple) else (self.action,)


def _written(part: object) -> str:
    """How a wrong trigger or action was written, short."""
    if isinstance(part, str):
        return part
    return f"the class {part.__name__}" if isinstance(part, type) else type(part).__name__


def _check_close(code: int, reason: str) -> None:
    sendable = 1000 <= code <= 1014 and code not in (1004, 1005, 1006)
    if not (sendable or 3000 <= code <= 4999):
        raise FaultPlanError(
            f"close code {code} cannot be sent; allowed are 1000-1003, 1007-1014 and "
            "3000-4999 (use Abort for what a client sees as 1006)"
        )
    if len(reason.encode()) > 123:
        raise FaultPlanError("a close reason holds at most 123 bytes")


HANDSHAKE_ACTIONS: frozenset[type[Action]] = frozenset({Refuse, HangHandshake})
"""Actions that take the place of the HTTP upgrade."""

_NEEDS: dict[type[Action], type[Trigger]] = {
    Refuse: OnConnection,
    HangHandshake: OnConnection,
    NoSetupAnswer: OnConnection,
    StaleHandle: OnConnection,
    PoisonHandle: OnConnection,
    ContinueAlone: OnConnection,
    Duplicate: Before,
    Reorder: Before,
    Swallow: Before,
}

TRIGGERS: tuple[type[Trigger], ...] = (
    OnConnection,
    Before,
    After,
    Received,
    AtAudio,
    UserStarts,
    UserStops,
    AtTime,
)

SHARED_ACTIONS: frozenset[type[Action]] = frozenset(
    {
        Abort,
        Close,
        Refuse,
        HangHandshake,
        NoSetupAnswer,
        Silence,
        Blackhole,
        NoCloseAnswer,
        SlowPong,
        Flap,
        Delay,
        Duplicate,
        Reorder,
        Swallow,
        Malformed,
        UnknownMessage,
        Send,
        LateReply,
        EmptyTurns,
        ShiftTranscript,
        RepeatCall,
        IgnoreToolResponse,
        Wedge,
    }
)

GEMINI_ACTIONS: frozenset[type[Action]] = SHARED_ACTIONS | {
    GoAway,
    LateHandle,
    EmptyHandle,
    NoHandle,
    StaleHandle,
    PoisonHandle,
    RefuseOverlap,
    TrailingAudio,
    CancelCall,
    CallWithoutId,
    ContinueAlone,
    PhantomInterruption,
}

OPENAI_ACTIONS: frozenset[type[Action]] = SHARED_ACTIONS | {SessionExpired, FailResponse}

ACTIONS: frozenset[type[Action]] = GEMINI_ACTIONS | OPENAI_ACTIONS
