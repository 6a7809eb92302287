"""What each failure of Gemini means, on the first dial and in mid-call (R3)."""

from __future__ import annotations

import pytest
from google.auth.exceptions import RefreshError
from google.genai.errors import APIError
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from livekit.plugins.resilient.google.errors import Verdict, classify, closed_by_server, code_of


def http(status: int, reason: str = "", body: bytes = b"") -> InvalidStatus:
    return InvalidStatus(Response(status, reason, Headers(), body))


def closed(code: int, reason: str = "") -> APIError:
    return APIError(code, reason, None)


def auth_error(*, retryable: bool) -> RefreshError:
    """Vertex AI has no credentials, or the token service is down for now."""
    return RefreshError("no token", retryable=retryable)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("error", "at_first", "in_mid_call"),
    [
        (http(401), "fatal", "fatal"),
        (http(403), "fatal", "fatal"),
        (http(404), "fatal", "retry"),
        (http(400), "fatal", "retry"),
        (http(429), "retry", "retry"),
        (http(503), "retry", "retry"),
        (closed(1000), "retry", "retry"),
        (closed(1006, "Abnormal closure."), "retry", "retry"),
        (closed(1007, "Invalid session handle"), "handle_refused", "handle_refused"),
        (closed(1007, "API key not valid. Please pass a valid API key."), "fatal", "fatal"),
        (closed(1007, "Request contains an invalid argument."), "invalid", "invalid"),
        (closed(1008, 'Unknown name "historyConfig" at setup'), "invalid", "invalid"),
        (closed(1011, 'Unknown name "historyConfig" at setup'), "invalid", "invalid"),
        (http(400, body=b'Unknown name "historyConfig" at setup'), "invalid", "invalid"),
        (closed(1008, "BidiGenerateContent session not found"), "fatal", "handle_refused"),
        (closed(1008, "Requested entity was not found."), "fatal", "handle_refused"),
        (closed(1008, "Operation is not implemented"), "fatal", "retry"),
        (closed(1011, "You exceeded your current quota"), "fatal", "retry"),
        (closed(1011, "Internal error encountered."), "retry", "retry"),
        (auth_error(retryable=False), "fatal", "retry"),
        (auth_error(retryable=True), "retry", "retry"),
        (TimeoutError(), "retry", "retry"),
        (ConnectionRefusedError(), "retry", "retry"),
    ],
    ids=lambda value: (
        f"{type(value).__name__} {code_of(value)}" if isinstance(value, Exception) else str(value)
    ),
)
def test_verdicts(error: Exception, at_first: Verdict, in_mid_call: Verdict) -> None:
    assert classify(error, was_connected=False, resumed=False) == at_first
    assert classify(error, was_connected=True, resumed=True) == in_mid_call


@pytest.mark.parametrize(
    "reason", ["BidiGenerateContent session not found", "Requested entity was not found."]
)
def test_a_handle_that_the_application_brought_along_may_be_refused(reason: str) -> None:
    error = closed(1008, reason)
    assert classify(error, was_connected=False, resumed=True) == "handle_refused"


@pytest.mark.parametrize(
    ("error", "is_close"),
    [
        (closed(1000), True),
        (closed(1011, "Internal error encountered."), True),
        (closed(1006, "Abnormal closure."), False),
        (http(503), False),
        (TimeoutError(), False),
    ],
    ids=lambda value: str(value),
)
def test_what_the_server_closed_by_itself(error: Exception, is_close: bool) -> None:
    assert closed_by_server(error) is is_close
