"""The client's event loop is blocked; the server goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livekit.plugins.resilient.testing import ToolCall
from tests.healthy import steps
from tests.healthy.parts import Desk
from tests.healthy.script import Situation, Twist, add
from tests.scenarios.call_script import Run
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage

PERMITS = frozenset({"LoopStalled"})


def mid_reply(seconds: float) -> Run:
    async def run(stage: Stage[Any]) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        await stage.call.wait_heard(1.0)
        steps.blocked(stage, 0.01, seconds)
        await stage.rest(seconds)
        await stage.call.agent_done()
        await stage.ask()

    return run


def after_words(seconds: float) -> Run:
    async def run(stage: Stage[Any]) -> None:
        await stage.greet()
        await stage.call.say(1.0)
        # The server has not yet heard that the caller is through.
        steps.blocked(stage, 0.2, seconds)
        await stage.rest(seconds + 4.0)
        await stage.call.agent_done()
        await stage.ask()

    return run


def while_idle(seconds: float) -> Run:
    async def run(stage: Stage[Any]) -> None:
        await stage.greet()
        await stage.rest(2.0)
        steps.blocked(stage, 0.01, seconds)
        await stage.rest(seconds + 1.0)
        await stage.ask()

    return run


def on_request(seconds: float) -> Run:
    async def run(stage: Stage[Any]) -> None:
        await stage.call.generate_reply(instructions="Greet the caller.", wait=False)
        steps.blocked(stage, 0.0, seconds)
        await stage.rest(seconds + 4.0)
        await stage.call.agent_done()
        await stage.ask()

    return run


def again_and_again(seconds: float) -> Run:
    async def run(stage: Stage[Any]) -> None:
        await stage.call.generate_reply(instructions="Tell a story.", wait=False)
        for _ in range(4):
            steps.blocked(stage, 0.8, seconds)
            await stage.rest(seconds + 1.0)
        # At the end of the last one all is over at once, in no order.
        await stage.rest(9.0)
        await stage.ask()

    return run


async def in_a_tool(stage: Stage[Any]) -> None:
    steps.desk(stage)
    await stage.call.say(1.0)
    await steps.tool_runs(stage)
    await stage.next_segment()
    await stage.call.agent_done()
    await stage.ask()


def _stalls(make: Callable[[float], Run], *seconds: float) -> tuple[Twist, ...]:
    return tuple(
        Twist(
            name=f"{pause:g}s",
            sentence=f"for {pause:g} s",
            run=make(pause),
            permits=PERMITS,
        )
        for pause in seconds
    )


for name, sentence, make, seconds in (
    ("mid-reply", "The loop is blocked in the middle of a reply", mid_reply, (1, 3, 5, 8, 12, 20)),
    ("after-words", "The loop is blocked after the caller's words", after_words, (2, 8, 17, 20)),
    ("idle", "The loop is blocked while nobody speaks", while_idle, (1, 9, 20)),
    ("request", "The loop is blocked while a reply is asked for", on_request, (1, 4)),
    ("repeated", "The loop is blocked four times in a reply", again_and_again, (0.5, 2)),
):
    for pace in ("", "realtime") if name == "mid-reply" else ("",):
        add(
            Situation(
                name="-".join(filter(None, ("stall", name, pace))),
                group="blocked loop",
                sentence=sentence,
                run=mid_reply(0.0),
                server={"replies": [STORY], **({"pace": pace} if pace else {})},
            ),
            *_stalls(make, *seconds),
        )
add(
    Situation(
        name="stall-in-a-tool",
        group="blocked loop",
        sentence="A tool blocks the loop",
        run=in_a_tool,
        agent=Desk,
    ),
    *(
        Twist(
            name=f"{seconds}s",
            sentence=f"for {seconds} s",
            server={
                "replies": [
                    ToolCall("block", {"seconds": seconds}, say_first="Let me look that up.")
                ]
            },
            permits=PERMITS,
        )
        for seconds in (1, 5, 8, 20)
    ),
)
