"""`TurnMachine`: facts in, decisions out, and when to ask again. No I/O, no clock of its own.

A driver feeds each fact to `receive()` and carries out what it answers, then sets its one timer
to `next_deadline()`; when the timer fires it calls `due()` and sets it again.
"""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import assert_never  # typing has it from 3.11 on

from . import facts as f
from . import watchdogs
from .decisions import (
    CloseStreams,
    Decision,
    FinaliseGeneration,
    RecordFirstAudio,
    Redrive,
    SuspectDead,
    TakeBack,
)
from .facts import IllegalFactError
from .limits import CUT_IN_HEARD_S, READ_WITHIN_S, SLOWEST_START_S, TRACKED_GENERATIONS, Bounds
from .replies import How, Replies
from .state import (
    CONNECTION_MOVES,
    PHASE_MOVES,
    Claim,
    Connection,
    Generation,
    Liveness,
    Phase,
    Speech,
    Unended,
    Voice,
)

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
    """Turn state of one session over all its connections.

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
        self._connection = Connection.NEW
        self._now = float("-inf")  # of the latest fact, as it was fed
        self._took_at = float("-inf")  # the same, with the time taken out that the loop slept
        self._slept_s = 0.0
        self._judges_from = float("-inf")
        self._explained_at = float("-inf")  # until then there was a reason to be silent
        self._open: Generation | None = None
        self._speaker: Generation | None = None
        self._unplayed: dict[str, Generation] = {}  # not through the speaker yet, oldest first
        self._speech = Speech()
        self._liveness: Liveness | None = None
        self._false_alarms = 0
        self._connected_at = float("-inf")
        self._reconnected_at: float | None = None  # until the first audio after it
        self.replies_heard = 0
        """Replies of which the caller heard something while their connection served (count)."""
        # A turn was stopped before its first output, and it is not known yet by whom.
        self._stopped_at: float | None = None
        self._unended: Unended | None = None
        self._replies = Replies(bounds)

    @property
    def connection(self) -> Connection:
        """State of the connection."""
        return self._connection

    @property
    def phase(self) -> Phase:
        """State of the open generation; NONE without one."""
        return Phase.NONE if self._open is None else self._open.phase

    @property
    def owes_reply(self) -> bool:
        """Whether the caller waits for a reply, or the application for one it requested."""
        return self._replies.owes

    @property
    def rests_from(self) -> float | None:
        """From when on nothing is under way: no reply open or owed, no call, nobody speaking.

        None while something is. It may lie ahead, since a pause in the caller's voice is no end.
        """
        if self._is_busy or self._speech.voice is not Voice.QUIET:
            return None
        last_at = self._speech.last_at
        if last_at is None:
            return float("-inf")
        quiet_at = last_at + self._bounds.speech_quiet_s
        if self._liveness is not None and self._liveness.waits_to_hear:
            # What sounded may be a turn that the server has not come round to, or a television.
            quiet_at = max(quiet_at, last_at + self._bounds.deaf_after_s)
        return quiet_at + self._slept_s

    @property
    def _is_busy(self) -> bool:
        return self.owes_open or self._replies.surely_owes or self._replies.calls_open

    def _explains_silence(self, at: float) -> bool:
        """Whether a reply, open, owed or playing, or a tool keeps the server from saying more."""
        heard_from = self.heard_from
        return self._is_busy or heard_from is None or heard_from > at + self._slept_s

    @property
    def heard_from(self) -> float | None:
        """From when on the caller has heard all that arrived; None while the speaker holds it."""
        heard_at = self._heard_all_at()
        return None if heard_at is None else heard_at + self._slept_s

    def _heard_all_at(self) -> float | None:
        latest = float("-inf")
        for generation in self._unplayed.values():
            heard_at = generation.heard_all_at(self._speaker)
            if heard_at is None:
                return None
            latest = max(latest, heard_at)
        return latest

    @property
    def owes_open(self) -> bool:
        """Whether the open generation is a reply, or is to become one that is owed."""
        if self._open is None:
            return False
        return not self._open.by_caption or self._replies.waits_for(self._open)

    @property
    def is_stuck(self) -> bool:
        """Whether the connection is suspected because an interrupted reply never ended. Neither a
        message nor a pong disproves that, only its end or an answer."""
        return self._unended is not None and self._unended.suspected

    def left(self, at: float, *, words_lost: bool) -> Redrive | None:
        """What somebody else is to be asked for, should this session end now; changes nothing.

        Args:
            at: Now.
            words_lost: As in `Connected`: nobody else will know what the caller said last.
        """
        if not self._bounds.redrive:
            return None
        return self._replies.left(self._awake(at), words_lost=words_lost)

    @property
    def hedge_at(self) -> float | None:
        """From when on another connection is to be asked beside, in monotonic seconds (R24); None
        for not as things stand, once for each reply that is owed.

        A fact never brings it nearer than `Bounds.hedge_notice_s` to its own time, so that looking
        that often misses none.
        """
        claim = self._claim()
        at = None if claim is None else self._hedge_deadline(claim)
        return None if at is None else max(at, self._judges_from) + self._slept_s

    def hedge(self, at: float) -> Redrive | None:
        """What the hedge is to ask for; changes nothing, so feed `HedgeBegun` next.

        Returns:
            Its `redrive_id` is what `Connected.hedge_id` and, but for the application's own
            requests, `GenerationOpened.for_request` are to give back. None where none is due.
        """
        hedge_at, claim = self.hedge_at, self._claim()
        if hedge_at is None or claim is None or hedge_at > at:
            return None
        return self._replies.hedge(self._awake(at), claim)

    @property
    def awaits_hedge(self) -> bool:
        """Whether the hedge that was begun may still answer first: the connection that serves has
        given nothing since, the same reply is owed, and the caller does not speak."""
        if not self._replies.awaits_hedge or self._speech.voice is Voice.SPEAKING:
            return False
        claim = self._claim()
        return claim is not None and claim.hedged

    def receive(self, fact: f.Fact) -> tuple[Decision, ...]:
        """Take a fact; returns what to do about it now, in order. Then ask `next_deadline()`.

        Raises:
            IllegalFactError: It cannot have happened now: it is earlier than the fact before it,
                or the tables of `core.state` have no entry for it.
        """
        connection = self._check(fact)
        self._now = fact.at
        if self._connection is Connection.CLOSED:
            return ()
        decisions = self._take(replace(fact, at=self._awake(fact.at)) if self._slept_s else fact)
        self._took_at = self._awake(fact.at)
        self._connection = connection
        if type(fact) in _POSTPONING:
            return decisions
        if type(fact) in _EXPLAINING:
            self._explained_at = self._took_at
        return decisions + self.due(fact.at)

    def next_deadline(self) -> float | None:
        """When to call `due()`, in monotonic seconds; None for not before the next fact."""
        earliest = self._next_deadline()
        return None if earliest is None else earliest + self._slept_s

    def due(self, now: float) -> tuple[Decision, ...]:
        """What has fallen due by `now`. Afterwards `next_deadline()` is later than `now`."""
        decisions: list[Decision] = []
        now = self._awake(now)
        while (deadline := self._next_deadline()) is not None and deadline <= now:
            decisions += self._act(now)
        return tuple(decisions)

    def _awake(self, at: float) -> float:
        return at - self._slept_s

    def _next_deadline(self) -> float | None:
        if self._connection is not Connection.UP:
            return None
        suspicion = self._suspicion()
        earliest = None if suspicion is None else suspicion[0]
        for at in (
            self._finalise_deadline(),
            self._redrive_deadline(),
            self._replies.failure_deadline(),
            self._replies.withdraw_deadline(),
            self._unended_deadline(),
            None if self._stopped_at is None else self._stopped_at + CUT_IN_HEARD_S,
        ):
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return None if earliest is None else max(earliest, self._judges_from)

    # --- facts ----------------------------------------------------------------------------------

    def _check(self, fact: f.Fact) -> Connection:
        """The next state of the connection; raises before anything was changed."""
        connection = CONNECTION_MOVES[self._connection].get(type(fact))
        if connection is None:
            raise IllegalFactError(
                f"{_name(fact)} cannot happen while the connection is {self._connection.name}"
            )
        if not fact.at >= self._now:
            raise IllegalFactError(f"{_name(fact)}.at={fact.at!r} is before {self._now!r}")
        if isinstance(fact, f.GenerationOpened):
            opened = fact.generation_id
            phase = self.phase if opened == self._open_id else Phase.NONE
            if f.GenerationOpened not in PHASE_MOVES[phase] or opened in self._unplayed:
                raise IllegalFactError(f"{_name(fact)}.generation_id was used before")
        return connection

    def _take(self, fact: f.Fact) -> tuple[Decision, ...]:
        """Move by a fact that is legal now; returns what to do about it at once."""
        at = fact.at
        replies = self._replies
        match fact:
            case f.MessageArrived():
                if self._liveness is not None:
                    self._liveness.message_arrived(at)
            case f.NoticeArrived():
                if self._liveness is not None:
                    self._liveness.byte_arrived(at)
            case f.PongArrived():
                if self._liveness is not None:
                    self._liveness.pong_arrived(at, fact.after_s)
            case f.LocalSpeechHinted():
                self._speech.last_at = at
                if self._liveness is not None and fact.to_be_heard:
                    self._liveness.hinted_at = at
                    # A model that thinks, or waits for a tool, says nothing of a sound.
                    if not self._explains_silence(at):
                        self._liveness.hinted_at_rest_at = at
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
                if isinstance(fact, f.ToolCallOpened):
                    replies.call_opened(at, fact.call_id)
                self._follow_interruption(fact)
                if self._open is not None and fact.generation_id == self._open.id:
                    self._open.advance(fact)
                    if replies.awaits_hedge and _is_output(fact):
                        replies.awaits_hedge = False
            case f.GenerationEnded():
                if fact.ending != "overtaken":
                    self._unended = None
                if fact.generation_id == self._open_id:
                    return self._close(at, _ENDINGS[fact.ending], fact.retry_after_s)
            case f.TurnPassedOver():
                self._unended = None
                if fact.interrupted:
                    self._stopped_at = at
                    return ()
                return self._passed_over(at)
            case f.GenerationOpened():
                return self._opened(fact)
            case (
                f.PlaybackStarted()
                | f.PlaybackProgressed()
                | f.PlaybackFinished()
                | f.PlaybackPaused()
                | f.PlaybackResumed()
            ):
                return self._played(fact)
            case f.UserSpeechStarted():
                self._false_alarms = 0
                if self._connection is Connection.UP:
                    self._speech.voice = Voice.SPEAKING
                    self._speech.started_at = at
            case f.UserSpeechStopped():
                if self._speech.voice is Voice.SPEAKING:
                    self._speech.voice = Voice.PAUSED if fact.in_turn else Voice.QUIET
                    self._speech.paused_at = at
            case f.UserTurnEnded():
                self._false_alarms = 0
                self._speech.voice = Voice.QUIET
                self._stopped_at = None
                spoke_at = self._speech.heard_at
                return replies.turn_ended(at, self._open, spoke_at, certain=fact.certain)
            case f.InputAwaited():
                replies.input_awaited()
            case f.ReplyRequested():
                return replies.requested(at, fact.request_id)
            case f.ReplyCancelled():
                if self._open is not None and fact.request_id in (None, self._open.request_id):
                    self._open.cancelled = True
                return replies.cancelled(fact.request_id)
            case f.ReplyRequestTimedOut():
                return replies.timed_out(fact.request_id)
            case f.ReplyRefused():
                return replies.refused(fact, self._open)
            case f.WaitStated():
                if self._liveness is not None:
                    self._liveness.quiet_until = at + fact.seconds
            case f.HedgeBegun():
                if self._connection is Connection.UP:
                    replies.hedge_begun(at, self._open)
            case f.ToolResultDelivered():
                replies.result_delivered(at, fact.call_id, fact.expects_reply)
            case f.ToolCallCancelled():
                replies.call_cancelled(at, fact.call_id)
            case f.Connected():
                return self._connected(fact)
            case f.Disconnected():
                return self._dropped(at) if self._connection is Connection.UP else ()
            case f.Closed():
                return () if self._open is None else (CloseStreams(self._open.id),)
            case _:
                assert_never(fact)
        return ()

    # --- the connection -------------------------------------------------------------------------

    def _connected(self, fact: f.Connected) -> tuple[Decision, ...]:
        self._stopped_at = self._unended = None
        decisions: tuple[Decision, ...] = ()
        if self._connection is Connection.UP:  # a handover leaves the old session's work behind
            self._replies.withdraw_doubtful()
            decisions = self._dropped(fact.at)
        self._connected_at = fact.at
        if self._connection is not Connection.NEW:
            if fact.words_lost:
                self._replies.words_lost(fact.at)
            decisions += self._replies.reconnected(fact.at, fact.knows_turn, fact.hedge_id)
            # After a handover at rest nobody waits for the next reply.
            waited_for = self._connection is Connection.DOWN or self._replies.owes
            self._reconnected_at = fact.at if waited_for else None
        if fact.speaking:
            self._speech.voice = Voice.SPEAKING
        self._liveness = Liveness(
            fact.at,
            fact.at,
            answers_pings=self._liveness is not None and self._liveness.answers_pings,
            false_alarms=self._false_alarms,
        )
        return decisions

    def _slept(self, fact: f.LoopStalled) -> None:
        # `fact.at` is by the clock before this block; what was taken before it stays before it.
        slept_s = min(fact.slept_s, fact.at - self._took_at)
        self._slept_s += slept_s
        self._judges_from = fact.at - slept_s + READ_WITHIN_S

    def _dropped(self, at: float) -> tuple[Decision, ...]:
        decisions: tuple[Decision, ...] = ()
        if self._open is not None:
            decisions = (CloseStreams(self._open.id), *self._close(at, "cut"))
        if self._speech.voice is not Voice.QUIET:  # the turn it was part of went down with it
            if self._speech.voice is Voice.SPEAKING:
                self._speech.last_at = at
            self._speech.voice = Voice.QUIET
            self._replies.words_lost(at)
        return decisions + self._replies.disconnected()

    # --- generations ----------------------------------------------------------------------------

    @property
    def _open_id(self) -> str | None:
        return None if self._open is None else self._open.id

    def _opened(self, fact: f.GenerationOpened) -> tuple[Decision, ...]:
        if self._connection is Connection.DOWN:  # read from the dead connection's buffer
            return (CloseStreams(fact.generation_id),)
        decisions: tuple[Decision, ...] = ()
        if self._open is not None:
            decisions = (CloseStreams(self._open.id), *self._close(fact.at, "replaced"))
        if self._speech.voice is Voice.PAUSED:
            self._speech.voice = Voice.QUIET
        phase = PHASE_MOVES[Phase.NONE][f.GenerationOpened]
        self._stopped_at = None
        if not fact.by_caption:  # words that it heard are no answer
            self._unended = None
        generation = Generation(
            fact.generation_id,
            fact.at,
            fact.for_request,
            by_caption=fact.by_caption,
            phase=phase,
        )
        self._open = self._unplayed[generation.id] = generation
        if len(self._unplayed) > TRACKED_GENERATIONS:
            del self._unplayed[next(iter(self._unplayed))]
        self._replies.opened(generation, fact.for_request)
        return decisions

    def _follow_interruption(
        self,
        fact: f.PauseExpected
        | f.AudioReceived
        | f.TextReceived
        | f.ToolCallOpened
        | f.OutputCompleted
        | f.Interrupted,
    ) -> None:
        """Note an interruption, of which the end is still to come, and what contradicts it."""
        unended, opened = self._unended, self._open
        if isinstance(fact, f.Interrupted):
            # What only captions opened may have nothing to interrupt.
            real = opened is not None and opened.id == fact.generation_id and not opened.by_caption
            if real and (unended is None or unended.generation_id != fact.generation_id):
                self._unended = Unended(fact.generation_id, fact.at, fact.at)
        elif unended is not None and not isinstance(fact, f.PauseExpected):
            if fact.generation_id == unended.generation_id:
                unended.output_at = fact.at
            else:
                self._unended = None

    def _stopped(self, now: float, stopped_at: float) -> tuple[Decision, ...]:
        """Judge a turn that was stopped before its first output: by the caller, or by nobody."""
        self._stopped_at = None
        by_caller = self._speech.voice is not Voice.QUIET or (
            self._speech.last_at is not None and self._speech.last_at >= stopped_at - CUT_IN_HEARD_S
        )
        # Where nobody listens on this side, it takes the server's word.
        if by_caller or self._bounds.unheard_after_s is None:
            return ()
        return self._passed_over(now)

    def _passed_over(self, at: float) -> tuple[Decision, ...]:
        outcome = self._replies.passed_over()
        if outcome is None or self._liveness is None:
            return ()
        # Asked twice it gave nothing twice: another session may know better.
        self._liveness.suspected = "passed_over"
        return (*outcome, SuspectDead("passed_over", at - self._liveness.message_at))

    def _close(
        self, at: float, how: How, retry_after_s: float | None = None
    ) -> tuple[Decision, ...]:
        generation, self._open = self._open, None
        if generation is None:
            return ()
        self._explained_at = at
        if not generation.has_content:
            self._unplayed.pop(generation.id, None)
        outcome = self._replies.closed(at, generation, how, retry_after_s)
        generation.phase = Phase.NONE
        return outcome

    # --- the speaker ----------------------------------------------------------------------------

    def _played(
        self,
        fact: f.PlaybackStarted
        | f.PlaybackProgressed
        | f.PlaybackFinished
        | f.PlaybackPaused
        | f.PlaybackResumed,
    ) -> tuple[Decision, ...]:
        at = fact.at
        if isinstance(fact, f.PlaybackPaused | f.PlaybackResumed):
            generation = self._speaker
            if generation is None or generation.finished_at is not None:
                return ()
            running = isinstance(fact, f.PlaybackResumed)
            generation.move_speaker(at, generation.heard_s(at), running=running)
            if isinstance(fact, f.PlaybackResumed) and generation is self._open:
                generation.advance(fact)
            return ()
        generation = self._unplayed.get(fact.generation_id)
        if generation is None:
            return ()
        if isinstance(fact, f.PlaybackFinished):
            del self._unplayed[generation.id]
            generation.move_speaker(at, fact.heard_until_s, running=False)
            generation.finished_at = at
            decisions = self._cut_in(generation) if fact.cut_in else ()
            if fact.heard_until_s > 0:
                return decisions + self._heard(at, generation)
            if generation is not self._open and generation.heard_at is None:
                return decisions + self._replies.unheard(at, generation)
            return decisions
        if isinstance(fact, f.PlaybackProgressed):
            if not fact.heard_until_s:
                return ()
            held = generation.heard_at is not None and generation.running_at is None
            generation.move_speaker(at, fact.heard_until_s, running=not held)
        else:
            generation.move_speaker(at, generation.heard_s(at), running=True)
        self._speaker = generation
        return self._heard(at, generation)

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
        self.replies_heard += generation.opened_at >= self._connected_at
        decisions: tuple[Decision, ...] = self._replies.heard(generation)
        since = self._reconnected_at
        if since is not None and generation.opened_at >= since:
            self._reconnected_at = None
            decisions += (RecordFirstAudio(at - since),)
        return decisions

    # --- deadlines ------------------------------------------------------------------------------

    def _finalise_deadline(self) -> float | None:
        if self._open is None:
            return None
        return watchdogs.finalise_deadline(
            self._open, self._speaker, self._replies.owed, self._bounds
        )

    def _redrive_deadline(self) -> float | None:
        return None if self._open is not None else self._replies.redrive_deadline(self._speech)

    def _unended_deadline(self) -> float | None:
        unended, liveness = self._unended, self._liveness
        # A server that waits for a tool answers once it has the result.
        if unended is None or liveness is None or self._replies.calls_open:
            return None
        asked_at = self._replies.asked_since(unended.at, self._open)
        return watchdogs.unended_deadline(unended, asked_at, self._speech, liveness, self._bounds)

    def _claim(self) -> Claim | None:
        if self._connection is not Connection.UP or self._bounds.hedge_after_s is None:
            return None
        return self._replies.claim(self._open)

    def _hedge_deadline(self, claim: Claim) -> float | None:
        heard_at, liveness = self._heard_all_at(), self._liveness
        if heard_at is None or liveness is None:
            return None
        sign_at = float("-inf") if self._open is None else self._open.last_sign_at
        silent_from = max(
            heard_at, sign_at, self._explained_at, self._connected_at, self._replies.redriven_at
        )
        return watchdogs.hedge_deadline(
            claim, silent_from, self._speech, liveness.quiet_until, self._bounds
        )

    def _suspicion(self) -> watchdogs.Suspicion | None:
        if self._liveness is None:
            return None
        return watchdogs.liveness_deadline(self._liveness, self._replies.asked_at, self._bounds)

    def _act(self, now: float) -> tuple[Decision, ...]:
        """Carry out the first rule that is due by `now`; each withdraws its own deadline."""

        def is_due(deadline: float | None) -> bool:
            return deadline is not None and deadline <= now

        if self._open is not None and is_due(self._finalise_deadline()):
            return self._finalise(now, self._open)
        if is_due(self._redrive_deadline()):
            return (self._replies.redrive(now),)
        if is_due(self._replies.failure_deadline()):
            return self._unanswered(now)
        if is_due(self._replies.withdraw_deadline()):
            self._replies.withdraw()
            return ()
        if self._unended is not None and is_due(self._unended_deadline()):
            return self._suspect_unended(now, self._unended)
        if (at := self._stopped_at) is not None and is_due(at + CUT_IN_HEARD_S):
            return self._stopped(now, at)
        suspicion = self._suspicion()
        if suspicion is not None and self._liveness is not None and is_due(suspicion[0]):
            sign = self._liveness.suspected = suspicion[1]
            since = self._liveness.message_at
            if sign == "nothing_arrived":
                since = self._liveness.byte_at
            elif sign == "caller_unheard":
                self._false_alarms += 1  # until the caller is heard
            return (SuspectDead(sign, now - since),)
        return ()

    def _unanswered(self, now: float) -> tuple[Decision, ...]:
        """A re-drive was not answered by as much as a generation."""
        asked_at, liveness = self._replies.asked_at, self._liveness
        outcome = self._replies.give_up()
        silent = asked_at is not None and liveness is not None and liveness.message_at <= asked_at
        if not silent or liveness is None or not self._replies.surely_owes:
            return outcome
        # Asked again on this connection, it would be as silent.
        self._replies.wait_for_handover()
        liveness.suspected = "reply_silent"
        return (*outcome, SuspectDead("reply_silent", now - liveness.message_at))

    def _suspect_unended(self, now: float, unended: Unended) -> tuple[Decision, ...]:
        assert self._liveness is not None
        unended.suspected = True
        return (SuspectDead("turn_unended", now - self._liveness.message_at),)

    def _finalise(self, now: float, generation: Generation) -> tuple[Decision, ...]:
        reason = watchdogs.finalise_reason(generation, owed=self.owes_open)
        is_mute = (
            reason in ("stalled", "silent")
            and self._liveness is not None
            and now - self._liveness.message_at >= SLOWEST_START_S
        )
        outcome = self._close(now, "expired")
        if is_mute and self._replies.owes and self._liveness is not None:
            # Asked on this connection, it would be as silent.
            self._replies.wait_for_handover()
            self._liveness.suspected = "reply_silent"
            silent_s = now - self._liveness.message_at
            outcome = (*outcome, SuspectDead("reply_silent", silent_s))
        return (
            FinaliseGeneration(
                generation.id, reason, now - generation.opened_at, now - generation.last_sign_at
            ),
            *outcome,
        )


def _is_output(fact: f.Fact) -> bool:
    if isinstance(fact, f.TextReceived):
        return not fact.is_caption
    return isinstance(fact, f.AudioReceived | f.ToolCallOpened)


def _name(fact: f.Fact) -> str:
    return type(fact).__name__
