"""How each dialect writes what it says: from the current event names to what is on the wire.

The rest of the simulator speaks as OpenAI does. Every key here was recorded, but for
"azure-legacy", which is assumed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from livekit.plugins.resilient.testing import audio

from . import events
from .dialects import Dialect

Message = dict[str, Any]

_OBFUSCATED = ("transcript.delta", "transcription.delta", "text.delta", "arguments.delta")
_PADDED_TO = 16


def message_on_wire(dialect: Dialect, event: str, fields: Message, event_id: str) -> Message:
    """The message of an event, as the dialect writes it."""
    name = events.wire_name(event, legacy=dialect.legacy)
    message: Message = {"type": name, "event_id": event_id, **fields}
    if dialect.obfuscated and event.endswith(_OBFUSCATED):
        message["obfuscation"] = "x" * (_PADDED_TO - len(str(fields["delta"])) % _PADDED_TO)
    shape = _SHAPES.get(dialect.shape)
    return message if shape is None else shape(event, message)


def item_on_wire(dialect: Dialect, item: Message) -> Message:
    """An item; `object` is only in dialects of before the general release, and xAI's."""
    if dialect.shape in ("openai", "azure"):
        return item
    return {**item, "object": "realtime.item"}


def response_on_wire(dialect: Dialect, response: Message, voice: str) -> Message:
    """A response, with the settings that the dialect repeats in it."""
    spoken: list[str] = response.pop("output_modalities")
    if dialect.shape == "xai":
        shown = {key: response[key] for key in ("object", "id", "status", "output", "usage")}
        if response["metadata"] is not None:
            # Assumed: no recorded request had any, but LiveKit's plugin relies on their echo.
            shown["metadata"] = response["metadata"]
        return {**shown, "status_details": response["status_details"] or "not_specified"}
    if not dialect.legacy:
        sound = {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": voice}
        return {**response, "output_modalities": spoken, "audio": {"output": sound}}
    if dialect.shape == "azure-legacy":
        return {**response, "modalities": ["audio", "text"] if spoken == ["audio"] else spoken}
    if response["usage"] is not None:
        response["usage"]["output_token_details"]["reasoning_tokens"] = 0
    return {
        **response,
        "modalities": spoken,
        "voice": {"name": voice, "type": "openai"},
        "output_audio_format": "pcm16",
        "temperature": None,
    }


def session_wire(dialect: Dialect, session: Message, *, updated: bool) -> Message:
    """The session object; `updated`: the client has sent settings."""
    if dialect.shape == "azure-voice-live":
        return _voice_live_session(session)
    if dialect.shape == "xai":
        return _xai_session(session) if updated else _xai_fresh_session(session)
    return session


# Azure -------------------------------------------------------------------------------------


def _azure(event: str, message: Message) -> Message:
    return {**message, "content": message["part"]} if "content_part" in event else message


# Azure Voice Live --------------------------------------------------------------------------


def _voice_live(event: str, message: Message) -> Message:
    if event == "response.content_part.done" and message["part"]["type"] == "text":
        return {**message, "part": {"type": "text", "text": ""}}  # as recorded: without the text
    if event.endswith("transcription.completed"):
        message.pop("usage", None)
    return message


def _voice_live_session(session: Message) -> Message:
    kept = (
        "object",
        "id",
        "expires_at",
        "model",
        "modalities",
        "instructions",
        "input_audio_format",
        "output_audio_format",
        "tools",
        "tool_choice",
        "max_response_output_tokens",
    )
    unset = (
        "input_audio_noise_reduction",
        "input_audio_echo_cancellation",
        "animation",
        "avatar",
        "output_audio_timestamp_types",
        "truncation_strategy",
        "include",
    )
    detection, heard = session["turn_detection"], session["input_audio_transcription"]
    if detection is not None:
        own = ("speech_duration_ms", "end_of_utterance_detection", "appended_text_after_truncation")
        detection = {
            "threshold": 0.5,
            "prefix_padding_ms": 400,
            "silence_duration_ms": 500,
            "idle_timeout_ms": None,
            **detection,
            **dict.fromkeys(own),
            "auto_truncate": False,
        }
    if heard is not None:
        hints = ("language", "prompt", "custom_speech", "phrase_list")
        heard = {**dict.fromkeys(hints), **heard}
    return {
        **{key: session[key] for key in kept},
        **dict.fromkeys(unset),
        "voice": {"name": session["voice"], "type": "openai"},
        "input_audio_sampling_rate": 24_000,
        "turn_detection": detection,
        "input_audio_transcription": heard,
    }


# xAI ---------------------------------------------------------------------------------------

_XAI_DROPS: Mapping[str, tuple[str, ...]] = {
    "response.content_part.done": ("part",),
    "response.function_call_arguments.delta": ("output_index",),
}


def _xai(event: str, message: Message) -> Message:
    for key in _XAI_DROPS.get(event, ()):
        message.pop(key)
    if event != "session.created":
        message.setdefault("previous_item_id", None)
    if event == "response.content_part.added":
        message["previous_item_id"] = "0"
    if "output_index" in message:
        message["output_index"] = 0
    if event.startswith("response.output_item."):
        message["item"] = _xai_output(message["item"])
        message["item"].pop("content", None)
    elif "item" in message:
        message["item"] = _xai_item(message["item"])
        if message["item"]["role"] == "tool":
            message["previous_item_id"] = None
    if "response" in message:
        response = message["response"]
        outputs = [_xai_output(item) for item in response["output"]]
        message["response"] = {**response, "output": outputs, "usage": {}}
        if event == "response.done":
            message["response_id"] = response["id"]
            message["usage"] = _xai_usage(response["usage"])
    if event in ("response.output_audio.delta", "response.output_audio_transcript.delta"):
        message["rid"] = message["response_id"]
    if event == "response.output_audio.delta":
        samples = len(audio.decode_audio(message["delta"])) // audio.BYTES_PER_SAMPLE
        message["audio_duration_ms"] = round(samples / 24)
        message["ts"] = round(time.time() * 1000)
    return message


def _xai_usage(usage: Message) -> Message:
    details = ("input_token_details", "output_token_details")
    counts = ("text_tokens", "audio_tokens")
    spoken_s = usage["output_token_details"]["audio_tokens"] / 20
    return {
        **{name: usage[name] for name in ("input_tokens", "output_tokens", "total_tokens")},
        **{name: {c: usage[name][c] for c in counts} | {"grok_tokens": 0} for name in details},
        "output_audio_seconds": spoken_s,
        "billable_audio_seconds": math.ceil(spoken_s),
    }


def _xai_item(item: Message) -> Message:
    if item["type"] == "message":
        return item
    return {"status": "completed", **item, "role": "tool"}


def _xai_output(item: Message) -> Message:
    if item["type"] == "message":
        parts = [{**part, "type": "audio"} for part in item["content"]]
        return {**item, "content": parts}
    return {**item, "role": "user"}


def _xai_fresh_session(session: Message) -> Message:
    kept = ("object", "id", "model", "instructions", "tools")
    return {
        **{key: session[key] for key in kept},
        "voice": session["audio"]["output"]["voice"],
        "modalities": ["audio"],
        "turn_detection": {"type": None},
    }


def _xai_session(session: Message) -> Message:
    sides = session["audio"]
    heard = sides["input"]
    shown: Message = {
        "instructions": session["instructions"],
        "model": session["model"],
        "modalities": ["audio"],
        "turn_detection": heard["turn_detection"],
        "input_audio_transcription": heard["transcription"],
        "input_audio_format": "audio/pcm;24k",
        "output_audio_format": "audio/pcm;24k",
        "enable_noise_suppression": True,
        "enable_phonetic_spelling": False,
        "keep_context": False,
        "tool_choice": session["tool_choice"],
        "temperature": -1.0,
        "max_response_output_tokens": session["max_output_tokens"],
        "audio": {
            "input": {
                "format": heard["format"],
                "transport": "json",
                "transcription": heard["transcription"],
            },
            "output": {"format": sides["output"]["format"], "transport": "json"},
        },
    }
    if session["tools"]:
        shown["tools"] = [_xai_tool(tool) for tool in session["tools"]]
    if session.get("reasoning"):
        shown["reasoning"] = session["reasoning"]
    return shown


def _xai_tool(tool: Mapping[str, Any]) -> Message:
    function = {key: tool[key] for key in ("name", "description", "parameters") if key in tool}
    return {"type": "function", "function": function}


_SHAPES: Mapping[str, Callable[[str, Message], Message]] = {
    "azure": _azure,
    "azure-voice-live": _voice_live,
    "xai": _xai,
}
