"""Gemini Live's messages by name, and what is measured of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .facts import Step, between

AUDIO_TOKENS_PER_S = 25
"""ai.google.dev; recordings keep no audio, but count its tokens."""

_CONTENT = (
    "interrupted",
    "inputTranscription",
    "modelTurn",
    "outputTranscription",
    "generationComplete",
    "turnComplete",
)


def name_of(message: Mapping[str, Any]) -> str:
    """What a message of the server is; several things in one are joined by "&".

    "{}" is a message without anything, "{content}" one with an empty `serverContent`. Usage has
    no name of its own: it comes along.
    """
    found = [_part(kind, message["serverContent"]) for kind in _kinds(message)]
    for kind in message:
        if kind == "voiceActivity":
            found.append(str(message[kind]["type"]))
        elif kind == "sessionResumptionUpdate":
            found.append("handle" if message[kind].get("newHandle") else "no-handle")
        elif kind not in ("serverContent", "usageMetadata"):
            found.append(kind)
    if found:
        return "&".join(found)
    return "{content}" if "serverContent" in message else "{}"


def _kinds(message: Mapping[str, Any]) -> list[str]:
    content = message.get("serverContent", {})
    return [kind for kind in _CONTENT if kind in content]


def _part(kind: str, content: Mapping[str, Any]) -> str:
    if kind == "modelTurn":
        part = content[kind]["parts"][0]
        return "thought" if part.get("thought") else "text" if "text" in part else "audio"
    if kind == "outputTranscription":
        caption = content[kind]
        return "caption" if "text" in caption else "caption-ends" if caption else "caption-begins"
    return {"inputTranscription": "caller-caption"}.get(kind, kind)


def recorded(steps: Sequence[Sequence[Any]]) -> list[Step]:
    """The session of a recording."""
    session = []
    for direction, at, message, *count in steps:
        if direction == ">":
            # Times count from the beginning of the session, which is when it is set up.
            step = Step(f">{message}", at=0.0 if message == "setup" else at)
        else:
            step = Step(name_of(message), message, at)
        session += [step] * (count[0] if count else 1)
    return session


def measures(session: Sequence[Step]) -> dict[str, float]:
    """Of the first turn, in seconds unless said otherwise:

    - set-up: from the client's set-up to the answer;
    - handle: from the set-up's answer to the first handle;
    - thinks: from the end of speech to the first audio;
    - frame: audio in one message;
    - pace: audio seconds sent per second;
    - complete: from the last audio to `generationComplete`;
    - left: what is still to be played at `turnComplete`, by a client that plays at once.
    """
    found = {
        "set-up": between(session, ">setup", "setupComplete"),
        "handle": between(session, "setupComplete", "handle"),
    }
    end = next((step for step in session if step.name == "turnComplete"), None)
    turn = session[: session.index(end) + 1] if end is not None else ()
    spoken = [step for step in turn if "audio" in step.name.split("&")]
    if spoken and end is not None:
        audio_s = _audio_tokens(end.message) / AUDIO_TOKENS_PER_S
        found["frame"] = audio_s / len(spoken)
        first, last = spoken[0].at, spoken[-1].at
        if first is not None and last is not None and end.at is not None:
            found["thinks"] = between(session, "ACTIVITY_END", spoken[0].name)
            found["pace"] = audio_s / (last - first) if last > first else None
            done = next(step for step in turn if step.name == "generationComplete")
            found["complete"] = None if done.at is None else done.at - last
            found["left"] = first + audio_s - end.at
    return {name: value for name, value in found.items() if value is not None}


def _audio_tokens(message: Mapping[str, Any]) -> int:
    usage = message.get("usageMetadata", {})
    details = usage.get("responseTokensDetails") or usage.get("candidatesTokensDetails") or []
    return sum(d.get("tokenCount", 0) for d in details if d.get("modality") == "AUDIO")
