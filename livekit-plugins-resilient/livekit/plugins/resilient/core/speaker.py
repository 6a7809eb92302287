"""What the caller has heard of the replies, as their playback tells it."""

from __future__ import annotations

from typing import TypeAlias

from . import facts as f
from .decisions import Decision, RecordFirstAudio, TakeBack
from .generation import Generation
from .limits import TRACKED_GENERATIONS
from .replies import Replies

__all__ = ["Playback", "Speaker"]

Playback: TypeAlias = (
    f.PlaybackStarted
    | f.PlaybackProgressed
    | f.PlaybackFinished
    | f.PlaybackPaused
    | f.PlaybackResumed
)
"""What a speaker tells."""


class Speaker:
    """Follows the playback of one session, which outlives the connections that replies came by.

    Args:
        replies: Is told what is heard, and what is not going to be.
    """

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._unplayed: dict[str, Generation] = {}  # not through yet, oldest first
        self.playing: Generation | None = None
        """The generation at the speaker; the last one, where that is through."""
        self.connected_at = float("-inf")
        self.reconnected_at: float | None = None
        """When a reconnect was of whose first audio is to be told; None for none."""
        self.replies_heard = 0
        """Replies of which the caller heard something while their connection served (count)."""

    def expects(self, generation: Generation) -> None:
        """It opens, and what arrives of it is played."""
        self._unplayed[generation.id] = generation
        if len(self._unplayed) > TRACKED_GENERATIONS:
            del self._unplayed[next(iter(self._unplayed))]

    def forgets(self, generation_id: str) -> None:
        """Nothing of it is going to be played."""
        self._unplayed.pop(generation_id, None)

    def has_left(self, generation_id: str) -> bool:
        """Whether something of a generation may be still to be played."""
        return generation_id in self._unplayed

    def heard_all_at(self) -> float | None:
        """When the caller will have heard all that arrived; None while the speaker holds it."""
        latest = float("-inf")
        for generation in self._unplayed.values():
            heard_at = generation.heard_all_at(self.playing)
            if heard_at is None:
                return None
            latest = max(latest, heard_at)
        return latest

    def played(self, fact: Playback, open_: Generation | None) -> tuple[Decision, ...]:
        """Follow the playback, while a generation may be open."""
        at = fact.at
        if isinstance(fact, f.PlaybackPaused | f.PlaybackResumed):
            generation = self.playing
            if generation is None or generation.finished_at is not None:
                return ()
            running = isinstance(fact, f.PlaybackResumed)
            generation.move_speaker(at, generation.heard_s(at), running=running)
            if isinstance(fact, f.PlaybackResumed) and generation is open_:
                generation.advance(fact)
            return ()
        generation = self._unplayed.get(fact.generation_id)
        if generation is None:
            return ()
        if isinstance(fact, f.PlaybackFinished):
            return self._finished(fact, generation, open_)
        if isinstance(fact, f.PlaybackProgressed):
            if not fact.heard_until_s:
                return ()
            held = generation.heard_at is not None and generation.running_at is None
            generation.move_speaker(at, fact.heard_until_s, running=not held)
        else:
            generation.move_speaker(at, generation.heard_s(at), running=True)
        self.playing = generation
        return self._heard(at, generation)

    def _finished(
        self, fact: f.PlaybackFinished, generation: Generation, open_: Generation | None
    ) -> tuple[Decision, ...]:
        at = fact.at
        del self._unplayed[generation.id]
        generation.move_speaker(at, fact.heard_until_s, running=False)
        generation.finished_at = at
        decisions = self._cut_in(generation) if fact.cut_in else ()
        if fact.heard_until_s > 0:
            return decisions + self._heard(at, generation)
        if generation is not open_ and generation.heard_at is None:
            return decisions + self._replies.unheard(at, generation)
        return decisions

    def _cut_in(self, stopped: Generation) -> tuple[Decision, ...]:
        stopped.cut_in = True
        decisions = self._replies.cut_in()
        for decision in decisions:
            if isinstance(decision, TakeBack) and decision.generation_id in self._unplayed:
                self._unplayed[decision.generation_id].cancelled = True
        return decisions

    def _heard(self, at: float, generation: Generation) -> tuple[Decision, ...]:
        if generation.heard_at is not None:
            return ()
        generation.heard_at = at
        self.replies_heard += generation.opened_at >= self.connected_at
        decisions: tuple[Decision, ...] = self._replies.heard(generation)
        since = self.reconnected_at
        if since is not None and generation.opened_at >= since:
            self.reconnected_at = None
            decisions += (RecordFirstAudio(at - since),)
        return decisions
