"""What a message or the options say about the turn they belong to. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents.utils import is_given

from ..core.facts import Ending

if TYPE_CHECKING:
    from .engine import Options

__all__ = [
    "can_be_interrupted",
    "ending_of",
    "holds_captions_only",
    "holds_output",
    "speaks_of_the_call",
    "thinks",
    "thinks_aloud",
]


def holds_captions_only(message: types.LiveServerMessage) -> bool:
    """Whether a message holds transcripts and nothing else of a turn."""
    content = message.server_content
    if message.tool_call is not None or content is None or content.model_turn is not None:
        return False
    return content.input_transcription is not None or content.output_transcription is not None


def holds_output(message: types.LiveServerMessage, *, speaks: bool) -> bool:
    """Whether a message holds something of an answer: audio, text, or a call that can be run.

    `speaks` tells of replies that are spoken; text beside their audio is nothing that is said.
    """
    calls = (message.tool_call.function_calls if message.tool_call else None) or []
    if any(call.name for call in calls):
        return True
    content = message.server_content
    turn = content.model_turn if content is not None else None
    return any(
        (part.inline_data is not None and part.inline_data.data)
        or (part.text and not part.thought and not speaks)
        for part in (turn.parts if turn is not None else None) or []
    )


def speaks_of_the_call(message: types.LiveServerMessage) -> bool:
    """Whether a message holds anything but notices about the connection."""
    return bool(message.model_fields_set - {"go_away", "session_resumption_update"})


def thinks_aloud(content: types.LiveServerContent) -> bool:
    """Whether content shows that the model reasons before it answers."""
    parts = content.model_turn.parts if content.model_turn is not None else None
    return any(part.thought for part in parts or [])


def thinks(options: Options) -> bool:
    """Whether the model reasons, as far as its options tell."""
    if is_given(options.thinking_config):
        return options.thinking_config.thinking_budget != 0
    return "thinking" in options.model


def can_be_interrupted(options: Options) -> bool:
    """Whether the model's reply stops when the caller speaks."""
    config = options.realtime_input_config
    if not is_given(config):
        return True
    return config.activity_handling is not types.ActivityHandling.NO_INTERRUPTION


def ending_of(content: types.LiveServerContent) -> Ending:
    """How the turn ended that content completes."""
    # The server goes on by itself, so that nothing heard so far is no failure.
    goes_on = content.interaction_status is types.InteractionStatus.IN_PROGRESS
    return "continued" if goes_on else "completed"
