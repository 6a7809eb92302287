"""What a failed dial or a lost connection of Gemini means (R3): a table, read from the top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from google.auth.exceptions import GoogleAuthError
from google.genai.errors import APIError
from websockets.exceptions import ConnectionClosed, InvalidStatus

__all__ = ["Verdict", "classify", "closed_by_server", "code_of", "refuses_for_quota"]

Verdict: TypeAlias = Literal["fatal", "retry", "handle_refused", "invalid"]
"""fatal: nothing will help. retry: dial again. handle_refused: without the handle.
invalid: without what may have been the invalid argument, whether it is named or not."""


@dataclass(frozen=True)
class _Row:
    code: int
    verdict: Verdict
    # In lower case; "" for any reason.
    reason: str = ""
    # Applies to a session that never was connected, where the set-up itself must be wrong.
    only_at_first: bool = False
    # Applies to a dial with a handle.
    only_resumed: bool = False


_TABLE = (
    # HTTP statuses of the handshake.
    _Row(401, "fatal"),
    _Row(403, "fatal"),
    _Row(400, "fatal", only_at_first=True),
    _Row(404, "fatal", only_at_first=True),
    _Row(429, "fatal", "quota", only_at_first=True),
    # Close codes, by the reasons that Gemini gives.
    _Row(1007, "fatal", "api key"),
    _Row(1007, "handle_refused", "session handle"),
    _Row(1007, "invalid"),
    _Row(1008, "handle_refused", "session not found", only_resumed=True),
    _Row(1008, "handle_refused", "entity was not found", only_resumed=True),
    _Row(1008, "fatal", only_at_first=True),
    _Row(1011, "fatal", "quota", only_at_first=True),
)

# What stands for a close without a code.
_ABNORMAL = 1006

# A refusal that names what it does not take, by whatever code, before set-up or after it.
_NAMED = ("unknown name", "invalid json payload", "historyconfig", "history_config")

# What a refusal says of an account that has no more of something now, by whatever code.
_USED_UP = ("quota", "exhausted", "rate limit", "concurrent sessions")


def code_of(error: BaseException) -> int | None:
    """The HTTP status or WebSocket close code that an error stands for, if any."""
    if isinstance(error, InvalidStatus):
        return error.response.status_code
    if isinstance(error, ConnectionClosed):
        return error.rcvd.code if error.rcvd is not None else None
    if isinstance(error, APIError) and isinstance(error.code, int):
        return error.code
    return None


def closed_by_server(error: BaseException) -> bool:
    """Whether the server ended a connection by itself, and said with which code."""
    return code_of(error) not in (None, _ABNORMAL) and not isinstance(error, InvalidStatus)


def classify(error: BaseException, *, was_connected: bool, resumed: bool) -> Verdict:
    """What `error` means.

    Args:
        error: Of the dial, or of the connection.
        was_connected: Whether the session had a connection before.
        resumed: Whether a handle was resumed.
    """
    if isinstance(error, GoogleAuthError) and not error.retryable and not was_connected:
        return "fatal"  # Vertex AI without credentials, or with ones that are not taken
    code, text = code_of(error), _text_of(error)
    if any(name in text for name in _NAMED):
        return "invalid"
    for row in _TABLE:
        if row.code != code or row.reason not in text:
            continue
        if not (row.only_at_first and was_connected) and not (row.only_resumed and not resumed):
            return row.verdict
    return "retry"


def refuses_for_quota(error: BaseException) -> bool:
    """Whether a connection is refused because the account has no more for now."""
    return code_of(error) == 429 or any(words in _text_of(error) for words in _USED_UP)


def _text_of(error: BaseException) -> str:
    """What an error says, in lower case."""
    text = str(error)
    if isinstance(error, InvalidStatus):
        text += (error.response.body or b"").decode(errors="replace")
    return text.lower()
