"""What a caller met in a call whose promise was kept or broken, told from the call itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.plugins.resilient.testing.call_log import GenerationCreated

if TYPE_CHECKING:
    from .stage import Stage

About: TypeAlias = Literal["heard", "state", "wait"]
"""What a promise was broken in: what is heard, anything else, or a wait that was given up."""

Met: TypeAlias = Literal[
    "hung", "call ended", "never answered", "left in silence", "answered", "state wrong", "kept"
]
"""What became of a call, the worst first.

"hung": it came to no end. "call ended": the session closed, or the model gave up. "never answered":
something was asked, and the agent was not heard until the wait was given up. "left in silence": the
same where the agent had begun to answer, or nothing was asked. "answered": the agent was heard, but
late, or not as promised. "state wrong": whatever was asked was answered in time, but the record,
the session, the connections or the events were late or wrong. "kept": as promised.
"""

LONG_S = 3.0
"""Seconds of silence after which a caller asks whether anybody is there: an answer that took longer
was late, whatever else is wrong."""

BY_HAND = "user_initiated"
"""The session's close reason where the scenario hung up."""


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario with its faults.

    Attributes:
        met: what the caller met.
        why: what was not so, or did not happen; empty where the promise was kept.
        seconds: "kept": the dead air; "answered": the longest wait; "never answered", "left in
            silence": the silence until it was given up; "call ended": from the first fault to the
            end. None where it is not known.
        told: False where the call ended and no close event told the application.
    """

    met: Met
    why: str = ""
    seconds: float | None = None
    told: bool = True

    @property
    def survived(self) -> bool:
        return self.met == "kept"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is seen of a call in the moment in which its promise is broken.

    Attributes:
        about: what it was broken in.
        ended_after_s: seconds from the first fault, or without one from the beginning, to the
            end of the call; None where it goes on.
        closed: whether there was a close event.
        idle: whether nobody owes a word.
        silent_s: seconds since either side was last audible, or since the fault.
        unanswered: whether something was asked, and the agent not heard since.
        nothing_new: whether no reply has begun since the fault.
        answered_after_s: the longest wait of the caller that is known.
    """

    about: About
    ended_after_s: float | None = None
    closed: bool = False
    idle: bool = False
    silent_s: float = 0.0
    unanswered: bool = False
    nothing_new: bool = False
    answered_after_s: float | None = None


def judged(seen: Seen, why: str) -> Outcome:
    """What the caller met, given what is seen of the call."""
    if seen.ended_after_s is not None:
        # Only a wait lasts long enough to see that the close event does not come.
        told = seen.closed or seen.about != "wait"
        return Outcome("call ended", why, seen.ended_after_s, told)
    if seen.unanswered and not seen.idle:
        return Outcome("never answered", why, seen.silent_s)
    missing = seen.about == "wait" or (seen.about == "heard" and seen.nothing_new)
    if missing and seen.silent_s >= LONG_S and not seen.idle:
        return Outcome("left in silence", why, seen.silent_s)
    late = (seen.answered_after_s or 0.0) >= LONG_S
    if late or seen.about == "heard" or (seen.about == "wait" and not seen.idle):
        return Outcome("answered", why, seen.answered_after_s)
    return Outcome("state wrong", why)


def seen_of(stage: Stage[Any], about: About) -> Seen:
    """Look at a call that still runs."""
    faults = stage.server.recording.faults
    since = faults[0].at if stage.faulty and faults else stage.began_at
    agent = [span.start for span in stage.call.heard.spans()]
    asked_at = stage.asked_at()
    measured = stage.dead_air_s
    known = measured is not None and not math.isinf(measured)
    ended_at = _ended_at(stage)
    last_at = max([since, *(span.end for span in stage.voices())])
    return Seen(
        about=about,
        ended_after_s=None if ended_at is None else max(0.0, ended_at - since),
        closed=stage.call.closed is not None,
        idle=stage.idle,
        silent_s=stage.call.now - last_at,
        unanswered=asked_at is not None and all(start < asked_at for start in agent),
        nothing_new=not any(
            isinstance(event, GenerationCreated) and event.at > since for event in stage.call.events
        ),
        answered_after_s=measured if known else stage.longest_wait(),
    )


def _ended_at(stage: Stage[Any]) -> float | None:
    """When the session closed or the model gave up, unless the scenario hung up."""
    times = [error.at for error in stage.call.errors if not error.recoverable]
    closed = stage.call.closed
    if closed is not None and closed.reason != BY_HAND:
        times.append(closed.at)
    return min(times, default=None)
