"""Runs a `TurnMachine` on the event loop: facts in, decisions carried out.

No policy: what is decided stands in `core`, what it means for a provider in its session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from livekit import rtc
from typing_extensions import assert_never

from ..core import facts as f
from ..core.decisions import (
    CloseStreams,
    Decision,
    FinaliseGeneration,
    FinaliseReason,
    RecordFirstAudio,
    RecordOutcome,
    Redrive,
    SuspectDead,
    TakeBack,
)
from ..core.limits import LATE_AFTER_S, LOOK_EVERY_S, STALL_TOLD_S, TIMER_SLACK_S, Bounds
from ..core.state import Connection
from ..core.turn import IllegalFactError, TurnMachine
from ..events import (
    FirstAudioAfterReconnect,
    GenerationFinalised,
    HedgeDecided,
    LoopStalled,
    RedriveDecided,
    RedriveOutcome,
    ResilienceEvent,
)
from ..options import ResilienceOptions
from ..owed_reply import Left
from ..wording import RedriveContext, redrive_text, tail
from .log import logger
from .speech_hint import SpeechHint
from .telemetry import Telemetry
from .timer import Timer, Watch

__all__ = ["Carrier", "Driver", "HedgeRequest"]

# Rounds of the loop from a deadline to its judgement: a message that has arrived is read, decrypted
# and taken apart within fewer.
_READ_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class HedgeRequest:
    """What a connection that is prepared beside is asked for.

    Attributes:
        hedge_id: Give it back as `Connected.hedge_id`, and as `GenerationOpened.for_request`.
        request_ids: The application's requests to issue on it, each with its own future.
        instructions: For the reply, where there are none.
    """

    hedge_id: str
    request_ids: tuple[str, ...]
    instructions: str


class Carrier(Protocol):
    """What a provider's session does for its driver."""

    def close_streams(self, generation_id: str) -> None:
        """Close the streams of a generation whose connection is gone."""

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        """End a generation locally; whatever arrives for it later is dropped."""

    def redrive(self, redrive_id: str, instructions: str) -> None:
        """Ask the model for a reply; the application did not ask for this one."""

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        """See to it that the reply to a re-drive, which may have begun, is not heard."""

    def reissue(self, request_id: str) -> None:
        """Send a request of the application again, with its own future."""

    def words_of(self, generation_id: str, audio_s: float) -> str:
        """The words of a reply that lie within its first `audio_s` seconds."""

    def replace_connection(self, *, speaks: bool = False) -> None:
        """Give up a connection that looks dead, and dial; that it `speaks` does not clear it."""

    def notify(self, event: ResilienceEvent) -> None:
        """Tell the application."""


