"""OpenAI Realtime's events by name, and what is measured of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .facts import Step, between

AUDIO_TOKENS_PER_S = 20
"""OpenAI's guide on realtime costs; recordings keep no audio, but count its tokens."""

APPEND = "input_audio_buffer.append"
APPEND_S = 0.1
"""Microphone audio in one message of the recorded clients, and of the bare one."""

_SOUND = ("response.output_audio", "response.audio")
_WORDS = ("response.output_audio_transcript", "response.audio_transcript")
_CALLER = "conversation.item.input_audio_transcription"


def name_of(message: Mapping[str, Any]) -> str:
    """An event's type; where it shows an item, with what that is: a role, or a call's kind."""
    kind = str(message.get("type"))
    item = message.get("item")
    if not isinstance(item, Mapping):
        return kind
    return f"{kind}:{item['role'] if item.get('type') == 'message' else item.get('type')}"


def recorded(steps: Sequence[Sequence[Any]]) -> list[Step]:
    """The session of a recording.

    Microphone audio is left out, but tells the time where the client sent it as it was captured,
    and the recording has no times: while the server speaks, it goes on.
    """
    paced = _is_paced(steps)
    session = []
    frames = 0
    for direction, at, message, *count in steps:
        times = count[0] if count else 1
        if message.get("type") == APPEND:
            frames += times
            continue
        name = name_of(message)
        if at is None and paced:
            at = frames * APPEND_S
        step = Step(name if direction == "<" else f">{name}", message, at)
        session += [step] * times
    return session


def _is_paced(steps: Sequence[Sequence[Any]]) -> bool:
    names = [message.get("type") for _, _, message, *_ in steps]
    started, stopped = "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"
    if started not in names or stopped not in names:
        return False
    return APPEND in names[names.index(started) : names.index(stopped)]


def measures(session: Sequence[Step]) -> dict[str, float]:
    """Seconds, unless said otherwise, of the first response with audio:

    - created: from `response.create` to `response.created`;
    - item: from `response.created` to the first item;
    - sound: from `response.created` to the first audio;
    - asked-sound: from `response.create`, or the end of an utterance, to the first audio;
    - pace: audio seconds sent per second;
    - words-through: share of the audio messages sent before the last words of the transcript;
    - item-done: from the end of the audio to that of its item;
    - limits: from `response.done` to `rate_limits.updated`;
    - caption: from `speech_started` to the first words of what the caller says;
    - transcribed: from `response.created` to the whole transcript of it.
    """
    sound, done = (_of(session, _SOUND, end) for end in ("delta", "done"))
    words = _of(session, _WORDS, "delta")
    created = "response.created"
    found = {
        "created": between(session, ">response.create", created),
        "item": between(session, created, "response.output_item.added:assistant"),
        "limits": between(session, "response.done", "rate_limits.updated"),
        "caption": between(session, "input_audio_buffer.speech_started", f"{_CALLER}.delta"),
        "transcribed": between(session, created, f"{_CALLER}.completed"),
    }
    if sound and done:
        first = session.index(done[0])
        sent = [step for step in sound if session.index(step) < first]
        asked = ">response.create" if found["created"] is not None else _COMMITTED
        found["sound"] = between(session, created, sent[0].name)
        found["asked-sound"] = between(session, asked, sent[0].name)
        found["item-done"] = between(session, done[0].name, "response.output_item.done:assistant")
        found["pace"] = _pace(session, sent, done[0])
        found["words-through"] = _words_through(session, first, words)
    return {name: value for name, value in found.items() if value is not None}


_COMMITTED = "input_audio_buffer.committed"


def _of(session: Sequence[Step], kinds: Sequence[str], what: str) -> list[Step]:
    return [step for step in session if step.name in [f"{kind}.{what}" for kind in kinds]]


def _pace(session: Sequence[Step], sent: Sequence[Step], done: Step) -> float | None:
    ended = next((s for s in session[session.index(done) :] if s.name == "response.done"), None)
    if ended is None or sent[0].at is None or done.at is None or done.at <= sent[0].at:
        return None
    usage = ended.message.get("usage") or ended.message["response"]["usage"]
    tokens: int = usage["output_token_details"]["audio_tokens"]
    return tokens / AUDIO_TOKENS_PER_S / (done.at - sent[0].at)


def _words_through(session: Sequence[Step], end: int, words: Sequence[Step]) -> float | None:
    names = [step.name for step in session[:end]]
    if not words or words[0].name not in names:
        return None
    sounds = [index for index, name in enumerate(names) if name in [f"{k}.delta" for k in _SOUND]]
    last = max(index for index, name in enumerate(names) if name == words[0].name)
    return sum(index < last for index in sounds) / len(sounds)
