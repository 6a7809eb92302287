"""How the results of tools reach the model: as the answers to their calls, or in words (R9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from google.genai import types
from livekit.agents import llm

from .._vendor.google.utils import get_tool_results_for_realtime
from ..core import facts as f
from ..events import ToolResultRedelivered
from ..tellable import mended
from .history import ItemResponse
from .unsupported import warn_of_replies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..runtime.driver import Driver
    from .engine import Engine
    from .serving import Serving
    from .tools import ToolCalls

__all__ = ["ToolResults"]


class ToolResults:
    """Delivers the results of one session's calls, each once over all its connections.

    Args:
        engine: Sends, and knows the options.
        driver: Gets facts, and tells the application.
        serving: Which connection is told.
        tools: The calls.
        on_void: Called with the id of a result that is to be told to nobody.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        tools: ToolCalls,
        on_void: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._tool_calls = tools
        self._on_void = on_void

    def by_form(
        self, results: Iterable[llm.FunctionCallOutput], *, answers_invented: bool = False
    ) -> tuple[list[llm.FunctionCallOutput], list[llm.FunctionCallOutput]]:
        """Sort out results: those that answer calls of the session on the connection, and those
        that it is told in words.

        Args:
            results: Of the application.
            answers_invented: Whether the result of a call that no server made is an answer too.
        """
        calls, number = self._tool_calls, self._serving.number
        native: list[llm.FunctionCallOutput] = []
        in_words: list[llm.FunctionCallOutput] = []
        for result in results:
            if self.is_void(result):
                self._on_void(result.id)
            elif calls.is_known(result.call_id, number) or (
                answers_invented and calls.came_on(result.call_id) is None
            ):
                native.append(result)
            else:
                in_words.append(result)
        return native, in_words

    def is_void(self, item: llm.ChatItem) -> bool:
        """Whether it is the result of a call that the server took back (R10)."""
        return item.type == "function_call_output" and self._tool_calls.is_cancelled(item.call_id)

    def answer(self, native: Sequence[llm.FunctionCallOutput]) -> None:
        """Send results as the answers to their calls."""
        if not native:
            return
        responses = self.answers_of(native)
        ids = [item.id for item in native]
        self._engine.send(ItemResponse(function_responses=responses, item_ids=ids))
        self.delivered(native, responses, [])

    def answer_again(self, call_ids: Sequence[str]) -> None:
        """Answer calls that the server repeated; their tools do not run again (R10)."""
        calls = self._tool_calls
        responses = []
        for call_id in call_ids:
            response = calls.response_to(call_id)
            if response is not None:
                responses.append(response)
                calls.answered(call_id, response, self._serving.number)
        self._engine.send(types.LiveClientToolResponse(function_responses=responses))

    def answers_of(self, native: Sequence[llm.FunctionCallOutput]) -> list[types.FunctionResponse]:
        """Results as answers that are about to be sent; warns of what they cannot say."""
        responses = self._responses(native)
        if not self._engine.can_be_silent:
            warn_of_replies(native)
        return responses

    def _responses(self, results: Sequence[llm.FunctionCallOutput]) -> list[types.FunctionResponse]:
        options = self._engine.options
        answer = get_tool_results_for_realtime(
            llm.ChatContext([mended(result) for result in results]),
            vertexai=options.vertexai,
            tool_response_scheduling=options.tool_response_scheduling,
            supports_silent_scheduling=self._engine.can_be_silent,
            synthetic_call_ids=self._tool_calls.without_id,
        )
        return (answer.function_responses if answer is not None else None) or []

    def delivered(
        self,
        native: Sequence[llm.FunctionCallOutput],
        responses: Sequence[types.FunctionResponse],
        in_words: Sequence[llm.FunctionCallOutput],
    ) -> None:
        """Note what a connection is given: each result counts once, each delivery is told.

        Args:
            native: Results that went as the answers to their calls.
            responses: Those answers.
            in_words: Results that were told.
        """
        calls, driver, here = self._tool_calls, self._driver, self._serving.number
        silent = types.FunctionResponseScheduling.SILENT
        unsent = self._responses(in_words)
        given = [*zip(native, responses, strict=True), *zip(in_words, unsent, strict=True)]
        for number, (result, response) in enumerate(given):
            is_native = number < len(native)
            came_on = calls.came_on(result.call_id)
            if came_on is not None and came_on != here:
                form: Literal["native", "text"] = "native" if is_native else "text"
                driver.tell(ToolResultRedelivered(driver.now, form))
            if calls.response_to(result.call_id) is None:
                answers = response.scheduling != silent if is_native else result.reply_required
                driver.feed(f.ToolResultDelivered(driver.now, result.call_id, answers))
            # One told in words would still be the answer to the call, should that come again.
            calls.answered(result.call_id, response, here if is_native else 0)
