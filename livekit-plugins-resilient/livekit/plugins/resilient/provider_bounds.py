"""What the silence of each provider's connections proves, and when."""

from __future__ import annotations

from .core import limits
from .core.limits import ProviderBounds

__all__ = ["GEMINI", "OPENAI"]

GEMINI = ProviderBounds(
    liveness_timeout_s=limits.GEMINI_LIVENESS_TIMEOUT_S,
    reply_silent_after_s=None,  # it says nothing while it thinks
    deaf_after_s=limits.GEMINI_DEAF_AFTER_S,
)

OPENAI = ProviderBounds(
    liveness_timeout_s=limits.OPENAI_LIVENESS_TIMEOUT_S,
    reply_silent_after_s=limits.OPENAI_REPLY_SILENT_AFTER_S,
    deaf_after_s=limits.OPENAI_DEAF_AFTER_S,
)
