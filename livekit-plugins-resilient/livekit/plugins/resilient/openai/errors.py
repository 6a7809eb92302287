"""What each failure that OpenAI, Azure or Inference reports leads to (R3). Data, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from aiohttp import WSServerHandshakeError
from livekit.agents import APIConnectionError, APIError, APIStatusError

from ..core.limits import LONGEST_PUT_OFF_S, REDRIVE_AFTER_S

__all__ = [
    "FailureStreak",
    "Handling",
    "error_of",
    "final_refusal",
    "handling_of_close",
    "handling_of_error",
    "is_complaint",
    "is_quota",
    "is_refusal",
    "retry_after_s",
]

Handling: TypeAlias = Literal["ignore", "ask_again", "defer", "renew", "report"]
"""What becomes of an `error` event or a close.

- "ignore": it means nothing for the call, and nobody is told.
- "ask_again": the reply asked for comes after the one that is being spoken.
- "defer": the reply asked for comes after the wait that the server states.
- "renew": the session is over as planned; a new one is no failure.
- "report": upstream's way: fatal codes end the session, the others are recoverable errors.
"""

_ERRORS: dict[str, Handling] = {
    # A reply ended before our cancellation came.
    "response_cancel_not_active": "ignore",
    # The server's turn detection committed the audio before us.
    "input_audio_buffer_commit_empty": "ignore",
    # The item is gone, which is what a delete wants and what a truncate allows.
    "item_delete_invalid_item_id": "ignore",
    "item_truncate_invalid_item_id": "ignore",
    "conversation_already_has_active_response": "ask_again",
    "rate_limit_exceeded": "defer",
    "inference_rate_limit_exceeded": "defer",
    # Followed by a close with 1001 when a session is as old as the provider allows.
    "session_expired": "renew",
}

_CLOSES: dict[int, Handling] = {1001: "renew"}

# A message was invalid, or too big: on a connection that was only told the conversation, that.
_REFUSALS = frozenset({1007, 1009})
_COMPLAINTS = frozenset({"invalid_request_error"})

_RATE_LIMITS = frozenset(
    {
        "rate_limit_exceeded",
        "rate_limit_error",
        "rate_limit",
        "inference_rate_limit_exceeded",  # LiveKit Inference
    }
)
_NO_QUOTA = frozenset({"insufficient_quota"})
# "Please try again in 1m2.5s." or "in 350ms."; Azure: "Please retry after 12 seconds."
_STATED_WAIT = re.compile(
    r"(?:try again in|retry after) "
    r"(?:(\d+) ?m(?!s))?(?:(\d+(?:\.\d+)?) ?s)?(?:(\d+) ?ms)?",
    re.IGNORECASE,
)

# What no dial can cure: a wrong key, and on the first dial also a key without the right, or a
# model or deployment that is not known.
_REFUSED_KEY = frozenset({401})
_REFUSED_SETTINGS = frozenset({400, 401, 403, 404})

# A response fails now and then and is asked for again; where that fails too, the session is left.
_FAILURES_IN_A_ROW = 2


def error_of(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The error that a response ended with; empty without one.

    xAI has a word where others have an object or nothing, at the end of every response.
    """
    details = response.get("status_details")
    return (details.get("error") or {}) if isinstance(details, Mapping) else {}


def handling_of_error(code: str | None) -> Handling:
    """What becomes of an `error` event with this code."""
    return _ERRORS.get(code or "", "report")


def is_quota(error: Mapping[str, Any]) -> bool:
    """Whether an `error` says that the account has no more, or not so fast."""
    return bool({error.get("code"), error.get("type")} & (_RATE_LIMITS | _NO_QUOTA))


def retry_after_s(error: Mapping[str, Any]) -> float | None:
    """How long a rate limit has us wait, by the `error` of a failed response or request.

    Returns:
        Seconds, at most `core.limits.LONGEST_PUT_OFF_S`; what the message states, or the time in
        which a caller still waits where it states none. None for any other error.
    """
    if not {error.get("code"), error.get("type")} & _RATE_LIMITS:
        return None
    stated = _STATED_WAIT.search(str(error.get("message")))
    if stated is None or not any(stated.groups()):
        return REDRIVE_AFTER_S
    minutes, seconds, milliseconds = (float(part or 0) for part in stated.groups())
    return min(60 * minutes + seconds + milliseconds / 1000, LONGEST_PUT_OFF_S)


def handling_of_close(code: int | None, *, expired: bool) -> Handling:
    """What becomes of a connection that the server closed.

    Args:
        code: The WebSocket close code; None where none was received.
        expired: `session_expired` came before.
    """
    return "renew" if expired else _CLOSES.get(code or 0, "report")


def is_refusal(code: int | None) -> bool:
    """Whether a close with this code says that the server would not have what it was sent."""
    return code in _REFUSALS


def is_complaint(error: Mapping[str, Any]) -> bool:
    """Whether an `error` event says the same, where a close follows."""
    return error.get("type") in _COMPLAINTS and handling_of_error(error.get("code")) == "report"


def final_refusal(
    error: Exception, *, was_connected: bool, hopeless: bool = False
) -> APIError | None:
    """The error that ends the session, where a failed dial cannot be cured by another.

    Args:
        error: What the dial raised.
        was_connected: The same settings worked before, so that only a refused key is final.
        hopeless: It is known that no other dial can end otherwise.
    """
    cause = error.__cause__
    message = error.message if isinstance(error, APIError) else "the server cannot be dialled"
    if isinstance(cause, WSServerHandshakeError):
        if cause.status in (_REFUSED_KEY if was_connected else _REFUSED_SETTINGS):
            return APIStatusError(message, status_code=cause.status, retryable=False)
    elif hopeless:
        return APIConnectionError(message, retryable=False)
    return None


class FailureStreak:
    """Counts the responses in a row that the server failed to give."""

    def __init__(self) -> None:
        self._failures = 0

    def ended(self, status: str | None, error_type: str | None) -> bool:
        """Note a response's end; True when it is time to leave the session."""
        if status == "failed" and error_type == "server_error":
            self._failures += 1
        elif status == "completed":
            self._failures = 0
        if self._failures < _FAILURES_IN_A_ROW:
            return False
        self._failures = 0
        return True
