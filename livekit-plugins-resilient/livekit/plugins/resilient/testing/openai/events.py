"""Names of OpenAI Realtime events, current (GA) and legacy (Azure with api-version, Voice Live).

Faults, waits and recordings always use the current names; the legacy ones exist on the wire only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLIENT_FIELDS: Mapping[str, frozenset[str]] = {
    "session.update": frozenset({"session"}),
    "input_audio_buffer.append": frozenset({"audio"}),
    "input_audio_buffer.commit": frozenset(),
    "input_audio_buffer.clear": frozenset(),
    "conversation.item.create": frozenset({"item", "previous_item_id"}),
    "conversation.item.retrieve": frozenset({"item_id"}),
    "conversation.item.truncate": frozenset({"item_id", "content_index", "audio_end_ms"}),
    "conversation.item.delete": frozenset({"item_id"}),
    "response.create": frozenset({"response"}),
    "response.cancel": frozenset({"response_id"}),
}
"""The client's events and their fields, beside `type` and `event_id`."""

CLIENT_EVENTS = frozenset(CLIENT_FIELDS)

REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "session.update": ("session",),
    "input_audio_buffer.append": ("audio",),
    "conversation.item.create": ("item",),
    "conversation.item.retrieve": ("item_id",),
    "conversation.item.truncate": ("item_id", "content_index", "audio_end_ms"),
    "conversation.item.delete": ("item_id",),
}

SESSION_FIELDS = frozenset(
    {
        "type",
        "model",
        "output_modalities",
        "instructions",
        "audio",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "tracing",
        "truncation",
        "include",
        "prompt",
        "reasoning",
    }
)

LEGACY_SESSION_FIELDS = frozenset(
    {
        "model",
        "modalities",
        "instructions",
        "voice",
        "speed",
        "input_audio_format",
        "output_audio_format",
        "input_audio_transcription",
        "input_audio_noise_reduction",
        "input_audio_sampling_rate",
        "turn_detection",
        "tools",
        "tool_choice",
        "temperature",
        "max_response_output_tokens",
        "tracing",
        "reasoning",
    }
)

RESPONSE_FIELDS = frozenset(
    {
        "instructions",
        "metadata",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "output_modalities",
        "conversation",
        "input",
        "audio",
        "max_output_tokens",
        "prompt",
        "reasoning",
    }
)

CONTENT_TYPES: Mapping[str, frozenset[str]] = {
    "user": frozenset({"input_text", "input_audio", "input_image"}),
    "assistant": frozenset({"output_text", "text"}),
    "system": frozenset({"input_text"}),
}
"""Content parts that a client may put into a message, by role."""

SERVER_EVENTS = frozenset(
    {
        "error",
        "session.created",
        "session.updated",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "conversation.item.deleted",
        "conversation.created",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.updated",
        "conversation.item.input_audio_transcription.completed",
        "conversation.item.input_audio_transcription.failed",
        "input_audio_buffer.committed",
        "input_audio_buffer.cleared",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.timeout_triggered",
        "ping",
        "rate_limits.updated",
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.output_audio_transcript.delta",
        "response.output_audio_transcript.done",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    }
)

_LEGACY_NAMES: Mapping[str, str] = {
    "conversation.item.added": "conversation.item.created",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
}


def wire_name(event: str, *, legacy: bool) -> str:
    """The name that `event` has on the wire."""
    return _LEGACY_NAMES.get(event, event) if legacy else event


def failure(kind: str, retry_in: str | None = None) -> dict[str, Any]:
    """`status_details.error` of a failed response; as in `faults.FailResponse`.

    Server errors and an exhausted quota as in public reports (livekit/agents#6040, #6352); the
    exact type of a rate limit is not confirmed.
    """
    wait = "" if retry_in is None else f" Please try again in {retry_in}."
    return {
        "server_error": {
            "type": "server_error",
            "code": "server_error",
            "message": "The server had an error while processing your request.",
        },
        "rate_limit": {
            "type": "rate_limit_error",
            "code": "rate_limit_exceeded",
            "message": f"Rate limit reached for requests.{wait}",
        },
        "quota": {
            "type": "insufficient_quota",
            "code": "insufficient_quota",
            "message": "You exceeded your current quota.",
        },
    }[kind]
