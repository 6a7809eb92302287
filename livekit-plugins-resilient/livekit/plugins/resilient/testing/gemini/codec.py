"""Gemini Live's messages on the wire: decode what clients send, build what the server sends."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.connection import ProtocolViolation
from livekit.plugins.resilient.testing.fault_plan import Vocabulary
from livekit.plugins.resilient.testing.faults import GEMINI_ACTIONS
from livekit.plugins.resilient.testing.recording import Frame

from .dialects import Dialect
from .schema import unknown_field

INPUT_RATE = 16_000
OUTPUT_RATE = 24_000

INVALID_ARGUMENT = "Request contains an invalid argument."

SERVER_EVENTS = frozenset(
    {
        "setupComplete",
        "sessionResumptionUpdate",
        "inputTranscription",
        "modelTurn",
        "thought",
        "outputTranscription",
        "generationComplete",
        "turnComplete",
        "interrupted",
        "usageMetadata",
        "toolCall",
        "toolCallCancellation",
        "goAway",
        "voiceActivity",
        "empty",
    }
)
_REALTIME_KINDS = ("audio", "video", "text", "activityStart", "activityEnd", "audioStreamEnd")
CLIENT_EVENTS = frozenset(
    {"setup", "clientContent", "toolResponse", "contextUpdate", *_REALTIME_KINDS}
)

VOCABULARY = Vocabulary("Gemini Live", SERVER_EVENTS, CLIENT_EVENTS, GEMINI_ACTIONS)

_FREE_FORM = frozenset(
    {"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "default"}
)
_RATE = re.compile(r"rate=(\d+)")
_WORD_BREAK = re.compile(r"_([a-z0-9])")


def camel(name: str) -> str:
    """A proto field name in lowerCamelCase; both spellings are legal JSON for proto."""
    if "_" not in name:
        return name
    return _WORD_BREAK.sub(lambda match: match.group(1).upper(), name)


def normalise(value: Any) -> Any:
    """Bring field names to camelCase, but not the names that belong to tools and their users."""
    if isinstance(value, list):
        return [normalise(element) for element in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for name, below in value.items():
        key = camel(name)
        if key in _FREE_FORM:
            result[key] = below
        elif key == "properties" and isinstance(below, dict):
            result[key] = {parameter: normalise(schema) for parameter, schema in below.items()}
        else:
            result[key] = normalise(below)
    return result


def decode_client_message(raw: str | bytes, connection: int, at: float, *, strict: bool) -> Frame:
    """Decode one client message.

    Raises:
        ProtocolViolation: no JSON object, an unknown message, or in strict mode an unknown field.
    """
    try:
        document = json.loads(raw)
    except ValueError:
        raise _refused(connection, at, {}, "Invalid JSON payload received.") from None
    if not isinstance(document, dict) or not document:
        raise _refused(connection, at, {}, INVALID_ARGUMENT)
    message: dict[str, Any] = normalise(document)
    if strict:
        unknown = unknown_field(message)
        if unknown is not None:
            reason = f'Invalid JSON payload received. Unknown name "{unknown}"'
            raise _refused(connection, at, message, reason)
    known = [name for name in message if name in _DECODERS]
    if not known:
        raise _refused(connection, at, message, INVALID_ARGUMENT)
    try:
        return _DECODERS[known[0]](message, connection, at)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _refused(connection, at, message, INVALID_ARGUMENT) from None


def _refused(connection: int, at: float, message: Mapping[str, Any], why: str) -> ProtocolViolation:
    kind = next(iter(message), "invalid")
    return ProtocolViolation(Frame(connection, at, (kind,), message), 1007, why[:120])


def _realtime(message: dict[str, Any], connection: int, at: float) -> Frame:
    body = message["realtimeInput"]
    if "mediaChunks" in body and "audio" not in body:
        body = {**body, "audio": body["mediaChunks"][0]}
    kinds = tuple(kind for kind in _REALTIME_KINDS if kind in body)
    if not kinds:
        raise ValueError("realtimeInput without content")
    blob = body.get("audio")
    if blob is not None:
        pcm = audio.decode_audio(blob["data"])
        light = {"realtimeInput": {"audio": {"mimeType": blob.get("mimeType", "")}}}
        seconds = audio.duration_of(pcm, input_rate(light))
        return Frame(connection, at, kinds, light, pcm, seconds)
    texts = (body["text"],) if "text" in body else ()
    return Frame(connection, at, kinds, {"realtimeInput": body}, texts=texts)


def _client_content(message: dict[str, Any], connection: int, at: float) -> Frame:
    turns = message["clientContent"].get("turns") or []
    texts = tuple(
        part["text"]
        for turn in turns
        for part in turn.get("parts") or []
        if part.get("text") is not None
    )
    return Frame(connection, at, ("clientContent",), message, texts=texts)


def _tool_response(message: dict[str, Any], connection: int, at: float) -> Frame:
    responses = message["toolResponse"].get("functionResponses") or []
    ids = tuple(response["id"] for response in responses if response.get("id"))
    return Frame(connection, at, ("toolResponse",), message, call_ids=ids)


def _setup(message: dict[str, Any], connection: int, at: float) -> Frame:
    return Frame(connection, at, ("setup",), message)


def _context_update(message: dict[str, Any], connection: int, at: float) -> Frame:
    return Frame(connection, at, ("contextUpdate",), message)


_DECODERS = {
    "setup": _setup,
    "clientContent": _client_content,
    "realtimeInput": _realtime,
    "toolResponse": _tool_response,
    "contextUpdate": _context_update,
}


def input_rate(message: Mapping[str, Any]) -> int:
    """Samples per second of an audio message; the API's default is 16 kHz."""
    mime = message["realtimeInput"]["audio"].get("mimeType") or ""
    match = _RATE.search(mime)
    return int(match.group(1)) if match else INPUT_RATE


def text_of(content: Mapping[str, Any] | None) -> str:
    """The text of a Content, its parts joined."""
    parts = (content or {}).get("parts") or []
    return "".join(part.get("text") or "" for part in parts)


def audio_part(pcm: bytes, dialect: Dialect) -> dict[str, Any]:
    """A `modelTurn` with one piece of audio."""
    blob = {"mimeType": dialect.mime_type, "data": audio.encode_audio(pcm)}
    turn: dict[str, Any] = {"parts": [{"inlineData": blob}]}
    return turn | {"role": "model"} if dialect.names_role else turn


def duration_text(seconds: float) -> str:
    """A protobuf Duration in JSON, which has no fraction or one of three digits."""
    return f"{max(0.0, seconds):.3f}s".replace(".000s", "s")
