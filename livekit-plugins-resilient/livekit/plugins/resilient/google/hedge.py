"""What a connection that is asked beside was told and asked, and when it has answered (R24)."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .turn_signs import ending_of, holds_output

if TYPE_CHECKING:
    from ..runtime.driver import HedgeRequest
    from .live_session import LiveSession
    from .seed import Seed

__all__ = ["Hedge", "UnansweredError"]


class UnansweredError(Exception):
    """A hedge gave nothing, or there was nothing to ask it."""


@dataclass(frozen=True, slots=True)
class Hedge:
    """A connection that was asked for what another one owes.

    Attributes:
        seed: What it was told.
        request: What it was asked for.
        dialled_in_s: Seconds that its dial took, up to the answer to the set-up.
    """

    seed: Seed
    request: HedgeRequest
    dialled_in_s: float

    async def answered(self, live: LiveSession, *, speaks: bool) -> None:
        """Read ahead until output of the answer came.

        Args:
            live: The session on it, which keeps what is read.
            speaks: Whether replies are spoken, so that their text is no output.

        Raises:
            UnansweredError: The turn ended without any.
            Exception: The connection was lost.
        """
        async with aclosing(live.read_ahead()) as messages:
            async for message in messages:
                self.seed.take_handle(message)
                if holds_output(message, speaks=speaks):
                    return
                content = message.server_content
                ends = content is not None and content.turn_complete
                if content is not None and ends and ending_of(content) != "continued":
                    break
        raise UnansweredError("a hedge gave no output")
