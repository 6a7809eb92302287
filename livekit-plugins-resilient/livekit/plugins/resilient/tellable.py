"""Has what a record holds be told, whoever put it there: a server, or the application.

A record is told again on every new connection, so one item that cannot be told would keep each of
them from serving. Items of a record are checked when they are made, but not when they are changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from livekit.agents import llm
from livekit.agents.llm.chat_context import Instructions

from .runtime.log import logger

__all__ = ["mended", "sendable", "tellable"]

_CONTENT = (str, Instructions, llm.ImageContent, llm.AudioContent)


def mended(item: llm.ChatItem) -> llm.ChatItem:
    """An item whose fields have the types they promise; the same one where they do.

    What is no text, and should be, is told as JSON; content of an unknown kind is left out.
    """
    if item.type == "function_call" and not isinstance(item.arguments, str):
        return item.model_copy(update={"arguments": _as_text(item.arguments)})
    if item.type == "function_call_output" and not isinstance(item.output, str):
        return item.model_copy(update={"output": _as_text(item.output)})
    if item.type == "message" and not _has_content(item):
        given = item.content if isinstance(item.content, list | tuple) else [item.content]
        content = [part for part in given if isinstance(part, _CONTENT)]
        return item.model_copy(update={"content": content})
    return item


def tellable(
    items: Iterable[llm.ChatItem], tell: Callable[[llm.ChatItem], object]
) -> list[llm.ChatItem]:
    """The items that can be told, once it is known that not all of them can.

    Args:
        items: As `mended`.
        tell: Makes of one item what is sent of it; whatever it raises, the item cannot be told.

    Returns:
        Them, a message with a picture or a sound that cannot be read without that.
    """
    kept: list[llm.ChatItem] = []
    odd: dict[str, str] = {}
    for item in items:
        error = _error_of(tell, item)
        if error is None:
            kept.append(item)
            continue
        odd[item.type] = error
        if item.type != "message":
            continue
        words = [part for part in item.content if isinstance(part, str | Instructions)]
        in_words = item.model_copy(update={"content": words})
        if words and _error_of(tell, in_words) is None:
            kept.append(in_words)
    if odd:
        logger.warning("what cannot be told of the conversation is left out", extra={"items": odd})
    return kept


def sendable(value: Any) -> Any:
    """A JSON value whose texts can be sent: halves of surrogate pairs, which are no Unicode, are
    replaced. Others than JSON's types are passed through."""
    if isinstance(value, str):
        if value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [sendable(element) for element in value]
    if isinstance(value, dict):
        return {key: sendable(below) for key, below in value.items()}
    return value


def _has_content(message: llm.ChatMessage) -> bool:
    content: Any = message.content
    return isinstance(content, list) and all(isinstance(part, _CONTENT) for part in content)


def _as_text(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _error_of(tell: Callable[[llm.ChatItem], object], item: llm.ChatItem) -> str | None:
    try:
        tell(item)
    except Exception as error:
        return type(error).__name__
    return None
