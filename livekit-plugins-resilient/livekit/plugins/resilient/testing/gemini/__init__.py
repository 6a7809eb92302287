"""The Gemini Live simulator."""

from .rules import FAMILIES, FamilyRules
from .server import GeminiLiveServer
from .session import HistoryEntry, Session, Snapshot

__all__ = [
    "FAMILIES",
    "FamilyRules",
    "GeminiLiveServer",
    "HistoryEntry",
    "Session",
    "Snapshot",
]
