"""What another connection would be asked for beside the one that serves, and was (R24)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .decisions import Redrive
from .generation import Generation, Phase
from .limits import Bounds
from .redrives import asking
from .state import Claim, Owed, Question

__all__ = ["Claims"]


class Claims:
    """Which of what is owed can be hedged, and what of it was: at most once each.

    Args:
        bounds: Of the session.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._hedges = 0
        self._hedge: Question | None = None  # the last one since the connection began to serve
        self._requests: set[str] = set()  # that were hedged
        self.begun_at = float("-inf")
        """When the last hedge was begun."""
        self.awaited = False
        """Whether it is under way, and the connection that serves has given nothing since."""

    def claim(
        self, owed: Owed | None, requests: Mapping[str, float], open_: Generation | None
    ) -> Claim | None:
        """What another connection would be asked for, as things stand; None for nothing that is
        surely owed, that an interruption does not explain, and that was not put off.

        Args:
            owed: What the caller waits for.
            requests: Pending, oldest first, with the time of each.
            open_: The open generation.
        """
        if open_ is not None and open_.interrupted:
            return None
        if requests:
            oldest, since = next(iter(requests.items()))
            ids = tuple(requests)
            return Claim("reply_requested", since, ids, hedged=oldest in self._requests)
        at_work = _at_work(open_, owed)
        if not self._bounds.redrive:
            return None
        if at_work is not None and (owed is None or owed.answer == at_work.id):
            if at_work.cancelled or at_work.cut_in:
                return None
            if at_work.has_content:
                since, hedged = at_work.opened_at, at_work.hedged
                return Claim("reply_cut", since, cut=at_work, stopped=True, hedged=hedged)
        if owed is None or not owed.certain or owed.puts_off:
            return None
        if owed.answer is not None and (at_work is None or owed.answer != at_work.id):
            return None  # it is complete, and only has to be heard
        since = owed.since if owed.failed_at is None else max(owed.since, owed.failed_at)
        ids = () if owed.request_id is None else (owed.request_id,)
        return Claim(owed.cause, since, ids, owed.cut, hedged=owed.hedged)

    def hedge(self, now: float, claim: Claim) -> Redrive:
        """What a hedge is to ask for; changes nothing."""
        ids, since = claim.request_ids, claim.since
        return asking(self._next_id, claim.cause, now, since, ids, claim.cut)

    def begun(
        self,
        at: float,
        claim: Claim,
        owed: Owed | None,
        requests: Iterable[str],
        open_: Generation | None,
    ) -> None:
        """It asks for `claim`, which was not hedged before."""
        self._hedge = Question(self._next_id, at, claim.request_ids, is_hedge=True)
        self._hedges += 1
        self.begun_at, self.awaited = at, True
        if requests := tuple(requests):
            self._requests.update(requests)
            return
        at_work = _at_work(open_, owed)
        if at_work is not None and (owed is None or owed.answer == at_work.id):
            at_work.hedged = True
        if owed is not None:
            owed.hedged = True

    def over(self, hedge_id: str | None) -> Question | None:
        """Another connection serves; returns the hedge, if it is the one that was asked by it."""
        hedge, self._hedge, self.awaited = self._hedge, None, False
        return hedge if hedge is not None and hedge.redrive_id == hedge_id else None

    def was_hedged(self, request_id: str | None) -> bool:
        """Whether a request was part of a hedge."""
        return request_id in self._requests

    def forget(self, request_id: str) -> None:
        """A request is settled."""
        self._requests.discard(request_id)

    def forget_requests(self) -> None:
        """All of them are."""
        self._requests.clear()

    @property
    def _next_id(self) -> str:
        return f"hedge-{self._hedges + 1}"


def _at_work(open_: Generation | None, owed: Owed | None) -> Generation | None:
    """The open generation, if it is a reply of which more is to come."""
    if open_ is None or open_.phase not in (Phase.SILENT, Phase.PRODUCING):
        return None
    waited_for = owed is not None and owed.certain and owed.answer == open_.id
    return None if open_.by_caption and not waited_for else open_
