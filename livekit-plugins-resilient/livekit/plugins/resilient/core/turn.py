"""`TurnMachine`: facts in, decisions out, and when to ask again. No I/O, no clock of its own.

A driver feeds each fact to `receive()` and carries out what it answers, then sets its timer to
`next_deadline()`; when that is due it calls `due()` and sets it again. What the facts move is in
`turn_state`, what falls due by time in `rules`.
"""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import facts as f
from .decisions import CloseStreams, Decision, Redrive
from .facts import IllegalFactError
from .generation import PHASE_MOVES, Phase
from .interruption import Output
from .limits import READ_WITHIN_S, Bounds
from .replies import How
from .rules import Rules
from .state import CONNECTION_MOVES, Connection, Voice
from .turn_state import TurnState

__all__ = ["IllegalFactError", "TurnMachine"]

_ENDINGS: dict[f.Ending, How] = {
    "completed": "ended",
    "cancelled": "cancelled",
    "failed": "failed",
    "continued": "continued",
    "overtaken": "ended",
}


# These arrive by the dozen per second and never bring a deadline forward to now.
_POSTPONING = frozenset(
    (
        f.MessageArrived,
        f.NoticeArrived,
        f.PongArrived,
        f.LocalSpeechHinted,
        f.AudioReceived,
        f.TextReceived,
        f.LoopStalled,
    )
)


# What accounts for silence up to then, or takes back what was owed.
_EXPLAINING = frozenset(
    (
        f.UserSpeechStopped,
        f.UserTurnEnded,
        f.InputAwaited,
        f.ReplyCancelled,
        f.ReplyRequestTimedOut,
        f.ToolResultDelivered,
        f.ToolCallCancelled,
        f.PlaybackFinished,
    )
)


