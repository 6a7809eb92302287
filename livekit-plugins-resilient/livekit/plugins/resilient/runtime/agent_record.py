"""Keeps what an `AgentSession` records of the agent's replies to what the caller heard (R14).

Upstream records all text that arrived of a reply, because to it a reply whose connection dropped
just ended. Its record is what the application stores, and what it gives a model as context, so
the words that nobody heard would come back from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from livekit import rtc
from livekit.agents import llm

from .agent_session import agent_session_of, listen_first

__all__ = ["AgentRecord"]

# Messages that were cut and are not recorded yet; more than a reply or two are never playing.
_REMEMBERED = 32


class AgentRecord:
    """Corrects the assistant messages of one `AgentSession` before the application sees them.

    Have each reply announced through `announce`, and call `cut` for a message of which not
    everything was or will be heard: before it is recorded, or after. Without an `AgentSession` all
    of this does nothing.

    Args:
        on_recorded: Called with the id of each assistant message that is recorded. Everything that
            will be played of its reply has been played then.
        on_over: Called with the id of each reply that the application did not ask for, once it
            will be played no more; also where it was talked over before it began, so that nothing
            of it is recorded.
    """

    def __init__(
        self,
        on_recorded: Callable[[str], None] | None = None,
        on_over: Callable[[str], None] | None = None,
    ) -> None:
        self._on_recorded = on_recorded
        self._on_over = on_over
        self._speech: Any = None
        self._agent_session: Any = None
        self._cuts: dict[str, str] = {}
        # Of the replies that the application did not ask for.
        self._speeches: dict[str, Any] = {}

    def announce(
        self, session: rtc.EventEmitter[Any], reply_id: str, emit: Callable[[], None]
    ) -> None:
        """Emit a realtime session's "generation_created".

        Args:
            session: The realtime session.
            reply_id: What `on_over` is called with.
            emit: Emits the event.
        """
        self._attach(session)
        self._speech = None
        emit()
        speech, on_over = self._speech, self._on_over
        if speech is None:
            return
        self._speeches[reply_id] = speech
        if len(self._speeches) > _REMEMBERED:
            del self._speeches[next(iter(self._speeches))]
        if on_over is not None:
            speech.add_done_callback(lambda _: on_over(reply_id))

    def plays_on(self, reply_id: str) -> bool:
        """Whether a reply is known to be played, or about to be, and nobody has interrupted it."""
        speech = self._speeches.get(reply_id)
        return speech is not None and not speech.interrupted

    def stop(self, reply_id: str) -> bool:
        """Have a reply not be played, or no more of it; whether anybody was to play it."""
        speech = self._speeches.get(reply_id)
        if speech is None:
            return False
        with contextlib.suppress(RuntimeError):  # the application lets nobody interrupt it
            speech.interrupt()
        return True

    def _attach(self, session: rtc.EventEmitter[Any]) -> None:
        agent_session = agent_session_of(session)
        if agent_session is self._agent_session:
            return
        self.detach()
        if agent_session is not None:
            listen_first(agent_session, "conversation_item_added", self._on_item)
            agent_session.on("speech_created", self._on_speech)
            self._agent_session = agent_session

    def detach(self) -> None:
        """Stop correcting."""
        if self._agent_session is not None:
            self._agent_session.off("conversation_item_added", self._on_item)
            self._agent_session.off("speech_created", self._on_speech)
            self._agent_session = None

    def cut(self, message_id: str, heard: str) -> None:
        """Have a message recorded as interrupted, with the text that was heard and no more.

        Args:
            message_id: As in the reply's `MessageGeneration`.
            heard: Empty where nothing was; the message is then recorded without content.
        """
        recorded = self._recorded(message_id)
        if recorded is not None:
            _cut(recorded, heard)
            return
        self._cuts.pop(message_id, None)
        self._cuts[message_id] = heard
        if len(self._cuts) > _REMEMBERED:
            del self._cuts[next(iter(self._cuts))]

    def _on_speech(self, event: Any) -> None:
        # The application may say something of its own on hearing of the reply.
        if not event.user_initiated:
            self._speech = event.speech_handle

    def _on_item(self, event: Any) -> None:
        item = event.item
        if not isinstance(item, llm.ChatMessage) or item.role != "assistant":
            return
        if item.id in self._cuts:
            _cut(item, self._cuts.pop(item.id))
        if self._on_recorded is not None:
            self._on_recorded(item.id)

    def _recorded(self, message_id: str) -> llm.ChatMessage | None:
        history = getattr(self._agent_session, "history", None)
        item = history.get_by_id(message_id) if isinstance(history, llm.ChatContext) else None
        return item if isinstance(item, llm.ChatMessage) else None


def _cut(message: llm.ChatMessage, heard: str) -> None:
    # In place: the agent's context and the session's hold the same object.
    message.content = [heard] if heard else []
    message.interrupted = True
