"""The sans-I/O core: what is owed to the caller, and when to stop waiting.

Read `facts` and `decisions` first, then `state` and `generation` (the two tables) and `turn`: what
a fact does. What falls due by time is in `rules`. `link` is the other machine: the connection.
Nothing here knows a provider, a socket, a task or a clock.
"""

from __future__ import annotations

from .decisions import Decision
from .facts import Fact
from .limits import Bounds
from .turn import IllegalFactError, TurnMachine

__all__ = ["Bounds", "Decision", "Fact", "IllegalFactError", "TurnMachine"]
