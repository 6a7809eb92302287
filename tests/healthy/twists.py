"""What healthy providers, networks and applications do in a call: pauses above all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from livekit.plugins.resilient.testing import (
    After,
    AtAudio,
    Before,
    Delay,
    Duplicate,
    Fault,
    LateReply,
    OnConnection,
    Received,
    ShiftTranscript,
    SlowPong,
    UserStops,
)
from livekit.plugins.resilient.testing.faults import Trigger
from tests.scenarios.call_script import ProviderName

from .script import Twist


def pauses(
    name: str,
    where: str,
    seconds: Iterable[float],
    triggers: Mapping[ProviderName, Trigger],
) -> tuple[Twist, ...]:
    """The server stops for so long at a place, which the triggers name."""
    return tuple(
        Twist(
            name=f"{name}-{pause:g}s",
            sentence=f"{pause:g} s pass {where}",
            faults={
                provider: (Fault(trigger, Delay(pause)),) for provider, trigger in triggers.items()
            },
        )
        for pause in seconds
    )


def mid_reply(*seconds: float, at_s: float = 1.0, nth: int = 1) -> tuple[Twist, ...]:
    """The model stops in the middle of a reply: a search of its own, an overloaded server."""
    trigger = AtAudio(at_s, nth=nth)
    where = "in the middle of a reply"
    return pauses("mid-reply", where, seconds, {"gemini": trigger, "openai": trigger})


def before_first_output(*seconds: float) -> tuple[Twist, ...]:
    """The model thinks before it says its first word of all."""
    return pauses(
        "before-the-first-output",
        "before the first output",
        seconds,
        {"gemini": Before("modelTurn"), "openai": Before("response.output_item.added")},
    )


def before_the_answer(*seconds: float) -> tuple[Twist, ...]:
    """The model thinks after the caller's turn."""
    return tuple(
        Twist(
            name=f"before-the-answer-{pause:g}s",
            sentence=f"{pause:g} s pass before the answer begins",
            faults={
                "gemini": (Fault(UserStops(), LateReply(pause)),),
                "openai": (Fault(UserStops(), LateReply(pause)),),
            },
        )
        for pause in seconds
    )


def before_the_call(*seconds: float, after_words: bool = True) -> tuple[Twist, ...]:
    """The model thinks before it calls a tool; `after_words`: it has spoken before that."""
    item = 2 if after_words else 1
    return pauses(
        "before-the-call",
        "before the tool call",
        seconds,
        {"gemini": Before("toolCall"), "openai": Before("response.output_item.added", nth=item)},
    )


def in_arguments(*seconds: float) -> tuple[Twist, ...]:
    """The arguments of a call come slowly."""
    end = Before("response.function_call_arguments.done")
    return pauses("in-the-arguments", "within the call's arguments", seconds, {"openai": end})


def before_the_end(*seconds: float, nth: int = 1) -> tuple[Twist, ...]:
    """Everything was said, but the turn is not over yet."""
    return pauses(
        "before-the-end",
        "between the last output and the end of the turn",
        seconds,
        {
            "gemini": Before("turnComplete", nth=nth),
            "openai": Before("response.done", nth=nth),
        },
    )


def after_the_result(*seconds: float, item: int = 3) -> tuple[Twist, ...]:
    """The model thinks about a tool's result; `item`: number of OpenAI's output item about it."""
    return tuple(
        Twist(
            name=f"after-the-result-{pause:g}s",
            sentence=f"{pause:g} s pass before the model speaks about the result",
            faults={
                "gemini": (Fault(Received("toolResponse"), LateReply(pause)),),
                "openai": (Fault(Before("response.output_item.added", nth=item), Delay(pause)),),
            },
        )
        for pause in seconds
    )


def before_the_response(*seconds: float, nth: int = 1) -> tuple[Twist, ...]:
    """OpenAI begins a response late; upstream gives a requested one 10 s."""
    begins = Before("response.created", nth=nth)
    where = "before the response begins"
    return pauses(f"before-response-{nth}", where, seconds, {"openai": begins})


def before_captions(*seconds: float, nth: int = 1) -> tuple[Twist, ...]:
    """The caption of what the caller said is late: on Gemini it holds up what follows."""
    return tuple(
        Twist(
            name=f"before-the-caption-{pause:g}s",
            sentence=f"{pause:g} s pass before the caption of the caller's words",
            faults={
                "gemini": (Fault(Before("inputTranscription", nth=nth), Delay(pause)),),
                "openai": (),
            },
            server={"openai": {"transcription_delay_s": pause}},
        )
        for pause in seconds
    )


def before_setup_answer(*seconds: float) -> tuple[Twist, ...]:
    """The server takes its time to answer the set-up."""
    return pauses(
        "before-the-setup-answer",
        "before the server answers the set-up",
        seconds,
        {"gemini": Before("setupComplete"), "openai": Before("session.updated")},
    )


def lagging_transcript(*seconds: float) -> tuple[Twist, ...]:
    """The transcript comes behind the audio; negative: ahead of it."""
    return tuple(
        Twist(
            name=f"transcript-{'behind' if lag > 0 else 'ahead'}-{abs(lag):g}s",
            sentence=f"the transcript is {abs(lag):g} s {'behind' if lag > 0 else 'ahead of'} it",
            faults={
                provider: (Fault(OnConnection(1), ShiftTranscript(-lag)),)
                for provider in ("gemini", "openai")
            },
        )
        for lag in seconds
    )


def repeated(provider: ProviderName, event: str, nth: int = 1) -> Twist:
    """The server sends an event twice."""
    name = event.replace(".", "-").replace("_", "-")
    name = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return Twist(
        name=f"{name}-twice",
        sentence=f"the server sends {event} twice",
        faults={provider: (Fault(Before(event, nth=nth), Duplicate()),)},
    )


def late_pongs(*seconds: float) -> tuple[Twist, ...]:
    """Pongs come late; upstream's Gemini client ends a connection whose pong is 20 s late."""
    return tuple(
        Twist(
            name=f"pongs-late-{delay:g}s",
            sentence=f"pongs are {delay:g} s late",
            faults={
                provider: (Fault(OnConnection(1), SlowPong(delay)),)
                for provider in ("gemini", "openai")
            },
            spare_upstream=True,
        )
        for delay in seconds
    )


def late_after(provider: ProviderName, event: str, seconds: float, nth: int = 1) -> Twist:
    """Everything that follows an event is late."""
    return Twist(
        name=f"after-{event.replace('.', '-').replace('_', '-').lower()}-{seconds:g}s",
        sentence=f"{seconds:g} s pass after {event}",
        faults={provider: (Fault(After(event, nth=nth), Delay(seconds)),)},
    )
