"""When a connection last showed life, and when it is to be suspected.

A suspicion is cheap: it has another connection prepared, and anything that comes meanwhile may
disprove it. Times are monotonic seconds of a loop that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .decisions import DeathSign, SuspectDead
from .limits import FALSE_ALARM_FACTOR, SLOWEST_PONG_S, Bounds

__all__ = ["Liveness", "Suspicion", "liveness_deadline"]

Suspicion: TypeAlias = tuple[float, DeathSign]
"""When it falls due, and by which sign."""


@dataclass(slots=True)
class Liveness:
    """When this connection last showed life, and since when something is expected of it.

    `answers_pings` says whether the peer did so in this call; one that never does says nothing by
    it. `slowest_pong_s` is None until a ping was answered. `false_alarms` counts how often the
    caller's voice raised a suspicion in this call since one last proved right.
    """

    byte_at: float
    message_at: float
    hinted_at: float | None = None
    hinted_at_rest_at: float | None = (
        None  # with no reply, owed or heard, and no tool to explain it
    )
    suspected: DeathSign | None = None
    answers_pings: bool = False
    quiet_until: float = float("-inf")  # as the provider said
    slowest_pong_s: float | None = None
    false_alarms: int = 0

    @property
    def waits_to_hear(self) -> bool:
        """Whether something sounded like speech of which the server has said nothing yet."""
        return self.hinted_at is not None and self.hinted_at > self.message_at

    def hinted(self, at: float, *, at_rest: bool) -> None:
        self.hinted_at = at
        if at_rest:
            self.hinted_at_rest_at = at

    def message_arrived(self, at: float) -> None:
        self.byte_at = self.message_at = at
        self.suspected = None

    def pong_arrived(self, at: float, after_s: float) -> None:
        self.byte_arrived(at)
        self.answers_pings = True
        self.slowest_pong_s = max(after_s, self.slowest_pong_s or 0.0)

    def byte_arrived(self, at: float) -> None:
        self.byte_at = at
        if self.suspected == "nothing_arrived":
            self.suspected = None

    def suspect(self, sign: DeathSign, now: float) -> SuspectDead:
        """Suspect the connection, until it shows life."""
        self.suspected = sign
        since = self.byte_at if sign == "nothing_arrived" else self.message_at
        return SuspectDead(sign, now - since)


def liveness_deadline(
    liveness: Liveness, asked_at: float | None, bounds: Bounds
) -> Suspicion | None:
    """When the connection is to be suspected, and by which sign; the earliest of three.

    `asked_at` is when the oldest request without a reply was sent. A pong counts as a byte but not
    as a message, and its absence is never a sign by itself.
    """
    if liveness.suspected is not None:
        return None
    first: Suspicion | None = None
    if bounds.liveness_timeout_s is not None and liveness.answers_pings:
        first = (liveness.byte_at + bounds.liveness_timeout_s, "nothing_arrived")
    if asked_at is not None and bounds.reply_silent_after_s is not None:
        silent_from = max(asked_at, liveness.message_at, liveness.quiet_until)
        due = silent_from + bounds.reply_silent_after_s
        if first is None or due < first[0]:
            first = (due, "reply_silent")
    due_unheard = _unheard_deadline(liveness, bounds)
    if due_unheard is not None and (first is None or due_unheard < first[0]):
        first = (due_unheard, "caller_unheard")
    return first


def _unheard_deadline(liveness: Liveness, bounds: Bounds) -> float | None:
    """When a caller who spoke and fell quiet has gone unnoticed for too long.

    A path that is known to answer pings and does not any more is soon suspected. On one that is
    alive, or slow, sound alone proves little: it may be a television. Each false alarm doubles the
    time.
    """
    hinted_at, bound = liveness.hinted_at, bounds.unheard_after_s
    if bound is None or hinted_at is None or not liveness.waits_to_hear:
        return None
    slowest_s = liveness.slowest_pong_s
    is_prompt = slowest_s is not None and slowest_s <= SLOWEST_PONG_S
    if not is_prompt or liveness.byte_at > hinted_at:
        hinted_at = liveness.hinted_at_rest_at
        if hinted_at is None or hinted_at <= liveness.message_at:
            return None
        bound = max(bound, bounds.deaf_after_s)
    quiet_from = max(hinted_at + bounds.speech_quiet_s, liveness.quiet_until)
    return quiet_from + bound * FALSE_ALARM_FACTOR**liveness.false_alarms