class Driver:
    """Connects one session to its `TurnMachine`.

    Args:
        carrier: The session.
        options: The application's options.
        bounds: Made from them for the provider, see `ResilienceOptions.bounds`.
        telemetry: Gets every event and the length of every generation.
    """

    def __init__(
        self,
        carrier: Carrier,
        options: ResilienceOptions,
        bounds: Bounds,
        telemetry: Telemetry,
    ) -> None:
        self._carrier = carrier
        self._options = options
        self._machine = TurnMachine(bounds)
        self._telemetry = telemetry
        self._loop = asyncio.get_running_loop()
        self.timer = Timer()
        """Of the session; each of its parts waits by it."""
        self._alarm = Watch(self.timer, self._wake_at, self._on_timer)
        self._judging: asyncio.Handle | None = None
        self._waiting: deque[f.Fact] = deque()
        self._taken_at = float("-inf")
        self._busy = False
        self._opened_at: dict[str, float] = {}
        # In the order in which they came: that of a set is another one in each run.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._hint = SpeechHint() if options.speech_hint else None
        self.heard_speech_at: float | None = None
        """When the microphone last sounded like speech; None for never."""
        self.speech_since: float | None = None
        """When it first did since the server last spoke of the call; None for not since then."""
        self.watch: Callable[[], None] | None = None
        """Called whenever something may have changed."""

    @property
    def now(self) -> float:
        """Monotonic seconds, the clock of every fact."""
        return self._loop.time()

    @property
    def rests_from(self) -> float | None:
        """See `TurnMachine.rests_from`."""
        return self._machine.rests_from

    async def rest(self, by: float, unless: Callable[[], bool] = lambda: False) -> bool:
        """Wait until nothing is under way and the caller has heard all.

        Args:
            by: How long, in monotonic seconds.
            unless: Looked at after each fact and decision; waits no longer where it is true.

        Returns:
            Whether that is so.
        """
        while self.now < by and not unless():
            rests_at = self._rests_at()
            if rests_at <= self.now:
                return True
            await self.next_fact(min(rests_at, by))
        return self.rests

    async def next_fact(self, by: float) -> None:
        """Wait for a fact or a decision, at most until `by` in monotonic seconds."""
        # Not `asyncio.wait_for`, which in Python before 3.12 swallows a cancellation that comes
        # together with the fact, as the end of a connection does.
        moved = self._loop.create_future()
        self._waiters[moved] = None
        deadline = None if by == float("inf") else self.timer.at(by, partial(_wake, moved))
        try:
            await moved
        finally:
            del self._waiters[moved]
            if deadline is not None:
                deadline.cancel()

    @property
    def owes_reply(self) -> bool:
        """See `TurnMachine.owes_reply`."""
        return self._machine.owes_reply

    @property
    def replies_heard(self) -> int:
        """See `TurnMachine.replies_heard`."""
        return self._machine.replies_heard

    @property
    def rests(self) -> bool:
        """Whether nothing is under way and the caller has heard all that arrived."""
        return self._rests_at() <= self.now

    @property
    def owes_open(self) -> bool:
        """See `TurnMachine.owes_open`."""
        return self._machine.owes_open

    @property
    def is_stuck(self) -> bool:
        """See `TurnMachine.is_stuck`."""
        return self._machine.is_stuck

    @property
    def hedge_at(self) -> float | None:
        """See `TurnMachine.hedge_at`."""
        return self._machine.hedge_at

    @property
    def awaits_hedge(self) -> bool:
        """See `TurnMachine.awaits_hedge`."""
        return self._machine.awaits_hedge

    def begin_hedge(self) -> HedgeRequest | None:
        """What another connection is to be asked for beside, from now on; None for nothing."""
        decision = self._machine.hedge(self.now)
        if decision is None:
            return None
        requested = decision.cause == "reply_requested"
        self.feed(f.HedgeBegun(self.now))
        self.tell(HedgeDecided(self.now, decision.cause, decision.waited_s))
        return HedgeRequest(
            decision.redrive_id,
            decision.request_ids if requested else (),
            "" if requested else self._text_of(decision),
        )

    @property
    def has_been_heard(self) -> bool:
        """Whether the caller has heard all that arrived."""
        heard_from = self._machine.heard_from
        return heard_from is not None and heard_from <= self.now

    @property
    def rests_and_heard_from(self) -> float | None:
        """From when on nothing is under way and the caller has heard all, in monotonic seconds;
        None while it depends on what is to come."""
        rests_from, heard_from = self._machine.rests_from, self._machine.heard_from
        if rests_from is None or heard_from is None:
            return None
        return max(rests_from, heard_from)

    def _rests_at(self) -> float:
        at = self.rests_and_heard_from
        return float("inf") if at is None else at

    def left(self, *, words_lost: bool) -> Left:
        """What this session leaves to another, should it end now; see `TurnMachine.left`."""
        owed = self._machine.left(self.now, words_lost=words_lost)
        return Left(
            None if owed is None else self._context_of(owed),
            requested=self._machine.owes_reply,
            spoke_at=self.heard_speech_at,
            quiet_s=self._options.speech_quiet_s,
            answers_in_s=self._options.redrive_after_s,
            listens=self._options.speech_hint,
            wording=self._options.redrive_instructions,
        )

    def feed(self, fact: f.Fact) -> None:
        """Take a fact and carry out what it leads to.

        Carrying out a decision can bring new facts; they wait until it is done. What was stamped
        before them and is fed after them counts as of their time.
        """
        self._note_stall(fact.at)
        if isinstance(fact, f.MessageArrived):
            self.speech_since = None
        self._waiting.append(fact)
        if not self._busy:
            self._work_off(())

    def tell(self, event: ResilienceEvent | None) -> None:
        """Count an event, if there is one, and tell the application."""
        if event is not None:
            self._telemetry.record(event)
            self._carrier.notify(event)

    def hear(self, frame: rtc.AudioFrame, *, to_be_heard: bool = True) -> bool:
        """Listen to a microphone frame for speech, cheaply and without a message.

        Args:
            frame: As pushed.
            to_be_heard: See `LocalSpeechHinted`.

        Returns:
            Whether it sounds like speech; False where nobody listens.
        """
        if self._hint is None or not self._hint.is_speech(frame):
            return False
        self.heard_speech_at = now = self.now
        if self.speech_since is None:
            self.speech_since = now
        self.feed(f.LocalSpeechHinted(now, to_be_heard))
        return True

    def notice_stall(self) -> None:
        """Have it known where the event loop has just been blocked."""
        self._note_stall(self.now)
        if self._waiting and not self._busy:
            self._work_off(())

    def close(self) -> None:
        """The application closed the session: nothing is decided any more."""
        self.feed(f.Closed(self.now))
        self._alarm.cancel()
        if self._judging is not None:
            self._judging.cancel()
            self._judging = None

    # -- what falls due

    def _wake_at(self) -> float | None:
        """The next deadline, or the next look at whether the loop runs."""
        if self._judging is not None or self._machine.connection is not Connection.UP:
            return None
        look_at = self.now + LOOK_EVERY_S
        deadline = self._machine.next_deadline()
        return look_at if deadline is None else min(deadline, look_at)

    def _on_timer(self, set_for: float) -> None:
        now = self.now
        if now - set_for >= LATE_AFTER_S:
            self._woken_late(now, now - set_for)
        deadline = self._machine.next_deadline()
        if self._waiting:
            self._work_off(())
        elif deadline is not None and deadline - now < TIMER_SLACK_S:
            self._judge_in(_READ_ROUNDS)
        else:
            self._alarm.look()

    def _judge_in(self, rounds: int) -> None:
        """Look whether a deadline still stands, once all that has arrived was read (R23)."""
        if rounds:
            self._judging = self._loop.call_soon(self._judge_in, rounds - 1)
            return
        self._judging = None
        deadline = self._machine.next_deadline()
        due = deadline is not None and deadline - self.now < TIMER_SLACK_S
        self._work_off(self._machine.due(max(deadline or 0.0, self.now)) if due else ())

    def _note_stall(self, now: float) -> None:
        """Have the machine told, ahead of anything else, where its deadline is overdue."""
        set_for = self._alarm.at
        if set_for is not None and now - set_for >= LATE_AFTER_S:
            self._alarm.cancel()
            self._woken_late(now, now - set_for)

    def _woken_late(self, now: float, late_s: float) -> None:
        self._waiting.append(f.LoopStalled(now, late_s))
        if late_s >= STALL_TOLD_S:
            self.tell(LoopStalled(now, late_s))

    # -- decisions

    def _work_off(self, decisions: tuple[Decision, ...]) -> None:
        self._busy = True
        try:
            self._carry(decisions)
            while self._waiting:
                self._receive(self._waiting.popleft())
        finally:
            self._busy = False
            if self.watch is not None:
                self.watch()
            for waiter in self._waiters:
                _wake(waiter)
            self._alarm.look()

    def _receive(self, fact: f.Fact) -> None:
        if fact.at < self._taken_at:
            fact = replace(fact, at=self._taken_at)
        self._taken_at = fact.at
        try:
            decisions = self._machine.receive(fact)
        except IllegalFactError:
            # Our bookkeeping is off; the call matters more than being told.
            logger.exception("fact refused", extra={"fact": type(fact).__name__})
            return
        match fact:
            case f.GenerationOpened():
                self._opened_at[fact.generation_id] = fact.at
            case f.GenerationEnded():
                self._count_generation(fact.generation_id, terminated=True)
            case _:
                pass
        self._carry(decisions)

    def _count_generation(self, generation_id: str, *, terminated: bool) -> None:
        opened_at = self._opened_at.pop(generation_id, None)
        if opened_at is not None:
            self._telemetry.generation_closed(self.now - opened_at, terminated=terminated)

    def _carry(self, decisions: tuple[Decision, ...]) -> None:
        for decision in decisions:
            try:
                self._carry_out(decision)
            except Exception:
                logger.exception("failed", extra={"decision": type(decision).__name__})

    def _carry_out(self, decision: Decision) -> None:
        """Have the session do what was decided, and tell of it."""
        carrier, now = self._carrier, self.now
        match decision:
            case CloseStreams():
                self._count_generation(decision.generation_id, terminated=False)
                carrier.close_streams(decision.generation_id)
            case FinaliseGeneration():
                self._count_generation(decision.generation_id, terminated=False)
                carrier.finalise(decision.generation_id, decision.reason)
                if decision.reason != "captions":
                    self.tell(
                        GenerationFinalised(now, decision.reason, decision.open_s, decision.idle_s)
                    )
            case Redrive():
                self._redrive(decision)
            case TakeBack():
                carrier.take_back(decision.redrive_id, decision.generation_id)
            case SuspectDead():
                logger.warning("connection looks dead", extra={"sign": decision.sign})
                carrier.replace_connection(speaks=decision.sign == "passed_over")
            case RecordOutcome():
                self.tell(RedriveOutcome(now, decision.result))
            case RecordFirstAudio():
                self.tell(FirstAudioAfterReconnect(now, decision.seconds))
            case _:
                assert_never(decision)

    def _redrive(self, decision: Redrive) -> None:
        self.tell(RedriveDecided(self.now, decision.cause, decision.waited_s))
        if decision.cause == "reply_requested":
            for request_id in decision.request_ids:
                self._carrier.reissue(request_id)
            return
        self._carrier.redrive(decision.redrive_id, self._text_of(decision))

    def _text_of(self, decision: Redrive) -> str:
        return redrive_text(self._context_of(decision), self._options.redrive_instructions)

    def _context_of(self, decision: Redrive) -> RedriveContext:
        words = ""
        if decision.generation_id is not None:
            # What arrived plays on, so by the time of the reply all of it has been heard.
            finishes = self._options.playout_on_drop == "finish"
            heard_s = decision.received_s if finishes else decision.heard_s
            words = self._carrier.words_of(decision.generation_id, heard_s)
        return RedriveContext(decision.cause, tail(words))


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
