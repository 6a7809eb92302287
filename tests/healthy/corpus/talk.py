"""Greeting, turns, interruptions and the end of a call."""

from __future__ import annotations

import dataclasses
from typing import Any

from google.oauth2.credentials import Credentials

from livekit.plugins.resilient.testing import NoReply, Reply
from tests.healthy import steps, twists
from tests.healthy.script import PLAIN, Situation, Twist, add
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage


async def greeting(stage: Stage[Any]) -> None:
    await stage.greet()


async def text_turn(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.generate_reply(user_input="I would like a table for two.")
    await stage.call.agent_done()
    await stage.ask()


async def barge_in(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.0)
    await stage.ask(1.0)
    await stage.ask(1.0)


async def two_barge_ins(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.5)
    await stage.call.say(0.8)
    await stage.call.wait_heard(0.5)
    await stage.call.say(0.8)
    await stage.call.reply()
    await stage.call.agent_done()
    await stage.ask()


async def app_interrupts(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.0)
    stage.call.session.interrupt()
    await stage.rest(3.0)
    await stage.ask()


async def two_requests(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Say the first thing.", wait=False)
    await stage.call.generate_reply(instructions="Say the second thing.", wait=False)
    await stage.call.agent_done()
    await stage.ask()


async def pause_in_a_sentence(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.2)
    await stage.rest(9.0)
    await stage.ask(1.1)


async def long_words(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.ask(25.0)


async def idle(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.rest(120.0)
    await stage.ask()


async def microphone_off(stage: Stage[Any]) -> None:
    await stage.greet()
    stage.call.session.input.set_audio_enabled(False)
    await stage.rest(30.0)
    stage.call.session.input.set_audio_enabled(True)
    await stage.ask()


GREETING = Situation(
    name="greeting", group="greeting", sentence="The app asks for a greeting", run=greeting
)
TURNS = Situation(
    name="turns",
    group="turns",
    sentence="The app greets, and the caller asks twice",
    run=steps.converse,
)
BARGE_IN = Situation(
    name="barge-in",
    group="interruptions",
    sentence="The caller cuts into a story, and asks again",
    run=barge_in,
    server={"replies": [STORY]},
)

add(
    GREETING,
    PLAIN,
    *twists.before_first_output(2, 4),
    *twists.mid_reply(2, 5, 8, 12, 20),
    *twists.before_the_end(2, 6, 20),
    *twists.lagging_transcript(1.5, -2),
    *twists.before_setup_answer(1, 3),
)
add(
    TURNS,
    PLAIN,
    *twists.before_the_answer(4, 9, 13, 16, 20),
    *twists.mid_reply(6, nth=2),
    *twists.before_the_end(8, nth=2),
    *twists.before_captions(2, 8, 20),
    *twists.late_pongs(10, 25),
)
add(
    dataclasses.replace(
        TURNS, flavours=("azure", "azure-legacy", "inference"), providers=("openai",)
    ),
    PLAIN,
    *twists.mid_reply(8),
    *twists.before_the_answer(16),
)
add(
    BARGE_IN,
    PLAIN,
    *twists.before_the_answer(8, 16),
    *twists.mid_reply(6),
    *twists.before_the_end(1, 2),
    # What is left of the cut reply comes together with the answer.
    *twists.mid_reply(2, 9, at_s=2.2),
)
for family in ("3.1", "3.8"):
    for situation in (TURNS, BARGE_IN):
        name = f"{situation.name}-{family.replace('.', '-')}"
        server = {**situation.server, "family": family}
        own = dataclasses.replace(situation, name=name, providers=("gemini",), server=server)
        add(own, PLAIN, *twists.before_the_answer(12))
VERTEX: dict[str, Any] = {
    "vertexai": True,
    "project": "project",
    "location": "us-central1",
    "model": "gemini-live-2.5-flash-native-audio",
    "api_key": None,
    "credentials": Credentials(token="token"),  # type: ignore[no-untyped-call]
}
add(
    dataclasses.replace(
        BARGE_IN,
        name="vertex",
        sentence="The caller cuts into a story on Vertex AI",
        providers=("gemini",),
        server={**BARGE_IN.server, "vertex": True, "handle_while_busy": True},
        model=VERTEX,
    ),
    PLAIN,
    *twists.before_the_answer(10),
    *twists.mid_reply(6),
)
add(
    Situation(
        name="two-barge-ins",
        group="interruptions",
        sentence="The caller cuts in twice",
        run=two_barge_ins,
        server={"replies": [STORY, STORY]},
    ),
    PLAIN,
)
add(
    Situation(
        name="app-interrupts",
        group="interruptions",
        sentence="The app stops a story",
        run=app_interrupts,
        server={"replies": [STORY]},
    ),
    PLAIN,
    *twists.before_the_answer(10),
)
add(
    Situation(
        name="text-turn",
        group="turns",
        sentence="The app passes the caller's words on as text",
        run=text_turn,
    ),
    PLAIN,
    *twists.mid_reply(7, nth=2),
)
add(
    Situation(
        name="two-requests",
        group="turns",
        sentence="The app asks for two replies at once",
        run=two_requests,
    ),
    PLAIN,
)
add(
    Situation(
        name="pause-in-a-sentence",
        group="turns",
        sentence="The caller pauses for 9 s, and the model waits for the rest",
        run=pause_in_a_sentence,
        server={"replies": ["Welcome.", NoReply()]},
    ),
    PLAIN,
)
add(
    Situation(
        name="long-words",
        group="turns",
        sentence="The caller speaks for 25 s",
        run=long_words,
    ),
    PLAIN,
)
add(
    Situation(
        name="idle",
        group="quiet",
        sentence="Nobody says a word for two minutes",
        run=idle,
        settle_s=5.0,
    ),
    PLAIN,
)
add(
    Situation(
        name="microphone-off",
        group="quiet",
        sentence="The app takes the microphone away for half a minute",
        run=microphone_off,
    ),
    PLAIN,
)


async def hang_up_when_heard(stage: Stage[Any], seconds: float) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(seconds)
    await stage.hang_up()


async def hang_up_at_once(stage: Stage[Any]) -> None:
    await stage.hang_up()


async def hang_up_on_request(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.hang_up()


async def hang_up_while_heard(stage: Stage[Any]) -> None:
    await stage.greet()
    stage.call.mic.say(3.0)
    await stage.rest(1.0)
    await stage.hang_up()


async def hang_up_before_the_answer(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await stage.rest(2.0)
    await stage.hang_up()


async def shut_down(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(1.0)
    stage.call.session.shutdown(drain=True)
    await stage.rest(12.0)


def _when(name: str, sentence: str, run: Any) -> Twist:
    return Twist(name=name, sentence=sentence, run=run, settle_s=0.0)


add(
    Situation(
        name="hang-up",
        group="end",
        sentence="The caller hangs up",
        run=hang_up_at_once,
        server={"replies": [Reply(STORY.text)]},
        settle_s=0.0,
    ),
    _when("at-once", "as soon as the call has begun", hang_up_at_once),
    _when("on-request", "while a reply is asked for", hang_up_on_request),
    _when("mid-reply", "in the middle of a reply", lambda stage: hang_up_when_heard(stage, 1.5)),
    _when("near-the-end", "when all was sent", lambda stage: hang_up_when_heard(stage, 6.0)),
    _when("while-speaking", "in the middle of a sentence", hang_up_while_heard),
    Twist(
        name="before-the-answer",
        sentence="before the answer comes",
        run=hang_up_before_the_answer,
        faults=twists.before_the_answer(8)[0].faults,
        settle_s=0.0,
    ),
    _when("drained", "and the app lets the reply end", shut_down),
)
