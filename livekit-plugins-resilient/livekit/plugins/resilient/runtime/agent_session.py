"""Finds the `AgentSession` behind a realtime session, for what only the application's side knows.

There is no public way from one to the other. Where this stops working, nothing breaks: playback is
taken from the frames that were consumed, and the session's own record stays as upstream writes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from livekit import rtc
from livekit.agents import ToolError
from livekit.agents.voice import tool_executor

from .awake import within
from .timer import Timer

__all__ = ["agent_session_of", "cancel_tool", "listen_first"]

# A tool begins as soon as its call has been read; one that has ended never does.
_TOOL_STARTS_WITHIN_S = 1.0


def agent_session_of(session: rtc.EventEmitter[Any]) -> Any:
    """The `AgentSession` that listens to a realtime session, also through a fallback adapter.

    Asks the listeners; None if it fails.
    """
    for listener in tuple(getattr(session, "_events", {}).get("error", ())):
        owner = getattr(listener, "__self__", None)
        for name in ("_session", "_agent_session"):
            found = getattr(owner, name, None)
            if hasattr(found, "output"):
                return found
    return None


def listen_first(emitter: rtc.EventEmitter[Any], event: str, callback: Callable[..., Any]) -> None:
    """Listen to an event ahead of those who listen already, so that they see it as changed.

    Where the order is not kept in a dictionary, `callback` is called in whatever order there is.
    """
    emitter.on(event, callback)
    listeners = getattr(emitter, "_events", {}).get(event)
    if isinstance(listeners, dict):
        others = [other for other in listeners if other != callback]
        listeners.clear()
        listeners.update(dict.fromkeys([callback, *others]))


async def cancel_tool(session: rtc.EventEmitter[Any], call_id: str, timer: Timer) -> None:
    """Stop the tool that runs or is about to run for a call.

    One that was not declared `ToolFlag.CANCELLABLE` may be in the middle of what must not be left
    half done: it runs on.
    """
    agent_session = agent_session_of(session)
    if agent_session is None:
        return
    running = getattr(tool_executor, "_RunningTasks", {})
    started = asyncio.Event()

    def look(_: object = None) -> None:
        if call_id in running.get(agent_session, {}):
            started.set()

    agent_session.on("tool_execution_updated", look)
    try:
        look()
        await within(started.wait(), _TOOL_STARTS_WITHIN_S, timer=timer)
        with contextlib.suppress(ToolError):
            await running[agent_session][call_id].executor.cancel(call_id)
    except (asyncio.TimeoutError, KeyError):
        pass  # it is over
    finally:
        agent_session.off("tool_execution_updated", look)
