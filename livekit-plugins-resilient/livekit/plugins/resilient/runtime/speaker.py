"""What the caller hears, told to the driver as facts.

The position of the speaker is the application's knowledge, not the provider's. Two sources, the
first available: the `AgentSession`'s own audio output, which knows pauses and what was cleared;
else the frames that whoever plays the reply has taken, bounded by the clock.

The output also plays what is none of the model's (`AgentSession.say`), and its reports name no
speech. It plays in segments, each of what was captured between two flushes, and ends them in
order; so a report is taken for a message only if it is about the segment that the message's frames
went into. What cannot be told for certain is told to nobody.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from livekit import rtc
from livekit.agents import llm
from livekit.agents.voice import io

from ..core import facts as f
from .agent_session import agent_session_of

__all__ = ["SpeakerWatch"]

# Messages whose playback began; what comes after a reply looks back at that reply only.
_REMEMBERED = 64


@dataclass(eq=False)
class _Reply:
    """One reply at the speaker; a response can speak several messages one after the other."""

    id: str
    heard_s: float = 0.0  # of the messages that are through
    played: str | None = None  # the last message that is through
    last: str | None = None  # the last message that came
    whole: bool = False  # no more messages come
    over: bool = False  # nothing more of it is played


@dataclass(eq=False)
class _Segment:
    """What the output makes of one message's frames."""

    reply: _Reply
    message_id: str
    number: int  # as the output counts them
    speech: Any  # the AgentSession's speech that the frames were taken for
    taken_s: float = 0.0
    certain: bool = False
    audible: bool = False
    on_stopped: Callable[[str, float], None] | None = None


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
        # The reply whose frames were taken last.
        self._current: str | None = None
        self._flushed: tuple[str | None, ...] = ()
        self._segment: _Segment | None = None
        self._paused = False
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
        event.message_stream = self._messages(_Reply(generation_id), event.message_stream)

    async def _messages(
        self, reply: _Reply, messages: AsyncIterable[llm.MessageGeneration]
    ) -> AsyncIterator[llm.MessageGeneration]:
        try:
            async for message in messages:
                reply.last = message.message_id
                message.audio_stream = self._frames(reply, message.message_id, message.audio_stream)
                message.text_stream = self._text(message.message_id, message.text_stream)
                yield message
        finally:
            reply.whole = True
            if reply.played is not None and not reply.over:
                self._is_through(reply)

    async def _text(self, message_id: str, text: AsyncIterable[str]) -> AsyncIterator[str]:
        async for piece in text:
            self._begins(message_id, sounds=False)
            yield piece

    async def _frames(
        self, reply: _Reply, message_id: str, frames: AsyncIterable[rtc.AudioFrame]
    ) -> AsyncIterator[rtc.AudioFrame]:
        segment: _Segment | None = None
        first = True
        async for frame in frames:
            if reply.id in self._flushed:
                return
            if first:
                first = False
                self._current = reply.id
                self._begins(message_id, sounds=True)
                segment = self._takes(reply, message_id)
                if segment is None:
                    self._feed(f.PlaybackStarted(self._now(), reply.id))
            if segment is not None:
                segment.taken_s += frame.duration
            yield frame
            if segment is not None and not segment.certain:
                self._make_certain(segment)

    def _begins(self, message_id: str, *, sounds: bool) -> None:
        self._begun[message_id] = sounds or self.has_sounded(message_id)
        if len(self._begun) > _REMEMBERED:
            del self._begun[next(iter(self._begun))]

    def flush(
        self, open_reply: str | None, on_stopped: Callable[[str, float], None] | None = None
    ) -> None:
        """Stop the reply that is playing, with whatever of it and of the open one is to come.

        What else the application plays goes on.

        Args:
            open_reply: The reply that was being received, if one was.
            on_stopped: Called with the message that was playing and the seconds of it that were
                heard, once the output knows them.
        """
        self._flushed = (self._current, open_reply)
        segment = self._segment
        if self._output is not None and segment is not None and segment.certain:
            segment.on_stopped = on_stopped
            self._output.clear_buffer()

    # -- segments

    def _takes(self, reply: _Reply, message_id: str) -> _Segment | None:
        """A message's first frame is taken; its segment, where there is an output that tells."""
        if self._output is None:
            return None
        # It opens with the first frame captured after this. Speeches are played one at a time.
        number = self._output.captured_playout_segments + 1
        self._segment = _Segment(reply, message_id, number, self._speech)
        return self._segment

    @property
    def _speech(self) -> Any:
        return getattr(self._agent_session, "current_speech", None)

    def _make_certain(self, segment: _Segment) -> None:
        """Find out whether a segment is the message's: it may have been interrupted before its
        first frame was captured, and then the number goes to what another speech plays."""
        if segment is not self._segment or self._output is None:
            return
        if self._output.captured_playout_segments >= segment.number:
            segment.certain = segment.speech is self._speech

    def _reported(self, number: int) -> _Segment | None:
        """The segment that a report of the output is about, if it is certain that it is ours."""
        segment = self._segment
        if segment is None or segment.number > number:
            return None
        if segment.number == number and (segment.certain or segment.speech is self._speech):
            segment.certain = True
            return segment
        self._segment = None  # the output is past it, or it is somebody else's
        return None

    def _is_through(self, reply: _Reply, *, interrupted: bool = False) -> None:
        """A message will be played no more, or no more messages come: is that all of the reply?"""
        # Upstream plays no message behind one that was interrupted.
        reply.over = interrupted or (reply.whole and reply.played == reply.last)
        now = self._now()
        if reply.over:
            cut_in = interrupted and reply.id not in self._flushed
            self._feed(f.PlaybackFinished(now, reply.id, reply.heard_s, cut_in))
        else:
            self._feed(f.PlaybackProgressed(now, reply.id, reply.heard_s))

    # -- the AgentSession's own output

    def _attach(self, session: rtc.EventEmitter[Any]) -> None:
        agent_session = agent_session_of(session)
        output = getattr(getattr(agent_session, "output", None), "audio", None)
        if output is self._output and agent_session is self._agent_session:
            return
        self.detach()
        if not isinstance(output, io.AudioOutput) or not _counts_segments(output):
            return
        self._output, self._agent_session = output, agent_session
        output.on("playback_started", self._on_started)
        output.on("playback_finished", self._on_finished)
        agent_session.on("agent_state_changed", self._on_agent_state)

    def detach(self) -> None:
        """Stop listening to the speaker."""
        self._segment = None
        if self._output is None:
            return
        self._output.off("playback_started", self._on_started)
        self._output.off("playback_finished", self._on_finished)
        self._agent_session.off("agent_state_changed", self._on_agent_state)
        self._output = self._agent_session = None

    def _on_started(self, _: object) -> None:
        assert self._output is not None
        # An output may report before it has counted the segment.
        segment = self._reported(_finished_segments(self._output) + 1)
        if segment is not None:
            segment.audible, self._paused = True, False
            self._feed(f.PlaybackStarted(self._now(), segment.reply.id))

    def _on_finished(self, event: io.PlaybackFinishedEvent) -> None:
        assert self._output is not None
        segment = self._reported(_finished_segments(self._output))
        if segment is None:
            return
        self._segment = None
        reply = segment.reply
        # What was not interrupted was heard whole, however the application changed its pace.
        played_s = max(0.0, event.playback_position) if event.interrupted else segment.taken_s
        reply.heard_s += played_s
        reply.played = segment.message_id
        self._is_through(reply, interrupted=event.interrupted)
        if segment.on_stopped is not None:
            segment.on_stopped(segment.message_id, played_s)

    def _on_agent_state(self, event: Any) -> None:
        # The output has no event for a pause; the agent stops "speaking" with audio left to play.
        if self._segment is None or not self._segment.audible:
            return
        if event.old_state == "speaking":
            self._paused = True
            self._feed(f.PlaybackPaused(self._now()))
        elif event.new_state == "speaking" and self._paused:
            self._paused = False
            self._feed(f.PlaybackResumed(self._now()))


def _finished_segments(output: io.AudioOutput) -> int:
    return output.captured_playout_segments - output._pending_playback_count


def _counts_segments(output: io.AudioOutput) -> bool:
    """Whether the output says how many segments were captured and how many of them are pending."""
    counts = (
        getattr(output, name, None)
        for name in ("captured_playout_segments", "_pending_playback_count")
    )
    return all(isinstance(count, int) for count in counts)
