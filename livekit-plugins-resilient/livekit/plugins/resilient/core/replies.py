"""The books on owed replies: what makes one owed, what settles it, and when it is asked for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from . import facts as f
from . import watchdogs
from .claims import Claims
from .decisions import RecordOutcome, Redrive, RedriveCause, TakeBack
from .generation import Generation, Phase
from .limits import TIMES_PUT_OFF, Bounds
from .redrives import Outcomes, Redrives, asking
from .state import Claim, Edge, Owed, Question, Speech

__all__ = ["How", "Replies"]

How: TypeAlias = Literal["ended", "failed", "cancelled", "continued", "cut", "expired", "replaced"]
"""How a generation closed: in order, by the provider's failure, taken back, with more to come,
broken off by a drop, by a watchdog, or by the next one opening."""


class Replies:
    """What the caller waits for. It survives the connections; only re-drives belong to one.

    At most one reply is owed beside the application's pending requests: the newest claim, since
    its answer makes the older ones pointless.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._requests: dict[str, float] = {}  # pending, oldest first: when each was last sent
        self._calls: dict[str, float] = {}  # open, and since when
        self._edge: Edge | None = None
        self.redrives = Redrives()
        self.claims = Claims(bounds)
        self.owed: Owed | None = None

    # --- what makes a reply owed, or takes it back ----------------------------------------------

    def turn_ended(
        self, at: float, open_: Generation | None, spoke_at: float, *, certain: bool = True
    ) -> Outcomes:
        """The caller's new turn supersedes whatever was owed before it; words that may be no new
        turn only what is as doubtful. `spoke_at` is when the caller was last heard: without a
        sound since a hedge it is the turn of which that was asked."""
        is_doubtful = self.owed is None or not self.owed.certain
        if not certain and (self._requests or self._calls or not is_doubtful):
            return ()
        answer = open_.id if open_ is not None and open_.phase is Phase.SILENT else None
        hedged = self.owed is not None and self.owed.hedged and spoke_at <= self.claims.begun_at
        self.owed = Owed("unanswered_turn", at, certain=certain, answer=answer, hedged=hedged)
        self._drop_edge()
        return self.redrives.settle("superseded")

    def input_awaited(self) -> None:
        """The provider does not answer before the caller has gone on."""
        if self.owed is not None and self.owed.cause == "unanswered_turn":
            self.owed = None

    def withdraw_doubtful(self) -> None:
        """No fault makes up for an answer that was not certain to come."""
        if self.owed is not None and not self.owed.certain:
            self.owed = None

    def withdraw(self) -> None:
        """It was not certain to be owed, and nothing came of it."""
        self.owed = self._edge = None

    def words_lost(self, at: float) -> None:
        """The caller spoke, and no session will ever know what."""
        self.owed = Owed("user_words_lost", at)

    def requested(self, at: float, request_id: str) -> Outcomes:
        self._requests[request_id] = at
        return self.redrives.settle("superseded")

    def cancelled(self, request_id: str | None) -> Outcomes:
        if request_id is None:
            self._requests.clear()
            self.claims.forget_requests()
            self.owed = self._edge = None
            return self.redrives.settle("superseded")
        self._forget(request_id)
        if self.owed is not None and self.owed.request_id == request_id:
            self.owed = None
        return self.redrives.settle("superseded", request_id)

    def timed_out(self, request_id: str) -> Outcomes:
        """The application was told; the caller's own turn, if there is one, stays owed."""
        self._forget(request_id)
        return self.redrives.settle("failed", request_id)

    def _forget(self, request_id: str) -> bool:
        """A request is pending no more; returns whether it was."""
        self.claims.forget(request_id)
        return self._requests.pop(request_id, None) is not None

    def refused(self, fact: f.ReplyRefused, open_: Generation | None) -> Outcomes:
        """The open question, or the caller's turn, gets no reply now, but as soon as it can."""
        owed, question = self.owed, self.redrives.question
        outcomes: Outcomes = ()
        if fact.request_id is not None:
            if question is None or question.generation_id or not question.asked(fact.request_id):
                return ()
            outcomes = self.redrives.settle("superseded")
        elif owed is None or owed.cause != "unanswered_turn":
            return ()
        elif open_ is not None and owed.answer == open_.id and open_.opened_at < owed.since:
            owed.answer = None  # it began before the turn was over
        if owed is not None and owed.answer is None:
            owed.retried = fact.retry_after_s is not None
            self._fail(fact.at, by_provider=False, retry_after_s=fact.retry_after_s)
        return outcomes

    def call_opened(self, at: float, call_id: str) -> None:
        self._calls[call_id] = at

    def result_delivered(self, at: float, call_id: str, expects_reply: bool) -> None:
        opened_at = self._calls.pop(call_id, None)
        if opened_at is None:
            return
        if expects_reply:
            self.owed = Owed("tool_result_unanswered", at)
            self._drop_edge()
        elif self.owed is not None and self.owed.since <= opened_at and not self._calls:
            self.owed = None  # the tool was all the answer there is

    def call_cancelled(self, at: float, call_id: str) -> None:
        if self._calls.pop(call_id, None) is not None and self.owed is not None:
            self.owed.since = at

    # --- what becomes of the answer -------------------------------------------------------------

    def waits_for(self, generation: Generation) -> bool:
        """Whether a generation is to settle what is surely owed."""
        return self.owed is not None and self.owed.certain and self.owed.answer == generation.id

    def passed_over(self) -> Outcomes | None:
        """A turn was ended in which nothing began: the re-drive, if one has had no reply yet;
        None for none."""
        question = self.redrives.question
        if question is None or question.generation_id is not None or question.request_ids:
            return None
        return self.redrives.settle("failed")

    def opened(self, generation: Generation, for_request: str | None) -> None:
        """A generation takes up what is owed, and the question that asked for it."""
        question = self.redrives.question
        asked = question is not None and question.asked(for_request)
        if question is not None and asked:
            question.generation_id = generation.id
        hedged = self.claims.was_hedged(for_request)
        if for_request is not None and self._forget(for_request):
            self.owed = Owed(
                "reply_requested",
                generation.opened_at,
                request_id=for_request,
                retried=asked,
                hedged=hedged,
            )
        if self.owed is not None and self.owed.answer is None:
            self.owed.answer = generation.id
        generation.retried = self.owed is not None and self.owed.retried
        generation.hedged = self.owed is not None and self.owed.hedged

    def heard(self, generation: Generation) -> Outcomes:
        """The caller hears a generation: that settles what it answers."""
        if self.owed is not None and self.owed.answer == generation.id:
            self.owed = None
            self._drop_edge()
        return self.redrives.heard(generation)

    def unheard(self, at: float, generation: Generation) -> Outcomes:
        """A generation that was through is flushed before the caller heard any of it: at a drop,
        or because the caller cut in, whose next turn then gets the time to supersede it."""
        if self.owed is not None and self.owed.answer == generation.id:
            self.owed.answer = None
            self.owed.since = at
        return self.redrives.settle("failed", generation)

    def cut_in(self) -> tuple[TakeBack | RecordOutcome, ...]:
        """The caller, or the application, stopped what played: nobody wants to hear the rest of a
        reply that had broken off."""
        owed, question = self.owed, self.redrives.question
        if owed is None or owed.cause != "reply_cut":
            return ()
        self.owed = None
        self._drop_edge()
        if question is None or question.request_ids:
            return ()
        back = TakeBack(question.redrive_id, question.generation_id)
        return (back, *self.redrives.settle("superseded"))

    def closed(
        self,
        at: float,
        generation: Generation,
        how: How,
        retry_after_s: float | None = None,
    ) -> Outcomes:
        """A generation is over; `generation.phase` still tells how far it came.

        `retry_after_s` is what the provider, which failed it, said of the next try.
        """
        owed = self.owed
        mine = owed is not None and owed.answer == generation.id
        to_hear = generation.has_content and generation.heard_at is None
        to_hear &= not generation.is_written or generation.received_s > 0
        if how == "cancelled" or generation.cancelled:
            if mine:
                self.owed = None
        elif generation.interrupted or generation.cut_in or how == "continued":
            if owed is not None and mine:
                owed.answer = None
                owed.since = at
        elif how == "expired" and owed is not None and mine and not owed.certain:
            self.withdraw()
        elif how in ("cut", "failed", "expired") and generation.phase is not Phase.COMPLETE:
            if mine or (owed is None and not generation.by_caption):  # else a newer claim stands
                if generation.has_content and not generation.by_caption:
                    self.owed = Owed(
                        "reply_cut",
                        at,
                        cut=generation,
                        retried=generation.retried,
                        hedged=generation.hedged,
                    )
                self._fail(at, by_provider=how == "failed", retry_after_s=retry_after_s)
        elif to_hear:
            return ()  # what becomes of it shows at the speaker
        elif generation.is_written:
            # Who reads or speaks it is none of ours.
            if mine:
                self.owed = None
                self._drop_edge()
            return self.redrives.settle("rescued", generation)
        elif generation.has_call:
            if mine:
                self._release()
            return self.redrives.settle("rescued", generation)
        elif mine and how == "replaced":
            self._release()
        elif mine:
            self._fail(at, by_provider=True)
        return self.redrives.settle("failed", generation)

    def _fail(self, at: float, *, by_provider: bool, retry_after_s: float | None = None) -> None:
        self._release()
        owed = self.owed
        if owed is None:
            return
        owed.failed_at = at
        owed.by_provider = by_provider
        owed.retry_after_s = None
        if retry_after_s is not None and owed.puts_off < TIMES_PUT_OFF:
            # Told to come back later is not told no.
            owed.puts_off += 1
            owed.retry_after_s = retry_after_s
            owed.retried = False

    def wait_for_handover(self) -> None:
        """A reply failed on a connection that is about to be replaced."""
        if self.owed is not None:
            self.owed.by_provider = True

    def _release(self) -> None:
        if self.owed is not None:
            self.owed.answer = None

    # --- connections ----------------------------------------------------------------------------

    def disconnected(self) -> Outcomes:
        """Call it after the open generation was closed. What was asked dies with the connection,
        unless its answer is complete and only has to be heard."""
        question = self.redrives.question
        if (
            question is not None
            and self.owed is not None
            and self.owed.answer is not None
            and self.owed.answer == question.generation_id
        ):
            return ()
        return self.redrives.settle("failed")

    def reconnected(self, at: float, knows_turn: bool, hedge_id: str | None = None) -> Outcomes:
        """Latch an edge, if something is owed across it; it replaces one that is unspent. A hedge
        was asked before it served."""
        self._edge = None
        if (hedge := self.claims.over(hedge_id)) is not None:
            return self._hedge_serves(at, hedge)
        unanswered = self.owed is not None and self.owed.answer is None
        if unanswered or self._requests:
            knows = knows_turn and not (self.owed and self.owed.cause == "user_words_lost")
            self._edge = Edge(at, knows, tuple(self._requests))
        return ()

    def _hedge_serves(self, at: float, hedge: Question) -> Outcomes:
        outcomes = self.redrives.asked_by_hedge(hedge, at)
        if self.owed is not None and self.owed.hedged:
            self.owed.retried = True
        # Of later ones it knows nothing.
        if others := tuple(r for r in self._requests if r not in hedge.request_ids):
            self._edge = Edge(at, False, others)
        return outcomes

    def _drop_edge(self) -> None:
        """Spend it, but for requests that it still has to re-issue."""
        if self._edge is not None and not self._stale():
            self._edge = None

    def _stale(self) -> tuple[str, ...]:
        """Requests that were pending across the edge and still are."""
        if self._edge is None:
            return ()
        return tuple(r for r in self._edge.request_ids if r in self._requests)

    @property
    def owes(self) -> bool:
        """Whether anybody waits for a reply that has not been heard."""
        return self.owed is not None or bool(self._requests)

    @property
    def surely_owes(self) -> bool:
        """The same, leaving out what may be owed to nobody."""
        return bool(self._requests) or (self.owed is not None and self.owed.certain)

    @property
    def calls_open(self) -> bool:
        """Whether a tool call waits for its result."""
        return bool(self._calls)

    # --- the re-drive ---------------------------------------------------------------------------

    @property
    def asked_at(self) -> float | None:
        """When the oldest request without a reply was sent."""
        if self._requests:
            return next(iter(self._requests.values()))
        question = self.redrives.question
        return None if question is None or question.generation_id else question.at

    def redrive_deadline(self, speech: Speech) -> float | None:
        """When to call `redrive()`, given that no generation is open. Requests that crossed an
        edge go first, and wait neither for the caller nor for a tool: the application did not."""
        if self.redrives.question is not None:
            return None
        if self._edge is not None and self._stale():
            return watchdogs.edge_deadline(self._edge, self._bounds)
        if self._requests or self._calls:
            return None
        return watchdogs.redrive_deadline(self.owed, self._edge, speech, self._bounds)

    def withdraw_deadline(self) -> float | None:
        """When to call `withdraw()`."""
        return watchdogs.withdraw_deadline(self.owed, self._bounds)

    def redrive(self, now: float) -> Redrive:
        """Ask once; the edge, or else the reply's one retry, is spent."""
        owed, stale = self.owed, self._stale()
        since = self._edge.at if self._edge is not None else owed.since if owed is not None else now
        self._edge = None
        if owed is not None:
            owed.retried = True
        cause: RedriveCause = "reply_requested"
        ids, cut = stale, None
        if owed is not None and not stale:
            cause, cut = owed.cause, owed.cut
            ids = () if owed.request_id is None else (owed.request_id,)
        for request_id in stale:  # now the youngest, in order
            del self._requests[request_id]
            self._requests[request_id] = now
        return self.redrives.ask(now, cause, since, ids, cut)

    def left(self, now: float, *, words_lost: bool) -> Redrive | None:
        """What the caller would wait for in vain, should the session end now; changes nothing.

        Requests and tools are left out: their own results tell who made them.
        """
        owed = Owed("user_words_lost", now) if words_lost else self.owed
        if owed is None or owed.answer is not None or not owed.certain or self._calls:
            return None
        return asking("", owed.cause, now, owed.since, (), owed.cut)

    # --- the hedge ------------------------------------------------------------------------------

    def claim(self, open_: Generation | None) -> Claim | None:
        """What another connection would be asked for, as things stand; None where a tool, or
        anything else, explains that nothing comes."""
        if self._calls:
            return None
        return self.claims.claim(self.owed, self._requests, open_)

    def hedge_begun(self, at: float, open_: Generation | None) -> None:
        """Another connection is to be asked for that."""
        claim = self.claim(open_)
        if claim is not None and not claim.hedged:
            self.claims.begun(at, claim, self.owed, self._requests, open_)
