"""More than one agent: handoff out of a tool, and a task within a conversation."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient.testing import Reply, ToolCall
from tests.healthy import steps, twists
from tests.healthy.parts import Colleague, Desk
from tests.healthy.script import PLAIN, Situation, add
from tests.scenarios.stage import Stage


async def handoff(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await steps.tool_runs(stage)
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask(1.0)


async def app_changes_agents(stage: Stage[Any]) -> None:
    await stage.greet()
    stage.call.session.update_agent(Colleague())
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask(1.0)


async def task(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await stage.next_segment()
    await stage.rest(1.0)
    await stage.call.say(1.0)
    await steps.tool_runs(stage, 2)
    await stage.rest(6.0)
    await stage.call.agent_done()
    await stage.ask(1.0)


HELLO = Reply("Hello, how can I help?")

add(
    Situation(
        name="handoff",
        group="agents",
        sentence="A tool hands the caller over to another agent",
        run=handoff,
        server={"replies": [HELLO, ToolCall("transfer", say_first="I will put you through.")]},
        agent=Desk,
    ),
    PLAIN,
    *twists.before_the_call(7),
    *twists.mid_reply(6, at_s=1.2, nth=3),
)
add(
    Situation(
        name="change-of-agent",
        group="agents",
        sentence="The app puts another agent in charge",
        run=app_changes_agents,
        agent=Desk,
    ),
    PLAIN,
    *twists.before_the_answer(10),
)
add(
    Situation(
        name="task",
        group="agents",
        sentence="A tool has a task ask the caller for a name",
        run=task,
        server={
            "replies": [
                HELLO,
                ToolCall("ask_name"),
                Reply("What is your name?"),
                ToolCall("name_is", {"name": "Ada"}),
            ]
        },
        agent=Desk,
    ),
    PLAIN,
    *twists.before_the_call(8, after_words=False),
)
