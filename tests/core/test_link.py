"""The life of a line: its table, walked, and what it decides."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from livekit.plugins.resilient.core import link_facts as f
from livekit.plugins.resilient.core.budget import BudgetLimits
from livekit.plugins.resilient.core.facts import IllegalFactError
from livekit.plugins.resilient.core.handover import RenewalLimits, Rest
from livekit.plugins.resilient.core.hedging import HedgeAllowance, Hedging
from livekit.plugins.resilient.core.limits import (
    FIRST_REDIAL_S,
    HEDGE_LASTS_S,
    HEDGE_RETRY_S,
    HEDGING_OFF_S,
    LEAST_MARGIN_S,
)
from livekit.plugins.resilient.core.link import (
    MOVES,
    Dial,
    DialBeside,
    DropSuccessor,
    GiveUp,
    Hedge,
    Leave,
    Link,
    LinkDecision,
    LinkLimits,
    RecordHedge,
    State,
    Switch,
)

CONNECT_S, DEADLINE_S, HEALTHY_S, RETRY_S = 10.0, 60.0, 10.0, 1.0
NOTICE_S = 6.0
ALWAYS = -math.inf
FACTS: tuple[type[f.LinkFact], ...] = get_args(f.LinkFact)


class Line:
    """A link, and a conversation that rests as it is told, and is slow as it is told."""

    def __init__(
        self,
        *,
        renewal: RenewalLimits | None = None,
        max_redials: int | None = None,
        allowance: HedgeAllowance | None = None,
    ) -> None:
        budget = BudgetLimits(
            connect_timeout_s=CONNECT_S,
            deadline_s=DEADLINE_S,
            base_s=0.25,
            cap_s=8.0,
            healthy_after_s=HEALTHY_S,
            max_redials=max_redials,
            failover_after_s=3.0,
        )
        limits = LinkLimits(budget=budget, margin_s=2.0, renewal=renewal, retry_s=RETRY_S)
        self.rests_from: float | None = ALWAYS
        self.hedge_at: float | None = None
        hedging = None
        if allowance is not None:
            hedging = Hedging(lambda: self.hedge_at, NOTICE_S, allowance.join())
        self.link = Link(limits, lambda: Rest(self.rests_from), hedging)

    def feed(self, *facts: f.LinkFact) -> tuple[LinkDecision, ...]:
        """What the last one leads to."""
        decisions: tuple[LinkDecision, ...] = ()
        for fact in facts:
            decisions = self.link.receive(fact)
        return decisions

    def jump(self) -> tuple[float, tuple[LinkDecision, ...]]:
        """To the next deadline: when that is, and what it leads to."""
        at = self.link.next_deadline()
        assert at is not None
        assert self.link.next_deadline() == at
        assert self.link.due(at - 0.01) == ()
        return at, self.link.due(at)


def up(at: float = 0.0, **given: object) -> Line:
    line = Line(**given)  # type: ignore[arg-type]
    line.feed(f.Opened(at), f.DialAnswered(at), f.Restored(at))
    return line


def line_in(state: State) -> Line:
    """One that got there in order, at 0."""
    line = Line(allowance=HedgeAllowance())
    if state is State.IDLE:
        return line
    if state is State.OVER:
        line.feed(f.Closed(0.0))
        return line
    line.feed(f.Opened(0.0))
    if state is State.DIALLING:
        return line
    if state is State.BACKING_OFF:
        line.feed(f.AttemptFailed(0.0, 1.0))
        return line
    line.feed(f.DialAnswered(0.0))
    if state is State.RESTORING:
        return line
    line.feed(f.Restored(0.0))
    if state is State.HANDING_OVER:
        line.feed(f.Suspected(0.0))
        line.link.due(0.0)
    if state is State.HEDGING:
        line.hedge_at = 0.0
        line.link.due(0.0)
    return line


def a_fact(kind: type[f.LinkFact], at: float, *, jitter: float = 0.5) -> f.LinkFact:
    given: dict[type[f.LinkFact], dict[str, object]] = {
        f.AttemptFailed: {"jitter": jitter},
        f.LineLost: {"jitter": jitter},
        f.EndAnnounced: {"jitter": jitter, "ends_at": at + 50.0},
        f.OtherModelSeen: {"free_at": None},
    }
    return kind(at, **given.get(kind, {}))  # type: ignore[arg-type]


@pytest.mark.parametrize("state", State)
def test_the_table_is_complete_and_the_link_keeps_to_it(state: State) -> None:
    assert line_in(state).link.state is state
    for kind in FACTS:
        line = line_in(state)
        if kind in MOVES[state]:
            line.feed(a_fact(kind, 1.0))
            assert line.link.state in MOVES[state][kind]
            continue
        deadline = line.link.next_deadline()
        with pytest.raises(IllegalFactError, match=kind.__name__):
            line.feed(a_fact(kind, 1.0))
        assert (line.link.state, line.link.next_deadline()) == (state, deadline)


@pytest.mark.parametrize("state", State)
def test_every_state_but_the_last_leads_somewhere_else(state: State) -> None:
    reached = set().union(*MOVES[state].values()) - {state}
    assert bool(reached) is (state is not State.OVER)


@pytest.mark.parametrize("at", [0.5, math.nan])
def test_a_fact_from_the_past_is_refused(at: float) -> None:
    line = up(1.0)
    with pytest.raises(IllegalFactError, match=r"LineLeft\.at"):
        line.feed(f.LineLeft(at))
    assert line.link.state is State.UP


# -- dialling


def test_a_session_that_opens_is_dialled() -> None:
    assert Line().feed(f.Opened(0.0)) == (Dial(CONNECT_S),)


def test_a_lost_line_is_dialled_again_after_a_moment() -> None:
    line = up()
    assert line.feed(f.LineLost(100.0, 0.8)) == ()
    assert line.jump() == (100.0 + 0.8 * FIRST_REDIAL_S, (Dial(CONNECT_S),))


def test_a_hundred_lines_that_are_lost_at_once_are_not_dialled_at_once() -> None:
    times = []
    for index in range(100):
        line = up()
        line.feed(f.LineLost(100.0, index / 100))
        times.append(line.jump()[0])
    assert len({round(at, 3) for at in times}) == 100
    assert max(times) - min(times) > 0.2


def test_a_dial_that_fails_is_followed_by_another_until_the_budget_is_spent() -> None:
    line, dials = up(), 0
    decisions = line.feed(f.LineLost(100.0, 1.0))
    while GiveUp(100.0) not in decisions:
        at, decisions = line.jump()
        assert decisions == (Dial(CONNECT_S),)
        dials += 1
        decisions = line.feed(f.AttemptFailed(at, 1.0))
    assert line.link.state is State.OVER
    assert dials > 7
    assert at < 100.0 + DEADLINE_S


def test_what_cannot_be_mended_is_given_up() -> None:
    line = Line()
    line.feed(f.Opened(0.0))
    assert line.feed(f.AttemptFailed(1.0, 0.0, final=True)) == (GiveUp(0.0),)


def test_a_line_that_was_left_is_dialled_at_once_and_is_no_loss() -> None:
    line = up(max_redials=0)
    assert line.feed(f.LineLeft(100.0)) == (Dial(CONNECT_S),)
    line = up(max_redials=0)
    assert line.feed(f.LineLost(100.0, 0.0)) == (GiveUp(100.0),)


# -- progress


def mute_for(seconds: float, line: Line) -> tuple[LinkDecision, ...]:
    """Each connection is suspected after 12 s, and the next one is as mute."""
    line.feed(f.AnswerOwed(0.0))
    at = 12.0
    while at < seconds:
        decisions = line.feed(f.Suspected(at))
        if decisions:
            return decisions
        assert isinstance(line.link.due(at)[0], DialBeside)
        assert line.feed(f.SuccessorReady(at + 0.1)) == (Switch(),)
        line.feed(f.Switched(at + 0.1))
        at += 12.0
    return ()


def test_a_server_that_answers_every_dial_and_no_question_is_given_up() -> None:
    assert mute_for(120.0, up()) == (GiveUp(12.0),)


def test_one_that_is_free_to_answer_is_not() -> None:
    line = up()
    assert mute_for(60.0, line) == ()
    line.feed(f.Progressed(60.2))
    assert line.feed(f.Suspected(73.0)) == ()
    assert line.link.is_suspected


def test_a_mute_server_is_left_for_another_model_sooner() -> None:
    line = up()
    line.feed(f.OtherModelSeen(0.0, 0.0))
    assert mute_for(120.0, line) == (GiveUp(12.0),)
    assert line.link.state is State.OVER


def test_drops_of_connections_on_which_nothing_was_owed_for_long_are_as_many_outages() -> None:
    line = up(max_redials=1)
    for at in (100.0, 200.0, 300.0):
        line.feed(f.LineLost(at, 0.0))
        assert line.link.due(at) == (Dial(CONNECT_S),)
        line.feed(f.DialAnswered(at), f.Restored(at))


# -- leaving one for the next


def test_a_connection_that_ends_is_left_at_rest() -> None:
    line = up()
    line.rests_from = None
    line.feed(f.EndAnnounced(100.0, 150.0, 0.0))
    assert line.link.next_deadline() == 150.0 - LEAST_MARGIN_S
    line.rests_from = 103.0
    at, decisions = line.jump()
    assert at == 103.0
    assert decisions == (DialBeside(150.0 - LEAST_MARGIN_S),)
    assert line.feed(f.SuccessorReady(103.1)) == (Switch(),)
    line.feed(f.Switched(103.1))
    assert line.link.state is State.UP
    assert line.link.next_deadline() is None


def test_where_something_began_meanwhile_the_new_connection_is_dropped() -> None:
    line = up()
    line.feed(f.EndAnnounced(100.0, 150.0, 0.0))
    line.jump()
    line.rests_from = None
    assert line.feed(f.SuccessorReady(100.1)) == (DropSuccessor(),)
    line.rests_from = 104.0
    assert line.jump()[0] == 104.0


def test_a_refused_overlap_is_remembered() -> None:
    line = up()
    line.feed(f.EndAnnounced(100.0, 150.0, 0.0))
    line.jump()
    assert line.feed(f.SuccessorFailed(100.1, refuses_overlap=True)) == (Leave(),)
    line.feed(f.LineLeft(100.1), f.DialAnswered(100.2), f.Restored(100.2))
    line.feed(f.EndAnnounced(200.0, 250.0, 0.0))
    assert line.jump() == (200.0, (Leave(),))


def test_it_is_left_no_sooner_because_overlap_is_refused() -> None:
    """Where nothing can be made beside it, nothing is won by leaving before the end."""
    line = up()
    line.rests_from = None
    line.feed(f.EndAnnounced(100.0, 150.0, 0.0))
    line.jump()
    line.rests_from = 149.9
    assert line.feed(f.SuccessorFailed(149.75, refuses_overlap=True)) == (Leave(),)
    line = up()
    line.feed(f.EndAnnounced(100.0, 150.0, 0.0))
    line.jump()
    line.rests_from = None  # a turn began while it was dialled
    assert line.feed(f.SuccessorFailed(101.0, refuses_overlap=True)) == ()
    assert line.jump() == (150.0 - LEAST_MARGIN_S, (Leave(),))


def test_a_try_that_fails_is_made_again_while_there_is_time() -> None:
    line = up()
    line.feed(f.EndAnnounced(100.0, 103.0, 0.0))
    line.jump()
    assert line.feed(f.SuccessorFailed(101.0)) == ()
    at, decisions = line.jump()
    assert at == 101.0 + RETRY_S
    assert isinstance(decisions[0], DialBeside)
    assert line.feed(f.SuccessorFailed(102.5)) == (Leave(),)


def test_where_none_can_be_had_it_is_kept_to_its_end() -> None:
    line = up(renewal=RenewalLimits(after_s=100.0, wait_s=10.0))
    assert line.jump() == (100.0, (DialBeside(110.0),))
    assert line.feed(f.SuccessorFailed(101.0, hopeless=True)) == ()
    assert line.link.next_deadline() is None


def test_a_dead_line_is_left_whatever_is_under_way() -> None:
    line = up()
    line.rests_from = None
    line.feed(f.Suspected(20.0))
    assert line.jump() == (20.0, (DialBeside(20.0),))
    assert line.feed(f.SuccessorFailed(21.0)) == (Leave(),)


def test_one_that_proves_alive_stays() -> None:
    line = up()
    line.feed(f.Suspected(20.0))
    line.link.due(20.0)
    line.feed(f.SuspicionCleared(20.1))
    assert line.feed(f.SuccessorReady(20.2)) == (DropSuccessor(),)
    assert line.link.state is State.UP
    assert line.link.next_deadline() is None


def test_connections_that_announce_their_end_at_once_are_kept_a_while() -> None:
    line, kept = up(), []
    for at in (100.0, 110.0, 120.0, 130.0):
        line.feed(f.EndAnnounced(at, at + 5.0, 0.9))
        left_at, _ = line.jump()
        kept.append(left_at - at)
        line.feed(f.SuccessorReady(left_at), f.Switched(left_at))
    assert kept == pytest.approx([0.9 * 1.25] * 4)  # the spread; the backoff is shorter as yet
    line.feed(f.Progressed(140.0))


# -- asking another one beside


def slow(at: float = 20.0, **given: object) -> Line:
    """One whose answer is due to be hedged then."""
    given.setdefault("allowance", HedgeAllowance())
    line = up(0.0, **given)
    line.hedge_at = at
    return line


def hedging(**given: object) -> Line:
    line = slow(20.0, **given)
    assert line.link.due(20.0) == (Hedge(),)
    line.hedge_at = None  # once for each reply
    return line


def hedges_of(line: Line) -> HedgeAllowance:
    assert line.link._hedging is not None
    return line.link._hedging.seat._allowance


def test_a_slow_answer_is_asked_of_another_one() -> None:
    line = slow(5.0)
    line.rests_from = None
    assert line.jump() == (5.0, (Hedge(),))
    assert line.link.state is State.HEDGING


def test_it_looks_often_enough_and_never_sooner() -> None:
    line = up(allowance=HedgeAllowance())
    assert line.jump() == (NOTICE_S, ())
    assert line.jump() == (2 * NOTICE_S, ())
    line.hedge_at = 2.5 * NOTICE_S
    assert line.jump() == (2.5 * NOTICE_S, (Hedge(),))
    never = up()
    never.hedge_at = 1.0
    assert never.link.next_deadline() is None


def test_whichever_answers_first_serves() -> None:
    line = hedging()
    assert line.feed(f.HedgeAnswered(21.0)) == (Switch(),)
    assert line.feed(f.Switched(21.0)) == (RecordHedge("served"),)
    assert line.link.state is State.UP
    line = hedging()
    assert line.feed(f.HedgeUnneeded(21.0)) == (DropSuccessor(), RecordHedge("false_alarm"))
    assert line.link.state is State.UP
    assert line.feed(f.HedgeAnswered(21.1)) == (), "too late"


@pytest.mark.parametrize("refused", [False, True])
def test_a_hedge_that_fails_leaves_the_line_as_it_was(refused: bool) -> None:
    line = hedging()
    allowance = hedges_of(line)
    result = RecordHedge("refused" if refused else "failed")
    assert line.feed(f.HedgeFailed(21.0, refused_for_quota=refused)) == (result,)
    assert line.link.state is State.UP
    line.hedge_at = 25.0
    assert (line.link.due(25.0) == (Hedge(),)) is not refused
    other = slow(allowance=allowance)
    other.link.due(26.0)
    off_until = 21.0 + HEDGING_OFF_S if refused else 26.0 + HEDGE_RETRY_S
    assert other.link._hedge_at() == off_until


def test_one_that_answers_nothing_either_is_dropped() -> None:
    line = hedging()
    at, decisions = line.jump()
    assert at == 20.0 + HEDGE_LASTS_S
    assert decisions == (DropSuccessor(), RecordHedge("failed"))


def test_where_others_hedge_it_looks_again() -> None:
    first = hedging()
    second = slow(allowance=hedges_of(first))
    assert second.jump() == (6.0, ())
    assert second.jump() == (12.0, ())
    assert second.jump() == (18.0, ())
    assert second.jump() == (20.0, ())
    assert second.jump() == (20.0 + HEDGE_RETRY_S, ())
    first.feed(f.HedgeUnneeded(21.5))
    assert second.jump() == (20.0 + 2 * HEDGE_RETRY_S, (Hedge(),))


def test_a_connection_that_is_to_be_left_ends_the_hedge_first() -> None:
    line = hedging()
    line.rests_from = None
    line.feed(f.Suspected(22.0))
    assert line.jump() == (22.0, (DropSuccessor(), RecordHedge("superseded")))
    assert line.jump() == (22.0, (DialBeside(22.0),))
    line = hedging()
    line.rests_from = None
    line.feed(f.EndAnnounced(22.0, 30.0, 0.0))
    leave_by = 30.0 - LEAST_MARGIN_S
    assert line.jump() == (leave_by, (DropSuccessor(), RecordHedge("superseded")))
    assert line.jump() == (leave_by, (DialBeside(leave_by),))


def test_a_suspected_connection_is_replaced_and_not_hedged() -> None:
    line = slow()
    line.feed(f.Suspected(20.0))
    assert line.link.due(20.0) == (DialBeside(20.0),)
    line = slow(5.0)
    line.feed(f.EndAnnounced(4.0, 50.0, 0.0))
    line.link.due(4.0)
    line.feed(f.SuccessorFailed(4.8), f.Suspected(4.9))
    assert line.jump() == (4.8 + RETRY_S, (DialBeside(4.8 + RETRY_S),))


def test_a_refused_overlap_says_nothing_of_a_session_of_its_own() -> None:
    line = slow()
    line.feed(f.Suspected(1.0))
    line.link.due(1.0)
    line.feed(f.SuccessorFailed(2.0, refuses_overlap=True))
    line.feed(f.LineLeft(2.0), f.DialAnswered(2.0), f.Restored(2.0))
    assert not line.link.overlaps
    line.link.due(20.0)
    assert line.link.state is State.HEDGING


def test_a_line_that_is_lost_or_left_takes_the_hedge_with_it() -> None:
    line = hedging()
    assert line.feed(f.LineLost(22.0, 0.0)) == (RecordHedge("superseded"),)
    assert line.link.state is State.BACKING_OFF
    line = hedging()
    assert line.feed(f.LineLeft(22.0)) == (RecordHedge("superseded"), Dial(CONNECT_S))
    line = hedging(max_redials=0)
    assert line.feed(f.LineLost(22.0, 0.0)) == (RecordHedge("superseded"), GiveUp(22.0))


def test_a_line_that_is_given_up_while_it_hedges_says_so() -> None:
    line = slow()
    line.feed(f.AnswerOwed(0.0), f.OtherModelSeen(0.0, 0.0), f.LineLost(10.0, 0.0))
    line.link.due(10.0)
    line.feed(f.DialAnswered(10.0), f.Restored(10.0))
    line.link.due(20.0)
    assert line.link.state is State.HEDGING
    assert line.feed(f.Suspected(21.0)) == (RecordHedge("superseded"), GiveUp(10.0))


@pytest.mark.parametrize(
    "fact",
    [
        f.HedgeAnswered(21.0),
        f.HedgeFailed(21.0),
        f.HedgeUnneeded(21.0),
        f.LineLost(21.0, 0.0),
        f.LineLeft(21.0),
        f.Closed(21.0),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_its_place_is_free_however_it_ends(fact: f.LinkFact) -> None:
    line = hedging()
    allowance = hedges_of(line)
    assert allowance.hedging == 1
    if Switch() in line.feed(fact):
        line.feed(f.Switched(fact.at))
    assert allowance.hedging == 0
    assert allowance.sessions == (0 if isinstance(fact, f.Closed) else 1)


def test_a_line_that_is_given_up_is_no_session_any_more() -> None:
    line = slow(max_redials=0)
    line.feed(f.LineLost(10.0, 0.0))
    assert hedges_of(line).sessions == 0


# -- what holds in any order


class AnyOrder(RuleBasedStateMachine):
    """Whatever comes, in the table's order: it asks for what it may, and gives up in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.allowance = HedgeAllowance()
        self.line = Line(allowance=self.allowance)
        self.now = 0.0
        self.hedging = False  # one is under way, and its outcome is open
        self.given_up = 0
        self.progressed_at = 0.0

    def feed(self, fact: f.LinkFact) -> None:
        state = self.line.link.state
        decisions = self.line.feed(fact)
        assert self.line.link.state in MOVES[state][type(fact)]
        self.take(decisions)

    def take(self, decisions: tuple[LinkDecision, ...]) -> None:
        for decision in decisions:
            state = self.line.link.state
            match decision:
                case Dial():
                    assert state is State.DIALLING
                    assert 0 < decision.within_s <= CONNECT_S
                case DialBeside():
                    assert state is State.HANDING_OVER
                    assert decision.leave_by >= self.now
                case Hedge():
                    assert state is State.HEDGING
                    assert not self.hedging
                    self.hedging = True
                    self.line.hedge_at = None
                case RecordHedge():
                    assert self.hedging, "one outcome for each"
                    assert state is not State.HEDGING
                    self.hedging = False
                case Switch():
                    assert state in (State.HANDING_OVER, State.HEDGING)
                    self.take(self.line.feed(f.Switched(self.now)))
                case DropSuccessor():
                    assert state in (State.UP, State.HEDGING)
                case Leave():
                    self.take(self.line.feed(f.LineLeft(self.now)))
                case GiveUp():
                    self.given_up += 1
                    assert decision.since <= self.now

    @rule(seconds=st.floats(0.01, 30.0))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(50):
            deadline = self.line.link.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.take(self.line.link.due(self.now))
        else:
            raise AssertionError("the same deadline again and again")
        self.now = until

    @rule(kind=st.sampled_from(FACTS), jitter=st.floats(0.0, 1.0))
    def something_happens(self, kind: type[f.LinkFact], jitter: float) -> None:
        if kind is f.Switched or kind not in MOVES[self.line.link.state]:
            return
        if kind is f.Closed and jitter < 0.9:
            return
        self.feed(a_fact(kind, self.now, jitter=jitter))
        if kind in (f.Progressed, f.AnswerSettled):
            self.progressed_at = self.now

    @precondition(lambda self: self.line.link.state is not State.OVER)
    @rule(rests_from=st.one_of(st.none(), st.just(ALWAYS)))
    def the_conversation_moves(self, rests_from: float | None) -> None:
        self.line.rests_from = rests_from

    @rule(after_s=st.one_of(st.none(), st.floats(NOTICE_S, 20.0)))
    def an_answer_is_slow(self, after_s: float | None) -> None:
        self.line.hedge_at = None if after_s is None else self.now + after_s

    @invariant()
    def a_place_is_taken_while_it_hedges_and_no_longer(self) -> None:
        state = self.line.link.state
        assert self.allowance.hedging == (state is State.HEDGING)
        assert self.allowance.sessions == (state is not State.OVER)
        assert self.hedging == (state is State.HEDGING) or state is State.OVER

    @invariant()
    def no_hedge_is_late(self) -> None:
        at = self.line.hedge_at
        if at is not None and self.line.link.state is State.UP and at > self.now:
            deadline = self.line.link.next_deadline()
            assert deadline is not None
            assert deadline <= at or self.line.link.is_suspected or self.held_back_until >= deadline

    @property
    def held_back_until(self) -> float:
        return self.line.link._hedge_from

    @invariant()
    def it_gives_up_once(self) -> None:
        assert self.given_up <= 1
        if self.given_up:
            assert self.line.link.state is State.OVER
            assert self.line.link.next_deadline() is None

    @invariant()
    def asking_for_the_deadline_changes_nothing(self) -> None:
        assert self.line.link.next_deadline() == self.line.link.next_deadline()


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
