"""What a set-up frame holds where the application does not say (R20)."""

from __future__ import annotations

import re

from google.genai import types
from livekit.agents.utils import is_given

from .._vendor.google import realtime_api as _impl
from ..core.limits import COMPRESSION_TARGET_TOKENS, COMPRESSION_TRIGGER_TOKENS

__all__ = ["compress_by_default", "keep_transparency", "seconds_of"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


def compress_by_default(config: types.LiveConnectConfig, options: _impl._RealtimeOptions) -> None:
    """Compress the context unless the application chose, which includes choosing None.

    Without it a session ends when its context is full: after 15 minutes of audio.
    """
    if not is_given(options.context_window_compression):
        config.context_window_compression = types.ContextWindowCompressionConfig(
            trigger_tokens=COMPRESSION_TRIGGER_TOKENS,
            sliding_window=types.SlidingWindow(target_tokens=COMPRESSION_TARGET_TOKENS),
        )


def keep_transparency(config: types.LiveConnectConfig, options: _impl._RealtimeOptions) -> None:
    """Ask for transparent resumption where the application did: Vertex AI alone has it.

    Its handles say which client message was the last they stand for.
    """
    given = options.session_resumption
    if options.vertexai and is_given(given) and given.transparent and config.session_resumption:
        config.session_resumption.transparent = True


def seconds_of(duration: str | None) -> float:
    """The seconds of a protobuf Duration in JSON, such as "9.5s"; 0 for none or another text."""
    found = _DURATION.fullmatch(duration or "")
    return float(found.group(1)) if found else 0.0
