"""Finds the `AgentSession` behind a realtime session, for what only the application's side knows.

There is no public way from one to the other. Where this stops working, nothing breaks: playback is
taken from the frames that were consumed, and the session's own record stays as upstream writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livekit import rtc

__all__ = ["agent_session_of", "listen_first"]


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
