"""Tool results that are told in words wait for a moment in which they begin the only turn (R9)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm

from ..core.limits import LATE_RESULT_WAIT_S

if TYPE_CHECKING:
    from .realtime import RealtimeSession

__all__ = ["LateResults"]


class LateResults:
    """Holds the results of calls that the session on the connection does not know of, and what
    else is not to be told now.

    The model is asked to tell results, which cuts whatever it says, and which a request of the
    application does as well: so they go with that, or once nothing is under way.
    """

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._held: list[llm.ChatItem] = []
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, items: Sequence[llm.ChatItem], *, at_once: bool = True) -> None:
        """Keep items for the next request of the application, or for a quiet moment: soon, or with
        `at_once` false after a reply that is about to begin."""
        self._held += items
        if at_once and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LATE_RESULT_WAIT_S, self._on_timer)

    def join(self, request: types.LiveClientContent) -> types.LiveClientContent:
        """Have a request tell what is held, in one message."""
        held = self._take()
        return (self._session._context.tell_late(held, request) if held else None) or request

    def reply_over(self) -> None:
        """A reply, or the wait for one, is over."""
        if self._held and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.0, self._on_timer)

    def drop(self) -> None:
        """The connection is gone; the next one is told all that this one was not."""
        self._take()

    def _take(self) -> list[llm.ChatItem]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        return held

    def _on_timer(self) -> None:
        self._timer = None
        session = self._session
        pending, generation = session._pending_generation_fut, session._current_generation
        waits = pending is not None and not pending.done()
        speaks = generation is not None and not generation._done
        if waits or speaks or session._activity.held:
            return  # `reply_over` or `join` will follow
        event = session._context.tell_late(self._take(), None)
        if event is not None:
            session._send_client_event(event)
