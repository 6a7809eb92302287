"""What families and endpoints do differently: items that interleave, other shapes and orders,
transcripts that are late or fail, replies in one burst or as fast as they are spoken."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient.testing import Messages, ToolCall
from livekit.plugins.resilient.testing.gemini.script import CaptionsOnly
from tests.healthy import steps
from tests.healthy.corpus.talk import VERTEX, barge_in
from tests.healthy.corpus.tools import BARE, CALL, caller_speaks_during_a_tool, tool, two_tools
from tests.healthy.script import PLAIN, Situation, Twist, add
from tests.scenarios.call_script import Run
from tests.scenarios.lines import ANSWER, STORY, TOLD
from tests.scenarios.stage import Stage

NEWER = {"model": "gpt-realtime-2.1"}
GROK = {"model": "xai/grok-voice"}
SECOND = ToolCall("get_weather", {"city": "Rome"}, say_first="And there.")

SLOW = Twist(name="realtime", sentence="at the pace of speech", server={"pace": "realtime"})
BURST = Twist(name="burst", sentence="each reply in one burst", server={"pace": None})

add(
    Situation(
        name="interleaved-call",
        group="tools",
        sentence="A call begins before the words before it have ended",
        run=tool,
        providers=("openai",),
        server={"replies": [CALL]},
        model=NEWER,
    ),
    PLAIN,
    SLOW,
    BURST,
)
add(
    Situation(
        name="interleaved-messages",
        group="talk",
        sentence="The first of two messages ends after the second has begun",
        run=steps.converse,
        providers=("openai",),
        server={"replies": [Messages.of(STORY.text, TOLD.text)]},
        model=NEWER,
    ),
    PLAIN,
    SLOW,
    BURST,
)
add(
    Situation(
        name="grok",
        group="talk",
        sentence="xAI answers the caller, in shapes of its own",
        run=steps.converse,
        providers=("openai",),
        flavours=("inference",),
        model=GROK,
    ),
    PLAIN,
    SLOW,
    BURST,
)
add(
    Situation(
        name="grok-tools",
        group="tools",
        sentence="xAI announces look-ups and calls tools",
        run=two_tools,
        providers=("openai",),
        flavours=("inference",),
        server={"replies": [CALL, SECOND]},
        model=GROK,
    ),
    PLAIN,
)
add(
    Situation(
        name="xai",
        group="talk",
        sentence="xAI answers the caller, through its own plugin",
        run=steps.converse,
        providers=("openai",),
        flavours=("xai",),
    ),
    PLAIN,
    SLOW,
    BURST,
    Twist(name="barge-in", sentence="who cuts in", server={"replies": [STORY]}, run=barge_in),
)
add(
    Situation(
        name="xai-tools",
        group="tools",
        sentence="xAI announces look-ups and calls tools, through its own plugin",
        run=two_tools,
        providers=("openai",),
        flavours=("xai",),
        server={"replies": [CALL, SECOND]},
    ),
    PLAIN,
)
add(
    Situation(
        name="transcription",
        group="captions",
        sentence="The caller asks twice",
        run=steps.converse,
        providers=("openai",),
        flavours=("plain", "azure"),
    ),
    Twist(
        name="fails",
        sentence="and no word of it can be transcribed",
        server={"transcription_fails": True},
    ),
    Twist(
        name="35s-late",
        sentence="and the transcripts come 35 s later",
        server={"transcription_delay_s": 35.0},
        settle_s=60.0,
    ),
)


async def mute_reply(stage: Stage[Any]) -> None:
    await stage.greet()
    await stage.call.say(1.0)
    await stage.rest(8.0)
    await stage.ask(1.0)


# Gemini -----------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2-5": ({"family": "2.5"}, {}),
    "3-1": ({"family": "3.1"}, {}),
    "3-8": ({"family": "3.8"}, {}),
    "vertex": ({"vertex": True}, VERTEX),
}


def _at_each_pace(name: str, run: Run, said: list[Any]) -> list[Twist]:
    """A kind of call, with each reply at the pace of speech, as recorded, and in one burst."""
    sentence = f"in a {name.replace('-', ' ')}"
    paces = (("", {}), *((pace.name, pace.server) for pace in (SLOW, BURST)))
    return [
        Twist(
            name=f"{name}-{pace}".rstrip("-"),
            sentence=sentence,
            server={"replies": said, **given},
            run=run,
        )
        for pace, given in paces
    ]


for name, (server, model) in FAMILIES.items():
    add(
        Situation(
            name=f"family-{name}",
            group="turns",
            sentence="The family speaks as it was recorded",
            run=steps.converse,
            providers=("gemini",),
            server=server,
            model=model,
        ),
        SLOW,
        BURST,
        *_at_each_pace("barge-in", barge_in, [STORY]),
        *_at_each_pace("tool", tool, [CALL]),
        *_at_each_pace("bare-tool", tool, [BARE]),
        *_at_each_pace("talk-during-a-tool", caller_speaks_during_a_tool, [BARE]),
    )
add(
    Situation(
        name="captions-without-audio",
        group="captions",
        sentence="One answer has a caption and no audio",
        run=mute_reply,
        providers=("gemini",),
        server={"family": "3.1", "replies": [ANSWER, CaptionsOnly("We are open until nine.")]},
    ),
    PLAIN,
)
