"""One cut call per provider with the package as it is installed, against simulated servers.

Stands alone: the environment it runs in has the package with its extra `testing`, and nothing of
the checkout. Prints one JSON object; ends with 1 when a call did not survive.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

from livekit.agents import llm  # noqa: E402
from livekit.plugins import google, openai, resilient  # noqa: E402

from livekit.plugins.resilient.testing import (  # noqa: E402
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
)

SAID = ("Good day, this is the parcel service.", "This is the parcel service.")


def _server(name: str) -> AbstractAsyncContextManager[Any]:
    cut = [Fault(AtAudio(position_s=1.0), Abort())]
    if name == "google":
        return GeminiLiveServer(list(SAID), faults=cut)
    return OpenAIRealtimeServer(list(SAID), faults=cut)


def _model(name: str, server: Any) -> llm.RealtimeModel:
    family: Any = getattr(resilient, name)
    model: llm.RealtimeModel = family.realtime.RealtimeModel(**server.model_kwargs())
    return model


async def _call(name: str) -> dict[str, object]:
    """A reply is cut after a second; the caller must hear the rest over a second connection."""
    async with _server(name) as server, HeadlessCall(_model(name, server)) as call:
        await call.generate_reply(instructions="Greet the caller.", wait=False)
        await call.until(lambda: len(call.heard.segments) == 2, what="the rest of the greeting")
        await call.agent_done()
        dials = len(server.dials())
        return {"dials": dials, "heard": len(call.heard.segments), "survived": dials == 2}


async def _all() -> dict[str, Any]:
    return {name: await _call(name) for name in ("google", "openai")}


def main() -> int:
    """Run both calls and say what was imported from where."""
    result = {
        "version": resilient.__version__,
        "installed": version("livekit-plugins-resilient"),
        "agents": version("livekit-agents"),
        "file": str(Path(str(resilient.__file__)).resolve()),
        "prefix": str(Path(sys.prefix).resolve()),
        "upstream": [google.__name__, openai.__name__],
        "calls": asyncio.run(_all()),
    }
    print(json.dumps(result))
    calls: dict[str, dict[str, object]] = result["calls"]  # type: ignore[assignment]
    return 0 if all(call["survived"] for call in calls.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
