"""What a set-up frame holds where the application does not say (R20)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm
from livekit.agents.utils import is_given

from ..core.limits import LONGEST_NOTICE_S
from .tool_schema import restore_schema_details

if TYPE_CHECKING:
    from .engine import Options

__all__ = ["extend", "seconds_of"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)s", re.ASCII)


def extend(config: types.LiveConnectConfig, options: Options, tools: llm.ToolContext) -> None:
    """Add to upstream's set-up what it leaves out."""
    restore_schema_details(config.tools or [], tools)
    _compress_by_default(config, options)
    _keep_transparency(config, options)


def _compress_by_default(config: types.LiveConnectConfig, options: Options) -> None:
    """Compress the context unless the application chose, which includes choosing None.

    Without it a session ends after 15 minutes of audio, or when its context is full. Trigger and
    target are left to the server, which knows its model's window (128,000 tokens with native audio,
    32,000 with other Live models): it drops the oldest at 80 % of it, down to half of that. Audio
    costs some 25 tokens a second, so that 15 minutes of it stay far below. Source: Google's Live
    API reference and session management guide, 2026-11.
    """
    if not is_given(options.context_window_compression):
        config.context_window_compression = types.ContextWindowCompressionConfig(
            sliding_window=types.SlidingWindow()
        )


def _keep_transparency(config: types.LiveConnectConfig, options: Options) -> None:
    """Ask for transparent resumption where the application did: Vertex AI alone has it.

    Its handles say which client message was the last they stand for.
    """
    given = options.session_resumption
    if options.vertexai and is_given(given) and given.transparent and config.session_resumption:
        config.session_resumption.transparent = True


def seconds_of(duration: str | None) -> float | None:
    """The seconds of a protobuf Duration in JSON, such as "9.5s"; a field that is left out is 0.

    Returns:
        None where it is no such text, negative, or longer than `core.limits.LONGEST_NOTICE_S`.
    """
    if duration is None:
        return 0.0
    found = _DURATION.fullmatch(duration)
    seconds = float(found.group(1)) if found else LONGEST_NOTICE_S + 1
    return seconds if seconds <= LONGEST_NOTICE_S else None
