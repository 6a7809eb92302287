"""Upstream's xAI session as our parts use it; see `openai.engine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..openai.engine import Engine

if TYPE_CHECKING:
    from collections import deque

    from .._vendor.xai import realtime_model as _impl

__all__ = ["SayEngine"]


class SayEngine(Engine):
    """As OpenAI's, and the lines that the application has spoken.

    Args:
        session: As OpenAI's.
    """

    _session: _impl.RealtimeSession

    def __init__(self, session: _impl.RealtimeSession) -> None:
        super().__init__(session)

    @property
    def awaited_lines(self) -> deque[str]:
        """The event ids of the lines whose responses upstream waits for, in order."""
        return self._session._pending_say_event_ids

    def await_line(self, event_id: str) -> None:
        """Have upstream expect the response to a line."""
        self._session._ensure_pending_say_tag(event_id)

    def forget_line_later(self, event_id: str) -> None:
        """Have upstream expect it no more after a while."""
        self._session._schedule_stale_say_cleanup(event_id)

    def withdraw_line(self, event_id: str) -> None:
        """Have a line that was sent not be heard."""
        self._session._discard_say(event_id)
