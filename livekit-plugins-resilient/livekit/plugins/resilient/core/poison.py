"""What of a new connection may be why the last ones died, and is left out of the next (R3, R7).

No I/O, no clock, no provider types. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from typing_extensions import assert_never

from .limits import POISONED_AFTER, POISONED_WITHIN_S, TOLD_LESS_BY

__all__ = ["Blame", "ConnectionEnded", "HistoryUntold", "LeftOut", "Poison"]

Blame: TypeAlias = Literal["nothing", "handle", "something"]
"""What a provider gives as the reason of an end. nothing: none of what it was given. handle: the
handle. something: part of what it was given is invalid, whether it names that or not."""

FormT = TypeVar("FormT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnded:
    """A connection was lost, or could not be set up, and no more is known to be final.

    Attributes:
        at: When.
        resumed: Whether it was to be restored from a handle.
        set_up_at: When its set-up was answered; None where it was not.
        blames: What the provider gives as the reason.
        closed: Whether the provider closed it with a code of its own.
        finished: Whether the model finished a turn on it.
        understood: Whether the provider showed after the set-up that it took what it was told.
        was_connected: Whether the call was ever connected.
        told: Items of the history that the last fresh connection was told (count).
        in_set_up: Items that the last fresh set-up held (count).
        announced: Whether that said that a history follows.
    """

    at: float
    resumed: bool
    set_up_at: float | None
    blames: Blame
    closed: bool
    finished: bool
    understood: bool
    was_connected: bool
    told: int
    in_set_up: int
    announced: bool


@dataclass(frozen=True, slots=True)
class HistoryUntold:
    """What a new connection was to be told could not be made.

    Attributes:
        items: Of the whole history (count).
    """

    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What the next connection does without, besides what `Poison` keeps itself.

    Attributes:
        handle: The handle, which is to be forgotten.
        rejected: Whether that is because the session it stands for cannot be gone on with.
        audio: What is kept of the caller's audio.
        hopeless: Nothing is left to be left out: no other connection can be had.
    """

    handle: bool = False
    rejected: bool = False
    audio: bool = False
    hopeless: bool = False


class Poison(Generic[FormT]):
    """How connections of one session ended, and what the next is given because of it.

    Feed each end to `receive`, and carry out what that answers. Make the next connection as the
    attributes say.

    Args:
        forms: In which a fresh connection can be told the history, the richest first.
        announcing: The one of them for which a set-up holds more than the history itself.

    Attributes:
        plain_set_up: Whether a set-up is made without what we add to it.
        limit: How many items of the history a fresh connection is told, the newest; None for all.
    """

    def __init__(self, forms: Sequence[FormT], announcing: FormT | None = None) -> None:
        self._forms = list(forms)
        self._announcing = announcing
        self.plain_set_up = False
        self.limit: int | None = None
        # Deaths soon after the set-up: of connections that were resumed, and of fresh ones.
        self._resumed_deaths = self._fresh_deaths = 0
        # Refusals of fresh set-ups that were as plain as can be.
        self._bare_refusals = 0
        # Since when every dial with this handle was closed, for no reason of the handle's.
        self._refused_since: float | None = None

    @property
    def form(self) -> FormT:
        """How a fresh connection is told the history."""
        return self._forms[0]

    def next_form(self) -> bool:
        """This form was refused; whether there is a plainer one, which is taken from now on."""
        if len(self._forms) == 1:
            return False
        del self._forms[0]
        return True

    def receive(self, fact: ConnectionEnded | HistoryUntold) -> LeftOut:
        """Take a fact; returns what the next connection does without."""
        match fact:
            case ConnectionEnded():
                return self._ended(fact)
            case HistoryUntold():
                return self._untold(fact)
            case _:
                assert_never(fact)

    def _untold(self, fact: HistoryUntold) -> LeftOut:
        if self.limit == 0:
            return LeftOut(handle=True, hopeless=True)
        self.limit = (fact.items if self.limit is None else self.limit) // TOLD_LESS_BY
        return LeftOut(handle=True)

    def _ended(self, fact: ConnectionEnded) -> LeftOut:
        if fact.finished:
            self.limit = None
        soon = not fact.finished and not _lasted(fact)
        if not soon:
            self._resumed_deaths = self._fresh_deaths = self._bare_refusals = 0
        elif fact.set_up_at is not None:
            self._resumed_deaths += fact.resumed
            self._fresh_deaths += not fact.resumed
        refused = soon and fact.blames != "nothing"
        stuck = self._is_stuck(fact)
        if not fact.resumed:
            return self._fresh_ended(fact, refused=refused)
        rejected = refused or stuck or self._resumed_deaths >= POISONED_AFTER
        if rejected:
            self._resumed_deaths = 0
        return LeftOut(handle=rejected, rejected=rejected, audio=fact.blames == "something")

    def _is_stuck(self, fact: ConnectionEnded) -> bool:
        """Whether the provider has closed every dial with this handle for a while, for no reason of
        the handle's: it may take the connection before for open still, which it never will again.
        """
        if not fact.resumed or fact.set_up_at is not None:
            self._refused_since = None
            return False
        if not fact.closed:
            return False
        if self._refused_since is None:
            self._refused_since = fact.at
        return fact.at - self._refused_since >= POISONED_WITHIN_S

    def _fresh_ended(self, fact: ConnectionEnded, *, refused: bool) -> LeftOut:
        invalid = fact.blames == "something"
        if fact.set_up_at is None:
            return LeftOut(audio=invalid, hopeless=invalid and not self._simplify(fact))
        if fact.understood:
            # It took what it was told, so it was something that came after.
            return LeftOut(audio=invalid)
        if invalid and (refused or fact.told):
            # It was the history, or the audio, or else the set-up itself; what handle it may have
            # issued stands for nothing.
            if fact.told:
                self._tell_less(fact)
                return LeftOut(handle=True, audio=True)
            return LeftOut(handle=True, audio=True, hopeless=not self._simplify(fact))
        if self._fresh_deaths >= POISONED_AFTER and fact.told and fact.closed:
            self._fresh_deaths = 0
            self.next_form()
        return LeftOut(audio=invalid)

    def _tell_less(self, fact: ConnectionEnded) -> None:
        """The history was refused in this form: take a plainer one, or else part of it."""
        if not self.next_form():
            self.limit = (fact.in_set_up or fact.told) // TOLD_LESS_BY

    def _simplify(self, fact: ConnectionEnded) -> bool:
        """A fresh connection was refused that was told nothing yet: drop what is in its set-up.

        Returns:
            Whether there was anything, or the same was taken before and may be once more.
        """
        if self.form == self._announcing and self.next_form():
            return True
        if not self.plain_set_up:
            self.plain_set_up = True
            return True
        if fact.announced or fact.in_set_up:
            self._tell_less(fact)
            return True
        self._bare_refusals += 1
        return fact.was_connected and self._bare_refusals == 1


def _lasted(fact: ConnectionEnded) -> bool:
    """Whether it served for so long that its end has nothing to do with what it was told."""
    return fact.set_up_at is not None and fact.at - fact.set_up_at >= POISONED_WITHIN_S
