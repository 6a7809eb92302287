"""What healthy providers, networks and applications do in a call: pauses above all."""

from __future__ import annotations

from collections.abc import Iterable

from livekit.plugins.resilient.testing import AtAudio, Before, Delay, Fault, LateReply, UserStops
from livekit.plugins.resilient.testing.faults import Trigger
from tests.scenarios.call_script import ProviderName

from .script import Twist


def _pauses(
    name: str,
    where: str,
    seconds: Iterable[float],
    triggers: dict[ProviderName, Trigger],
) -> tuple[Twist, ...]:
    return tuple(
        Twist(
            name=f"{name}-{pause:g}s",
            sentence=f"{pause:g} s pass {where}",
            faults={
                provider: (Fault(trigger, Delay(pause)),) for provider, trigger in triggers.items()
            },
        )
        for pause in seconds
    )


def mid_reply(*seconds: float, at_s: float = 1.0, nth: int = 1) -> tuple[Twist, ...]:
    """The model stops in the middle of a reply: a search of its own, an overloaded server."""
    trigger = AtAudio(at_s, nth=nth)
    where = "in the middle of a reply"
    return _pauses("mid-reply", where, seconds, {"gemini": trigger, "openai": trigger})


def before_the_call(*seconds: float, after_words: bool = True) -> tuple[Twist, ...]:
    """The model thinks before it calls a tool; `after_words`: it has spoken before that."""
    item = 2 if after_words else 1
    return _pauses(
        "before-the-call",
        "before the tool call",
        seconds,
        {"gemini": Before("toolCall"), "openai": Before("response.output_item.added", nth=item)},
    )


def before_the_end(*seconds: float, nth: int = 1) -> tuple[Twist, ...]:
    """Everything was said, but the turn is not over yet."""
    return _pauses(
        "before-the-end",
        "between the last output and the end of the turn",
        seconds,
        {
            "gemini": Before("turnComplete", nth=nth),
            "openai": Before("response.done", nth=nth),
        },
    )


def before_the_answer(*seconds: float) -> tuple[Twist, ...]:
    """The model thinks after the caller's turn."""
    return tuple(
        Twist(
            name=f"before-the-answer-{pause:g}s",
            sentence=f"{pause:g} s pass before the first output",
            faults={
                provider: (Fault(UserStops(), LateReply(pause)),)
                for provider in ("gemini", "openai")
            },
        )
        for pause in seconds
    )
