"""Tool results that are told in words wait for a moment in which they begin the only turn (R9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm

from ..core.limits import LATE_RESULT_WAIT_S
from .history import ItemContent, told_turns

if TYPE_CHECKING:
    from ..runtime.timer import Deadline, Timer
    from .activity import Activity
    from .engine import Engine
    from .tool_results import ToolResults
    from .tools import ToolCalls

__all__ = ["LateResults"]


class LateResults:
    """Holds the results of calls that the session on the connection does not know of, and what
    else is not to be told now.

    The model is asked to tell results, which cuts whatever it says, and which a request of the
    application does as well: so they go with that, or once nothing is under way.

    Args:
        engine: Sends, and knows whether a reply is under way.
        activity: Knows whether the caller speaks.
        results: Says in which form each result is told, and notes that it was.
        tools: The calls of the session.
        timer: Of the session.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        activity: Activity,
        results: ToolResults,
        tools: ToolCalls,
        timer: Timer,
    ) -> None:
        self._engine = engine
        self._activity = activity
        self._results = results
        self._tool_calls = tools
        self._held: list[llm.ChatItem] = []
        self._timer = timer
        self._moment: Deadline | None = None

    def hold(self, items: Sequence[llm.ChatItem], *, at_once: bool = True) -> None:
        """Keep items for the next request of the application, or for a quiet moment: soon, or with
        `at_once` false after a reply that is about to begin."""
        self._held += items
        if at_once and self._moment is None:
            self._moment = self._timer.after(LATE_RESULT_WAIT_S, self._on_moment)

    def join(self, request: types.LiveClientContent) -> types.LiveClientContent:
        """Have a request tell what is held, in one message."""
        held = self._take()
        return (self._telling(held, request) if held else None) or request

    def reply_over(self) -> None:
        """A reply, or the wait for one, is over."""
        if self._held and self._moment is None:
            self._moment = self._timer.after(0.0, self._on_moment)

    def drop(self) -> None:
        """The connection is gone; the next one is told all that this one was not."""
        self._take()

    def _take(self) -> list[llm.ChatItem]:
        if self._moment is not None:
            self._moment.cancel()
            self._moment = None
        held, self._held = self._held, []
        return held

    def _on_moment(self) -> None:
        self._moment = None
        engine = self._engine
        if engine.awaits_reply or engine.open_reply is not None or self._activity.held:
            return  # `reply_over` or `join` will follow
        event = self._telling(self._take(), None)
        if event is not None:
            engine.send(event)

    def _telling(
        self, items: Sequence[llm.ChatItem], request: types.LiveClientContent | None
    ) -> ItemContent | None:
        """What tells items that were held, together with `request`; it asks for a reply where a
        result wants one.

        Returns:
            None where there is nothing to tell any more.
        """
        native, in_words = self._results.by_form(
            item for item in items if item.type == "function_call_output"
        )
        self._results.answer(native)
        results = {item.id for item in in_words}
        told = [i for i in items if i.type != "function_call_output" or i.id in results]
        turns = told_turns(told, self._tool_calls.arguments)
        if not turns:
            return None
        self._results.delivered([], [], in_words)
        asks = request is not None or any(result.reply_required for result in in_words)
        asked = (request.turns if request is not None else None) or []
        ids = [item.id for item in told]
        return ItemContent(turns=[*turns, *asked], turn_complete=asks, item_ids=ids)
