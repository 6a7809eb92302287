"""A TTS beside the model, and other ways to have something said."""

from __future__ import annotations

from typing import Any

from google.genai import types

from livekit.plugins.resilient.testing import Reply
from tests.healthy import steps, twists
from tests.healthy.parts import ToneTTS
from tests.healthy.script import PLAIN, Situation, Twist, add
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage

HOURS = "We are open between nine and twelve, and again from two until six."
TEXT: dict[str, Any] = {
    "gemini": {"modalities": [types.Modality.TEXT]},
    "openai": {"modalities": ["text"]},
}


def _with_tts() -> dict[str, Any]:
    return {"session_options": {"tts": ToneTTS()}}


async def say(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.session.say("This call may be recorded for training.")
    await stage.ask()
    await stage.call.session.say("One more thing before you go, sir.")
    await stage.rest(1.0)
    await stage.ask()


async def say_after_a_reply(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell the hours.", wait=False)
    await stage.call.wait_heard(0.5)
    handle = stage.call.session.say("Is there anything else that I can do?")
    await handle
    await stage.rest(2.0)
    await stage.ask()


async def say_interrupted(stage: Stage[Any]) -> None:
    await stage.greet()
    handle = stage.call.session.say(STORY.text)
    await stage.rest(2.0)
    await stage.ask(1.0)
    await handle


async def say_at_once(stage: Stage[Any]) -> None:
    await stage.call.session.say("Hello, you are through to the desk.")
    await stage.ask()


async def run(stage: Stage[Any]) -> None:
    await stage.call.session.run(user_input="I would like a table for two.")
    await stage.call.agent_done()
    await stage.call.session.run(user_input="For tonight at eight.")
    await stage.call.agent_done()
    await stage.ask()


add(
    Situation(
        name="text-modality",
        group="speech",
        sentence="The model writes and a TTS speaks",
        run=steps.converse,
        model=TEXT,
        call=_with_tts,
    ),
    PLAIN,
    *twists.before_the_answer(8, 16),
    Twist(
        name="mid-text-6s",
        sentence="6 s pass in the middle of a reply",
        server={"replies": [Reply(STORY.text, pause_at_s=3.0, pause_s=6.0)]},
    ),
    *twists.before_the_end(8),
)
add(
    Situation(
        name="say",
        group="speech",
        sentence="The app has a TTS say things between the model's replies",
        run=say,
        call=_with_tts,
    ),
    PLAIN,
    *twists.before_the_answer(9),
)
add(
    Situation(
        name="say-after-a-reply",
        group="speech",
        sentence="The app has a TTS say something right after a reply",
        run=say_after_a_reply,
        server={"replies": [HOURS]},
        call=_with_tts,
    ),
    PLAIN,
    *twists.before_the_end(6),
    *twists.mid_reply(4),
)
add(
    Situation(
        name="say-interrupted",
        group="speech",
        sentence="The caller cuts into what a TTS says",
        run=say_interrupted,
        providers=("openai",),
        call=_with_tts,
    ),
    PLAIN,
)
add(
    Situation(
        name="say-at-once",
        group="speech",
        sentence="The app greets by TTS while the model is still being connected",
        run=say_at_once,
        call=_with_tts,
    ),
    PLAIN,
    *twists.before_setup_answer(3),
)
add(
    Situation(
        name="run",
        group="speech",
        sentence="The app passes the caller's words to session.run",
        run=run,
    ),
    PLAIN,
    *twists.mid_reply(6),
    *twists.before_the_end(7),
)
