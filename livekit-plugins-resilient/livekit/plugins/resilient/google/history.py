"""A conversation in the forms that Gemini is told it in (R7, R9). No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any

from google.genai import types
from livekit.agents import llm

from ..wording import result_text

__all__ = ["SeedForm", "told_turns"]

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

ArgumentsOf = Callable[[str], "str | None"]
"""A call's arguments in JSON by its id; None for an unknown call."""


class SeedForm(Enum):
    """How a fresh session is told a history; after a refusal the next one is tried.

    NATIVE announces it in set-up (`historyConfig`), completes it, and has calls and results as
    such. 3.1 takes model turns only when they are announced (livekit/agents#5238), 2.5 forgets a
    history that is not completed (pipecat-ai/pipecat#4355), and an announced one is not answered
    (google-genai 3.6.1, `HistoryConfig`). PLAIN is what upstream sends, calls and results told in
    words.
    """

    NATIVE = auto()
    PLAIN = auto()


def told_turns(
    items: Sequence[llm.ChatItem], arguments_of: ArgumentsOf, *, native_calls: bool
) -> list[types.Content]:
    """The turns by which a model is told `items`, in their order.

    Args:
        items: Messages, calls and results; a call without a result is left out, since it is told
            with that.
        arguments_of: For results whose call is not among the items.
        native_calls: Whether calls and results go as such; else in words. A result without its
            call always goes in words.
    """
    calls = {item.call_id: item for item in items if item.type == "function_call"}
    answered = {item.call_id for item in items if item.type == "function_call_output"}
    told: list[llm.ChatItem] = []
    for item in _chosen(items):
        if item.type == "function_call":
            if native_calls and item.call_id in answered:
                told.append(item)
        elif item.type == "function_call_output":
            call = calls.get(item.call_id)
            if native_calls and call is not None:
                told.append(item)
            else:
                arguments = call.arguments if call is not None else arguments_of(item.call_id)
                text = result_text(item.name, arguments, item.output, is_error=item.is_error)
                told.append(llm.ChatMessage(role="user", content=[text]))
        else:
            told.append(item)
    turns, _ = llm.ChatContext(told).to_provider_format("google", inject_dummy_user_message=False)
    return [types.Content.model_validate(turn) for turn in turns]


def _chosen(items: Iterable[llm.ChatItem]) -> list[llm.ChatItem]:
    return llm.ChatContext(list(items)).copy(**_NOT_TOLD).items
