"""Whatever happens in whatever order, the server knows each item once, and in order (R5, R6, R7).

The same runs against upstream's model lose or double items; `test_upstream_does_not` holds one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from livekit.agents import function_tool, llm
from livekit.plugins.google.realtime import RealtimeModel as UpstreamModel

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    GeminiLiveServer,
    GoAway,
    LateHandle,
    NoReply,
    OnConnection,
    Refuse,
    StaleHandle,
)

pytestmark = pytest.mark.virtual_time

STEPS = 14
# Further apart than what makes it doubtful whether a handle stands for an item.
PAUSE_S = 0.6
# Pauses: longer than the longest backoff.
PATIENCE = 50


class Story:
    """One session to which things happen; every item is a text of its own."""

    def __init__(self, server: GeminiLiveServer, session: Any, dice: random.Random) -> None:
        self.server, self.session, self.dice = server, session, dice
        self.texts: list[str] = []
        self.record = llm.ChatContext.empty()

    async def update(self) -> None:
        """The application adds one or two items."""
        for _ in range(self.dice.choice((1, 2))):
            text = f"item-{len(self.texts):02d}"
            self.texts.append(text)
            self.record.add_message(role=self.dice.choice(("user", "assistant")), content=text)
        await self.session.update_chat_ctx(self.record.copy())

    async def handle(self) -> None:
        """The server issues a handle for what it knows; not so soon after it was told something
        that nobody could say whether the handle stands for that."""
        await asyncio.sleep(max(0.0, self.told_at() + PAUSE_S - asyncio.get_running_loop().time()))
        for connection in list(self.server.session.lineage.connections):
            if connection.is_open:
                connection.handles.offer()

    async def drop(self) -> None:
        await self.server.do(Abort())

    async def update_and_drop(self) -> None:
        """The socket breaks with items queued, some of them perhaps on their way."""
        await self.update()
        if self.dice.random() < 0.5:
            await asyncio.sleep(0)
        await self.server.do(Abort())
        await self.update()

    async def fail_sending(self) -> None:
        """The socket breaks with several items queued behind one another."""
        live = self.session._active_session
        if live is not None:
            live._ws.send = broken_pipe
        await self.update()
        await self.update()

    async def go_away(self) -> None:
        await self.server.do(GoAway(5.0))

    async def restart(self) -> None:
        """The application changes the tools, which takes a new connection."""

        @function_tool(name=f"tool_{self.dice.randrange(10**6)}")
        async def tool() -> str:
            """Do something."""
            return ""

        await self.session.update_tools([tool])

    async def refuse(self) -> None:
        """The next dials fail, or the handle is refused."""
        following = len(self.server.dials()) + 1
        fault = self.dice.choice((Refuse(503), StaleHandle("before_setup"), LateHandle(0.2)))
        self.server.inject(Fault(OnConnection(following), fault))
        await self.server.do(Abort())

    async def run(self) -> None:
        steps: list[Callable[[], Any]] = [
            self.update,
            self.update,
            self.update_and_drop,
            self.fail_sending,
            self.handle,
            self.drop,
            self.go_away,
            self.restart,
            self.refuse,
        ]
        for _ in range(STEPS):
            await self.dice.choice(steps)()
            await asyncio.sleep(PAUSE_S * self.dice.choice((0, 1, 3)) or PAUSE_S)
        await self.update()
        for _ in range(PATIENCE):
            if self.texts[-1] in self.known():
                return
            await asyncio.sleep(PAUSE_S)

    def told_at(self) -> float:
        frames = self.server.recording.frames("clientContent")
        return frames[-1].at if frames else 0.0

    def known(self) -> list[str]:
        return [
            word
            for text in self.server.session.texts()
            for word in text.split()
            if word.startswith("item-")
        ]


async def broken_pipe(*_: object) -> None:
    raise BrokenPipeError


async def tell(model_class: type[Any], seed: int) -> Story:
    async with GeminiLiveServer(default_reply=NoReply(), strict=True, family="3.8") as server:
        session = model_class(**server.model_kwargs()).session()
        session.on("error", lambda _: None)
        try:
            await server.wait_for("setupComplete")
            random.seed(seed)  # the backoff's jitter
            story = Story(server, session, random.Random(seed))
            await story.run()
            return story
        finally:
            await session.aclose()


@pytest.mark.parametrize("seed", range(40))
async def test_the_server_knows_each_item_once_and_in_order(seed: int) -> None:
    story = await tell(RealtimeModel, seed)
    assert story.known() == story.texts


async def test_upstream_does_not() -> None:
    story = await tell(UpstreamModel, 0)
    assert story.known() != story.texts
