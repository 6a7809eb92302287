"""Follows the replies that upstream makes of what the server sends: what each answers, its end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from google.genai import types

from ..core import facts as f
from .turn_signs import ending_of, holds_captions_only, thinks, thinks_aloud

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..core.decisions import FinaliseReason
    from ..runtime.driver import Driver
    from .activity import Activity
    from .engine import Engine, Reply
    from .inbound import InboundEvents
    from .late_results import LateResults
    from .mirror import Mirror
    from .requests import Requests
    from .serving import Serving
    from .stale_content import StaleContentFilter
    from .tools import ToolCalls

__all__ = ["Generations"]


class Generations:
    """The replies of one session, open or over. Upstream's methods call what stands here before
    and after their own part.

    Args:
        engine: Makes the replies.
        driver: Gets facts.
        serving: Which connection serves.
        inbound: What arrived of each reply.
        activity: The caller's turns, where the application marks them.
        requests: What the application asked for.
        mirror: What the provider knows.
        tools: The calls of the model.
        late_results: What waits until a reply is over.
        stale_content: Told of replies that are over here and not at the server.
        on_turn_finished: Called when the model has finished a turn.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        inbound: InboundEvents,
        activity: Activity,
        requests: Requests,
        mirror: Mirror,
        tools: ToolCalls,
        late_results: LateResults,
        stale_content: StaleContentFilter,
        on_turn_finished: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._activity = activity
        self._requests = requests
        self._mirror = mirror
        self._tool_calls = tools
        self._late_results = late_results
        self._stale_content = stale_content
        self._on_turn_finished = on_turn_finished
        self._thinks = thinks(engine.options)
        self._redrive_id: str | None = None
        self.message: types.LiveServerMessage | None = None
        """The one that is being handled."""
        self.joins = False
        """Whether the reply that is about to begin joins on behind what is playing, so that it is
        no barge-in."""

    def redriving(self, redrive_id: str | None) -> None:
        """The model is asked for a reply that the application did not ask for; None for no more."""
        self._redrive_id = redrive_id

    # -- a reply begins, and goes on

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around the making of a reply."""
        message, content = self.message, None
        if message is not None:
            content = message.server_content
        unasked_turn = content is not None and content.input_transcription is not None
        request_id: str | None = None
        if self._engine.awaits_reply:
            request_id = self._requests.newest
        elif not unasked_turn:
            request_id, self._redrive_id = self._redrive_id, None
            self.joins = request_id is not None
        try:
            yield
        finally:
            self.joins = False
        reply_id = self._engine.newest_reply_id
        assert reply_id is not None
        self._inbound.opened(
            reply_id,
            request_id,
            by_caption=message is not None and holds_captions_only(message),
            works_unseen=self._works_unseen,
        )
        self._activity.opened(reply_id)

    @property
    def _works_unseen(self) -> bool:
        """Whether the provider may be at work for long without a sign."""
        engine = self._engine
        return (
            self._thinks
            or bool(engine.tools.provider_tools)
            or (engine.runs_tools_beside and bool(engine.tools.function_tools))
        )

    def receiving(self, content: types.LiveServerContent) -> str | None:
        """Content is about to be handled; returns the id of the open reply, None for none."""
        self._thinks |= thinks_aloud(content)
        if (reply := self._engine.open_reply) is None:
            return None
        takes_audio = not reply.audio_ch.closed
        self._inbound.received(reply.response_id, content, takes_audio=takes_audio)
        return reply.response_id

    def received(self, content: types.LiveServerContent, reply_id: str | None) -> None:
        """Content was handled, of a reply as `receiving` says."""
        if not content.turn_complete:
            return
        self._serving.turn_finished = True
        self._on_turn_finished()
        driver = self._driver
        if reply_id is not None:
            driver.feed(f.GenerationEnded(driver.now, reply_id, ending_of(content)))
        else:
            interrupted = self._inbound.take_stop()
            driver.feed(f.TurnPassedOver(driver.now, interrupted=interrupted))

    # -- its calls

    def calling(self, tool_call: types.LiveServerToolCall) -> None:
        """Calls are about to be handed to the application."""
        driver, reply_id = self._driver, self._engine.newest_reply_id
        assert reply_id is not None
        for call in tool_call.function_calls or []:
            call_id = self._tool_calls.seen(call, self._serving.number)
            driver.feed(f.ToolCallOpened(driver.now, reply_id, call_id))
        self._inbound.completed(reply_id)

    def called(self, tool_call: types.LiveServerToolCall) -> None:
        """They were, which ends the reply."""
        driver, reply_id = self._driver, self._engine.newest_reply_id
        assert reply_id is not None
        self._inbound.called()
        if not self._engine.runs_tools_beside:
            self._stale_content.tool_called()
        for call in tool_call.function_calls or []:
            self._mirror.called(call)
        driver.feed(f.GenerationEnded(driver.now, reply_id))

    # -- it is over

    def ended(self, reply: Reply) -> None:
        """A reply was recorded, and its streams are closed."""
        self._inbound.ended(reply.response_id)
        now = self._driver.now
        transcribed_at = self._inbound.transcribed_at(reply.response_id)
        self._mirror.spoken(reply.input_id, now if transcribed_at is None else transcribed_at)
        self._mirror.spoken(reply.response_id, now)
        self._late_results.reply_over()

    def close_streams(self, reply_id: str) -> None:
        """Close those of a reply, if it is open."""
        reply = self._engine.open_reply
        if reply is not None and reply.response_id == reply_id:
            self._engine.close_reply()

    def finalise(self, reply_id: str, reason: FinaliseReason) -> None:
        """End a reply here; whatever arrives for it later is dropped."""
        self.close_streams(reply_id)
        self._inbound.left_unended(reply_id)
        said_all = reason not in ("stalled", "silent")
        self._stale_content.finalised(self._driver.now, said_all=said_all)

    def end_mere_captions(self) -> None:
        """Close what only captions of an earlier turn opened: upstream would put the reply that is
        now asked for into it, and fail the request."""
        reply, driver = self._engine.open_reply, self._driver
        if reply is None or driver.owes_open:
            return
        self._engine.close_reply()
        driver.feed(f.GenerationEnded(driver.now, reply.response_id))

    def end_past_turn(self, message: types.LiveServerMessage) -> None:
        """Close a reply without an end, interrupted or complete, once the next turn begins (R13).

        Upstream would put the next turn into the reply that nobody listens to any more, or drop
        it. After `interrupted` a server sends no more audio of that turn; after
        `generationComplete` only where it was given something new.
        """
        open_reply, content = self._engine.open_reply, message.server_content
        if open_reply is None:
            return
        reply = open_reply.response_id
        answers = bool(message.tool_call or (content is not None and content.model_turn))
        said = content.output_transcription if content is not None else None
        words = bool(said and said.text)
        words |= content is not None and content.input_transcription is not None
        if reply == self._inbound.interrupted:
            begins = answers or words
        elif self._inbound.is_overtaken(reply):
            # Words can be late ones of the turn before, and a new reply would stop this one.
            begins = answers or (words and self._driver.has_been_heard)
        else:
            begins = answers and self._inbound.is_long_complete(reply)
        if begins:
            self._engine.close_reply()
            self._inbound.left_unended(reply)
            self._driver.feed(f.GenerationEnded(self._driver.now, reply, "overtaken"))

    def note_stop(self, content: types.LiveServerContent | None) -> None:
        """Note what the server says of a turn that has not begun here, or is over already."""
        if content is None or self._engine.open_reply is not None:
            return
        if content.interrupted:
            self._inbound.stopped_unbegun()
        if content.turn_complete and (cut := self._inbound.interrupted) is not None:
            self._driver.feed(f.GenerationEnded(self._driver.now, cut))
