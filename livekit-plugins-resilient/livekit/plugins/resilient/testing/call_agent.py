"""The agent and the captions of a `HeadlessCall`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from livekit.agents import Agent, llm
from livekit.agents.llm import function_tool
from livekit.agents.voice import io

from .changes import Changes


class CallAgent(Agent):
    """An agent with one tool, `get_weather(city)`.

    Args:
        instructions: the system prompt.
        tools: more tools.
        weather: what the tool returns, or a callable that is given the city.
        tool_delay_s: how long the tool takes.
    """

    def __init__(
        self,
        *,
        instructions: str = "Be brief.",
        tools: Sequence[llm.Tool | llm.Toolset] = (),
        weather: str | Callable[[str], str] = "sunny",
        tool_delay_s: float = 0.0,
    ) -> None:
        super().__init__(instructions=instructions, tools=list(tools))
        self.weather = weather
        self.tool_delay_s = tool_delay_s

    @function_tool
    async def get_weather(self, city: str) -> str:
        """Tell the weather in a city."""
        await asyncio.sleep(self.tool_delay_s)
        return self.weather if isinstance(self.weather, str) else self.weather(city)


class Captions(io.TextOutput):
    """What the agent's transcript said, with loop times, one text per segment."""

    def __init__(self, changes: Changes) -> None:
        super().__init__(label="captions", next_in_chain=None)
        self.pieces: list[tuple[float, str]] = []
        self.segments: list[str] = []
        self._open: list[str] = []
        self._changes = changes

    async def capture_text(self, text: str) -> None:
        self.pieces.append((asyncio.get_running_loop().time(), str(text)))
        self._open.append(str(text))
        self._changes.notify()

    def flush(self) -> None:
        if self._open:
            self.segments.append("".join(self._open))
            self._open = []
            self._changes.notify()
