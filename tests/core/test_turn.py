"""Random facts in any order that the wire can deliver; the promises hold after each."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from livekit.plugins.resilient.core import Bounds, Fact, TurnMachine
from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import (
    CloseStreams,
    Decision,
    FinaliseGeneration,
    RecordFirstAudio,
    RecordOutcome,
    Redrive,
    SuspectDead,
    TakeBack,
)
from livekit.plugins.resilient.core.generation import Phase
from livekit.plugins.resilient.core.state import Connection

BOUNDS = Bounds(
    complete_after_s=5.0, stalled_after_s=4.0, silent_after_s=15.0, liveness_timeout_s=25.0
)
SLOWEST_S = 15.0
LATE_S = st.sampled_from([0.0, 0.0, 0.0, 0.05, 2.0])
GAPS_S = st.one_of(
    st.sampled_from([0.0, 0.0, 0.1, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 15.0]), st.floats(0.0, 20.0)
)
GENERATION_FACTS: list[Callable[[float, str], Fact]] = [
    lambda at, g: f.AudioReceived(at, g, 0.0),
    lambda at, g: f.AudioReceived(at, g, 0.2),
    lambda at, g: f.AudioReceived(at, g, 3.0),
    f.TextReceived,
    f.OutputCompleted,
    f.Interrupted,
    f.GenerationEnded,
    lambda at, g: f.GenerationEnded(at, g, "cancelled"),
    lambda at, g: f.GenerationEnded(at, g, "failed"),
    f.PlaybackStarted,
    lambda at, g: f.PlaybackProgressed(at, g, 0.5),
    lambda at, g: f.PlaybackFinished(at, g, 0.0),
    lambda at, g: f.PlaybackFinished(at, g, 9.0),
    lambda at, g: f.PlaybackFinished(at, g, 0.5, cut_in=True),
]
PLAIN_FACTS: list[Callable[[float], Fact]] = [
    f.MessageArrived,
    f.PongArrived,
    f.LocalSpeechHinted,
    f.UserSpeechStarted,
    f.UserSpeechStopped,
    f.UserTurnEnded,
    f.PlaybackPaused,
    f.PlaybackResumed,
    f.ReplyCancelled,
    f.InputAwaited,
    lambda at: f.UserTurnEnded(at, certain=False),
    lambda at: f.UserSpeechStopped(at, in_turn=False),
    lambda at: f.WaitStated(at, 3.0),
    lambda at: f.LoopStalled(at, 1.0),
]
CLAIMS = (f.UserTurnEnded, f.ToolResultDelivered, f.ReplyRequested, f.GenerationOpened)


class Calls(RuleBasedStateMachine):
    """One session's facts, with a driver that may be late to its timer."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TurnMachine(BOUNDS)
        self.now = 100.0
        self.made = 0
        self.generations: list[str] = []
        self.calls: list[str] = []
        self.requests: list[str] = []
        self.open: str | None = None
        self.touched_at = 0.0  # last fact that may move the open generation's bound
        self.unheard_s = 0.0  # no less than what is still to be played
        self.paused = False
        self.speaking = False
        self.paused_speaking = False  # in mid-turn all the same
        self.claimed = False
        self.taken_back = False  # the open generation
        self.permits = 0  # re-drives that something since the last one has earned
        self.asked: str | None = None  # the re-drive without outcome
        self.first_audio_due = False
        self.suspected = False
        self.hedge: str | None = None  # under way
        self.serving_hedge: str | None = None
        self.hedged = 0
        self.hedge_at: float | None = None

    # --- the driver ----------------------------------------------------------------------------

    def feed(self, fact: Fact) -> None:
        was_open = self.open
        self.note_before(fact)
        self.hedge_at = self.machine.hedge_at
        if isinstance(fact, f.GenerationEnded) and fact.generation_id == self.open:
            self.open = None
        decisions = self.machine.receive(fact)
        if isinstance(fact, f.Connected) and fact.words_lost:
            self.claimed = True
        self.check_notice()
        self.carry_out(decisions, before=was_open)
        self.take_due()

    def check_notice(self) -> None:
        """Whoever looks every few seconds misses no hedge."""
        before, after = self.hedge_at, self.machine.hedge_at
        if after is not None and (before is None or after < before):
            assert BOUNDS.hedge_notice_s is not None
            assert after >= self.now + BOUNDS.hedge_notice_s - 1e-6

    def note_before(self, fact: Fact) -> None:
        """What an independent observer concludes from the fact alone."""
        if not isinstance(fact, f.MessageArrived | f.PongArrived | f.LocalSpeechHinted):
            self.touched_at = fact.at
        if isinstance(fact, CLAIMS):
            self.claimed = True
            self.permits = 1
        match fact:
            case f.AudioReceived():
                self.unheard_s += fact.duration_s
            case f.UserSpeechStarted():
                self.speaking = self.machine.connection is Connection.UP
                self.paused_speaking = False
            case f.UserSpeechStopped():
                self.paused_speaking |= self.speaking
                self.speaking = False
            case f.UserTurnEnded():
                self.speaking = self.paused_speaking = False
            case f.PlaybackPaused():
                self.paused = True
            case f.PlaybackResumed() | f.PlaybackStarted() | f.PlaybackFinished():
                self.paused = False
            case f.ReplyRefused():
                self.permits = 1
            case f.ReplyCancelled(request_id=None):
                self.claimed = False
                self.taken_back = True
            case f.GenerationOpened():
                self.taken_back = self.paused_speaking = False
            case f.Disconnected() | f.Connected():
                cut = self.open is not None and not self.taken_back
                self.claimed |= self.speaking or self.paused_speaking or cut
                self.speaking = self.paused_speaking = False
                self.suspected = False
                if isinstance(fact, f.Connected):
                    self.permits = 1
                    self.first_audio_due = self.machine.connection is not Connection.NEW
            case f.MessageArrived() | f.PongArrived():
                self.suspected = False
            case _:
                pass

    def take_due(self) -> None:
        self.carry_out(self.machine.due(self.now), before=self.open)

    def carry_out(self, decisions: tuple[Decision, ...], before: str | None) -> None:
        for decision in decisions:
            match decision:
                case CloseStreams():
                    assert decision.generation_id in (self.open, before, self.generations[-1])
                    if decision.generation_id == self.open:
                        self.open = None
                case FinaliseGeneration():
                    assert decision.generation_id == self.open
                    assert decision.open_s >= decision.idle_s >= 0
                    self.open = None
                    self.permits = 1
                case Redrive():
                    self.check_redrive(decision)
                case TakeBack():
                    asked = (self.asked, self.serving_hedge)
                    assert decision.redrive_id in asked, "not of what is settled"
                case RecordOutcome():
                    assert decision.redrive_id == self.asked, "one outcome for each"
                    self.asked = None
                case RecordFirstAudio():
                    assert self.first_audio_due, "one for each reconnect"
                    assert decision.seconds >= 0
                    self.first_audio_due = False
                case SuspectDead():
                    assert self.machine.connection is Connection.UP
                    assert not self.suspected or decision.sign != "nothing_arrived"
                    assert decision.silent_s > 0
                    self.suspected = True

    def check_redrive(self, redrive: Redrive) -> None:
        assert self.machine.connection is Connection.UP
        assert self.open is None, "nothing is asked while the model speaks"
        assert self.asked is None, "never two at a time"
        assert self.claimed, "nothing is owed"
        assert self.permits == 1, "one for each edge, new claim or refusal"
        assert not self.speaking or redrive.cause == "reply_requested"
        assert redrive.waited_s >= 0
        assert 0 <= redrive.heard_s <= redrive.received_s or redrive.cause != "reply_cut"
        assert (redrive.cause == "reply_requested") == bool(redrive.request_ids)
        assert (redrive.cause == "reply_cut") == (redrive.generation_id is not None)
        self.asked = redrive.redrive_id
        self.permits = 0

    # --- what may happen -----------------------------------------------------------------------

    @initialize(early=st.booleans())
    def connect(self, early: bool) -> None:
        if early:
            self.request()
            self.feed(f.UserTurnEnded(self.now))
        self.feed(f.Connected(self.now))

    @rule(gap_s=GAPS_S, late_s=LATE_S)
    def wait(self, gap_s: float, late_s: float) -> None:
        """Time passes; the timer fires on its deadlines, or a little late."""
        until = self.now + gap_s
        while (at := self.machine.next_deadline()) is not None and at + late_s <= until:
            assert at > self.now
            self.now = at + late_s
            self.take_due()
        self.now = max(self.now, until - late_s)
        if (at := self.machine.next_deadline()) is None or at > until:
            self.now = until

    @rule(knows_turn=st.booleans(), words_lost=st.sampled_from([False] * 5 + [True]))
    def reconnect(self, knows_turn: bool, words_lost: bool) -> None:
        self.feed(f.Connected(self.now, knows_turn, words_lost))

    @rule()
    def drop(self) -> None:
        self.feed(f.Disconnected(self.now))

    @rule(flaps=st.integers(1, 4), knows_turn=st.booleans())
    def flap_within_one_tick(self, flaps: int, knows_turn: bool) -> None:
        for _ in range(flaps):
            self.feed(f.Disconnected(self.now))
            self.feed(f.Connected(self.now, knows_turn))

    @precondition(lambda self: self.machine.hedge_at is not None)
    @rule()
    def begin_hedge(self) -> None:
        at = self.machine.hedge_at
        assert at is not None
        assert self.machine.connection is Connection.UP
        assert not self.speaking
        assert self.machine.hedge(at - 0.01) is None
        if at > self.now:
            self.wait(at - self.now, 0.0)
        asked = self.machine.hedge(self.now)
        assert (asked is None) == (self.machine.hedge_at != at)
        if asked is None:
            return  # something else was due before
        assert asked.redrive_id == f"hedge-{self.hedged + 1}"
        assert (asked.cause == "reply_cut") == (asked.generation_id is not None)
        assert asked.request_ids or asked.cause != "reply_requested"
        assert asked.waited_s >= 0
        before = pickle.dumps(self.machine)
        assert self.machine.hedge(self.now) == asked
        assert pickle.dumps(self.machine) == before
        self.hedge, self.hedged = asked.redrive_id, self.hedged + 1
        self.feed(f.HedgeBegun(self.now))
        assert self.machine.hedge_at is None, "one for each"
        assert self.machine.awaits_hedge

    @precondition(lambda self: self.hedge is not None and self.machine.awaits_hedge)
    @rule(answers=st.booleans())
    def hedge_serves(self, answers: bool) -> None:
        self.permits = 0
        was_open, hedge = self.open, self.hedge
        self.note_before(f.Connected(self.now))
        self.permits = 0
        decisions = self.machine.receive(f.Connected(self.now, hedge_id=hedge))
        assert not [d for d in decisions if isinstance(d, Redrive)], "it is asked already"
        self.carry_out(decisions, before=was_open)
        assert not self.machine.awaits_hedge
        assert self.open is None
        self.hedge, self.serving_hedge = None, hedge
        if answers:
            self.open_generation("hedge", hedge)
        self.permits = 1

    @rule(kind=st.sampled_from(PLAIN_FACTS))
    def something_happens(self, kind: Callable[[float], Fact]) -> None:
        self.feed(kind(self.now))

    @rule(answers=st.sampled_from(["nothing", "redrive", "request"]))
    def open_generation(self, answers: str, hedge: str | None = None) -> None:
        self.made += 1
        name = f"g{self.made}"
        asked = {
            "hedge": hedge,
            "redrive": self.asked,
            "request": self.requests[-1] if self.requests else None,
        }
        self.generations.append(name)
        if self.machine.connection is Connection.UP:
            before, self.open = self.open, name
            self.unheard_s = min(self.unheard_s, 30.0)
            self.note_before(f.GenerationOpened(self.now, name))
            self.hedge_at = self.machine.hedge_at
            decisions = self.machine.receive(f.GenerationOpened(self.now, name, asked.get(answers)))
            self.check_notice()
            self.carry_out(decisions, before=before)
            self.take_due()
        else:
            opened = f.GenerationOpened(self.now, name)
            assert self.machine.receive(opened) == (CloseStreams(name),)

    @rule(seconds=st.sampled_from([0.5, 3.0, 8.0]), asked=st.booleans(), heard=st.booleans())
    def converse(self, seconds: float, asked: bool, heard: bool) -> None:
        """An ordinary turn up to where the agent speaks."""
        if asked:
            self.feed(f.UserTurnEnded(self.now))
        self.open_generation("nothing" if asked else "redrive")
        self.feed(f.AudioReceived(self.now, self.generations[-1], seconds))
        if heard:
            self.feed(f.PlaybackStarted(self.now, self.generations[-1]))

    @precondition(lambda self: self.open is not None)
    @rule(kind=st.sampled_from(GENERATION_FACTS))
    def open_generation_goes_on(self, kind: Callable[[float, str], Fact]) -> None:
        self.feed(kind(self.now, self.generations[-1]))

    @precondition(lambda self: self.open is not None)
    @rule(gap_s=st.sampled_from([3.0, 4.0, 9.0, 16.0]))
    def stall(self, gap_s: float) -> None:
        self.wait(gap_s, 0.0)

    @precondition(lambda self: self.asked is not None)
    @rule(heard=st.booleans())
    def answer_the_redrive(self, heard: bool) -> None:
        self.open_generation("redrive")
        self.feed(f.AudioReceived(self.now, self.generations[-1], 2.0))
        if heard:
            self.feed(f.PlaybackStarted(self.now, self.generations[-1]))

    @precondition(lambda self: self.generations)
    @rule(kind=st.sampled_from(GENERATION_FACTS), age=st.sampled_from([1, 1, 1, 1, 2, 3]))
    def generation_goes_on(self, kind: Callable[[float, str], Fact], age: int) -> None:
        """Of the newest generation, or late, of one before it."""
        self.feed(kind(self.now, self.generations[-min(age, len(self.generations))]))

    @precondition(lambda self: self.generations)
    @rule()
    def call_tool(self) -> None:
        self.made += 1
        self.calls.append(f"c{self.made}")
        self.feed(f.ToolCallOpened(self.now, self.generations[-1], self.calls[-1]))

    @precondition(lambda self: self.calls)
    @rule(how=st.sampled_from(["answer", "silent", "cancel"]), first=st.booleans())
    def end_tool(self, how: str, first: bool) -> None:
        call = self.calls.pop(0 if first else -1)
        if how == "cancel":
            self.feed(f.ToolCallCancelled(self.now, call))
        else:
            self.feed(f.ToolResultDelivered(self.now, call, how == "answer"))

    @rule()
    def request(self) -> None:
        self.made += 1
        self.requests.append(f"r{self.made}")
        self.feed(f.ReplyRequested(self.now, self.requests[-1]))

    @rule(turn=st.booleans())
    def refuse_reply(self, turn: bool) -> None:
        self.feed(f.ReplyRefused(self.now, None if turn else self.asked or "redrive-1"))

    @precondition(lambda self: self.requests or self.asked)
    @rule(timed_out=st.booleans(), ours=st.booleans())
    def end_request(self, timed_out: bool, ours: bool) -> None:
        request_id = self.asked if self.asked and (ours or not self.requests) else None
        request_id = request_id or self.requests.pop()
        if timed_out:
            self.feed(f.ReplyRequestTimedOut(self.now, request_id))
        else:
            self.feed(f.ReplyCancelled(self.now, request_id))

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def the_deadline_is_ahead_and_asking_changes_nothing(self) -> None:
        deadline = self.machine.next_deadline()
        assert deadline == self.machine.next_deadline()
        if deadline is not None and deadline <= self.now:  # evidence only postpones
            self.take_due()
            deadline = self.machine.next_deadline()
            assert deadline is None or deadline > self.now

    @invariant()
    def the_open_generation_is_the_one_the_driver_has_open(self) -> None:
        assert (self.machine.phase is Phase.NONE) == (self.open is None)

    @invariant()
    def every_open_generation_is_finalised_within_its_bound(self) -> None:
        if self.open is None or self.paused:
            return
        deadline = self.machine.next_deadline()
        assert deadline is not None
        assert self.now <= self.touched_at + self.unheard_s + SLOWEST_S


