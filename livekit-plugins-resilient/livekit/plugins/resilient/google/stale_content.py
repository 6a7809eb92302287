"""Tells what still arrives of a turn that is over here from the next turn (R18). No I/O."""

from __future__ import annotations

from typing import Literal

from google.genai import types

__all__ = ["StaleContentFilter"]


class StaleContentFilter:
    """Strips server messages of content that is not to be heard.

    Say why a turn is over with `finalised`, `tool_called` or `request_failed`, pass every message
    to `strip`, and call `next_turn` when something asks the model for a reply.
    """

    def __init__(self) -> None:
        self._due: Literal["finalised", "tool_called", "request_failed"] | None = None
        self._seen = False
        self._only_its_end = False
        self._since = float("-inf")

    def finalised(self, at: float, *, said_all: bool) -> None:
        """The turn was ended locally.

        Args:
            at: Now, in monotonic seconds.
            said_all: The server had said that it is complete, or interrupted. As recorded, nothing
                but its end follows that.
        """
        self._begin("finalised", at)
        self._only_its_end = said_all

    def tool_called(self) -> None:
        """The turn waits for the tools it called; what it says meanwhile would interrupt them."""
        self._begin("tool_called")

    def request_failed(self, at: float) -> None:
        """The application was told that its request failed, so the reply comes too late."""
        self._begin("request_failed", at)

    def next_turn(self) -> None:
        """The model was asked for a reply, or the connection is gone: nothing is late any more."""
        self._due = None

    def strip(self, message: types.LiveServerMessage, *, spoke_at: float = float("-inf")) -> None:
        """Take late content out of a message; whatever else it carries stays in.

        Args:
            message: As it arrived.
            spoke_at: When the caller was last heard, in monotonic seconds.
        """
        content = message.server_content
        if message.tool_call or (content and content.input_transcription):
            self._due = None
        if self._due is None or content is None:
            return
        says_something = bool(content.model_turn or content.output_transcription)
        if says_something and (self._only_its_end or spoke_at > self._since):
            self._due = None
            return
        if content.interrupted and self._due != "finalised":
            # That the caller cuts in is told; a finalised turn has nothing to interrupt.
            message.server_content = types.LiveServerContent(
                interrupted=True, turn_complete=content.turn_complete
            )
            self._due = None
            return
        self._only_its_end |= bool(content.interrupted)
        self._seen |= says_something
        message.server_content = None
        # The end of an earlier turn is not that of a reply which has not begun.
        if content.turn_complete and (self._seen or self._due != "request_failed"):
            self._due = None

    def _begin(
        self,
        due: Literal["finalised", "tool_called", "request_failed"],
        # What trails a tool call may come while the caller makes a sound.
        since: float = float("inf"),
    ) -> None:
        self._due, self._since = due, since
        self._seen = self._only_its_end = False
