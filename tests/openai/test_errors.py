"""What each reported failure leads to."""

from __future__ import annotations

import pytest
from aiohttp import ClientConnectionError, RequestInfo, WSServerHandshakeError
from livekit.agents import APIConnectionError, APIStatusError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from livekit.plugins.resilient.core.limits import LONGEST_PUT_OFF_S, REDRIVE_AFTER_S
from livekit.plugins.resilient.openai.errors import (
    FailureStreak,
    final_refusal,
    handling_of_close,
    handling_of_error,
    retry_after_s,
)


@pytest.mark.parametrize(
    ("code", "handling"),
    [
        ("response_cancel_not_active", "ignore"),
        ("conversation_already_has_active_response", "ask_again"),
        ("session_expired", "renew"),
        ("rate_limit_exceeded", "defer"),
        ("inference_rate_limit_exceeded", "defer"),
        ("insufficient_quota", "report"),
        ("never_heard_of", "report"),
        (None, "report"),
    ],
)
def test_the_code_of_an_error_decides(code: str | None, handling: str) -> None:
    assert handling_of_error(code) == handling


@pytest.mark.parametrize(
    ("code", "expired", "handling"),
    [
        (1001, False, "renew"),
        (1000, True, "renew"),
        (None, True, "renew"),
        (1006, False, "report"),
        (None, False, "report"),
    ],
)
def test_a_close_at_the_cap_is_a_renewal(code: int | None, expired: bool, handling: str) -> None:
    assert handling_of_close(code, expired=expired) == handling


def refused(status: int | None) -> APIConnectionError:
    """What a dial raises that was refused with a status, or that found no server."""
    url, headers = URL("ws://localhost"), CIMultiDictProxy(CIMultiDict[str]())
    error = APIConnectionError("refused")
    error.__cause__ = (
        ClientConnectionError()
        if status is None
        else WSServerHandshakeError(RequestInfo(url, "GET", headers, url), (), status=status)
    )
    return error


@pytest.mark.parametrize(
    ("status", "was_connected", "final"),
    [
        (401, False, True),
        (401, True, True),
        (404, False, True),
        (404, True, False),
        (429, False, False),
        (503, False, False),
        (None, False, False),
    ],
)
def test_which_refusals_are_final(status: int | None, was_connected: bool, final: bool) -> None:
    error = final_refusal(refused(status), was_connected=was_connected)
    assert (error is not None) is final
    if error is not None:
        assert isinstance(error, APIStatusError)
        assert (error.status_code, error.retryable) == (status, False)


@pytest.mark.parametrize("error", [refused(None), ValueError("Port out of range 0-65535")])
def test_a_dial_that_no_other_can_cure_is_final(error: Exception) -> None:
    assert final_refusal(error, was_connected=False) is None
    for was_connected in (False, True):
        final = final_refusal(error, was_connected=was_connected, hopeless=True)
        assert isinstance(final, APIConnectionError)
        assert not final.retryable


def test_two_failures_in_a_row_end_a_session_and_start_the_count_again() -> None:
    streak = FailureStreak()
    ends = [
        ("failed", "server_error", False),
        ("completed", None, False),
        ("failed", "server_error", False),
        ("failed", "rate_limit_exceeded", False),
        ("failed", "server_error", True),
        ("failed", "server_error", False),
    ]
    for status, error_type, leaves in ends:
        assert streak.ended(status, error_type) is leaves


LIMIT = {"type": "rate_limit_error", "code": "rate_limit_exceeded"}


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        ({**LIMIT, "message": "Please try again in 1.25s. Visit the site."}, 1.25),
        ({**LIMIT, "message": "Please try again in 350ms."}, 0.35),
        ({**LIMIT, "message": "Please try again in 1 minute 5 seconds."}, LONGEST_PUT_OFF_S),
        ({**LIMIT, "message": "Please retry after 12 seconds."}, 12.0),
        ({**LIMIT, "message": "Please retry after 1 second."}, 1.0),
        ({"type": "x", "code": "inference_rate_limit_exceeded", "message": ""}, REDRIVE_AFTER_S),
        ({**LIMIT, "message": "Please try again in 6m0s."}, LONGEST_PUT_OFF_S),
        ({**LIMIT, "message": "Rate limit reached."}, REDRIVE_AFTER_S),
        ({"type": "tokens", "code": "rate_limit_exceeded", "message": "try again in 2s"}, 2.0),
        ({"type": "server_error", "code": None, "message": "try again in 2s"}, None),
        ({}, None),
    ],
)
def test_the_stated_wait_of_a_rate_limit_is_kept(
    error: dict[str, str | None], wait_s: float | None
) -> None:
    assert retry_after_s(error) == wait_s
