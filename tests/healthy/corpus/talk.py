"""Greeting, turns, and a tool after a few words."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient.testing import ToolCall
from tests.healthy import twists
from tests.healthy.script import PLAIN, Situation, add
from tests.scenarios.stage import Stage

WEATHER = {"city": "Paris"}
LOOK = "Let me look that up for you now."


async def greeting(stage: Stage[Any]) -> None:
    await stage.greet()


async def turns(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.ask(1.0)
    await stage.rest(2.0)
    await stage.ask(1.5)


async def tool(stage: Stage[Any]) -> None:
    call = stage.call
    await call.say(1.0)
    await call.until(lambda: any(run.ended_at for run in call.tools), what="the tool's end")
    await stage.next_segment()
    await call.agent_done()
    await stage.ask(1.0)


add(
    Situation(
        name="greeting", group="greeting", sentence="The app asks for a greeting", run=greeting
    ),
    PLAIN,
    *twists.mid_reply(2, 5, 8, 20),
    *twists.before_the_end(2, 6, 20),
)
add(
    Situation(
        name="turns",
        group="turns",
        sentence="The app greets, and the caller asks twice",
        run=turns,
        flavours=("azure", "azure-legacy", "inference"),
    ),
    PLAIN,
    *twists.before_the_answer(4, 9, 16, 20),
)
add(
    Situation(
        name="tool",
        group="tools",
        sentence="The model announces a look-up and calls a tool",
        run=tool,
        server={"replies": [ToolCall("get_weather", WEATHER, say_first=LOOK)]},
    ),
    PLAIN,
    *twists.before_the_call(2, 6, 8, 20),
)
