"""What a provider implements for the runner: to make a connection, to tell it the call, to carry
its messages, and to close it. No policy: when, how often and how long is decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from livekit.agents import APIConnectionError

if TYPE_CHECKING:
    from ..core import link_facts as f
    from ..owed_reply import Left
    from .driver import HedgeRequest

__all__ = ["Connection", "Connector", "EndedError", "Loss", "UntoldError"]


class EndedError(Exception):
    """The connection ended without an error."""


class UntoldError(APIConnectionError):
    """We could not make what a new connection is to be told: no dial cures that."""

    def __init__(self) -> None:
        super().__init__("a new connection could not be told the conversation")


class Connection(Protocol):
    """One connection to a provider."""

    @property
    def has_answered(self) -> bool:
        """Whether the provider has said anything on it."""

    def abort(self) -> None:
        """Cut it, without a handshake that a dead peer never answers."""

    async def close(self) -> None:
        """Close it within a bound; never raises, and may be called again."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What the loss of a connection, or of an attempt to make one, means.

    Attributes:
        error: What ended it, as the application is told.
        final: Whether no other connection can be had.
        at_once: Whether another model is to be left the call, if there is one.
    """

    error: Exception
    final: bool = False
    at_once: bool = False


ConnectionT = TypeVar("ConnectionT", bound=Connection)
SuccessorT = TypeVar("SuccessorT", bound=Connection)


class Connector(Protocol[ConnectionT, SuccessorT]):
    """A provider's part of the runner, for one session. Failures are raised."""

    @property
    def label(self) -> str:
        """The provider, for the application."""

    @property
    def greets(self) -> bool:
        """Whether a dial ends with the provider's first answer; else that comes while a new
        connection is restored, and the time of a dial is for both."""

    @property
    def switches_in_place(self) -> bool:
        """Whether `serve` goes on over a successor, so that nothing is awaited; else it ends, and
        the successor is restored and served like any other connection."""

    @property
    def foreign(self) -> tuple[type[BaseException], ...]:
        """Errors of the network and of the provider; others are ours."""

    @property
    def informative(self) -> type[Exception]:
        """Errors that tell the application more than that there is no connection."""

    @property
    def ping_every_s(self) -> float | None:
        """Seconds between two pings; None for none."""

    @property
    def knows_words(self) -> bool:
        """Whether another connection can be told all that the caller said."""

    async def dial(self) -> ConnectionT:
        """Make a connection; no other serves."""

    async def restore(self, connection: ConnectionT) -> None:
        """Tell a connection what it lacks, before anything else."""

    def serves(self, connection: ConnectionT) -> None:
        """It serves from now on."""

    async def serve(self, connection: ConnectionT) -> None:
        """Carry its messages; returns where the application wants another.

        Raises:
            Exception: It was lost.
        """

    async def ping(self, connection: ConnectionT) -> None:
        """Ping it."""

    async def dial_beside(self, timeout_s: float) -> SuccessorT:
        """Make a connection beside the one that serves, up to its first answer, in at most
        `timeout_s` seconds."""

    async def bring_up_to_date(self, successor: SuccessorT, leave_by: float) -> None:
        """Wait, at most until `leave_by` in monotonic seconds, for a moment in which it knows all
        that the one that serves knows."""

    async def dial_hedge(self, request: HedgeRequest, timeout_s: float) -> SuccessorT:
        """Make a connection beside the one that serves that owes nothing to it, tell it the call,
        and ask it; in at most `timeout_s` seconds."""

    async def answered(self, hedge: SuccessorT) -> None:
        """Wait until it gives output of the answer; what it brings is kept until it serves.

        Raises:
            Exception: It was lost.
        """

    def refuses_for_quota(self, error: Exception) -> bool:
        """Whether a hedge failed because the provider has no more for this account now."""

    def beside_failed(self, successor: SuccessorT | None, error: Exception) -> f.SuccessorFailed:
        """What it means that no connection could be made beside the one that serves.

        Args:
            successor: It, closed; None where it could not be dialled.
            error: What was raised.
        """

    def switch(self, connection: ConnectionT, successor: SuccessorT) -> Connection:
        """Have the successor serve instead; returns the connection that is to be closed."""

    def ended(self, connection: ConnectionT, error: Exception | None, *, left: bool) -> None:
        """It serves no more.

        Args:
            connection: It.
            error: What ended it; None where we did.
            left: Whether it was left for the next one, as decided here.
        """

    def lost(self, connection: ConnectionT | None, error: Exception) -> Loss | None:
        """What a loss means; drops from the next connection what may be why.

        Args:
            connection: None where it could not be made.
            error: What was raised.

        Returns:
            None where it had served its time, so that the next one is no failure.
        """

    def settle(self) -> None:
        """Nobody is to be left waiting: the session is over."""

    def left(self) -> Left:
        """What is left to another model."""

    def emit_error(self, error: Exception, *, recoverable: bool) -> None:
        """Tell the application."""