Calls.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestCalls = Calls.TestCase


@given(
    flaps=st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0)), min_size=1, max_size=6),
    knows=st.booleans(),
)
def test_any_number_of_flaps_asks_at_most_once_each_and_at_the_end_once(
    flaps: list[tuple[float, float]], knows: bool
) -> None:
    """The same connection state before and after hides no gap, however short."""
    machine = TurnMachine(BOUNDS)
    now = 0.0
    machine.receive(f.Connected(now))
    machine.receive(f.UserTurnEnded(now))
    decisions: list[Decision] = []
    for down_s, up_s in flaps:
        decisions += machine.receive(f.Disconnected(now))
        now += down_s
        edge: list[Decision] = [*machine.receive(f.Connected(now, knows_turn=knows))]
        now += up_s
        edge += machine.due(now)
        assert sum(isinstance(d, Redrive) for d in edge) <= 1
        decisions += edge
    last = [d for d in machine.due(now + 3.0) if isinstance(d, Redrive)]
    asked = sum(isinstance(d, Redrive) for d in edge) + len(last)
    assert asked == 1, "the last edge asks, once"


@given(st.integers(1, 5), st.booleans())
def test_flaps_without_anything_owed_ask_nothing(flaps: int, knows: bool) -> None:
    machine = TurnMachine(BOUNDS)
    machine.receive(f.Connected(0.0))
    for _ in range(flaps):
        assert machine.receive(f.Disconnected(1.0)) == ()
        assert machine.receive(f.Connected(1.0, knows_turn=knows)) == ()
    assert not any(isinstance(d, Redrive) for d in machine.due(1000.0))
