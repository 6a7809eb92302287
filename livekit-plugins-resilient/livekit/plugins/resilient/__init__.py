"""LiveKit realtime plugins whose calls survive dropped connections.

Swap the import and keep the rest of the agent: `resilient.google.realtime.RealtimeModel`,
`resilient.openai.realtime.RealtimeModel`, `resilient.xai.realtime.RealtimeModel` and
`resilient.inference.RealtimeModel` take every keyword of their upstream counterparts, and
`resilience=ResilienceOptions(...)` besides.

Import this on the main thread, as every LiveKit plugin must be: importing registers it. `xai`
needs the extra of that name, and is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from livekit.agents import Plugin

from . import events, google, inference, openai
from .errors import MissingPluginError, OptionError, ResilienceError
from .options import ResilienceOptions
from .runtime.log import logger
from .version import __version__

if TYPE_CHECKING:
    from . import xai as xai

__all__ = [
    "MissingPluginError",
    "OptionError",
    "ResilienceError",
    "ResilienceOptions",
    "__version__",
    "events",
    "google",
    "inference",
    "openai",
]


def __getattr__(name: str) -> Any:
    # Upstream's plugin for xAI is optional, and registers itself when it is imported.
    if name == "xai":
        return import_module(".xai", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _ResilientPlugin(Plugin):
    def __init__(self) -> None:
        super().__init__(title=__name__, version=__version__, package=__name__, logger=logger)


Plugin.register_plugin(_ResilientPlugin())
