"""Whatever is sent, lost, dropped and restored, the server ends up knowing every item once (R6).

The truth lives in a server that this file keeps itself: what it knows, what each of its handles
stands for, and what is still on its way. `Coverage` sees only what a client can see.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from livekit.plugins.resilient.core.coverage import Coverage
from livekit.plugins.resilient.core.limits import COVERAGE_GRACE_S

SHORT_S = st.sampled_from([0.0, 0.01, 0.1, 0.24])
"""Shorter than the grace: what a handle takes to arrive."""
TICK_S = 1e-6
GAPS_S = st.sampled_from([0.0, 0.01, 0.1, 0.2, COVERAGE_GRACE_S, 0.3, 5.0])


# --- the server ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Handle:
    """What it stands for: the items, and how many client messages of its connection."""

    items: tuple[str, ...]
    consumed: int


@dataclass
class Server:
    """One connection's server. `known` is what the model there knows, oldest first."""

    known: list[str] = field(default_factory=list)
    consumed: int = 0
    alive: bool = True
    on_its_way: deque[tuple[float, Handle | str]] = field(default_factory=deque)
    last_arrival: float = 0.0

    def take(self, items: list[str]) -> None:
        if self.alive:
            self.known += items
            self.consumed += 1

    def send(self, message: Handle | str, at: float, delay_s: float) -> None:
        """On one wire, so nothing overtakes, and no two messages arrive at once."""
        self.last_arrival = max(self.last_arrival + TICK_S, at + delay_s)
        self.on_its_way.append((self.last_arrival, message))

    def speak(self, item: str, at: float, delay_s: float) -> None:
        self.known.append(item)
        self.send(item, at, delay_s)

    def issue(self, at: float, delay_s: float) -> None:
        self.send(Handle(tuple(self.known), self.consumed), at, delay_s)


# --- the client ----------------------------------------------------------------------------------


