"""Settings, conversation and counters of one simulated OpenAI session.

A session is one connection: OpenAI has no resumption, so what a new connection knows is what the
client replays.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping
from typing import Any

from livekit.plugins.resilient.testing import audio

from .conversation import RATE, Conversation, Item
from .dialects import Dialect
from .shapes import session_wire

TOKENS_PER_AUDIO_S = {"user": 10, "assistant": 20}
"""Audio tokens per second; OpenAI's guide on realtime costs: one per 100 ms in, per 50 ms out."""

_CHARACTERS_PER_TOKEN = 4

EAGERNESS_STOP_S = {"low": 0.6, "auto": 0.4, "medium": 0.4, "high": 0.2}
"""Silence that ends a semantic_vad turn here: a stand-in, the real one reads the words."""

DEFAULT_PREFIX_MS = 300

STREAMING_TRANSCRIBER = "gpt-realtime-whisper"
"""Recorded: it tells words while they are spoken; others tell all of them at the end."""


class Session:
    """What one connection has configured and what its model knows.

    Attributes:
        number: the connection's number.
        session_id: its id.
        config: the session object as `session.updated` shows it.
        conversation: the items in order.
        appended_s: seconds of microphone audio received.
        expires_at: Unix time of the cap, or None.
    """

    def __init__(
        self, number: int, session_id: str, model: str, *, dialect: Dialect, cap_s: float | None
    ) -> None:
        self.number = number
        self.session_id = session_id
        self.dialect = dialect
        self.conversation = Conversation()
        self.appended_s = 0.0
        self.updates = 0
        self.expires_at = None if cap_s is None else int(time.time() + cap_s)
        self.config: dict[str, Any] = (
            _legacy_defaults(dialect) if dialect.legacy else _defaults(dialect)
        )
        self.config["model"] = model

    @property
    def items(self) -> list[Item]:
        """The conversation's items in order."""
        return self.conversation.items

    def knows(self, text: str) -> int:
        """In how many items the model finds `text`: 0, or 2 where it was told twice."""
        return sum(text in item.known_text for item in self.items)

    def texts(self, role: str | None = None) -> list[str]:
        """What the model knows, oldest first: messages of `role`, or everything with text."""
        chosen = [item for item in self.items if role in (None, item.role)]
        return [item.known_text for item in chosen if item.known_text]

    def responses_to(self, call_id: str) -> list[Item]:
        """The results of one tool call that the model knows."""
        return [
            item
            for item in self.items
            if item.kind == "function_call_output" and item.call_id == call_id
        ]

    def update(self, changes: Mapping[str, Any]) -> None:
        """Merge a `session.update`: given keys replace, `audio` is merged part by part."""
        self.updates += 1
        for key, value in changes.items():
            if key == "audio" and isinstance(value, Mapping):
                for side in ("input", "output"):
                    self.config["audio"][side].update(value.get(side) or {})
            else:
                self.config[key] = value
        self._complete()

    def _complete(self) -> None:
        """Fill in what a client left out of its turn detection and transcription."""
        dialect = self.dialect
        if dialect.shape == "xai" and "turn_detection" in self.config:
            self._listening["turn_detection"] = self.config.pop("turn_detection")
        if dialect.shape not in ("openai", "azure"):
            return
        detection = self._listening.get("turn_detection")
        if detection is not None:
            server = detection.get("type", "server_vad") == "server_vad"
            whole = _detection(dialect) if server else dict(_SEMANTIC)
            self._listening["turn_detection"] = {**whole, **detection}
        transcription = self._listening.get("transcription")
        if transcription is not None:
            self._listening["transcription"] = {"language": None, "prompt": None, **transcription}

    def wire(self) -> dict[str, Any]:
        """The session object of `session.created` and `session.updated`."""
        return session_wire(
            self.dialect,
            {
                "object": "realtime.session",
                "id": self.session_id,
                "expires_at": self.expires_at,
                **copy.deepcopy(self.config),
            },
            updated=self.updates > 0,
        )

    def modalities(self, request: Mapping[str, Any]) -> list[str]:
        """The output modalities of a response with this request."""
        if self.dialect.always_speaks:
            return ["audio"]
        key = "modalities" if self.dialect.legacy else "output_modalities"
        chosen: list[str] = request.get(key) or self.config[key]
        return chosen

    @property
    def _listening(self) -> dict[str, Any]:
        """The settings of what is heard."""
        if self.dialect.legacy:
            return self.config
        settings: dict[str, Any] = self.config["audio"]["input"]
        return settings

    @property
    def voice(self) -> str:
        """The voice in force."""
        holder = self.config if self.dialect.legacy else self.config["audio"]["output"]
        return str(holder["voice"])

    @property
    def turn_detection(self) -> Mapping[str, Any] | None:
        """The turn detection in force; None where the client drives the turns."""
        found: Mapping[str, Any] | None = self._listening.get("turn_detection")
        return found

    @property
    def transcription(self) -> Mapping[str, Any] | None:
        """How the user's audio is transcribed; None: not at all."""
        name = "input_audio_transcription" if self.dialect.legacy else "transcription"
        found: Mapping[str, Any] | None = self._listening.get(name)
        return found

    @property
    def streams_captions(self) -> bool:
        """Whether the user's words are told while they are spoken."""
        return (self.transcription or {}).get("model") == STREAMING_TRANSCRIBER

    def speech_detector(self, threshold: float) -> audio.SpeechDetector | None:
        """A detector for the turn detection in force, or None."""
        detection = self.turn_detection
        if detection is None:
            return None
        if detection.get("type") == "semantic_vad":
            stop_s = EAGERNESS_STOP_S[detection.get("eagerness") or "auto"]
        else:
            stop_s = (detection.get("silence_duration_ms") or self.dialect.silence_ms) / 1000
        return audio.SpeechDetector(RATE, stop_s=stop_s, threshold=threshold)

    @property
    def prefix_s(self) -> float:
        """Seconds before the detected start that belong to an utterance."""
        detection = self.turn_detection or {}
        return float(detection.get("prefix_padding_ms") or DEFAULT_PREFIX_MS) / 1000

    def usage(self, output: Iterable[Item]) -> dict[str, Any]:
        """Token counts of a response: the conversation goes in, `output` comes out."""
        made = list(output)
        read = [item for item in self.items if item not in made]
        in_text, in_audio = _tokens(read)
        out_text, out_audio = _tokens(made)
        cached = {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0}
        return {
            "total_tokens": in_text + in_audio + out_text + out_audio,
            "input_tokens": in_text + in_audio,
            "output_tokens": out_text + out_audio,
            "input_token_details": {
                "text_tokens": in_text,
                "audio_tokens": in_audio,
                "image_tokens": 0,
                "cached_tokens": 0,
                "cached_tokens_details": cached,
            },
            "output_token_details": {"text_tokens": out_text, "audio_tokens": out_audio},
        }

    @staticmethod
    def rate_limits() -> list[dict[str, Any]]:
        """The content of `rate_limits.updated`."""
        return [{"name": "tokens", "limit": 50_000, "remaining": 49_950, "reset_seconds": 0.06}]


