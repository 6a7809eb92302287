"""Captions that come late, twice or out of nowhere, and messages without meaning."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient.testing import Before, Fault, Swallow
from livekit.plugins.resilient.testing.faults import Action
from tests.healthy import steps, twists
from tests.healthy.script import Situation, Twist, add
from tests.scenarios.call_script import ProviderName, Run
from tests.scenarios.stage import Stage

TRANSCRIPTION = "conversation.item.input_audio_transcription.completed"


def said(text: str) -> dict[str, Any]:
    return {"serverContent": {"outputTranscription": {"text": text}}}


def heard(text: str) -> dict[str, Any]:
    return {"serverContent": {"inputTranscription": {"text": text}}}


def _after(moment: str, wait_s: float, *messages: dict[str, Any]) -> Run:
    """The messages come so long after the greeting or the first answer; then the caller asks."""

    async def run(stage: Stage[Any]) -> None:
        await stage.greet()
        if moment == "the answer":
            await stage.ask()
        await stage.rest(wait_s)
        await steps.told(stage, *messages)
        await stage.rest(20.0)
        await stage.ask()
        await stage.rest(3.0)
        await stage.ask()

    return run


def _told(
    name: str, sentence: str, run: Run, *, event: str = "", action: Action | None = None
) -> Twist:
    faults: dict[ProviderName, tuple[Fault, ...]] = {}
    if action is not None:
        faults = {"gemini": (Fault(Before(event), action),)}
    return Twist(name=name, sentence=sentence, run=run, faults=faults)


add(
    Situation(
        name="captions",
        group="captions",
        sentence="The caller asks, and captions have no order",
        run=steps.converse,
        providers=("gemini",),
    ),
    _told(
        "stray-dot",
        "a last dot of a caption comes after the turn",
        _after("the greeting", 0.5, said(" .")),
    ),
    _told(
        "stray-word",
        "words of a caption come 4 s after the turn",
        _after("the answer", 4.0, said(" asked.")),
    ),
    _told(
        "heard-again",
        "the caption of the caller's words is repeated after the answer",
        _after("the answer", 1.0, heard(" hello there")),
    ),
    _told(
        "heard-late",
        "the caption of the caller's words comes 8 s after the answer",
        _after("the answer", 8.0, heard(" hello there")),
        event="inputTranscription",
        action=Swallow(),
    ),
    _told(
        "heard-in-pieces",
        "the caption comes again in pieces after the answer",
        _after("the answer", 1.0, heard(" hel"), heard("lo"), heard(" there")),
    ),
    _told(
        "empty-caption", "an empty caption comes", _after("the answer", 1.0, said(""), heard(""))
    ),
    _told(
        "noise",
        "a noise is transcribed that nobody made a turn of",
        _after("the answer", 3.0, heard(" hm")),
    ),
    _told(
        "stray-end",
        "generationComplete and turnComplete come once more",
        _after(
            "the answer",
            1.0,
            {"serverContent": {"generationComplete": True}},
            {"serverContent": {"turnComplete": True}},
        ),
    ),
    _told(
        "usage-alone",
        "a message holds nothing but the usage",
        _after("the answer", 1.0, {"usageMetadata": {"totalTokenCount": 9}}),
    ),
    _told("nothing", "a message holds nothing", _after("the answer", 1.0, {"serverContent": {}})),
    *twists.before_captions(1, 5),
    twists.repeated("gemini", "inputTranscription"),
    twists.repeated("gemini", "outputTranscription"),
    twists.repeated("gemini", "generationComplete"),
    twists.repeated("gemini", "turnComplete"),
    twists.repeated("gemini", "sessionResumptionUpdate"),
)
add(
    Situation(
        name="captions",
        group="captions",
        sentence="The caller asks, and captions have no order",
        run=steps.converse,
        providers=("openai",),
    ),
    *twists.before_captions(1, 5),
    twists.repeated("openai", TRANSCRIPTION),
    twists.repeated("openai", "rate_limits.updated"),
    twists.repeated("openai", "session.updated"),
    Twist(
        name="no-caption",
        sentence="the caption of the caller's words never comes",
        faults={"openai": (Fault(Before(TRANSCRIPTION), Swallow()),)},
    ),
)
