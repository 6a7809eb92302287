"""The Gemini Live simulator."""

from .rules import FAMILIES, FamilyRules
from .script import CaptionsOnly
from .server import GeminiLiveServer
from .session import HistoryEntry, Session, Snapshot
from .times import GeminiTimes

__all__ = [
    "FAMILIES",
    "CaptionsOnly",
    "FamilyRules",
    "GeminiLiveServer",
    "GeminiTimes",
    "HistoryEntry",
    "Session",
    "Snapshot",
]