def _tokens(items: Iterable[Item]) -> tuple[int, int]:
    text = sum(-(-len(item.known_text) // _CHARACTERS_PER_TOKEN) for item in items)
    heard = sum(i.audio_ms * TOKENS_PER_AUDIO_S.get(i.role, 0) for i in items) // 1000
    return text, heard


def _detection(dialect: Dialect) -> dict[str, Any]:
    return {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": DEFAULT_PREFIX_MS,
        "silence_duration_ms": dialect.silence_ms,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }


_SEMANTIC = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}


def _defaults(dialect: Dialect) -> dict[str, Any]:
    pcm = {"type": "audio/pcm", "rate": RATE}
    return {
        "type": "realtime",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "include": None,
        "audio": {
            "input": {
                "format": dict(pcm),
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": None if dialect.shape == "xai" else _detection(dialect),
            },
            "output": {"format": dict(pcm), "voice": dialect.voice, "speed": 1.0},
        },
    }


def _legacy_defaults(dialect: Dialect) -> dict[str, Any]:
    return {
        "modalities": ["audio", "text"],
        "instructions": "",
        "voice": dialect.voice,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "turn_detection": _detection(dialect),
        "tools": [],
        "tool_choice": "auto",
        "temperature": 0.8,
        "max_response_output_tokens": "inf",
    }
