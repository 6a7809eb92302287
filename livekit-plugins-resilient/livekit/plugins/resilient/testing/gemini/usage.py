"""The token counts that come with the end of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .dialects import Dialect

if TYPE_CHECKING:
    from .session import Session
    from .turns import ModelTurn

AUDIO_TOKENS_PER_S = 25
"""ai.google.dev: audio counts 25 tokens per second."""

_OVERHEAD = 50


def usage_of(turn: ModelTurn, session: Session, dialect: Dialect) -> dict[str, Any]:
    """`usageMetadata` of a turn that is over."""
    prompt = session.context_tokens + _OVERHEAD
    heard = round(sum(entry.audio_s for entry in session.history) * AUDIO_TOKENS_PER_S)
    spoken = round(turn.spoken_s * AUDIO_TOKENS_PER_S)
    usage: dict[str, Any] = {"promptTokenCount": prompt, "totalTokenCount": prompt + spoken}
    read = [{"modality": "TEXT", "tokenCount": prompt - heard}]
    if heard:
        read.append({"modality": "AUDIO", "tokenCount": heard})
    usage["promptTokensDetails"] = read
    if spoken:
        usage[f"{dialect.usage}TokenCount"] = spoken
        usage[f"{dialect.usage}TokensDetails"] = [{"modality": "AUDIO", "tokenCount": spoken}]
    if turn.thought:
        usage["thoughtsTokenCount"] = len(turn.thought) // 4
        usage["totalTokenCount"] += usage["thoughtsTokenCount"]
    return usage