class TurnMachine:
    """What is owed, open and heard in one session, over all its connections.

    Facts that are late (of a generation that is over, of a connection that is gone, after the
    close) are ignored, because the wire delivers them; facts that contradict the driver's own
    bookkeeping raise.

    Inside, time stands still while the event loop is blocked (R23): what comes in is earlier by
    the time that the loop has slept, and what goes out is later by it.

    Args:
        bounds: From `ResilienceOptions.bounds()`.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._turns = TurnState(bounds)
        self._rules = Rules(self._turns)
        self._now = float("-inf")  # of the latest fact, as it was fed
        self._took_at = float("-inf")  # the same, with the time taken out that the loop slept
        self._slept_s = 0.0
        self._judges_from = float("-inf")

    @property
    def connection(self) -> Connection:
        """State of the connection."""
        return self._turns.connection

    @property
    def phase(self) -> Phase:
        """State of the open generation; NONE without one."""
        return self._turns.phase

    @property
    def owes_reply(self) -> bool:
        """Whether the caller waits for a reply, or the application for one it requested."""
        return self._turns.replies.owes

    @property
    def replies_heard(self) -> int:
        """Replies of which the caller heard something while their connection served (count)."""
        return self._turns.speaker.replies_heard

    @property
    def rests_from(self) -> float | None:
        """From when on nothing is under way: no reply open or owed, no call, nobody speaking.

        None while something is. It may lie ahead, since a pause in the caller's voice is no end.
        """
        return self._by_clock(self._turns.rests_from)

    @property
    def heard_from(self) -> float | None:
        """From when on the caller has heard all that arrived; None while the speaker holds it."""
        return self._by_clock(self._turns.speaker.heard_all_at())

    @property
    def owes_open(self) -> bool:
        """Whether the open generation is a reply, or is to become one that is owed."""
        return self._turns.owes_open

    @property
    def is_stuck(self) -> bool:
        """Whether the connection is suspected because an interrupted reply never ended. Neither a
        message nor a pong disproves that, only its end or an answer."""
        return self._turns.interruption.is_stuck

    def left(self, at: float, *, words_lost: bool) -> Redrive | None:
        """What somebody else is to be asked for, should this session end now; changes nothing.

        Args:
            at: Now.
            words_lost: As in `Connected`: nobody else will know what the caller said last.
        """
        if not self._bounds.redrive:
            return None
        return self._turns.replies.left(self._awake(at), words_lost=words_lost)

    # --- the hedge ------------------------------------------------------------------------------

    @property
    def hedge_at(self) -> float | None:
        """From when on another connection is to be asked beside, in monotonic seconds (R24); None
        for not as things stand, once for each reply that is owed.

        A fact never brings it nearer than `Bounds.hedge_notice_s` to its own time, so that looking
        that often misses none.
        """
        claim = self._turns.claim()
        at = None if claim is None else self._rules.hedge_deadline(claim)
        return None if at is None else self._by_clock(max(at, self._judges_from))

    def hedge(self, at: float) -> Redrive | None:
        """What the hedge is to ask for; changes nothing, so feed `HedgeBegun` next.

        Returns:
            Its `redrive_id` is what `Connected.hedge_id` and, but for the application's own
            requests, `GenerationOpened.for_request` are to give back. None where none is due.
        """
        hedge_at, claim = self.hedge_at, self._turns.claim()
        if hedge_at is None or claim is None or hedge_at > at:
            return None
        return self._turns.replies.claims.hedge(self._awake(at), claim)

    @property
    def awaits_hedge(self) -> bool:
        """Whether the hedge that was begun may still answer first: the connection that serves has
        given nothing since, the same reply is owed, and the caller does not speak."""
        turns = self._turns
        if not turns.replies.claims.awaited or turns.speech.voice is Voice.SPEAKING:
            return False
        claim = turns.claim()
        return claim is not None and claim.hedged

    # --- facts and deadlines --------------------------------------------------------------------

    def receive(self, fact: f.Fact) -> tuple[Decision, ...]:
        """Take a fact; returns what to do about it now, in order. Then ask `next_deadline()`.

        Raises:
            IllegalFactError: It cannot have happened now: it is earlier than the fact before it,
                or the tables of `core.state` and `core.generation` have no entry for it.
        """
        turns = self._turns
        connection = self._check(fact)
        self._now = fact.at
        if turns.connection is Connection.CLOSED:
            return ()
        at = fact.at - self._slept_s
        decisions = self._take(replace(fact, at=at) if self._slept_s else fact)
        self._took_at = fact.at - self._slept_s  # of which it may have told
        turns.connection = connection
        if type(fact) in _POSTPONING:
            return decisions
        if type(fact) in _EXPLAINING:
            turns.explained_at = self._took_at
        return decisions + self.due(fact.at)

    def next_deadline(self) -> float | None:
        """When to call `due()`, in monotonic seconds; None for not before the next fact."""
        earliest = self._rules.next_deadline()
        if earliest is None:
            return None
        return max(earliest, self._judges_from) + self._slept_s

    def due(self, now: float) -> tuple[Decision, ...]:
        """What has fallen due by `now`. Afterwards `next_deadline()` is later than `now`."""
        decisions: list[Decision] = []
        now = self._awake(now)
        while (
            now >= self._judges_from
            and (deadline := self._rules.next_deadline()) is not None
            and deadline <= now
        ):
            decisions += self._rules.act(now)
        return tuple(decisions)

    def _awake(self, at: float) -> float:
        return at - self._slept_s

    def _by_clock(self, at: float | None) -> float | None:
        return None if at is None else at + self._slept_s

    def _check(self, fact: f.Fact) -> Connection:
        """The next state of the connection; raises before anything was changed."""
        turns = self._turns
        connection = CONNECTION_MOVES[turns.connection].get(type(fact))
        if connection is None:
            raise IllegalFactError(
                f"{_name(fact)} cannot happen while the connection is {turns.connection.name}"
            )
        if not fact.at >= self._now:
            raise IllegalFactError(f"{_name(fact)}.at={fact.at!r} is before {self._now!r}")
        if isinstance(fact, f.GenerationOpened):
            opened = fact.generation_id
            phase = turns.phase if opened == turns.open_id else Phase.NONE
            is_new = f.GenerationOpened in PHASE_MOVES[phase] and not turns.speaker.has_left(opened)
            if not is_new:
                raise IllegalFactError(f"{_name(fact)}.generation_id was used before")
        return connection

    def _take(self, fact: f.Fact) -> tuple[Decision, ...]:
        """Move by a fact that is legal now; returns what to do about it at once."""
        at, turns = fact.at, self._turns
        replies = turns.replies
        match fact:
            case f.MessageArrived():
                if turns.liveness is not None:
                    turns.liveness.message_arrived(at)
            case f.NoticeArrived():
                if turns.liveness is not None:
                    turns.liveness.byte_arrived(at)
            case f.PongArrived():
                if turns.liveness is not None:
                    turns.liveness.pong_arrived(at, fact.after_s)
            case f.LocalSpeechHinted():
                turns.speech.last_at = at
                if turns.liveness is not None and fact.to_be_heard:
                    # A model that thinks, or waits for a tool, says nothing of a sound.
                    turns.liveness.hinted(at, at_rest=not turns.explains_silence(at))
            case f.LoopStalled():
                self._slept(fact)
            case (
                f.PauseExpected()
                | f.AudioReceived()
                | f.TextReceived()
                | f.ToolCallOpened()
                | f.OutputCompleted()
                | f.Interrupted()
            ):
                self._follow(fact)
            case f.GenerationEnded():
                if fact.ending != "overtaken":
                    turns.interruption.unended = None
                if fact.generation_id == turns.open_id:
                    return turns.close(at, _ENDINGS[fact.ending], fact.retry_after_s)
            case f.TurnPassedOver():
                turns.interruption.unended = None
                if fact.interrupted:
                    turns.interruption.stopped_at = at
                    return ()
                return turns.passed_over(at)
            case f.GenerationOpened():
                return turns.opened(fact)
            case (
                f.PlaybackStarted()
                | f.PlaybackProgressed()
                | f.PlaybackFinished()
                | f.PlaybackPaused()
                | f.PlaybackResumed()
            ):
                return turns.speaker.played(fact, turns.open)
            case f.UserSpeechStarted():
                turns.false_alarms = 0
                if turns.connection is Connection.UP:
                    turns.speech.voice = Voice.SPEAKING
                    turns.speech.started_at = at
            case f.UserSpeechStopped():
                if turns.speech.voice is Voice.SPEAKING:
                    turns.speech.voice = Voice.PAUSED if fact.in_turn else Voice.QUIET
                    turns.speech.paused_at = at
            case f.UserTurnEnded():
                turns.false_alarms = 0
                turns.speech.voice = Voice.QUIET
                turns.interruption.stopped_at = None
                spoke_at = turns.speech.heard_at
                return replies.turn_ended(at, turns.open, spoke_at, certain=fact.certain)
            case f.InputAwaited():
                replies.input_awaited()
            case f.ReplyRequested():
                return replies.requested(at, fact.request_id)
            case f.ReplyCancelled():
                if turns.open is not None and fact.request_id in (None, turns.open.request_id):
                    turns.open.cancelled = True
                return replies.cancelled(fact.request_id)
            case f.ReplyRequestTimedOut():
                return replies.timed_out(fact.request_id)
            case f.ReplyRefused():
                return replies.refused(fact, turns.open)
            case f.WaitStated():
                if turns.liveness is not None:
                    turns.liveness.quiet_until = at + fact.seconds
            case f.HedgeBegun():
                if turns.connection is Connection.UP:
                    replies.hedge_begun(at, turns.open)
            case f.ToolResultDelivered():
                replies.result_delivered(at, fact.call_id, fact.expects_reply)
            case f.ToolCallCancelled():
                replies.call_cancelled(at, fact.call_id)
            case f.Connected():
                return turns.connected(fact)
            case f.Disconnected():
                return turns.dropped(at) if turns.connection is Connection.UP else ()
            case f.Closed():
                return () if turns.open is None else (CloseStreams(turns.open.id),)
            case _:
                assert_never(fact)
        return ()

    def _slept(self, fact: f.LoopStalled) -> None:
        # `fact.at` is by the clock before this block; what was taken before it stays before it.
        slept_s = min(fact.slept_s, fact.at - self._took_at)
        self._slept_s += slept_s
        self._judges_from = fact.at - slept_s + READ_WITHIN_S

    def _follow(self, fact: Output) -> None:
        turns = self._turns
        if isinstance(fact, f.ToolCallOpened):
            turns.replies.call_opened(fact.at, fact.call_id)
        turns.interruption.follow(fact, turns.open)
        if turns.open is not None and fact.generation_id == turns.open.id:
            turns.open.advance(fact)
            if turns.replies.claims.awaited and _is_output(fact):
                turns.replies.claims.awaited = False


def _is_output(fact: f.Fact) -> bool:
    if isinstance(fact, f.TextReceived):
        return not fact.is_caption
    return isinstance(fact, f.AudioReceived | f.ToolCallOpened)


def _name(fact: f.Fact) -> str:
    return type(fact).__name__
