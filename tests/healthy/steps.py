"""What the scripts' calls are made of."""

from __future__ import annotations

import asyncio
from typing import Any

from livekit.plugins.resilient.testing import Send
from tests.scenarios.stage import Stage

from .parts import Desk, stall


async def converse(stage: Stage[Any]) -> None:
    """The app greets, and the caller asks twice."""
    await stage.greet()
    await stage.ask(1.0)
    await stage.rest(2.0)
    await stage.ask(1.5)


async def tool_runs(stage: Stage[Any], count: int = 1) -> None:
    """Wait until `count` tools have ended."""
    call = stage.call
    await call.until(
        lambda: sum(run.ended_at is not None for run in call.tools) >= count,
        timeout_s=120,
        what=f"the end of {count} tools",
    )


async def after(stage: Stage[Any], seconds: float) -> None:
    """Let time pass; unlike `Stage.rest` without looking at the call."""
    await asyncio.sleep(seconds)


async def told(stage: Stage[Any], *messages: dict[str, Any]) -> None:
    """Have the server send messages as they are, now."""
    await stage.server.do(*(Send(message) for message in messages))


def blocked(stage: Stage[Any], after_s: float, seconds: float) -> None:
    """Block the client's event loop for `seconds`, `after_s` from now."""
    asyncio.get_running_loop().call_later(after_s, stall, seconds, stage.server)


def desk(stage: Stage[Any]) -> Desk:
    """The agent of the call, which now knows its server."""
    agent = stage.call.agent
    assert isinstance(agent, Desk)
    agent.server = stage.server
    return agent
