"""Warns of what Gemini cannot do, where upstream does so in the method that ours replaces."""

from __future__ import annotations

from collections.abc import Sequence

from livekit.agents import llm

from ..runtime.log import logger

__all__ = ["warn_of_removals", "warn_of_replies"]


def warn_of_replies(results: Sequence[llm.FunctionCallOutput]) -> None:
    """Results are about to be sent in a form that has the model reply to each of them."""
    names = [result.name for result in results if not result.reply_required]
    if names:
        logger.warning(
            "a result that wants no reply gets one all the same: Gemini answers every result of a "
            "blocking tool; NON_BLOCKING tools can be silent",
            extra={"functions": names},
        )


def warn_of_removals(known: llm.ChatContext, record: llm.ChatContext) -> None:
    """The application's `record` is about to take the place of what was `known`."""
    ids = {item.id for item in record.items}
    calls = {item.call_id for item in record.items if item.type == "function_call"}
    for item in known.items:
        if item.id in ids or (item.type == "message" and not item.content):
            continue
        if item.type == "function_call" and item.call_id in calls:
            continue  # recorded under another id
        logger.warning("an item was taken out of the context, but Gemini goes on knowing it")
        return
