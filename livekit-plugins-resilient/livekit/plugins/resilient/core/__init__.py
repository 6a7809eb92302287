"""The sans-I/O core: what is owed to the caller, and when to stop waiting.

Read `facts` and `decisions` first, then `state` (the two tables) and `turn`. Nothing here
knows a provider, a socket, a task or a clock.
"""

from __future__ import annotations

from .decisions import Decision
from .facts import Fact
from .limits import Bounds
from .turn import IllegalFactError, TurnMachine

__all__ = ["Bounds", "Decision", "Fact", "IllegalFactError", "TurnMachine"]
