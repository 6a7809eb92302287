"""Whatever is sent, lost, dropped, restored and prepared beside, the server ends up knowing every
item once (R6), and the handle that is resumed is the newest of the session that serves.

The truth lives in a server that this file keeps itself: what it knows, what each of its handles
stands for, and what is still on its way. `Resumption` sees only what a client can see.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from livekit.plugins.resilient.core.limits import COVERAGE_GRACE_S
from livekit.plugins.resilient.core.resumption import Handle, Resumption

SHORT_S = st.sampled_from([0.0, 0.01, 0.1, 0.24])
"""Shorter than the grace: what a handle takes to arrive."""
TICK_S = 1e-6
TOKENS = itertools.count(1)
GAPS_S = st.sampled_from([0.0, 0.01, 0.1, 0.2, COVERAGE_GRACE_S, 0.3, 5.0])


# --- the server ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """What a handle stands for: the items, and how many client messages of its connection."""

    items: tuple[str, ...]
    consumed: int
    token: str = "brought along"


@dataclass
class Server:
    """One connection's server. `known` is what the model there knows, oldest first."""

    known: list[str] = field(default_factory=list)
    consumed: int = 0
    alive: bool = True
    on_its_way: deque[tuple[float, Snapshot | str]] = field(default_factory=deque)
    last_arrival: float = 0.0

    def take(self, items: list[str]) -> None:
        if self.alive:
            self.known += items
            self.consumed += 1

    def send(self, message: Snapshot | str, at: float, delay_s: float) -> None:
        """On one wire, so nothing overtakes, and no two messages arrive at once."""
        self.last_arrival = max(self.last_arrival + TICK_S, at + delay_s)
        self.on_its_way.append((self.last_arrival, message))

    def speak(self, item: str, at: float, delay_s: float) -> None:
        self.known.append(item)
        self.send(item, at, delay_s)

    def issue(self, at: float, delay_s: float) -> None:
        token = f"handle-{next(TOKENS)}"
        self.send(Snapshot(tuple(self.known), self.consumed, token), at, delay_s)


# --- the client ----------------------------------------------------------------------------------


@dataclass
class Beside:
    """A fresh connection that was told the conversation while another serves."""

    server: Server
    resumption: Resumption
    told_at: dict[str, float]
    handle: Snapshot | None = None


