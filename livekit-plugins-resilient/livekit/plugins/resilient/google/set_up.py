"""What a set-up frame holds where the application does not say (R20)."""

from __future__ import annotations

from google.genai import types
from livekit.agents.utils import is_given

from .._vendor.google import realtime_api as _impl
from ..core.limits import COMPRESSION_TARGET_TOKENS, COMPRESSION_TRIGGER_TOKENS

__all__ = ["compress_by_default"]


def compress_by_default(config: types.LiveConnectConfig, options: _impl._RealtimeOptions) -> None:
    """Compress the context unless the application chose, which includes choosing None.

    Without it a session ends when its context is full: after 15 minutes of audio.
    """
    if not is_given(options.context_window_compression):
        config.context_window_compression = types.ContextWindowCompressionConfig(
            trigger_tokens=COMPRESSION_TRIGGER_TOKENS,
            sliding_window=types.SlidingWindow(target_tokens=COMPRESSION_TARGET_TOKENS),
        )
