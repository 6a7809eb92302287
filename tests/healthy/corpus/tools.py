"""Tools: slow, parallel, failing, silent; slow arguments; what is said before and after."""

from __future__ import annotations

from typing import Any

from google.genai import types

from livekit.plugins.resilient.testing import Before, Messages, Reply, ToolCall, ToolCalls
from tests.healthy import steps, twists
from tests.healthy.parts import Desk
from tests.healthy.script import PLAIN, Situation, Twist, add
from tests.scenarios.lines import STORY, TOLD
from tests.scenarios.stage import Stage

WEATHER = {"city": "Paris"}
LOOK = "Let me look that up for you now."
CALL = ToolCall("get_weather", WEATHER, say_first=LOOK)
BARE = ToolCall("get_weather", WEATHER)


async def tool(stage: Stage[Any]) -> None:
    await stage.call.say(1.0)
    await steps.tool_runs(stage)
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask(1.0)


async def two_tools(stage: Stage[Any]) -> None:
    await stage.call.say(1.0)
    await steps.tool_runs(stage, 2)
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask(1.0)


async def tool_on_request(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell the caller the weather.", wait=False)
    await steps.tool_runs(stage)
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask(1.0)


async def silent_tool(stage: Stage[Any]) -> None:
    await stage.call.say(1.0)
    await steps.tool_runs(stage)
    await stage.rest(6.0)
    await stage.ask(1.0)


async def caller_speaks_during_a_tool(stage: Stage[Any]) -> None:
    await stage.call.say(1.0)
    await stage.call.until(lambda: stage.call.tools, what="the tool's start")
    await stage.rest(1.0)
    await stage.call.say(1.0)
    await steps.tool_runs(stage)
    await stage.rest(6.0)
    await stage.ask(1.0)


add(
    Situation(
        name="tool",
        group="tools",
        sentence="The model announces a look-up and calls a tool",
        run=tool,
        server={"replies": [CALL]},
    ),
    PLAIN,
    *twists.before_the_call(2, 6, 8, 10, 20),
    *twists.in_arguments(6, 12),
    *twists.before_the_end(6),
    *twists.after_the_result(4, 8, 16),
    *twists.before_the_response(8, nth=2),
    *twists.mid_reply(6),
)
add(
    Situation(
        name="bare-tool",
        group="tools",
        sentence="The model calls a tool without a word",
        run=tool,
        server={"replies": [BARE]},
    ),
    PLAIN,
    *twists.before_the_call(6, 13, 20, after_words=False),
    *twists.in_arguments(10),
    *twists.after_the_result(9, 20, item=2),
)
add(
    Situation(
        name="requested-tool",
        group="tools",
        sentence="The app asks for a reply that needs a tool",
        run=tool_on_request,
        server={"replies": [CALL]},
    ),
    PLAIN,
    *twists.before_the_call(7),
)
for seconds in (3, 12, 40):
    add(
        Situation(
            name=f"slow-tool-{seconds}s",
            group="tools",
            sentence=f"The tool takes {seconds} s",
            run=tool,
            server={"replies": [CALL]},
            agent=lambda seconds=seconds: Desk(tool_delay_s=seconds),  # type: ignore[misc]
        ),
        PLAIN,
        *(twists.after_the_result(8) if seconds == 12 else ()),
    )
add(
    Situation(
        name="parallel-tools",
        group="tools",
        sentence="The model calls two tools at once",
        run=two_tools,
        server={"replies": [ToolCalls((BARE, ToolCall("get_time", WEATHER)), say_first=LOOK)]},
        agent=lambda: Desk(tool_delay_s=3.0),
    ),
    PLAIN,
    *twists.before_the_call(8),
    *twists.pauses(
        "between-the-calls",
        "between the two calls",
        (6,),
        {"openai": Before("response.output_item.added", nth=3)},
    ),
)
add(
    Situation(
        name="tool-chain",
        group="tools",
        sentence="The model calls a tool, and another when it has the result",
        run=two_tools,
        server={"replies": [CALL, ToolCall("get_time", WEATHER, say_first="And the time.")]},
        agent=Desk,
    ),
    PLAIN,
    *twists.after_the_result(7),
)
for name, call in (
    ("failing", ToolCall("book", {"day": "Monday"})),
    ("crashing", ToolCall("crash")),
):
    add(
        Situation(
            name=f"{name}-tool",
            group="tools",
            sentence="The tool fails, and the model says so",
            run=tool,
            server={"replies": [call, Reply("I am sorry, that did not work.")]},
            agent=Desk,
        ),
        PLAIN,
        *twists.after_the_result(9, item=2),
    )
add(
    Situation(
        name="silent-tool",
        group="tools",
        sentence="The tool's result wants no reply",
        run=silent_tool,
        server={"replies": [ToolCall("note", {"text": "table for two"}, say_first="I note that.")]},
        agent=Desk,
    ),
    PLAIN,
)
add(
    Situation(
        name="asynchronous-tool",
        group="tools",
        sentence="The model goes on talking while the tool runs",
        run=tool,
        providers=("gemini",),
        server={
            "replies": [
                ToolCall(
                    "get_weather", WEATHER, say_first=LOOK, trailing_text="One moment please."
                ),
                TOLD,
            ]
        },
        model={"tool_behavior": types.Behavior.NON_BLOCKING},
        agent=lambda: Desk(tool_delay_s=6.0),
    ),
    PLAIN,
    *twists.before_the_call(6),
    # No pause after the result: upstream gives the first answer a second time, which the simulated
    # model answers as well.
)
add(
    Situation(
        name="background-tool",
        group="tools",
        sentence="The tool does not block the model, which says no more until it has the result",
        run=tool,
        providers=("gemini",),
        server={"replies": [CALL, TOLD]},
        model={"tool_behavior": types.Behavior.NON_BLOCKING},
        agent=lambda: Desk(tool_delay_s=6.0),
    ),
    PLAIN,
    *twists.before_the_call(6),
    *twists.after_the_result(8),
)
add(
    Situation(
        name="words-after-a-call",
        group="tools",
        sentence="The model speaks again after its call, in the same turn",
        run=tool,
        # On Gemini upstream takes such words for a turn that interrupts the tool.
        providers=("openai",),
        server={"replies": [ToolCall("get_weather", WEATHER, trailing_text="One moment please.")]},
        agent=lambda: Desk(tool_delay_s=4.0),
    ),
    PLAIN,
)
add(
    Situation(
        name="second-message",
        group="tools",
        sentence="The reply is two messages",
        run=steps.converse,
        providers=("openai",),
        server={"replies": [Messages.of("Let me think about it.", "It is a fine day to go out.")]},
    ),
    PLAIN,
    *twists.pauses(
        "late",
        "before the second",
        (2, 6, 10, 20),
        {"openai": Before("response.output_item.added", nth=2)},
    ),
)
add(
    Situation(
        name="search-of-its-own",
        group="tools",
        sentence="The model searches by itself in the middle of its reply",
        run=steps.converse,
        server={"replies": [STORY]},
    ),
    *(
        Twist(
            name=f"{pause}s",
            sentence=f"for {pause} s",
            server={"replies": [Reply(STORY.text, pause_at_s=2.0, pause_s=pause)]},
        )
        for pause in (3, 6, 10, 15, 20)
    ),
)
add(
    Situation(
        name="talk-during-a-tool",
        group="tools",
        sentence="The caller speaks while the tool runs",
        run=caller_speaks_during_a_tool,
        server={"replies": [CALL]},
        agent=lambda: Desk(tool_delay_s=5.0),
    ),
    PLAIN,
)
add(
    Situation(
        name="reply-in-a-tool",
        group="tools",
        sentence="The tool keeps the caller company while it looks something up",
        run=tool,
        providers=("openai",),
        server={"replies": [ToolCall("look_up"), Reply("It takes a moment.")]},
        agent=Desk,
    ),
    PLAIN,
)
