"""Keeps the records of the agent's replies to what the caller heard of them (R14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm

from ..core import facts as f
from ..runtime.agent_record import AgentRecord
from ..wording import cut_in_text

if TYPE_CHECKING:
    from .._vendor.google import realtime_api as _impl
    from .realtime import RealtimeSession

__all__ = ["HeardTranscript"]

# Below this a speaker that stops is taken to have played everything.
_UNHEARD_S = 0.1


class HeardTranscript:
    """The assistant's turns of one session: in its own context and in the `AgentSession`'s.

    A reply whose connection drops keeps the words whose audio arrived, since that plays on. One on
    which the caller cuts in keeps what was played.
    """

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self._agent_record = AgentRecord()
        self._cut_by_drop: str | None = None
        self._correction: str | None = None

    def begins(self, reply: str, emit: Callable[[], None]) -> None:
        """A reply begins; `emit` tells the application of it."""
        self._agent_record.announce(self._session, reply, emit)

    def stop(self, reply: str) -> None:
        """Have a reply not be heard that waits for its turn to be played."""
        self._agent_record.stop(reply)

    def detach(self) -> None:
        """The session is closed."""
        self._agent_record.detach()

    def feed(self, fact: f.Fact) -> None:
        """Take a fact of the speaker on its way to the driver."""
        if isinstance(fact, f.PlaybackFinished):
            self._session._turns.played(fact.generation_id, fact.heard_until_s)
            self._cut_in_on(fact.generation_id)
        self._session._driver.feed(fact)

    def ends(self, generation: _impl._ResponseGeneration) -> None:
        """A reply is about to be recorded; a cut one with no more than was or will be heard."""
        session, reply = self._session, generation.response_id
        if not session._speaks or session._turns.is_complete(reply):
            return
        heard = self.so_far(generation)
        if session._turns.interrupted != reply:
            self._cut_by_drop = reply
            if heard and not generation.output_text and not generation.text_ch.closed:
                generation.push_text(heard)  # or nothing at all would be recorded
            self._agent_record.cut(reply, heard)
        generation.output_text = heard

    def so_far(self, generation: _impl._ResponseGeneration) -> str:
        """The words that would be recorded of a reply if it ended now; changes nothing."""
        session, reply = self._session, generation.response_id
        if not session._speaks or session._turns.is_complete(reply):
            return generation.output_text
        return session._turns.heard(reply, session._resilience.speech_rate_cps)

    def _cut_in_on(self, reply: str) -> None:
        """The speaker stopped, perhaps in the middle of a reply that was recorded already."""
        session = self._session
        if not session._speaks or session._turns.unheard_s(reply) < _UNHEARD_S:
            return
        heard = session._turns.heard(reply, session._resilience.speech_rate_cps)
        self._agent_record.cut(reply, heard)
        item = session._chat_ctx.get_by_id(reply)
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
