"""What happened in a call, as frozen records in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from livekit.agents import llm

from .errors import CallEndedError


@dataclass(frozen=True, slots=True)
class ErrorSeen:
    """The session's `error` event. `recoverable` is False where the model gave up."""

    at: float
    recoverable: bool
    error: BaseException


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The agent or the user went from one state to another."""

    at: float
    who: Literal["agent", "user"]
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class UserHeard:
    """A transcript of the user arrived; `final` ends an utterance."""

    at: float
    text: str = field(repr=False)
    final: bool


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The realtime session emitted `session_reconnected`."""

    at: float


@dataclass(frozen=True, slots=True)
class GenerationCreated:
    """The realtime session opened a generation; `requested` where `generate_reply` asked for it."""

    at: float
    requested: bool


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The session's `close` event."""

    at: float
    reason: str
    error: BaseException | None


CallEvent = ErrorSeen | StateChanged | UserHeard | Reconnected | GenerationCreated | SessionClosed


@dataclass(slots=True)
class ToolRun:
    """One execution of a tool. Two runs with one `call_id` mean that it ran twice.

    Attributes:
        call_id: the provider's id of the call.
        name: the tool's name.
        args: the decoded arguments.
        started_at: loop time of the dispatch.
        ended_at: loop time of the end; None while it runs.
        status: "running", then "done", "error" or "cancelled".
        result: what the tool returned, as text.
    """

    call_id: str
    name: str
    args: Mapping[str, Any]
    started_at: float
    ended_at: float | None = None
    status: str = "running"
    result: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """One item of the session's history.

    Attributes:
        kind: what it is.
        role: "user", "assistant", ... for messages, else empty.
        text: the message's text, the call's name and arguments, or the result.
        interrupted: the user cut the message short.
        item_id: the item's id in the chat context.
    """

    kind: Literal["message", "function_call", "function_call_output"]
    role: str
    text: str
    interrupted: bool
    item_id: str


def history_of(chat_ctx: llm.ChatContext) -> list[HistoryItem]:
    """What was said and called, in order; handoffs and changes of configuration are left out."""
    items: list[HistoryItem] = []
    for item in chat_ctx.items:
        if isinstance(item, llm.ChatMessage):
            text = item.text_content or ""
            items.append(HistoryItem("message", item.role, text, item.interrupted, item.id))
        elif isinstance(item, llm.FunctionCall):
            text = f"{item.name}({item.arguments})"
            items.append(HistoryItem("function_call", "", text, False, item.id))
        elif isinstance(item, llm.FunctionCallOutput):
            items.append(HistoryItem("function_call_output", "", item.output, False, item.id))
    return items


def ended_error(
    closed: SessionClosed | None, errors: Sequence[ErrorSeen], *, hung_up: bool
) -> CallEndedError:
    """Build the error that says why a call is over, its cause attached where there is one.

    The cause is named by its type only: a provider's text may hold what was said.
    """
    cause = closed.error if closed is not None else None
    if cause is None:
        cause = next((seen.error for seen in errors if not seen.recoverable), None)
    if cause is not None:
        reason = f"by the error {type(cause).__name__}"
    elif hung_up or closed is None:
        reason = "because the test hung up"
    else:
        reason = f"with the close reason {closed.reason!r}"
    ended = CallEndedError(f"the call has ended {reason}")
    ended.__cause__ = cause
    return ended
