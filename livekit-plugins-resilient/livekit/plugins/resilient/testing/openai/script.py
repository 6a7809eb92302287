"""Turns that only OpenAI's model takes; the others are in `testing.script`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from livekit.plugins.resilient.testing.errors import ScriptError, check_number
from livekit.plugins.resilient.testing.script import Reply, ToolCall, ToolCalls, Turn


@dataclass(frozen=True)
class Messages(Reply):
    """One response with several message items, as reasoning models send them.

    Build it with `Messages.of("Let me see.", "It is sunny.")`.
    """

    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, *parts: str) -> Messages:
        """One message item per part.

        Raises:
            ScriptError: no part, or an empty one.
        """
        if not parts or not all(parts):
            raise ScriptError("Messages needs at least one part, and no empty one")
        return cls(" ".join(parts), parts=parts)

    def replies(self) -> tuple[Reply, ...]:
        """The parts as replies of their own; the thinking time is before the first."""
        first, *rest = self.parts
        return (
            Reply(first, self.characters_per_second, self.first_token_s, self.transcript_lead_s),
            *(Reply(text, self.characters_per_second, 0.0) for text in rest),
        )


@dataclass(frozen=True)
class Incomplete(Reply):
    """A response that ends with status "incomplete" after `stop_at_s` of audio."""

    stop_at_s: float = 0.5
    cause: Literal["max_output_tokens", "content_filter"] = "max_output_tokens"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("stop_at_s", self.stop_at_s, least=0, error=ScriptError)


def parts_of(turn: Turn) -> list[Reply | ToolCall]:
    """What a response puts out for a turn: messages and calls, in order."""
    if isinstance(turn, Messages):
        return list(turn.replies())
    if isinstance(turn, Reply):
        return [turn]
    if isinstance(turn, ToolCall):
        said = [Reply(turn.say_first)] if turn.say_first else []
        trailing = [Reply(turn.trailing_text)] if turn.trailing_text else []
        return [*said, turn, *trailing]
    if isinstance(turn, ToolCalls):
        said = [Reply(turn.say_first)] if turn.say_first else []
        calls = [part for call in turn.calls for part in parts_of(call)]
        return [*said, *calls]
    return []
