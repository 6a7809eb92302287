"""Keeps the records of the agent's replies to what the caller heard of them (R14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from google.genai import types
from livekit.agents import llm

from ..core import facts as f
from ..runtime.agent_record import AgentRecord
from ..wording import cut_in_text

if TYPE_CHECKING:
    from livekit import rtc

    from ..runtime.driver import Driver
    from .engine import Engine, Reply
    from .inbound import InboundEvents

__all__ = ["HeardTranscript"]

# Below this a speaker that stops is taken to have played everything.
_UNHEARD_S = 0.1


class HeardTranscript:
    """The assistant's turns of one session: in its own context and in the `AgentSession`'s.

    A reply whose connection drops keeps the words whose audio arrived, since that plays on. One on
    which the caller cuts in keeps what was played.

    Args:
        engine: Of the session, as all that follow.
        driver: Gets the speaker's facts.
        inbound: Knows what arrived of each reply.
        rate_cps: How fast an untimed transcript is spoken, in characters a second.
    """

    def __init__(
        self, *, engine: Engine, driver: Driver, inbound: InboundEvents, rate_cps: float
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._inbound = inbound
        self._rate_cps = rate_cps
        self._agent_record = AgentRecord()
        self._cut_by_drop: str | None = None
        self._correction: str | None = None

    def begins(self, session: rtc.EventEmitter[Any], reply: str, emit: Callable[[], None]) -> None:
        """A reply of a realtime session begins; `emit` tells the application of it."""
        self._agent_record.announce(session, reply, emit)

    def stop(self, reply: str) -> None:
        """Have a reply not be heard that waits for its turn to be played."""
        self._agent_record.stop(reply)

    def detach(self) -> None:
        """The session is closed."""
        self._agent_record.detach()

    def feed(self, fact: f.Fact) -> None:
        """Take a fact of the speaker on its way to the driver."""
        if isinstance(fact, f.PlaybackFinished):
            self._inbound.played(fact.generation_id, fact.heard_until_s)
            self._cut_in_on(fact.generation_id)
        self._driver.feed(fact)

    def ends(self, reply: Reply) -> None:
        """A reply is about to be recorded; a cut one with no more than was or will be heard."""
        reply_id = reply.response_id
        if not self._may_be_cut(reply_id):
            return
        heard = self.so_far(reply)
        if self._inbound.interrupted != reply_id:
            self._cut_by_drop = reply_id
            if heard and not reply.output_text and not reply.text_ch.closed:
                reply.push_text(heard)  # or nothing at all would be recorded
            self._agent_record.cut(reply_id, heard)
        reply.output_text = heard

    def so_far(self, reply: Reply) -> str:
        """The words that would be recorded of a reply if it ended now; changes nothing."""
        if not self._may_be_cut(reply.response_id):
            return reply.output_text
        return self._inbound.heard(reply.response_id, self._rate_cps)

    def _may_be_cut(self, reply: str) -> bool:
        return self._engine.captions_replies and not self._inbound.is_complete(reply)

    def _cut_in_on(self, reply: str) -> None:
        """The speaker stopped, perhaps in the middle of a reply that was recorded already."""
        if not self._engine.captions_replies or self._inbound.unheard_s(reply) < _UNHEARD_S:
            return
        heard = self._inbound.heard(reply, self._rate_cps)
        self._agent_record.cut(reply, heard)
        item = self._engine.record.get_by_id(reply)
        if not isinstance(item, llm.ChatMessage) or item.text_content == heard:
            return
        item.content, item.interrupted = [heard] if heard else [], True
        if reply == self._cut_by_drop:
            # The connection after the drop was told more.
            self._correction = cut_in_text(heard)

    def correct(self, request: types.LiveClientContent) -> None:
        """Have a request say where the caller cut in, if the model was told otherwise."""
        correction, self._correction = self._correction, None
        if correction is not None:
            turn = types.Content(role="user", parts=[types.Part(text=correction)])
            request.turns = [turn, *(request.turns or [])]