class Connections(RuleBasedStateMachine):
    """A client over any number of connections, as a driver that uses `Coverage` has to be."""

    counts_messages = False
    """Whether the server says how many client messages a handle stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.coverage = Coverage()
        self.now = 100.0
        self.made = 0
        self.server: Server | None = None
        self.handle: Handle | None = None
        self.items: list[str] = []  # of the conversation, in the order in which it learnt of them
        self.by_server: set[str] = set()
        self.heard: list[tuple[str, float]] = []  # of the server, not in the conversation yet
        self.queue: deque[list[str]] = deque()
        self.difference: list[str] = []  # what the restored session is told before it can speak
        self.messages = 0
        self.sent_at: dict[str, float] = {}  # of this connection
        self.may_double: Counter[str] = Counter()

    # --- a driver ------------------------------------------------------------------------------

    def new_items(self, count: int) -> list[str]:
        self.made += count
        return [f"item-{number}" for number in range(self.made - count + 1, self.made + 1)]

    def enqueue(self, items: list[str]) -> None:
        if items:
            self.coverage.queued(items)
            self.queue.append(items)

    def pass_until(self, at: float) -> None:
        while self.server and self.server.on_its_way and self.server.on_its_way[0][0] <= at:
            self.now, message = self.server.on_its_way.popleft()
            if isinstance(message, str):
                self.heard.append((message, self.now))
            else:
                self.take_handle(message)
        self.now = at

    def take_handle(self, handle: Handle) -> None:
        self.handle = handle
        for item, sent_at in self.sent_at.items():
            if item in handle.items and sent_at + COVERAGE_GRACE_S > self.now:
                self.may_double[item] += 1
        self.coverage.handle_issued(self.now, handle.consumed if self.counts_messages else None)

    def report_heard(self) -> None:
        for item, at in self.heard:
            self.items.append(item)
            self.by_server.add(item)
            self.coverage.spoken(item, at)
        self.heard.clear()

    def lose(self) -> None:
        self.report_heard()
        self.server = None
        self.queue.clear()
        self.sent_at.clear()

    def seed(self, at_set_up_s: float | None) -> None:
        self.server = Server()
        if at_set_up_s is not None:
            self.server.issue(self.now, at_set_up_s)
        self.server.known += self.items
        self.handle = None
        self.coverage.seeded(self.items, self.now)
        self.sent_at = dict.fromkeys(self.items, self.now)

    def restore(self, handle: Handle) -> None:
        self.server = Server(known=list(handle.items))
        self.difference = self.coverage.resumed()
        self.enqueue(self.difference)
        self.enqueue([item for item in self.items if not self.coverage.knows(item)])

    def send(self) -> None:
        assert self.server is not None
        items = self.queue.popleft()
        self.messages += 1
        self.server.take(items)
        index = self.server.consumed if self.counts_messages else None
        if self.counts_messages and not self.server.alive:
            index = self.server.consumed + 1  # it counts what it handed over, heard or not
        self.coverage.sent(items, self.now, index)
        if not self.counts_messages:
            self.sent_at.update(dict.fromkeys(items, self.now))

    # --- what may happen -----------------------------------------------------------------------

    @initialize(history=st.integers(0, 3), brought=st.booleans())
    def begin(self, history: int, brought: bool) -> None:
        """A first connection: fresh, or by a handle that the application brought along."""
        self.items = self.new_items(history)
        if brought:
            self.handle = Handle(tuple(self.items), 0)
            self.coverage.adopt(self.items)
            self.restore(self.handle)
        else:
            self.seed(None)

    @rule(gap_s=GAPS_S)
    def wait(self, gap_s: float) -> None:
        self.pass_until(self.now + gap_s)

    @rule(count=st.integers(1, 3))
    def update(self, count: int) -> None:
        """The application adds items, connected or not."""
        items = self.new_items(count)
        self.items += items
        if self.server is not None:
            self.enqueue(items)

    @precondition(lambda self: self.queue)
    @rule(every=st.booleans())
    def send_queued(self, every: bool) -> None:
        self.send()
        while every and self.queue:
            self.send()

    @precondition(lambda self: self.queue)
    @rule()
    def send_fails(self) -> None:
        """What was queued behind it dies with the connection."""
        self.lose()

    @precondition(lambda self: self.server)
    @rule()
    def server_dies_unnoticed(self) -> None:
        """What is sent from here on is lost; what it had sent before still arrives."""
        assert self.server is not None
        self.server.alive = False

    @precondition(
        lambda self: self.server and self.server.alive and self.difference not in self.queue
    )
    @rule(delay_s=SHORT_S)
    def server_speaks(self, delay_s: float) -> None:
        assert self.server is not None
        self.server.speak(self.new_items(1)[0], self.now, delay_s)

    @precondition(lambda self: self.heard)
    @rule()
    def record_what_it_said(self) -> None:
        """It enters the conversation some time after it arrived."""
        self.report_heard()

    @precondition(lambda self: self.server and self.server.alive)
    @rule(delay_s=SHORT_S)
    def issue_handle(self, delay_s: float) -> None:
        assert self.server is not None
        self.server.issue(self.now, delay_s)

    @precondition(lambda self: self.server)
    @rule()
    def drop(self) -> None:
        self.lose()

    @precondition(lambda self: self.server is None)
    @rule(refused=st.sampled_from([False, False, False, True]), at_set_up_s=SHORT_S)
    def redial(self, refused: bool, at_set_up_s: float) -> None:
        """Restored from the newest handle; a refused one, or none, makes it a fresh session.

        Servers issue a handle right after set-up, which does not know of what follows yet.
        """
        if self.handle is None or refused:
            self.seed(at_set_up_s)
        else:
            self.restore(self.handle)
            assert self.server is not None
            self.server.issue(self.now, at_set_up_s)

    @precondition(lambda self: self.server is None)
    @rule(gap_s=GAPS_S, refused=st.booleans(), at_set_up_s=SHORT_S)
    def flap(self, gap_s: float, refused: bool, at_set_up_s: float) -> None:
        """A connection that ends once its first handle has arrived, before it is told anything."""
        self.pass_until(self.now + gap_s)
        self.redial(refused, at_set_up_s)
        assert self.server is not None
        self.pass_until(self.server.last_arrival)
        self.lose()

    @precondition(lambda self: self.server and self.server.alive)
    @rule(delay_s=SHORT_S, drops=st.booleans())
    def update_while_a_handle_comes(self, delay_s: float, drops: bool) -> None:
        assert self.server is not None
        self.server.issue(self.now, delay_s)
        self.update(1)
        while self.queue:
            self.send()
        self.pass_until(self.server.last_arrival)
        if drops:
            self.lose()

    @precondition(lambda self: self.server)
    @rule(delay_s=SHORT_S)
    def move(self, delay_s: float) -> None:
        """A planned move: all is sent, the handle is read, and a new connection takes over."""
        assert self.server is not None
        if self.server.alive:
            while self.queue:
                self.send()
            self.server.issue(self.now, delay_s)
            self.pass_until(self.server.last_arrival)
        self.lose()
        self.redial(refused=False, at_set_up_s=0.0)

    # --- what holds at the end -----------------------------------------------------------------

    def teardown(self) -> None:
        if not self.items and self.server is None:
            return
        if self.server is not None:
            self.lose()
        self.redial(refused=False, at_set_up_s=0.0)
        while self.queue:
            self.send()
        assert self.server is not None
        known = self.server.known
        times = Counter(known)
        assert set(times) >= set(self.items), "nothing is lost"
        for item, count in times.items():
            assert count <= 1 + self.may_double[item], f"{item} is known {count} times"
        first = list(dict.fromkeys(item for item in known if item in set(self.items)))
        place = {item: number for number, item in enumerate(first)}
        for mine in (True, False):
            order = [place[i] for i in self.items if (i not in self.by_server) is mine]
            assert order == sorted(order), "in the order of the conversation"
        for number, item in enumerate(self.items):
            earlier = [i for i in self.items[:number] if i in self.by_server]
            if item not in self.by_server:
                assert all(place[i] < place[item] for i in earlier), "no answer before its question"


class CountedConnections(Connections):
    """The same with a server that says which client messages a handle stands for."""

    counts_messages = True


EXAMPLES = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestConnections = Connections.TestCase
TestConnections.settings = EXAMPLES
TestCountedConnections = CountedConnections.TestCase
TestCountedConnections.settings = EXAMPLES


# --- what the machine above cannot show --------------------------------------------------------


def test_a_handle_stands_for_what_was_sent_a_grace_before_it() -> None:
    coverage = Coverage()
    coverage.queued(["early", "late", "unsent"])
    coverage.sent(["early"], 1.0)
    coverage.sent(["late"], 1.0 + COVERAGE_GRACE_S / 2)
    coverage.handle_issued(1.0 + COVERAGE_GRACE_S)
    assert list(coverage.open_items) == ["late", "unsent"]
    assert not is_open(coverage, "early")
    assert is_open(coverage, "late")


def is_open(coverage: Coverage, item_id: str) -> bool:
    """Whether a session restored from the newest handle would not know the item."""
    return item_id in coverage.open_items or not coverage.knows(item_id)


def test_what_no_session_was_told_is_open() -> None:
    coverage = Coverage()
    assert is_open(coverage, "new")
    assert not coverage.knows("new")
    coverage.queued(["new"])
    assert coverage.knows("new")


def test_what_a_fresh_session_was_not_told_is_not_known() -> None:
    coverage = Coverage()
    coverage.queued(["old", "new"])
    coverage.sent(["old", "new"], 1.0)
    coverage.seeded(["new"], 10.0)
    assert not coverage.knows("old")
    assert coverage.knows("new")
    assert is_open(coverage, "new"), "no handle stands for the seed yet"


def test_a_count_is_exact_where_the_grace_would_not_be() -> None:
    coverage = Coverage()
    coverage.queued(["taken", "not taken"])
    coverage.sent(["taken"], 1.0, 1)
    coverage.sent(["not taken"], 1.0, 2)
    coverage.handle_issued(1.01, consumed=1)
    assert list(coverage.open_items) == ["not taken"]
    coverage.handle_issued(99.0, consumed=1)
    assert list(coverage.open_items) == ["not taken"]


def test_a_count_is_exact_for_a_seed_too() -> None:
    coverage = Coverage()
    coverage.seeded(["told"], 1.0, 1)
    coverage.handle_issued(1.01, consumed=0)
    assert is_open(coverage, "told")
    coverage.handle_issued(1.02, consumed=1)
    assert not is_open(coverage, "told")


def test_a_restored_session_has_to_be_told_before_a_handle_stands_for_it() -> None:
    coverage = Coverage()
    coverage.queued(["a"])
    coverage.sent(["a"], 1.0)
    assert coverage.resumed() == ["a"]
    coverage.handle_issued(50.0)
    assert coverage.resumed() == ["a"]


def count_steps(action: Callable[[], object]) -> int:
    """Bytecode instructions that `action` runs, which tell its cost on any machine."""
    steps = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        action()
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("told", ["sent", "spoken", "adopted"])
def test_a_handle_costs_what_is_new_not_what_the_conversation_holds(told: str) -> None:
    def cost_after(items: int) -> int:
        coverage = Coverage()
        names = [f"item-{number}" for number in range(items)]
        if told == "adopted":
            coverage.adopt(names)
        elif told == "sent":
            coverage.queued(names)
            coverage.sent(names, 1.0)
        else:
            for name in names:
                coverage.spoken(name, 1.0)
        coverage.handle_issued(2.0)
        coverage.queued(["new"])
        coverage.sent(["new"], 3.0)
        return count_steps(lambda: coverage.handle_issued(4.0))

    cost = cost_after(10)
    assert cost > 0
    assert cost_after(10_000) == cost
