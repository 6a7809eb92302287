"""A conversation in the forms that Gemini is told it in (R7, R9). No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any

from google.genai import types
from livekit.agents import llm
from pydantic import Field

from ..tellable import mended, sendable, tellable
from ..wording import result_text

__all__ = [
    "ItemContent",
    "ItemResponse",
    "SeedForm",
    "is_told",
    "seed_forms",
    "told_text",
    "told_turns",
]

# What upstream's conversion to turns cannot take, or the model must not be told.
_NOT_TOLD: dict[str, Any] = dict.fromkeys(
    (
        "exclude_config_update",
        "exclude_empty_message",
        "exclude_handoff",
        "exclude_instructions",
    ),
    True,
)

_CONVERSATION = (
    "The conversation with the caller is under way. Go on with it; do not greet again. "
    "What was said so far:"
)

ArgumentsOf = Callable[[str], "str | None"]
"""A call's arguments in JSON by its id; None for an unknown call."""


class ItemContent(types.LiveClientContent):
    """Turns made of context items. They die with their connection, which the next one makes up."""

    item_ids: list[str] = Field(default_factory=list, exclude=True)


class ItemResponse(types.LiveClientToolResponse):
    """Answers to calls, made of context items; as `ItemContent`."""

    item_ids: list[str] = Field(default_factory=list, exclude=True)


class SeedForm(Enum):
    """How a fresh session is told a history (R7). Calls and results are told in words in each:
    the Live API refuses them as parts of `clientContent` (pydantic-ai, seen live).

    TURNS is what upstream sends: turns that are not completed, after which the caller goes on.
    Recorded with 2.5, 3.1 and Vertex AI. ANNOUNCED says so in set-up (`historyConfig`) and
    completes them; 3.1 took model turns only so at its release (livekit/agents#5238), and 2.5 is
    not known to take it at all. INSTRUCTED has the history as part of the instructions.
    """

    TURNS = auto()
    ANNOUNCED = auto()
    INSTRUCTED = auto()


def seed_forms(model: str) -> tuple[SeedForm, ...]:
    """The forms for a model family, on either API: each is tried once that before it is refused."""
    if "2.5" in model:
        return SeedForm.TURNS, SeedForm.INSTRUCTED
    return SeedForm.TURNS, SeedForm.ANNOUNCED, SeedForm.INSTRUCTED


def is_told(item: llm.ChatItem) -> bool:
    """Whether the model is told of an item at all, by itself."""
    if item.type == "message":
        return item.role in ("user", "assistant") and bool(item.content)
    return item.type == "function_call_output"


def told_turns(items: Sequence[llm.ChatItem], arguments_of: ArgumentsOf) -> list[types.Content]:
    """The turns by which a model is told `items`, in their order; what cannot be told is left out.

    Args:
        items: Messages, calls and results; a call is left out, since it is told with its result.
        arguments_of: For results whose call is not among the items.
    """
    words = _in_words(items, arguments_of)
    try:
        return _turns(words)
    except Exception:
        return _turns(tellable(words, lambda item: _turns([item])))


def _turns(items: list[llm.ChatItem]) -> list[types.Content]:
    told = llm.ChatContext(items)
    turns, _ = told.to_provider_format("google", inject_dummy_user_message=False)
    return [types.Content.model_validate(sendable(turn)) for turn in turns]


def told_text(items: Sequence[llm.ChatItem], arguments_of: ArgumentsOf) -> str:
    """A history as a part of the instructions; arguments as those of `told_turns`. "" for none."""
    lines = [
        f"{'You' if item.role == 'assistant' else 'Caller'}: {item.text_content}"
        for item in _in_words(items, arguments_of)
        if item.type == "message" and item.text_content
    ]
    return str(sendable("\n".join([_CONVERSATION, *lines]))) if lines else ""


def _in_words(items: Sequence[llm.ChatItem], arguments_of: ArgumentsOf) -> list[llm.ChatItem]:
    items = [mended(item) for item in items]
    calls = {item.call_id: item for item in items if item.type == "function_call"}
    told: list[llm.ChatItem] = []
    for item in _chosen(items):
        if item.type == "function_call_output":
            call = calls.get(item.call_id)
            arguments = call.arguments if call is not None else arguments_of(item.call_id)
            text = result_text(item.name, arguments, item.output, is_error=item.is_error)
            told.append(llm.ChatMessage(role="user", content=[text]))
        elif item.type != "function_call":
            told.append(item)
    return told


def _chosen(items: Iterable[llm.ChatItem]) -> list[llm.ChatItem]:
    return llm.ChatContext(list(items)).copy(**_NOT_TOLD).items
