"""What the caller hears, told to the driver as facts.

The position of the speaker is the application's knowledge, not the provider's. Two sources, the
first available: the `AgentSession`'s own audio output, which knows pauses and what was cleared;
else the frames that whoever plays the reply has taken, bounded by the clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

from livekit import rtc
from livekit.agents import llm
from livekit.agents.voice import io

from .agent_session import agent_session_of
from .core import facts as f

__all__ = ["SpeakerWatch"]

# Messages whose playback began; what comes after a reply looks back at that reply only.
_REMEMBERED = 64


class SpeakerWatch:
    """Follows the replies of one session through the speaker.

    Args:
        feed: Takes each fact.
        now: The clock of the facts.
    """

    def __init__(self, feed: Callable[[f.Fact], None], now: Callable[[], float]) -> None:
        self._feed = feed
        self._now = now
        self._output: io.AudioOutput | None = None
        self._agent_session: Any = None
        self._current: str | None = None
        self._flushed: tuple[str | None, ...] = ()
        self._audible = self._paused = False
        self._playing: str | None = None
        self._on_stopped: Callable[[str, float], None] | None = None
        # The messages that began, and whether any of their audio was taken.
        self._begun: dict[str, bool] = {}

    def has_begun(self, message_id: str) -> bool:
        """Whether anybody began to play a message, or to show its text where none is played."""
        return message_id in self._begun

    def has_sounded(self, message_id: str) -> bool:
        """Whether anybody took audio of a message to play it."""
        return self._begun.get(message_id, False)

    def watch(
        self, generation_id: str, event: llm.GenerationCreatedEvent, session: rtc.EventEmitter[Any]
    ) -> None:
        """Follow a new reply; call it before the event is emitted. Changes the event in place."""
        self._attach(session)
        event.message_stream = self._messages(generation_id, event.message_stream)

    async def _messages(
        self, generation_id: str, messages: AsyncIterable[llm.MessageGeneration]
    ) -> AsyncIterator[llm.MessageGeneration]:
        async for message in messages:
            message.audio_stream = self._frames(
                generation_id, message.message_id, message.audio_stream
            )
            message.text_stream = self._text(message.message_id, message.text_stream)
            yield message

    async def _text(self, message_id: str, text: AsyncIterable[str]) -> AsyncIterator[str]:
        async for piece in text:
            self._begins(message_id, sounds=False)
            yield piece

    async def _frames(
        self, generation_id: str, message_id: str, frames: AsyncIterable[rtc.AudioFrame]
    ) -> AsyncIterator[rtc.AudioFrame]:
        first = True
        async for frame in frames:
            if generation_id in self._flushed:
                return
            if first:
                first = False
                self._current = generation_id
                self._playing = message_id
                self._begins(message_id, sounds=True)
                if self._output is None:
                    self._feed(f.PlaybackStarted(self._now(), generation_id))
            yield frame

    def _begins(self, message_id: str, *, sounds: bool) -> None:
        self._begun[message_id] = sounds or self.has_sounded(message_id)
        if len(self._begun) > _REMEMBERED:
            del self._begun[next(iter(self._begun))]

    def flush(
        self, open_reply: str | None, on_stopped: Callable[[str, float], None] | None = None
    ) -> None:
        """Stop the reply that is playing, with whatever of it and of the open one is to come.

        Args:
            open_reply: The reply that was being received, if one was.
            on_stopped: Called with the message that was playing and the seconds of it that were
                heard, once the output knows them.
        """
        self._flushed = (self._current, open_reply)
        if self._output is not None and self._audible:
            self._on_stopped = on_stopped
            self._output.clear_buffer()

    # -- the AgentSession's own output

    def _attach(self, session: rtc.EventEmitter[Any]) -> None:
        agent_session = agent_session_of(session)
        output = getattr(getattr(agent_session, "output", None), "audio", None)
        if output is self._output and agent_session is self._agent_session:
            return
        self.detach()
        if not isinstance(output, io.AudioOutput):
            return
        self._output, self._agent_session = output, agent_session
        output.on("playback_started", self._on_started)
        output.on("playback_finished", self._on_finished)
        agent_session.on("agent_state_changed", self._on_agent_state)

    def detach(self) -> None:
        """Stop listening to the speaker."""
        if self._output is None:
            return
        self._output.off("playback_started", self._on_started)
        self._output.off("playback_finished", self._on_finished)
        self._agent_session.off("agent_state_changed", self._on_agent_state)
        self._output = self._agent_session = None

    def _on_started(self, _: object) -> None:
        if self._current is not None:
            self._audible, self._paused = True, False
            self._feed(f.PlaybackStarted(self._now(), self._current))

    def _on_finished(self, event: io.PlaybackFinishedEvent) -> None:
        if self._current is not None:
            self._audible = False
            heard_s = max(0.0, event.playback_position)
            self._feed(f.PlaybackFinished(self._now(), self._current, heard_s))
            on_stopped, self._on_stopped = self._on_stopped, None
            if on_stopped is not None and self._playing is not None:
                on_stopped(self._playing, heard_s)

    def _on_agent_state(self, event: Any) -> None:
        # The output has no event for a pause; the agent stops "speaking" with audio left to play.
        if not self._audible:
            return
        if event.old_state == "speaking":
            self._paused = True
            self._feed(f.PlaybackPaused(self._now()))
        elif event.new_state == "speaking" and self._paused:
            self._paused = False
            self._feed(f.PlaybackResumed(self._now()))
