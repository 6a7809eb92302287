"""Takes out of a server message what nobody could handle (R19). No I/O.

The client library checks the types of what it knows and refuses a whole message for one field. Here
is what it lets pass: calls of no tool, times that are none, counts that no metric can hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from google.genai import types

from .set_up import seconds_of

__all__ = ["strip_malformed"]

# Above any session's; a ratio of larger ones is beyond a float's range.
_LARGEST_COUNT = 2**53


def strip_malformed(message: types.LiveServerMessage) -> list[str]:
    """Leave in a message what can be handled; returns the kinds of what was taken out."""
    return list(_stripped(message))


def _stripped(message: types.LiveServerMessage) -> Iterator[str]:
    if message.tool_call is not None:
        given = message.tool_call.function_calls or []
        usable = [call for call in given if _is_usable(call)]
        if not usable:
            # Upstream would end the reply that is being spoken.
            message.tool_call = None
        elif len(usable) < len(given):
            message.tool_call = types.LiveServerToolCall(function_calls=usable)
        if not usable or len(usable) < len(given):
            yield "toolCall"
    if message.go_away is not None and seconds_of(message.go_away.time_left) is None:
        message.go_away = None
        yield "goAway"
    if message.usage_metadata is not None and not _is_usage(message.usage_metadata):
        message.usage_metadata = None
        yield "usageMetadata"


def _is_usable(call: types.FunctionCall) -> bool:
    if not call.name:
        return False
    try:
        json.dumps(call.args)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_usage(usage: types.UsageMetadata) -> bool:
    counts = (
        usage.prompt_token_count,
        usage.response_token_count,
        usage.total_token_count,
    )
    return all(count is None or 0 <= count <= _LARGEST_COUNT for count in counts)
