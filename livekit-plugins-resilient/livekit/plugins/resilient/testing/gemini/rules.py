"""What differs between the Gemini Live model families, as data.

Sources are public reports and documents; where they disagree, the rule is a field that a test can
change with `dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .dialects import V2_5, V3_1, V3_8, Dialect


@dataclass(frozen=True)
class FamilyRules:
    """How one model family behaves.

    Attributes:
        model: the name that clients use.
        roles: roles that `clientContent` turns may have; another one closes with 1007.
        mid_session_content: whether `clientContent` is taken after the first model turn
            (livekit/agents#5262: 3.1 refused it at its release).
        seed_model_turns_need_flag: whether a prefill with model turns is refused unless set-up has
            `historyConfig.initialHistoryInClientContent` (livekit/agents#5238, #5251).
        seed_needs_turn_complete: whether the answer after a prefill without `turnComplete` forgets
            the prefill. Reported of 2.5 where speech comes next (pipecat-ai/pipecat#4355); recorded
            sessions of 2.5 and Vertex AI, in which a text comes next, count it among the prompt's
            tokens, so no family has it. Only in strict mode.
        content_takes_calls: whether `clientContent` may have calls and results as parts; refused by
            every family that pydantic-ai tried. Only in strict mode.
        content_interrupts: which `clientContent` cuts a running turn.
        tools_block: whether a tool without declared behaviour blocks the model.
        non_blocking: whether the family has non-blocking tools at all.
        dialect: what its messages look like; on Vertex AI that of Vertex.
        context_update: whether `contextUpdate` is known.
        thinking_level: whether `thinkingConfig.thinkingLevel` is taken.
        connection_limit_s: age at which the server ends a connection.
        session_limit_s: length of a session without context-window compression.
    """

    model: str
    roles: frozenset[str | None]
    mid_session_content: bool
    seed_model_turns_need_flag: bool
    seed_needs_turn_complete: bool
    content_takes_calls: bool
    content_interrupts: Literal["always", "turn_complete"]
    tools_block: bool
    non_blocking: bool
    dialect: Dialect
    context_update: bool
    thinking_level: bool
    connection_limit_s: float
    session_limit_s: float


_TEN_MINUTES_S = 600.0  # ai.google.dev: a connection lasts about 10 minutes
_FIFTY_EIGHT_MINUTES_S = 3480.0  # discuss.ai.google.dev/t/186392: 3.8 ended at exactly 58:00
_FIFTEEN_MINUTES_S = 900.0  # ai.google.dev: audio-only session without compression

FAMILIES: dict[str, FamilyRules] = {
    "2.5": FamilyRules(
        model="gemini-2.5-flash-native-audio-preview-12-2025",
        roles=frozenset({"user", "model", None}),
        mid_session_content=True,
        seed_model_turns_need_flag=False,
        seed_needs_turn_complete=False,
        content_takes_calls=False,
        content_interrupts="always",
        tools_block=True,
        non_blocking=True,
        dialect=V2_5,
        context_update=False,
        thinking_level=False,
        connection_limit_s=_TEN_MINUTES_S,
        session_limit_s=_FIFTEEN_MINUTES_S,
    ),
    "3.1": FamilyRules(
        model="gemini-3.1-flash-live-preview",
        roles=frozenset({"user", "model"}),
        mid_session_content=True,
        seed_model_turns_need_flag=False,
        seed_needs_turn_complete=False,
        content_takes_calls=False,
        content_interrupts="turn_complete",
        tools_block=True,
        non_blocking=False,
        dialect=V3_1,
        context_update=False,
        thinking_level=True,
        connection_limit_s=_TEN_MINUTES_S,
        session_limit_s=_FIFTEEN_MINUTES_S,
    ),
    "3.1-release": FamilyRules(
        model="gemini-3.1-flash-live-preview",
        roles=frozenset({"user", "model"}),
        mid_session_content=False,
        seed_model_turns_need_flag=True,
        seed_needs_turn_complete=False,
        content_takes_calls=False,
        content_interrupts="turn_complete",
        tools_block=True,
        non_blocking=False,
        dialect=V3_1,
        context_update=False,
        thinking_level=True,
        connection_limit_s=_TEN_MINUTES_S,
        session_limit_s=_FIFTEEN_MINUTES_S,
    ),
    "3.8": FamilyRules(
        model="gemini-3.8-live",
        roles=frozenset({"user", "model"}),
        mid_session_content=True,
        seed_model_turns_need_flag=False,
        seed_needs_turn_complete=False,
        content_takes_calls=False,
        content_interrupts="turn_complete",
        tools_block=False,
        non_blocking=True,
        dialect=V3_8,
        context_update=True,
        thinking_level=False,
        connection_limit_s=_FIFTY_EIGHT_MINUTES_S,
        session_limit_s=_FIFTEEN_MINUTES_S,
    ),
}


def family_rules(family: str | FamilyRules) -> FamilyRules:
    """The rules of a family by name, or the given ones.

    Raises:
        ValueError: an unknown family; the message lists the known ones.
    """
    if isinstance(family, FamilyRules):
        return family
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[family]
