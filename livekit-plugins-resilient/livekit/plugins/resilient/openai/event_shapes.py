"""What a server event must look like to be handled, by its type (R19). Data, no I/O.

Listed are the fields that we or upstream's handlers read, and what they must hold for either to
come to an end. What is not listed passes as it is: unknown events, unknown fields, unknown values.
Source: upstream's handlers, and recorded sessions of OpenAI, Azure and xAI, against which
`scripts/bench.sh recordings` holds the table. Date: 2026-11.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from livekit.agents.utils import shortuuid

__all__ = ["kind_of", "read_event"]

_MISSING: Any = object()


@dataclass(frozen=True)
class _Field:
    """One field of an event; the objects around it have rows of their own, ahead of it.

    `instead` makes what stands there where it does not fit; without it the event is of no use.
    """

    path: str
    fits: Callable[[Any], bool]
    instead: Callable[[Any], Any] | None = None
    may_lack: bool = False
    above: tuple[str, ...] = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        *above, name = self.path.split(".")
        object.__setattr__(self, "above", tuple(above))
        object.__setattr__(self, "name", name)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_object_if_any(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _says_something(error: Any) -> bool:
    """Whether an error says what is wrong, or what with."""
    names = ("message", "code", "event_id")
    return isinstance(error, dict) and any(isinstance(error.get(name), str) for name in names)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_if_any(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_id(value: Any) -> bool:
    """Ids are hashed by upstream, which lone surrogates do not survive."""
    return isinstance(value, str) and value != "" and _can_be_encoded(value)


def _is_time_if_any(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LATEST_S and math.isfinite(value)


# Above any session; an int beyond a float's range could not be compared with one.
_LATEST_S = 1e9


def _can_be_encoded(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _nothing(_: Any) -> None:
    return None


def _empty(_: Any) -> str:
    return ""


def _no_fields(_: Any) -> dict[str, Any]:
    return {}


def _as_arguments(value: Any) -> str:
    """Arguments that are no text, as the text that they should have been."""
    return "{}" if value is None else json.dumps(value)


def _optional(path: str, fits: Callable[[Any], bool]) -> _Field:
    return _Field(path, fits, _nothing, may_lack=True)


_OF_ITEM = (_Field("item_id", _is_id),)
_SPOKEN = (*_OF_ITEM, _Field("delta", _is_text), _optional("start_time", _is_time_if_any))
_ITEM = (_Field("item", _is_object), _Field("item.id", _is_id), _Field("item.type", _is_text))
_TRANSCRIBED = (
    *_OF_ITEM,
    _optional("content_index", lambda value: value is None or type(value) is int),
)

_SHAPES: dict[str, tuple[_Field, ...]] = {
    "error": (
        _Field("error", _says_something),
        _Field("error.message", _is_text, _empty),
        _optional("error.type", _is_text_if_any),
        _optional("error.code", _is_text_if_any),
        _optional("error.event_id", _is_text_if_any),
    ),
    "conversation.item.added": (*_ITEM, _optional("previous_item_id", _is_text_if_any)),
    "conversation.item.deleted": (_optional("item_id", _is_text_if_any),),
    "conversation.item.input_audio_transcription.delta": (
        *_TRANSCRIBED,
        _Field("delta", _is_text_if_any, may_lack=True),
    ),
    "conversation.item.input_audio_transcription.completed": (
        *_TRANSCRIBED,
        _Field("transcript", _is_text),
    ),
    "conversation.item.input_audio_transcription.failed": _TRANSCRIBED,
    # Which item it is matters less than that the caller spoke.
    "input_audio_buffer.speech_started": (_Field("item_id", _is_text, _empty),),
    "input_audio_buffer.committed": (_Field("item_id", _is_text, _empty),),
    "response.created": (
        _Field("response", _is_object, _no_fields),
        # Nothing else of a response is found by it, so that the reply can be heard without.
        _Field("response.id", _is_id, lambda _: shortuuid("resp_")),
        _optional("response.metadata", _is_object_if_any),
        _optional("response.metadata.client_event_id", _is_text_if_any),
    ),
    "response.output_item.added": _ITEM,
    "response.content_part.added": (
        *_OF_ITEM,
        _Field("part", _is_object),
        _Field("part.type", _is_text),
    ),
    "response.output_text.delta": _SPOKEN,
    "response.output_audio_transcript.delta": _SPOKEN,
    "response.output_audio.delta": (*_OF_ITEM, _Field("delta", _is_text)),
    "response.output_item.done": _ITEM,
    # However it looks, it is the end.
    "response.done": (
        _Field("response", _is_object, _no_fields),
        _Field("response.id", _is_text, _empty),
        _Field("response.status", _is_text, lambda _: "completed"),
        # xAI has a word here.
        _optional("response.status_details", lambda v: v is None or isinstance(v, dict | str)),
        _optional("response.status_details.error", _is_object_if_any),
        _optional("response.status_details.error.type", _is_text_if_any),
        _optional("response.status_details.error.code", _is_text_if_any),
        _optional("response.usage", _is_object_if_any),
    ),
}
# Azure's preview API says these without "output_", and calls an item that was added a created one.
for _kind in ("audio", "audio_transcript", "text"):
    _SHAPES[f"response.{_kind}.delta"] = _SHAPES[f"response.output_{_kind}.delta"]
_SHAPES["conversation.item.created"] = _SHAPES["conversation.item.added"]

_CALL = (
    _Field("item.call_id", _is_id),
    _Field("item.name", lambda value: isinstance(value, str) and value != ""),
    _Field("item.arguments", _is_text, _as_arguments),
)
"""A tool call that is to run; it is announced without its arguments before."""


def read_event(text: str) -> tuple[dict[str, Any] | None, bool]:
    """An event that can be handled.

    Args:
        text: As received.

    Returns:
        The event, and whether it had to be changed for that; None for what is no event.
    """
    try:
        event = json.loads(text)
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            return None, False
        changed = False
        for row in _shape_of(event):
            fits = _fit(event, row)
            if fits is None:
                return None, False
            changed |= not fits
    except (ValueError, RecursionError):  # no JSON, or nested deeper than can be read
        return None, False
    return event, changed


def kind_of(text: str) -> str:
    """What a message that is no event says of itself, for the log: a known type, or "unknown"."""
    found = _TYPE.search(text[:_HEAD])
    return found[1] if found is not None and found[1] in _SHAPES else "unknown"


_TYPE = re.compile(r'"type"\s*:\s*"([a-z_.]+)"')

# Where the type stands in every event on record.
_HEAD = 200


def _shape_of(event: dict[str, Any]) -> tuple[_Field, ...]:
    shape = _SHAPES.get(event["type"], ())
    if event["type"] != "response.output_item.done" or not isinstance(event.get("item"), dict):
        return shape
    return (*shape, *_CALL) if event["item"].get("type") == "function_call" else shape


def _fit(event: dict[str, Any], row: _Field) -> bool | None:
    """Whether a field fits; False where it was made to, None where it cannot be."""
    parent: Any = event
    for key in row.above:
        parent = parent.get(key)
        if not isinstance(parent, dict):
            return True  # nothing is there, as its own row allows
    value = parent.get(row.name, _MISSING)
    if (value is _MISSING and row.may_lack) or row.fits(value):
        return True
    if row.instead is None:
        return None
    parent[row.name] = row.instead(None if value is _MISSING else value)
    return False
