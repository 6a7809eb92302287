"""Turns that nobody answers, because nobody has to; noise; limits with a stated wait."""

from __future__ import annotations

from typing import Any

import numpy as np
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

from livekit.plugins.resilient.testing import (
    After,
    Fault,
    LateReply,
    NoReply,
    Received,
    Reply,
    Send,
    ToolCall,
    UserStops,
)
from tests.healthy import steps, twists
from tests.healthy.parts import Desk
from tests.healthy.script import PLAIN, Situation, Twist, add
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage

WELCOME = Reply("Welcome, what can I do for you?")
NOISE_RMS = 600.0


async def unanswered(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await stage.rest(40.0)
    await stage.ask()


async def unanswered_twice(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(0.8)
    await stage.rest(6.0)
    await stage.call.say(0.8)
    await stage.rest(20.0)
    await stage.ask()


def noise(seconds: float, rate: int) -> bytes:
    """A television in the room, too low to be taken for speech by the model."""
    samples = np.random.default_rng(7).normal(0.0, NOISE_RMS, round(seconds * rate))
    pcm: bytes = np.clip(np.rint(samples), -32_768, 32_767).astype("<i2").tobytes()
    return pcm


async def television(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(noise(120.0, stage.call.mic.sample_rate))
    await stage.rest(1.0)
    await stage.ask()


async def noise_in_a_pause(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(1.0)
    await stage.call.say(noise(0.3, stage.call.mic.sample_rate))
    await stage.rest(30.0)
    await stage.call.agent_done()
    await stage.ask()


async def noise_beside_a_tool(stage: Stage[Any]) -> None:
    await stage.call.say(1.0)
    await stage.rest(4.0)
    await stage.call.say(noise(0.5, stage.call.mic.sample_rate))
    await steps.tool_runs(stage)
    await stage.rest(6.0)
    await stage.call.agent_done()
    await stage.ask()


async def television_in_bursts(stage: Stage[Any]) -> None:
    await stage.greet()
    for _ in range(6):
        await stage.call.say(noise(2.0, stage.call.mic.sample_rate))
        await stage.rest(10.0)
    await stage.ask()


add(
    Situation(
        name="noise-in-a-pause",
        group="quiet",
        sentence="A noise falls into a story",
        run=noise_in_a_pause,
        server={"replies": [STORY], "speech_threshold": 2 * NOISE_RMS},
    ),
    *twists.mid_reply(9, 15, 20, at_s=1.2),
)
add(
    Situation(
        name="noise-beside-a-tool",
        group="quiet",
        sentence="A noise is heard while a tool takes 40 s",
        run=noise_beside_a_tool,
        server={
            "replies": [ToolCall("get_weather", {"city": "Paris"})],
            "speech_threshold": 2 * NOISE_RMS,
        },
        agent=lambda: Desk(tool_delay_s=40.0),
    ),
    PLAIN,
    *twists.after_the_result(15),
)
add(
    Situation(
        name="proactivity",
        group="quiet",
        sentence="The model may choose not to answer, and does so",
        run=unanswered,
        providers=("gemini",),
        server={"replies": [WELCOME, NoReply()]},
        model={"proactivity": True},
    ),
    PLAIN,
    Twist(
        name="twice",
        sentence="two turns in a row",
        run=unanswered_twice,
        server={"replies": [WELCOME, NoReply(), NoReply()]},
    ),
)
add(
    Situation(
        name="waits-for-more",
        group="quiet",
        sentence="The model says that it waits for more",
        run=unanswered,
        providers=("gemini",),
        server={"replies": [WELCOME, NoReply()]},
    ),
    *(
        Twist(
            name=name,
            sentence=f"with {name.replace('-', ' ')}",
            faults={
                "gemini": (Fault(After("inputTranscription"), Send({"serverContent": content})),)
            },
        )
        for name, content in (
            ("need-more-input", {"turnComplete": True, "turnCompleteReason": "NEED_MORE_INPUT"}),
            ("waiting-for-input", {"waitingForInput": True}),
            ("both", {"waitingForInput": True, "turnComplete": True}),
        )
    ),
)
add(
    Situation(
        name="transcribed-noise",
        group="quiet",
        sentence="The model transcribes a noise and leaves it unanswered under proactivity",
        run=unanswered,
        providers=("gemini",),
        server={"replies": [WELCOME, NoReply()]},
        model={"proactivity": True},
    ),
    *twists.before_captions(3),
)
for name, sentence, run in (
    ("television", "A television plays for two minutes", television),
    ("television-in-bursts", "A television is heard now and then", television_in_bursts),
):
    add(
        Situation(
            name=name,
            group="quiet",
            sentence=sentence,
            run=run,
            server={"speech_threshold": 2 * NOISE_RMS},
            settle_s=5.0,
        ),
        PLAIN,
    )


async def idle_timeout(stage: Stage[Any]) -> None:
    await stage.greet()
    # Nobody says anything, until the server does.
    await stage.next_segment()
    await stage.ask()


add(
    Situation(
        name="idle-timeout",
        group="quiet",
        sentence="The server asks by itself whether the caller is still there",
        run=idle_timeout,
        providers=("openai",),
        model={
            "turn_detection": ServerVad(
                type="server_vad",
                create_response=True,
                interrupt_response=True,
                idle_timeout_ms=6000,
            )
        },
    ),
    PLAIN,
    *twists.mid_reply(6, nth=2),
)


def _limited(seconds: float) -> Send:
    limits = [
        {"name": "tokens", "limit": 20_000, "remaining": 0, "reset_seconds": seconds},
        {"name": "requests", "limit": 100, "remaining": 99, "reset_seconds": 0.6},
    ]
    return Send({"type": "rate_limits.updated", "event_id": "event_rate", "rate_limits": limits})


add(
    Situation(
        name="rate-limit",
        group="quiet",
        sentence="The server states a rate limit and answers when it is over",
        run=steps.converse,
        providers=("openai",),
    ),
    *(
        Twist(
            name=f"{seconds}s",
            sentence=f"after {seconds} s",
            faults={"openai": (Fault(UserStops(), (_limited(seconds), LateReply(seconds))),)},
        )
        for seconds in (6, 12, 18)
    ),
    Twist(
        name="on-request-9s",
        sentence="after 9 s, for a reply that the app asked for",
        faults={"openai": (Fault(Received("response.create"), (_limited(9), LateReply(9.0))),)},
    ),
)
