"""The simulated OpenAI Realtime server."""

from __future__ import annotations

from .conversation import Item
from .script import Incomplete, Messages
from .server import OpenAIRealtimeServer
from .session import Session
from .times import OpenAITimes

__all__ = ["Incomplete", "Item", "Messages", "OpenAIRealtimeServer", "OpenAITimes", "Session"]
