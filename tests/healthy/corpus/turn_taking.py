"""Who says that the caller is through: the app, a VAD or a detector of the app, or the model."""

from __future__ import annotations

from typing import Any

from google.genai import types
from openai.types.beta.realtime.session import TurnDetection

from tests.healthy import twists
from tests.healthy.parts import EnergyVAD, PatientDetector
from tests.healthy.script import PLAIN, Situation, add
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage

MANUAL: dict[str, Any] = {
    "gemini": {
        "realtime_input_config": types.RealtimeInputConfig(
            automatic_activity_detection=types.AutomaticActivityDetection(disabled=True)
        )
    },
    "openai": {"turn_detection": None},
}


def _by_hand() -> dict[str, Any]:
    return {"session_options": {"turn_handling": {"turn_detection": "manual"}}}


def _by_vad() -> dict[str, Any]:
    return {"session_options": {"vad": EnergyVAD(), "turn_handling": {"turn_detection": "vad"}}}


def _by_detector() -> dict[str, Any]:
    handling = {"turn_detection": PatientDetector()}
    return {"session_options": {"vad": EnergyVAD(), "turn_handling": handling}}


def _vad_beside() -> dict[str, Any]:
    return {"session_options": {"vad": EnergyVAD()}}


def _uninterruptible() -> dict[str, Any]:
    handling = {"turn_detection": "vad", "interruption": {"enabled": False}}
    return {"session_options": {"vad": EnergyVAD(), "turn_handling": handling}}


async def _press(stage: Stage[Any]) -> None:
    stage.call.session.interrupt()
    stage.call.session.clear_user_turn()


async def _release(stage: Stage[Any]) -> None:
    stage.call.session.commit_user_turn()
    await stage.call.reply(after=stage.call.now)
    await stage.call.agent_done()


async def push_to_talk(stage: Stage[Any]) -> None:
    await stage.greet()
    for _ in range(2):
        await _press(stage)
        await stage.call.say(1.2)
        await _release(stage)


async def long_pause_while_held(stage: Stage[Any]) -> None:
    await stage.greet()
    await _press(stage)
    await stage.call.say(1.0)
    await stage.rest(9.0)
    await stage.call.say(1.3)
    await _release(stage)


async def never_released(stage: Stage[Any]) -> None:
    await stage.greet()
    for _ in range(8):
        await stage.call.say(0.8)
        await stage.rest(14.0)
    await _press(stage)
    await stage.call.say(1.0)
    await _release(stage)


async def barge_in(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.0)
    await stage.ask(1.0)
    await stage.rest(2.0)
    await stage.ask(1.0)


async def words_over_a_reply(stage: Stage[Any]) -> None:
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.0)
    await stage.call.say(1.0)
    await stage.call.agent_done()
    await stage.rest(3.0)
    await stage.ask(1.0)


async def app_answers(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await stage.rest(20.0)
    await stage.call.generate_reply()
    await stage.call.agent_done()
    await stage.call.say(1.0)
    await stage.rest(3.0)
    await stage.call.generate_reply(instructions="Answer.")
    await stage.call.agent_done()


for name, sentence, run in (
    ("push-to-talk", "The app commits what the caller says", push_to_talk),
    ("held-button", "The caller pauses for 9 s with the button held", long_pause_while_held),
    ("open-microphone", "The caller is heard for two minutes without a commit", never_released),
):
    add(
        Situation(
            name=name,
            group="turn taking",
            sentence=sentence,
            run=run,
            providers=("openai",),
            model=MANUAL,
            call=_by_hand,
            settle_s=12.0,
        ),
        PLAIN,
        *(twists.mid_reply(6, nth=2) if name == "push-to-talk" else ()),
        *(twists.before_the_response(8, nth=2) if name == "push-to-talk" else ()),
    )
for name, sentence, call in (
    ("local-vad", "A VAD of the app hears the caller's turns", _by_vad),
    ("turn-detector", "A turn detector of the app ends the caller's turns", _by_detector),
):
    situation = Situation(
        name=name,
        group="turn taking",
        sentence=sentence,
        run=barge_in,
        providers=("openai",),
        server={"replies": [STORY]},
        model=MANUAL,
        call=call,
    )
    add(
        situation,
        PLAIN,
        *twists.before_the_response(8, nth=2),
        *twists.mid_reply(6),
        *twists.before_captions(8),
    )
add(
    Situation(
        name="vad-beside",
        group="turn taking",
        sentence="The app has a VAD beside the model's own detection",
        run=barge_in,
        server={"replies": [STORY]},
        call=_vad_beside,
    ),
    PLAIN,
    *twists.before_the_answer(12),
)
add(
    Situation(
        name="uninterruptible",
        group="turn taking",
        sentence="The caller speaks over a reply that cannot be interrupted",
        run=words_over_a_reply,
        providers=("openai",),
        server={"replies": [STORY]},
        model=MANUAL,
        call=_uninterruptible,
    ),
    PLAIN,
    *twists.mid_reply(6),
)
add(
    Situation(
        name="model-not-interruptible",
        group="turn taking",
        sentence="The model does not let itself be interrupted",
        run=words_over_a_reply,
        providers=("gemini",),
        server={"replies": [STORY]},
        model={
            "realtime_input_config": types.RealtimeInputConfig(
                activity_handling=types.ActivityHandling.NO_INTERRUPTION
            )
        },
    ),
    PLAIN,
    *twists.mid_reply(6),
)
add(
    Situation(
        name="app-answers",
        group="turn taking",
        sentence="The app alone decides when the model answers",
        run=app_answers,
        providers=("openai",),
        model={
            "turn_detection": TurnDetection(
                type="server_vad", create_response=False, interrupt_response=True
            )
        },
    ),
    PLAIN,
)
