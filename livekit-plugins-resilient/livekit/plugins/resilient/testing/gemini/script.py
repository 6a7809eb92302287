"""Turns that only Gemini's model takes; the others are in `testing.script`."""

from __future__ import annotations

from livekit.plugins.resilient.testing.script import Reply


class CaptionsOnly(Reply):
    """A turn whose caption comes without any audio, as gemini-3.1-flash-live was recorded."""
