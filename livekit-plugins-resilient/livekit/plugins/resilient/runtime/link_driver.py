"""Runs a `Link` on the event loop: what the session knows becomes facts, and decisions are waited
for. No policy."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions

from ..core import link_facts as f
from ..core.budget import BudgetLimits
from ..core.handover import Rest
from ..core.hedging import HedgeAllowance, Hedging
from ..core.limits import OVERLAP_RETRY_S
from ..core.link import GiveUp, Link, LinkDecision, LinkLimits, RecordHedge, State, Switch
from ..events import HedgeOutcome
from ..fallback import Fallback, GivenUp
from ..options import ResilienceOptions
from .driver import Driver
from .log import logger
from .timer import Watch

__all__ = ["LinkDriver", "Sign", "link_limits"]

Sign: TypeAlias = Literal["silent", "stuck", "failing"]
"""Why a connection is to be left: it looks dead, which anything that it brings disproves; a reply
that was interrupted neither ends nor lets another begin; it is alive and gives no replies."""


# By event loop, whose clock its sessions share.
_allowances: WeakKeyDictionary[asyncio.AbstractEventLoop, HedgeAllowance] = WeakKeyDictionary()


def link_limits(
    options: ResilienceOptions, given: APIConnectOptions, *, retry_s: float = OVERLAP_RETRY_S
) -> LinkLimits:
    """The bounds of one session's line: by the application's `conn_options` where it gave any,
    else by ours (R2); in `given`, a time of 0 leaves ours in force."""
    own = given is not DEFAULT_API_CONNECT_OPTIONS
    base_s = (own and given.retry_interval) or options.redial_base_s
    budget = BudgetLimits(
        connect_timeout_s=(own and given.timeout) or options.connect_timeout_s,
        deadline_s=options.reconnect_deadline_s,
        base_s=base_s,
        cap_s=max(base_s, options.redial_cap_s),
        healthy_after_s=options.healthy_after_s,
        max_redials=given.max_retry if own else None,
        failover_after_s=options.failover_after_s,
    )
    return LinkLimits(budget=budget, margin_s=options.goaway_margin_s, retry_s=retry_s)


class LinkDriver:
    """The link of one session.

    Feed it what happens to the connections, and wait for what is to be done with `decided`.

    Args:
        limits: Of the line.
        driver: Of the session; what is owed and heard is followed there.
        rest: Tells whether the conversation rests.
        fallback: Of the session.
        hedge_notice_s: See `Bounds.hedge_notice_s`.
        may_hedge: Tells whether another connection can be told all that the caller said.
    """

    def __init__(
        self,
        limits: LinkLimits,
        driver: Driver,
        rest: Callable[[], Rest],
        fallback: Fallback,
        hedge_notice_s: float | None = None,
        may_hedge: Callable[[], bool] = lambda: True,
    ) -> None:
        self._limits = limits.budget
        self._driver = driver
        self._fallback = fallback
        hedging: Hedging | None = None
        if hedge_notice_s is not None:
            allowance = _allowances.setdefault(asyncio.get_running_loop(), HedgeAllowance())
            hedging = Hedging(
                lambda: driver.hedge_at if may_hedge() else None, hedge_notice_s, allowance.join()
            )
        self._link = Link(limits, rest, hedging)
        self.is_closed = False
        """Whether the application closed the session."""
        self._hedge_serves = False
        self._decisions: deque[LinkDecision] = deque()
        self._owed = False
        self._heard = driver.replies_heard
        self._inherits = self._listens = False
        self._taken_at = float("-inf")
        self._sign: Sign = "silent"
        self._pongs_prove = False
        self._waiter: asyncio.Future[None] | None = None
        self._alarm = Watch(driver.timer, self._wake_at, self._wake)
        driver.watch = self._look

    @property
    def connect_timeout_s(self) -> float:
        """Seconds for one dial beside the connection that serves, up to its first answer."""
        return self._limits.connect_timeout_s

    @property
    def overlaps(self) -> bool:
        """See `Link.overlaps`."""
        return self._link.overlaps

    @property
    def is_suspected(self) -> bool:
        """Whether the connection that serves is to be left because it looks dead."""
        return self._link.is_suspected

    @property
    def suspicion(self) -> Sign | None:
        """Why that is."""
        return self._sign if self._link.is_suspected else None

    def opened(self) -> None:
        """The session begins; it may be the next model of a call whose line was lost."""
        given_up, now = self._fallback.given_up, self._driver.now
        if given_up is not None and now - given_up.at < self._limits.healthy_after_s:
            self._inherits = True
            self.feed(f.Opened(now, given_up.since))
        else:
            self.feed(f.Opened(now))

    def closed(self) -> None:
        """The session is over."""
        self.is_closed = True
        self.feed(f.Closed(self._driver.now))

    def lost(self, *, final: bool = False, at_once: bool = False) -> bool:
        """The connection, or the attempt to make one, is lost.

        Args:
            final: Whether no other can be had.
            at_once: Whether another model is to be left the call, if there is one, where no
                connection could be made.

        Returns:
            Whether there will be another.
        """
        if self._is_over:
            return False
        now, jitter = self._driver.now, random.random()
        self._forget()  # what was to be done beside it, or instead
        if self._link.state in (State.DIALLING, State.RESTORING):
            self.feed(f.AttemptFailed(now, jitter, final, at_once))
        else:
            self.feed(f.LineLost(now, jitter, final))
        if not self._is_over:
            return True
        if not final or self._inherits:
            self._leave_budget()
        return False

    def suspect(self, sign: Sign, *, pongs_prove: bool = False) -> None:
        """The connection that serves is to be left.

        Args:
            sign: What shows it; kept until the connection is left, or has shown life.
            pongs_prove: Whether a pong shows life, and not a message only.
        """
        if self._link.is_suspected:
            return
        was_over = self._is_over
        self._sign, self._pongs_prove = sign, pongs_prove
        self.feed(f.Suspected(self._driver.now))
        if self._is_over and not was_over:
            self._leave_budget()

    def sign_came(self, *, pong: bool) -> None:
        """The connection brought a message, or a pong."""
        if self._link.is_suspected and self._sign == "silent" and (self._pongs_prove or not pong):
            self._clear()

    def _clear(self) -> None:
        logger.info("the connection that was to be left is alive and stays")
        self.feed(f.SuspicionCleared(self._driver.now))

    @property
    def _is_over(self) -> bool:
        return self._link.state is State.OVER

    def _leave_budget(self) -> None:
        """The budget is that of the call, or two models would leave it to each other for ever."""
        since = next(d.since for d in self._decisions if isinstance(d, GiveUp))
        if self._limits.failover_after_s is not None:
            self._fallback.given_up = GivenUp(since, self._driver.now)

    def left(self) -> None:
        """The connection was left; the next one is dialled."""
        if self._is_over:
            return
        self._forget()
        self.feed(f.LineLeft(self._driver.now))

    def ends_in(self, seconds: float) -> None:
        """The server said when the connection ends."""
        now = self._driver.now
        self.feed(f.EndAnnounced(now, now + max(0.0, seconds), random.random()))

    def may_switch(self, *, hedge: bool = False) -> bool:
        """The connection that was made beside is ready; returns whether it is to serve, from this
        moment on, or to be closed.

        Args:
            hedge: Whether it was asked for what is owed, and gave output first; else it knows all.
        """
        now = self._driver.now
        self.feed(f.HedgeAnswered(now) if hedge else f.SuccessorReady(now))
        if not self._decisions or not isinstance(self._decisions[-1], Switch):
            return False
        self._forget()
        self._hedge_serves = hedge
        return True

    def hedge_failed(self, *, refused_for_quota: bool) -> None:
        """No connection could be asked beside, or it was lost."""
        self.feed(f.HedgeFailed(self._driver.now, refused_for_quota))

    def _forget(self) -> None:
        self._decisions.clear()
        self._hedge_serves = False

    def feed(self, fact: f.LinkFact) -> None:
        """Take a fact; `decided` then tells what it leads to. After the end it leads to nothing."""
        if self._is_over:
            return
        self._look_for_other()
        self._decisions.extend(self._receive(fact))
        if isinstance(fact, f.Switched):
            self._hedge_serves = False
        self._wake()

    def _receive(self, fact: f.LinkFact) -> tuple[LinkDecision, ...]:
        # What was stamped before another was fed counts as of that one's time.
        self._taken_at = max(self._taken_at, fact.at)
        decisions = self._link.receive(replace(fact, at=self._taken_at))
        if self._inherits and not self._link.is_inherited:
            self._inherits = False
            self._fallback.given_up = None
        return self._recorded(decisions)

    def _recorded(self, decisions: tuple[LinkDecision, ...]) -> tuple[LinkDecision, ...]:
        """Tell of hedges that are over; returns what is left to be done."""
        for decision in decisions:
            if isinstance(decision, RecordHedge):
                self._driver.tell(HedgeOutcome(self._driver.now, decision.result))
        return tuple(d for d in decisions if not isinstance(d, RecordHedge))

    async def decided(self) -> LinkDecision:
        """Wait for the next decision."""
        while not self._decisions:
            self._driver.notice_stall()  # before anything is judged (R23)
            self._look_for_other()
            self._decisions.extend(self._recorded(self._link.due(self._driver.now)))
            if not self._decisions:
                await self._next()
        return self._decisions.popleft()

    def put_back(self, decision: LinkDecision) -> None:
        """Have `decided` tell it again, to who else is to carry it out."""
        self._decisions.appendleft(decision)

    async def _next(self) -> None:
        """Wait until something may have fallen due."""
        from_at = self._link.watches_from
        self._listens = from_at is not None and from_at <= self._driver.now
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self._alarm.look()
        try:
            await waiter
        finally:
            self._waiter = None
            self._alarm.cancel()

    def _wake_at(self) -> float | None:
        deadline, from_at = self._link.next_deadline(), self._link.watches_from
        if self._listens or from_at is None:
            return deadline
        # Until then what happens in the conversation does not matter.
        return from_at if deadline is None else min(deadline, from_at)

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _look_for_other(self) -> None:
        in_s, now = self._fallback.other_model_in_s(), self._driver.now
        self._receive(f.OtherModelSeen(now, None if in_s is None else now + in_s))

    def _look(self) -> None:
        """Follow what is owed and heard, and whether a reply that was stuck has gone on."""
        if self._link.is_suspected and self._sign == "stuck" and not self._driver.is_stuck:
            self._clear()
        owed, heard = self._driver.owes_reply, self._driver.replies_heard
        if heard != self._heard:
            self._heard = heard
            self.progressed()
        if owed != self._owed:
            self._owed = owed
            now = self._driver.now
            self._receive(f.AnswerOwed(now) if owed else f.AnswerSettled(now))
        hedges = self._link.state is State.HEDGING and not self._hedge_serves
        if hedges and not self._driver.awaits_hedge:
            self.feed(f.HedgeUnneeded(self._driver.now))
        if self._listens:
            self._wake()

    def progressed(self) -> None:
        """A turn was finished, or heard, on the connection that serves."""
        self._receive(f.Progressed(self._driver.now))
