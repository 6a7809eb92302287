"""A loop that has something to do, and so does not wait for what is nearly due."""

from __future__ import annotations

import asyncio


def keep_busy(rounds: int) -> None:
    """Have the running loop do something in each of so many rounds."""
    if rounds:
        asyncio.get_running_loop().call_soon(keep_busy, rounds - 1)