class Connections(RuleBasedStateMachine):
    """A client over any number of connections, as a driver that uses `Resumption` has to be."""

    counts_messages = False
    """Whether the server says how many client messages a handle stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.resumption = Resumption()
        self.now = 100.0
        self.made = 0
        self.server: Server | None = None
        self.handle: Snapshot | None = None
        self.items: list[str] = []  # of the conversation, in the order in which it learnt of them
        self.by_server: set[str] = set()
        self.heard: list[tuple[str, float]] = []  # of the server, not in the conversation yet
        self.queue: deque[list[str]] = deque()
        self.difference: list[str] = []  # what the restored session is told before it can speak
        self.messages = 0
        self.sent_at: dict[str, float] = {}  # of this connection
        self.may_double: Counter[str] = Counter()
        self.beside: Beside | None = None
        # Came up too late for a connection beside, so that it was told them behind its own words.
        self.told_late: set[str] = set()

    # --- a driver ------------------------------------------------------------------------------

    def new_items(self, count: int) -> list[str]:
        self.made += count
        return [f"item-{number}" for number in range(self.made - count + 1, self.made + 1)]

    def enqueue(self, items: list[str]) -> None:
        if items:
            self.resumption.queued(items)
            self.queue.append(items)

    def pass_until(self, at: float) -> None:
        while self.server and self.server.on_its_way and self.server.on_its_way[0][0] <= at:
            self.now, message = self.server.on_its_way.popleft()
            if isinstance(message, str):
                self.heard.append((message, self.now))
            else:
                self.take_handle(message)
        beside = self.beside
        while beside and beside.server.on_its_way and beside.server.on_its_way[0][0] <= at:
            came_at, message = beside.server.on_its_way.popleft()
            assert isinstance(message, Snapshot)
            self.take_handle_beside(beside, message, came_at)
        self.now = at

    def take_handle(self, handle: Snapshot) -> None:
        self.handle = handle
        for item, sent_at in self.sent_at.items():
            if item in handle.items and sent_at + COVERAGE_GRACE_S > self.now:
                self.may_double[item] += 1
        self.resumption.handle_issued(handle.token, self.now, consumed=self.counted(handle))

    def take_handle_beside(self, beside: Beside, handle: Snapshot, came_at: float) -> None:
        beside.handle = handle
        for item, told_at in beside.told_at.items():
            if item in handle.items and told_at + COVERAGE_GRACE_S > came_at:
                self.may_double[item] += 1
        beside.resumption.handle_issued(handle.token, came_at, consumed=self.counted(handle))

    def counted(self, handle: Snapshot) -> int | None:
        return handle.consumed if self.counts_messages else None

    def report_heard(self) -> None:
        for item, at in self.heard:
            self.items.append(item)
            self.by_server.add(item)
            self.resumption.spoken(item, at)
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
        self.resumption = Resumption()
        self.resumption.seeded(self.items, self.now)
        self.sent_at = dict.fromkeys(self.items, self.now)

    def restore(self, handle: Snapshot) -> None:
        self.server = Server(known=list(handle.items))
        self.difference = self.resumption.resumed()
        self.enqueue(self.difference)
        self.enqueue([item for item in self.items if not self.resumption.knows(item)])

    def send(self) -> None:
        assert self.server is not None
        items = self.queue.popleft()
        self.messages += 1
        self.server.take(items)
        index = self.server.consumed if self.counts_messages else None
        if self.counts_messages and not self.server.alive:
            index = self.server.consumed + 1  # it counts what it handed over, heard or not
        self.resumption.sent(items, self.now, index)
        if not self.counts_messages:
            self.sent_at.update(dict.fromkeys(items, self.now))

    # --- what may happen -----------------------------------------------------------------------

    @initialize(history=st.integers(0, 3), brought=st.booleans())
    def begin(self, history: int, brought: bool) -> None:
        """A first connection: fresh, or by a handle that the application brought along."""
        self.items = self.new_items(history)
        if brought:
            self.handle = Snapshot(tuple(self.items), 0)
            self.resumption.handle_brought(self.handle.token)
            self.resumption.adopt(self.items)
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

    # --- a connection beside --------------------------------------------------------------------

    @precondition(lambda self: self.server and self.beside is None)
    @rule(delay_s=SHORT_S)
    def prepare_beside(self, delay_s: float) -> None:
        """A fresh session is told the conversation, which the one that serves is not to notice."""
        server = Server()
        server.issue(self.now, delay_s)
        server.known += self.items
        resumption = Resumption()
        resumption.seeded(self.items, self.now)
        self.beside = Beside(server, resumption, dict.fromkeys(self.items, self.now))

    @precondition(lambda self: self.beside)
    @rule(delay_s=SHORT_S)
    def beside_issues_a_handle(self, delay_s: float) -> None:
        assert self.beside is not None
        self.beside.server.issue(self.now, delay_s)

    @precondition(lambda self: self.beside)
    @rule()
    def drop_beside(self) -> None:
        self.beside = None

    @precondition(lambda self: self.beside)
    @rule()
    def take_over(self) -> None:
        """The books of the one beside are those of the session from here on."""
        beside, self.beside = self.beside, None
        assert beside is not None
        self.lose()
        self.server, self.resumption = beside.server, beside.resumption
        self.handle, self.sent_at = beside.handle, beside.told_at
        self.difference = []
        late = [item for item in self.items if not self.resumption.knows(item)]
        self.told_late.update(late)
        self.enqueue(late)

    # --- what holds at any time -----------------------------------------------------------------

    @invariant()
    def resumes_from_the_newest_handle(self) -> None:
        handle = self.resumption.handle
        assert (handle and handle.token) == (self.handle and self.handle.token)

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
        in_time = [item for item in self.items if item not in self.told_late]
        for mine in (True, False):
            order = [place[i] for i in in_time if (i not in self.by_server) is mine]
            assert order == sorted(order), "in the order of the conversation"
        for number, item in enumerate(in_time):
            earlier = [i for i in in_time[:number] if i in self.by_server]
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
    resumption = Resumption()
    resumption.queued(["early", "late", "unsent"])
    resumption.sent(["early"], 1.0)
    resumption.sent(["late"], 1.0 + COVERAGE_GRACE_S / 2)
    resumption.handle_issued("handle", 1.0 + COVERAGE_GRACE_S)
    assert list(resumption.open_items) == ["late", "unsent"]
    assert not is_open(resumption, "early")
    assert is_open(resumption, "late")


def is_open(resumption: Resumption, item_id: str) -> bool:
    """Whether a session restored from the newest handle would not know the item."""
    return item_id in resumption.open_items or not resumption.knows(item_id)


def test_what_no_session_was_told_is_open() -> None:
    resumption = Resumption()
    assert is_open(resumption, "new")
    assert not resumption.knows("new")
    resumption.queued(["new"])
    assert resumption.knows("new")


def test_what_a_fresh_session_was_not_told_is_not_known() -> None:
    resumption = Resumption()
    resumption.queued(["old", "new"])
    resumption.sent(["old", "new"], 1.0)
    resumption.seeded(["new"], 10.0)
    assert not resumption.knows("old")
    assert resumption.knows("new")
    assert is_open(resumption, "new"), "no handle stands for the seed yet"


def test_a_count_is_exact_where_the_grace_would_not_be() -> None:
    resumption = Resumption()
    resumption.queued(["taken", "not taken"])
    resumption.sent(["taken"], 1.0, 1)
    resumption.sent(["not taken"], 1.0, 2)
    resumption.handle_issued("handle", 1.01, consumed=1)
    assert list(resumption.open_items) == ["not taken"]
    resumption.handle_issued("handle", 99.0, consumed=1)
    assert list(resumption.open_items) == ["not taken"]


def test_a_count_is_exact_for_a_seed_too() -> None:
    resumption = Resumption()
    resumption.seeded(["told"], 1.0, 1)
    resumption.handle_issued("handle", 1.01, consumed=0)
    assert is_open(resumption, "told")
    resumption.handle_issued("handle", 1.02, consumed=1)
    assert not is_open(resumption, "told")


def test_a_restored_session_has_to_be_told_before_a_handle_stands_for_it() -> None:
    resumption = Resumption()
    resumption.queued(["a"])
    resumption.sent(["a"], 1.0)
    assert resumption.resumed() == ["a"]
    resumption.handle_issued("handle", 50.0)
    assert resumption.resumed() == ["a"]


def test_a_new_handle_takes_the_place_of_the_one_before() -> None:
    resumption = Resumption()
    assert resumption.handle is None
    resumption.handle_brought("brought")
    assert resumption.handle == Handle("brought")
    assert resumption.handle_at is None
    resumption.handle_issued("first", 1.0, open_calls=["call-1"])
    resumption.handle_issued("second", 2.0, open_calls=["call-2"])
    assert resumption.handle == Handle("second", 2.0, frozenset({"call-2"}))
    assert resumption.handle_at == 2.0
    resumption.forget_handle()
    assert resumption.handle is None
    assert resumption.handle_at is None


@pytest.mark.parametrize("brought", [None, ""])
def test_what_is_no_token_is_no_handle(brought: str | None) -> None:
    resumption = Resumption()
    resumption.handle_brought("one")
    resumption.handle_brought(brought)
    assert resumption.handle is None


def test_a_token_is_in_no_repr() -> None:
    """Which is what ends up in a log."""
    resumption = Resumption()
    resumption.handle_issued("secret", 1.0, open_calls=["call-1"])
    assert resumption.handle is not None
    assert resumption.handle.token == "secret"
    for text in (repr(resumption.handle), str(resumption.handle), repr(resumption)):
        assert "secret" not in text
    assert "call-1" in repr(resumption.handle)


def test_a_handle_knows_of_the_turns_that_were_over_when_it_came() -> None:
    handle = Handle("handle", 10.0)
    assert handle.came_since(10.0)
    assert not handle.came_since(10.0 + TICK_S)
    assert handle.knows_of_sent(10.0 - COVERAGE_GRACE_S)
    assert not handle.knows_of_sent(10.0 - COVERAGE_GRACE_S + TICK_S)


def test_a_handle_that_was_brought_along_knows_of_no_turn_here() -> None:
    handle = Handle("handle")
    assert not handle.came_since(float("-inf"))
    assert not handle.knows_of_sent(float("-inf"))


def test_the_calls_of_a_handle_that_was_brought_along_are_open_until_the_next() -> None:
    resumption = Resumption()
    resumption.hold_open(["call-1"])
    assert resumption.handle is None
    resumption.handle_brought("brought")
    resumption.hold_open(["call-1"])
    assert resumption.handle == Handle("brought", None, frozenset({"call-1"}))
    resumption.handle_issued("next", 1.0)
    assert resumption.handle == Handle("next", 1.0)


def test_a_call_that_takes_the_id_of_an_open_one_is_another() -> None:
    resumption = Resumption()
    resumption.handle_issued("handle", 1.0, open_calls=["call-1", "call-2"])
    resumption.called("call-1")
    resumption.called("call-3")
    assert resumption.handle == Handle("handle", 1.0, frozenset({"call-2"}))


def test_what_the_server_said_after_its_handle_is_open() -> None:
    resumption = Resumption()
    resumption.handle_issued("handle", 2.0)
    resumption.spoken("before", 1.0)
    resumption.spoken("after", 3.0)
    assert list(resumption.open_items) == ["after"]
    assert resumption.knows("before")


def test_a_fresh_session_cannot_be_resumed_from_the_handle_of_another() -> None:
    resumption = Resumption()
    resumption.handle_issued("handle", 2.0)
    resumption.seeded(["told"], 3.0)
    assert resumption.handle is None


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
        resumption = Resumption()
        names = [f"item-{number}" for number in range(items)]
        if told == "adopted":
            resumption.adopt(names)
        elif told == "sent":
            resumption.queued(names)
            resumption.sent(names, 1.0)
        else:
            for name in names:
                resumption.spoken(name, 1.0)
        resumption.handle_issued("handle", 2.0)
        resumption.queued(["new"])
        resumption.sent(["new"], 3.0)
        return count_steps(lambda: resumption.handle_issued("handle", 4.0, open_calls=["call-1"]))

    cost = cost_after(10)
    assert cost > 0
    assert cost_after(10_000) == cost
