"""Simulated realtime providers, faults and a headless call, to test voice agents against drops.

Importing this package is cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import missing_dependency

if TYPE_CHECKING:
    from .call import (
        HeadlessCall,
    )
    from .call_agent import (
        CallAgent,
    )
    from .clock import (
        Clock,
    )
    from .devices import (
        PacedSpeaker,
        ScriptedMicrophone,
    )
    from .errors import (
        AudioFileError,
        CallEndedError,
        FaultPlanError,
        MissingDependencyError,
        PortInUseError,
        ScriptError,
        ServerTimeoutError,
        SettingError,
        TestBedError,
    )
    from .fault_plan import (
        load_plan,
        parse_plan,
    )
    from .faults import (
        Abort,
        After,
        AtAudio,
        AtTime,
        Before,
        Blackhole,
        CallWithoutId,
        CancelCall,
        Close,
        ContinueAlone,
        Delay,
        Duplicate,
        EmptyHandle,
        EmptyTurns,
        FailResponse,
        Fault,
        Flap,
        GoAway,
        HangHandshake,
        IgnoreToolResponse,
        LateHandle,
        LateReply,
        Malformed,
        NoCloseAnswer,
        NoHandle,
        NoSetupAnswer,
        OnConnection,
        PhantomInterruption,
        PoisonHandle,
        Received,
        Refuse,
        RefuseOverlap,
        Reorder,
        RepeatCall,
        Send,
        SessionExpired,
        ShiftTranscript,
        Silence,
        SlowPong,
        StaleHandle,
        Swallow,
        TrailingAudio,
        UnknownMessage,
        UserStarts,
        UserStops,
        Wedge,
    )
    from .gemini import (
        FAMILIES,
        CaptionsOnly,
        FamilyRules,
        GeminiLiveServer,
        GeminiTimes,
    )
    from .heard import (
        HeardSegment,
        Span,
    )
    from .openai import (
        Incomplete,
        Messages,
        OpenAIRealtimeServer,
        OpenAITimes,
    )
    from .recording import (
        CloseInfo,
        Dial,
        Frame,
        Recording,
    )
    from .script import (
        NoReply,
        Reply,
        Script,
        ToolCall,
        ToolCalls,
        TurnRequest,
        Word,
    )
    from .threaded import (
        ThreadedServer,
    )
    from .virtual_time import (
        VirtualTimeHang,
        VirtualTimeLoop,
    )

__all__ = [
    "FAMILIES",
    "Abort",
    "After",
    "AtAudio",
    "AtTime",
    "AudioFileError",
    "Before",
    "Blackhole",
    "CallAgent",
    "CallEndedError",
    "CallWithoutId",
    "CancelCall",
    "CaptionsOnly",
    "Clock",
    "Close",
    "CloseInfo",
    "ContinueAlone",
    "Delay",
    "Dial",
    "Duplicate",
    "EmptyHandle",
    "EmptyTurns",
    "FailResponse",
    "FamilyRules",
    "Fault",
    "FaultPlanError",
    "Flap",
    "Frame",
    "GeminiLiveServer",
    "GeminiTimes",
    "GoAway",
    "HangHandshake",
    "HeadlessCall",
    "HeardSegment",
    "IgnoreToolResponse",
    "Incomplete",
    "LateHandle",
    "LateReply",
    "Malformed",
    "Messages",
    "MissingDependencyError",
    "NoCloseAnswer",
    "NoHandle",
    "NoReply",
    "NoSetupAnswer",
    "OnConnection",
    "OpenAIRealtimeServer",
    "OpenAITimes",
    "PacedSpeaker",
    "PhantomInterruption",
    "PoisonHandle",
    "PortInUseError",
    "Received",
    "Recording",
    "Refuse",
    "RefuseOverlap",
    "Reorder",
    "RepeatCall",
    "Reply",
    "Script",
    "ScriptError",
    "ScriptedMicrophone",
    "Send",
    "ServerTimeoutError",
    "SessionExpired",
    "SettingError",
    "ShiftTranscript",
    "Silence",
    "SlowPong",
    "Span",
    "StaleHandle",
    "Swallow",
    "TestBedError",
    "ThreadedServer",
    "ToolCall",
    "ToolCalls",
    "TrailingAudio",
    "TurnRequest",
    "UnknownMessage",
    "UserStarts",
    "UserStops",
    "VirtualTimeHang",
    "VirtualTimeLoop",
    "Wedge",
    "Word",
    "load_plan",
    "parse_plan",
]

_MODULES: dict[str, tuple[str, ...]] = {
    "call": ("HeadlessCall",),
    "call_agent": ("CallAgent",),
    "clock": ("Clock",),
    "devices": (
        "PacedSpeaker",
        "ScriptedMicrophone",
    ),
    "errors": (
        "AudioFileError",
        "CallEndedError",
        "FaultPlanError",
        "MissingDependencyError",
        "PortInUseError",
        "ScriptError",
        "ServerTimeoutError",
        "SettingError",
        "TestBedError",
    ),
    "fault_plan": (
        "load_plan",
        "parse_plan",
    ),
    "faults": (
        "Abort",
        "After",
        "AtAudio",
        "AtTime",
        "Before",
        "Blackhole",
        "CallWithoutId",
        "CancelCall",
        "Close",
        "ContinueAlone",
        "Delay",
        "Duplicate",
        "EmptyHandle",
        "EmptyTurns",
        "FailResponse",
        "Fault",
        "Flap",
        "GoAway",
        "HangHandshake",
        "IgnoreToolResponse",
        "LateHandle",
        "LateReply",
        "Malformed",
        "NoCloseAnswer",
        "NoHandle",
        "NoSetupAnswer",
        "OnConnection",
        "PhantomInterruption",
        "PoisonHandle",
        "Received",
        "Refuse",
        "RefuseOverlap",
        "Reorder",
        "RepeatCall",
        "Send",
        "SessionExpired",
        "ShiftTranscript",
        "Silence",
        "SlowPong",
        "StaleHandle",
        "Swallow",
        "TrailingAudio",
        "UnknownMessage",
        "UserStarts",
        "UserStops",
        "Wedge",
    ),
    "gemini": (
        "CaptionsOnly",
        "FAMILIES",
        "FamilyRules",
        "GeminiLiveServer",
        "GeminiTimes",
    ),
    "heard": (
        "HeardSegment",
        "Span",
    ),
    "openai": (
        "Incomplete",
        "Messages",
        "OpenAIRealtimeServer",
        "OpenAITimes",
    ),
    "recording": (
        "CloseInfo",
        "Dial",
        "Frame",
        "Recording",
    ),
    "script": (
        "NoReply",
        "Reply",
        "Script",
        "ToolCall",
        "ToolCalls",
        "TurnRequest",
        "Word",
    ),
    "threaded": ("ThreadedServer",),
    "virtual_time": (
        "VirtualTimeHang",
        "VirtualTimeLoop",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_OPTIONAL = frozenset({"trustme", "websockets"})
_SUBMODULES = ("audio", "faults", "virtual_time")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{module}", __name__), name)
    except ModuleNotFoundError as exc:
        library = (exc.name or "").partition(".")[0]  # an old one may lack a part
        if library in _OPTIONAL:
            raise missing_dependency(library, f"{__name__}.{name}") from None
        raise


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
