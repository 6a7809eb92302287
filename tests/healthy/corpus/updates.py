"""A long record, pictures, and changes in the middle of a call."""

from __future__ import annotations

from typing import Any

from livekit import rtc
from livekit.agents import Agent, llm
from livekit.agents.llm import function_tool

from tests.healthy import twists
from tests.healthy.parts import Desk
from tests.healthy.script import PLAIN, Situation, add
from tests.scenarios.stage import Stage

NEW_CONNECTION = frozenset({"Reconnected", "FirstAudioAfterReconnect"})
"""Gemini takes some changes only in a set-up: upstream's session dials again too."""

WORDS = "We spoke about the order, its delivery and the address it should go to. "


@function_tool
async def cancel_order(number: str) -> str:
    """Cancel an order."""
    return f"order {number} is cancelled"


class Remembering(Agent):
    """An agent that knows a long conversation when the call begins."""

    def __init__(self) -> None:
        known = llm.ChatContext.empty()
        for number in range(40):
            known.add_message(role="user", content=f"Question {number}. {WORDS * 3}")
            known.add_message(role="assistant", content=f"Answer {number}. {WORDS * 5}")
        super().__init__(instructions="Be brief. " + WORDS * 20, chat_ctx=known)


async def turns(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.ask()
    await stage.ask()


async def instructions(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.agent.update_instructions("Be even briefer.")
    await stage.rest(1.0)
    await stage.ask()
    await stage.ask()


async def tools(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.agent.update_tools([*stage.call.agent.tools, cancel_order])
    await stage.rest(2.0)
    await stage.ask()


async def chat_context(stage: Stage[Any]) -> None:
    await stage.greet()
    context = stage.call.agent.chat_ctx.copy()
    context.add_message(role="user", content="My name is Ada.")
    context.add_message(role="assistant", content="Hello, Ada.")
    await stage.call.agent.update_chat_ctx(context)
    await stage.rest(1.0)
    await stage.ask()


async def shorter_context(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.ask()
    context = stage.call.agent.chat_ctx.copy()
    del context.items[:2]
    await stage.call.agent.update_chat_ctx(context)
    await stage.rest(1.0)
    await stage.ask()


async def pictures(stage: Stage[Any]) -> None:
    await stage.greet()
    for shade in range(4):
        frame = rtc.VideoFrame(64, 48, rtc.VideoBufferType.RGBA, bytes([60 * shade] * 64 * 48 * 4))
        stage.call.realtime_session.push_video(frame)
        await stage.rest(1.0)
    await stage.ask()


async def voice(stage: Stage[Any]) -> None:
    await stage.greet()
    model: Any = stage.call.model
    model.update_options(voice="Kore" if stage.scenario.provider == "gemini" else "cedar")
    await stage.rest(2.0)
    await stage.ask()


add(
    Situation(
        name="long-context",
        group="changes",
        sentence="The agent knows 80 messages when the call begins",
        run=turns,
        agent=Remembering,
    ),
    PLAIN,
    *twists.before_first_output(4),
    *twists.before_the_answer(14),
)
for name, sentence, run in (
    ("new-instructions", "The app changes the instructions in mid-call", instructions),
    ("new-tools", "The app adds a tool in mid-call", tools),
    ("new-context", "The app adds messages in mid-call", chat_context),
    ("shorter-context", "The app takes messages away in mid-call", shorter_context),
    ("pictures", "The app shows the model pictures", pictures),
    ("new-voice", "The app changes the voice in mid-call", voice),
):
    add(
        Situation(
            name=name,
            group="changes",
            sentence=sentence,
            run=run,
            agent=Desk,
            permits=NEW_CONNECTION if name == "new-tools" else frozenset(),
        ),
        PLAIN,
        *twists.before_the_answer(9),
    )
