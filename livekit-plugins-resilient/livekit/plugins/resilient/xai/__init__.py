"""xAI Grok Voice with resilience: `xai.realtime.RealtimeModel`, and the rest of upstream's plugin.

Needs livekit-plugins-xai, which the extra `xai` of this package brings. Import it on the main
thread, as every LiveKit plugin must be: importing it registers upstream's plugin.

Raises:
    MissingPluginError: livekit-plugins-xai is not installed.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MissingPluginError

try:
    import livekit.plugins.xai as _upstream
except ModuleNotFoundError as e:
    if e.name != "livekit.plugins.xai":
        raise
    raise MissingPluginError("livekit-plugins-xai", extra="xai") from e

from . import realtime

if TYPE_CHECKING:
    from livekit.plugins.xai import (
        STT,
        TTS,
        FileSearch,
        GrokRealtimeModels,
        GrokVoices,
        STTLanguages,
        TTSLanguages,
        WebSearch,
        XSearch,
        responses,
    )

__all__ = [
    "STT",
    "TTS",
    "FileSearch",
    "GrokRealtimeModels",
    "GrokVoices",
    "STTLanguages",
    "TTSLanguages",
    "WebSearch",
    "XSearch",
    "realtime",
    "responses",
]


def __getattr__(name: str) -> Any:
    # What is not replaced here is upstream's own.
    return getattr(_upstream, name)
