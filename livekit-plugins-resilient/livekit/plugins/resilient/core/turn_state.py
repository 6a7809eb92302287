"""Where the turns of a session stand: what its facts move, and what its rules look at.

Times are monotonic seconds of a loop that runs.
"""

from __future__ import annotations

from . import facts as f
from .decisions import CloseStreams, Decision
from .generation import PHASE_MOVES, Generation, Phase
from .interruption import Interruption
from .limits import Bounds
from .liveness import Liveness
from .replies import How, Replies
from .speaker import Speaker
from .state import Claim, Connection, Speech, Voice

__all__ = ["TurnState"]


class TurnState:
    """Of one session, over all its connections.

    Args:
        bounds: From `ResilienceOptions.bounds()`.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.connection = Connection.NEW
        self.open: Generation | None = None
        self.replies = Replies(bounds)
        self.speaker = Speaker(self.replies)
        self.speech = Speech()
        self.liveness: Liveness | None = None
        """Of the connection; None before the first."""
        self.false_alarms = 0
        """Suspicions of a caller who went unheard, since one was heard."""
        self.interruption = Interruption()
        self.explained_at = float("-inf")
        """Until when there was a reason to be silent."""

    @property
    def phase(self) -> Phase:
        """State of the open generation; NONE without one."""
        return Phase.NONE if self.open is None else self.open.phase

    @property
    def open_id(self) -> str | None:
        """The open generation, if there is one."""
        return None if self.open is None else self.open.id

    @property
    def owes_open(self) -> bool:
        """Whether the open generation is a reply, or is to become one that is owed."""
        if self.open is None:
            return False
        return not self.open.by_caption or self.replies.waits_for(self.open)

    @property
    def is_busy(self) -> bool:
        """Whether a reply is open, or surely owed, or a tool runs."""
        return self.owes_open or self.replies.surely_owes or self.replies.calls_open

    def explains_silence(self, at: float) -> bool:
        """Whether a reply, open, owed or playing, or a tool keeps the server from saying more."""
        if self.is_busy:
            return True
        heard_at = self.speaker.heard_all_at()
        return heard_at is None or heard_at > at

    @property
    def rests_from(self) -> float | None:
        """From when on nothing is under way, and nobody speaks; None while something is."""
        if self.is_busy or self.speech.voice is not Voice.QUIET:
            return None
        last_at = self.speech.last_at
        if last_at is None:
            return float("-inf")
        quiet_at = last_at + self.bounds.speech_quiet_s
        if self.liveness is not None and self.liveness.waits_to_hear:
            # What sounded may be a turn that the server has not come round to, or a television.
            quiet_at = max(quiet_at, last_at + self.bounds.deaf_after_s)
        return quiet_at

    def claim(self) -> Claim | None:
        """What another connection would be asked for beside the one that serves."""
        if self.connection is not Connection.UP or self.bounds.hedge_after_s is None:
            return None
        return self.replies.claim(self.open)

    # --- the connection -------------------------------------------------------------------------

    def connected(self, fact: f.Connected) -> tuple[Decision, ...]:
        """Another connection serves."""
        at = fact.at
        replies = self.replies
        self.interruption.forget()
        decisions: tuple[Decision, ...] = ()
        if self.connection is Connection.UP:  # a handover leaves the old session's work behind
            replies.withdraw_doubtful()
            decisions = self.dropped(at)
        self.speaker.connected_at = at
        if self.connection is not Connection.NEW:
            if fact.words_lost:
                replies.words_lost(at)
            decisions += replies.reconnected(at, fact.knows_turn, fact.hedge_id)
            # After a handover at rest nobody waits for the next reply.
            waited_for = self.connection is Connection.DOWN or replies.owes
            self.speaker.reconnected_at = at if waited_for else None
        if fact.speaking:
            self.speech.voice = Voice.SPEAKING
        self.liveness = Liveness(
            at,
            at,
            answers_pings=self.liveness is not None and self.liveness.answers_pings,
            false_alarms=self.false_alarms,
        )
        return decisions

    def dropped(self, at: float) -> tuple[Decision, ...]:
        """The connection serves no more."""
        decisions: tuple[Decision, ...] = ()
        if self.open is not None:
            decisions = (CloseStreams(self.open.id), *self.close(at, "cut"))
        if self.speech.voice is not Voice.QUIET:  # the turn it was part of went down with it
            if self.speech.voice is Voice.SPEAKING:
                self.speech.last_at = at
            self.speech.voice = Voice.QUIET
            self.replies.words_lost(at)
        return decisions + self.replies.disconnected()

    # --- generations ----------------------------------------------------------------------------

    def opened(self, fact: f.GenerationOpened) -> tuple[Decision, ...]:
        """A generation begins, whether or not the one before it ended."""
        if self.connection is Connection.DOWN:  # read from the dead connection's buffer
            return (CloseStreams(fact.generation_id),)
        decisions: tuple[Decision, ...] = ()
        if self.open is not None:
            decisions = (CloseStreams(self.open.id), *self.close(fact.at, "replaced"))
        if self.speech.voice is Voice.PAUSED:
            self.speech.voice = Voice.QUIET
        self.interruption.stopped_at = None
        if not fact.by_caption:  # words that it heard are no answer
            self.interruption.unended = None
        generation = self.open = Generation(
            fact.generation_id,
            fact.at,
            fact.for_request,
            by_caption=fact.by_caption,
            phase=PHASE_MOVES[Phase.NONE][f.GenerationOpened],
        )
        self.speaker.expects(generation)
        self.replies.opened(generation, fact.for_request)
        return decisions

    def close(
        self, at: float, how: How, retry_after_s: float | None = None
    ) -> tuple[Decision, ...]:
        """The open generation, if there is one, is over."""
        generation, self.open = self.open, None
        if generation is None:
            return ()
        self.explained_at = at
        if not generation.has_content:
            self.speaker.forgets(generation.id)
        outcome = self.replies.closed(at, generation, how, retry_after_s)
        generation.phase = Phase.NONE
        return outcome

    def passed_over(self, at: float) -> tuple[Decision, ...]:
        """A turn ended in which nothing began."""
        outcome = self.replies.passed_over()
        if outcome is None or self.liveness is None:
            return ()
        # Asked twice it gave nothing twice: another session may know better.
        return (*outcome, self.liveness.suspect("passed_over", at))
