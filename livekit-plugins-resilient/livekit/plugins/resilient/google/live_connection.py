"""One connection to Gemini: dialled up to the answer to its set-up, closed within a bound."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..core.limits import CLOSE_TIMEOUT_S
from .live_session import LiveSession

if TYPE_CHECKING:
    from google.genai import Client, types

    from .hedge import Hedge

__all__ = ["LiveConnection", "dial"]


class LiveConnection:
    """A connection that is set up.

    Attributes:
        live: The session on it.
        resumed: Whether it was restored from a handle.
        set_up_at: When it was set up, in monotonic seconds.
        answers: Whether it was told what it answers by itself.
        hedge: What it was told and asked, where it was asked beside another; until it serves.
    """

    def __init__(self, live: LiveSession, stack: AsyncExitStack, *, resumed: bool) -> None:
        self.live = live
        self.resumed = resumed
        self.set_up_at = asyncio.get_running_loop().time()
        self.answers = False
        self.hedge: Hedge | None = None
        self._stack = stack

    @property
    def has_answered(self) -> bool:
        """Whether the server has said anything, as it does in setting up."""
        return True

    def abort(self) -> None:
        """Cut the socket."""
        self.live.abort()

    async def close(self) -> None:
        """Close the connection and wait for its end; never raises."""
        try:
            await self.live.close()
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._stack.aclose(), CLOSE_TIMEOUT_S)


async def dial(
    client: Client,
    model: str,
    config: types.LiveConnectConfig,
) -> LiveConnection:
    """Connect and set a session up: from TCP to the server's answer to the set-up.

    Args:
        client: The session's own.
        model: By its name.
        config: The set-up; a handle in it is resumed.

    Raises:
        Exception: What the client library raises when it is refused.
    """
    resumption = config.session_resumption
    stack = AsyncExitStack()
    entering = stack.enter_async_context(client.aio.live.connect(model=model, config=config))
    try:
        live = LiveSession(await entering)
    except BaseException:
        await stack.aclose()  # it may have come up just as it was given up
        raise
    return LiveConnection(live, stack, resumed=bool(resumption is not None and resumption.handle))
