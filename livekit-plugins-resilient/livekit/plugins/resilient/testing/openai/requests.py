"""What is wrong with a client's event, as OpenAI words it.

Always checked: what every client runs into (unknown ids, sizes, missing fields). In strict mode
also what a lenient server could let pass (unknown fields, roles, orphan results).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from livekit.plugins.resilient.testing import audio

from . import events
from .conversation import Conversation, Item
from .dialects import Dialect

MIN_COMMIT_MS = 100
"""Audio that a commit needs; the number is in the API's own error message."""

MAX_ID_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Refusal:
    """The body of an `error` event."""

    code: str
    message: str
    param: str | None = None
    type: str = "invalid_request_error"


ACTIVE_RESPONSE = "conversation_already_has_active_response"


def active_response(response_id: str) -> Refusal:
    """A response was asked for while another goes on."""
    return Refusal(
        ACTIVE_RESPONSE,
        f"Conversation already has an active response in progress: {response_id}. "
        "Wait until the response is finished before creating a new one.",
    )


NO_ACTIVE_RESPONSE = Refusal(
    "response_cancel_not_active", "Cancellation failed: no active response found"
)


def buffer_too_small(audio_ms: float) -> Refusal:
    """A commit of less than `MIN_COMMIT_MS`."""
    return Refusal(
        "input_audio_buffer_commit_empty",
        "Error committing input audio buffer: buffer too small. Expected at least "
        f"{MIN_COMMIT_MS}ms of audio, but buffer only has {audio_ms:.2f}ms of audio.",
    )


def unknown_item(action: str, item_id: object) -> Refusal:
    """`action` ("delete", "truncate", "retrieve") names an item that does not exist."""
    gerund = action.removesuffix("e") + "ing"
    return Refusal(
        f"item_{action}_invalid_item_id",
        f"Error {gerund} item: the item with id '{item_id}' does not exist.",
        "item_id",
    )


def unknown_previous(item_id: object) -> Refusal:
    """`previous_item_id` names an item that does not exist."""
    return Refusal(
        "item_create_invalid_previous_item_id",
        f"Error adding item: the previous item with id '{item_id}' does not exist.",
        "previous_item_id",
    )


def check_shape(message: Mapping[str, Any], *, strict: bool) -> Refusal | None:
    """Whether the event exists and has the fields that it needs, and in strict mode no others."""
    kind = message.get("type")
    if kind not in events.CLIENT_EVENTS:
        known = ", ".join(f"'{name}'" for name in sorted(events.CLIENT_EVENTS))
        return Refusal(
            "invalid_value", f"Invalid value: '{kind}'. Supported values are: {known}.", "type"
        )
    for name in events.REQUIRED_FIELDS.get(kind, ()):
        if message.get(name) is None:
            return _missing(name)
    if strict:
        unknown = message.keys() - events.CLIENT_FIELDS[kind] - {"type", "event_id"}
        if unknown:
            return _unknown(min(unknown))
    return None


def check_session(changes: Mapping[str, Any], dialect: Dialect, *, strict: bool) -> Refusal | None:
    """Whether a `session.update` may be merged."""
    if not strict or dialect.shape == "xai":
        return None
    legacy = dialect.legacy
    known = events.LEGACY_SESSION_FIELDS if legacy else events.SESSION_FIELDS
    if unknown := changes.keys() - known:
        return _unknown(f"session.{min(unknown)}")
    if legacy:
        return None
    if changes.get("type") != "realtime":
        return _missing("session.type")
    sides = changes.get("audio") or {}
    if unknown := sides.keys() - {"input", "output"}:
        return _unknown(f"session.audio.{min(unknown)}")
    detection = (sides.get("input") or {}).get("turn_detection") or {}
    kind = detection.get("type", "server_vad")
    if kind not in ("server_vad", "semantic_vad"):
        return _invalid("session.audio.input.turn_detection.type", kind)
    return None


def check_response(request: Mapping[str, Any], *, strict: bool) -> Refusal | None:
    """Whether the `response` of a `response.create` is well formed."""
    if strict and (unknown := request.keys() - events.RESPONSE_FIELDS):
        return _unknown(f"response.{min(unknown)}")
    return None


def check_item(
    written: Mapping[str, Any], conversation: Conversation, *, strict: bool
) -> Refusal | None:
    """Whether an item may be created."""
    kind = written.get("type")
    if kind not in ("message", "function_call", "function_call_output"):
        return _invalid("item.type", kind)
    item_id = written.get("id")
    if item_id is not None and conversation.get(item_id) is not None:
        return Refusal(
            "item_create_duplicate_item_id",
            f"Error adding item: an item with id '{item_id}' already exists.",
            "item.id",
        )
    if kind == "message":
        return _check_message(written) if strict else None
    if not written.get("call_id"):
        return _missing("item.call_id")
    if not strict:
        return None
    if item_id is not None and len(item_id) > MAX_ID_LENGTH:
        return Refusal(
            "string_above_max_length",
            f"Invalid 'item.id': string too long. Expected a string with maximum length "
            f"{MAX_ID_LENGTH}, but got a string with length {len(item_id)} instead.",
            "item.id",
        )
    if kind == "function_call_output" and conversation.call(written["call_id"]) is None:
        return Refusal(
            "invalid_tool_call_id",
            f"Tool call ID '{written['call_id']}' not found in conversation.",
            "item.call_id",
        )
    return None


def check_line(written: Mapping[str, Any]) -> Refusal | None:
    """Whether a line that xAI is to speak has words."""
    parts = written.get("content") or ()
    return None if any(part.get("text") for part in parts) else _missing("item.content")


def check_truncate(item: Item, message: Mapping[str, Any]) -> Refusal | None:
    """Whether an existing item may be cut at `audio_end_ms`."""
    end_ms, index = message["audio_end_ms"], message["content_index"]
    if item.role != "assistant" or not item.pcm:
        return Refusal(
            "invalid_value", "Only model output audio messages can be truncated", "item_id"
        )
    if index != 0:
        return _invalid("content_index", index)
    if not isinstance(end_ms, int) or end_ms < 0:
        return _invalid("audio_end_ms", end_ms)
    if end_ms > item.audio_ms:
        return Refusal(
            "invalid_value",
            f"Audio content of {item.audio_ms}ms is already shorter than {end_ms}ms",
            "audio_end_ms",
        )
    return None


def check_audio(data: object) -> Refusal | None:
    """Whether appended audio is base64 of whole samples."""
    message = "Invalid 'audio'. Expected base64-encoded audio bytes (mono PCM16 at 24kHz)."
    bad = Refusal("invalid_value", message, "audio")
    if not isinstance(data, str):
        return bad
    try:
        pcm = audio.decode_audio(data)
    except ValueError:
        return bad
    return bad if len(pcm) % audio.BYTES_PER_SAMPLE else None


def _check_message(written: Mapping[str, Any]) -> Refusal | None:
    role, content = str(written.get("role")), written.get("content")
    if role not in events.CONTENT_TYPES:
        return _invalid("item.role", role)
    if not content:
        return _missing("item.content")
    for index, part in enumerate(content):
        if part.get("type") not in events.CONTENT_TYPES[role]:
            return _invalid(f"item.content[{index}].type", part.get("type"))
    return None


def _unknown(name: str) -> Refusal:
    return Refusal("unknown_parameter", f"Unknown parameter: '{name}'.", name)


def _missing(name: str) -> Refusal:
    return Refusal("missing_required_parameter", f"Missing required parameter: '{name}'.", name)


def _invalid(name: str, value: object) -> Refusal:
    return Refusal("invalid_value", f"Invalid value for '{name}': '{value}'.", name)
