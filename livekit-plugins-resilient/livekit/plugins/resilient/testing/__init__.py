"""Simulated realtime providers, faults and a headless call, to test voice agents against drops.

Importing this package is cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import missing_dependency

if TYPE_CHECKING:
    from .clock import Clock
    from .fault_plan import load_plan, parse_plan
    from .recording import CloseInfo, Dial, Frame, Recording
    from .script import NoReply, Reply, Script, ToolCall, ToolCalls, TurnRequest, Word

__all__ = [
    "Clock",
    "CloseInfo",
    "Dial",
    "Frame",
    "NoReply",
    "Recording",
    "Reply",
    "Script",
    "ToolCall",
    "ToolCalls",
    "TurnRequest",
    "Word",
    "load_plan",
    "parse_plan",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "clock": ("Clock",),
    "fault_plan": ("load_plan", "parse_plan"),
    "recording": ("CloseInfo", "Dial", "Frame", "Recording"),
    "script": ("NoReply", "Reply", "Script", "ToolCall", "ToolCalls", "TurnRequest", "Word"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_OPTIONAL = frozenset({"trustme", "websockets"})


def __getattr__(name: str) -> Any:
    if name in ("audio", "faults"):
        return importlib.import_module(f".{name}", __name__)
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{module}", __name__), name)
    except ModuleNotFoundError as exc:
        if exc.name in _OPTIONAL:
            raise missing_dependency(exc.name, f"{__name__}.{name}") from None
        raise


def __dir__() -> list[str]:
    return sorted([*__all__, "audio", "faults"])
