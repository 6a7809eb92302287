"""The sans-I/O core: what is owed to the caller, and when to stop waiting.

Read `facts` and `decisions` first, then `state` (the two tables) and `conversation`. Nothing here
knows a provider, a socket, a task or a clock.
"""

from __future__ import annotations

from .conversation import Conversation, IllegalFactError
from .decisions import Decision
from .facts import Fact
from .limits import Bounds

__all__ = ["Bounds", "Conversation", "Decision", "Fact", "IllegalFactError"]
