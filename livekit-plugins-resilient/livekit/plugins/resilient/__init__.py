"""LiveKit realtime plugins whose calls survive dropped connections.

Swap the import and keep the rest of the agent: `resilient.google.realtime.RealtimeModel`,
`resilient.openai.realtime.RealtimeModel` and `resilient.inference.RealtimeModel` take every
keyword of their upstream counterparts, and `resilience=ResilienceOptions(...)` besides.

Import this on the main thread, as every LiveKit plugin must be: importing registers it.
"""

from livekit.agents import Plugin

from . import events, google, inference, openai
from .errors import OptionError, ResilienceError
from .log import logger
from .options import ResilienceOptions
from .version import __version__

__all__ = [
    "OptionError",
    "ResilienceError",
    "ResilienceOptions",
    "__version__",
    "events",
    "google",
    "inference",
    "openai",
]


class _ResilientPlugin(Plugin):
    def __init__(self) -> None:
        super().__init__(title=__name__, version=__version__, package=__name__, logger=logger)


Plugin.register_plugin(_ResilientPlugin())
