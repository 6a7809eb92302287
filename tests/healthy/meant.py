"""The differences from upstream that are meant, each with its reason. Nothing else may differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .compare import MISSING, Difference
from .script import HealthyScript


@dataclass(frozen=True)
class Meant:
    """A difference that is meant.

    Attributes:
        name: kebab-case.
        what: what differs, for the table in the docs.
        reason: why.
        shown_by: a script in which it is met; an entry that nothing meets any more must go.
        matches: whether a difference is this one; must not match more.
    """

    name: str
    what: str
    reason: str
    shown_by: str
    matches: Callable[[Difference, HealthyScript], bool]


def _is_ping(found: Difference, script: HealthyScript) -> bool:
    return found.channel == "pings"


def _is_compression(found: Difference, script: HealthyScript) -> bool:
    place = (found.channel, found.path, found.upstream)
    return place == ("wire", "[0].setup.contextWindowCompression", MISSING)


def _is_close_code(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "gemini" or not found.label.endswith(" close"):
        return False
    return (found.path, found.upstream, found.ours) == ("[1]", 1011, 1000)


def _is_label(found: Difference, script: HealthyScript) -> bool:
    own = str(found.ours)
    if found.channel == "logs":
        return "livekit.plugins.resilient." in own and _unnamed(own) == _unnamed(found.upstream)
    return found.path.endswith(".label") and own.startswith("livekit.plugins.resilient.")


def _unnamed(text: object) -> str:
    return re.sub(r"livekit\.\S+RealtimeModel", "", str(text))


def _is_a_warning_in_our_words(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "gemini" or (found.channel, found.label) != ("logs", "WARNING"):
        return False
    pairs = {
        "a tool result wants no reply": "a result that wants no reply gets one",
        "Gemini Live does not support removing messages": "an item was taken out of the context",
    }
    theirs, own = str(found.upstream), str(found.ours)
    return any(theirs.startswith(a) and own.startswith(b) for a, b in pairs.items())


def _is_an_answer_given_once(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "gemini" or not script.situation.startswith("asynchronous-tool"):
        return False
    if found.channel == "logs":
        return str(found.upstream).startswith("Gemini Live does not support removing messages")
    return found.channel == "wire" and found.label == "1 toolResponse"


def _is_a_dial_given_up(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "openai" or script.name not in (
        "openai-hang-up-at-once",
        "openai-hang-up-on-request",
    ):
        return False
    return found.channel in ("wire", "end")


def _is_cut_to_what_was_heard(found: Difference, script: HealthyScript) -> bool:
    own = found.channel == "model's history"
    if not own and found.channel not in ("history", "agent's history"):
        return False
    if own and found.path == ".interrupted":
        return (found.upstream, found.ours) == (False, True)
    said, heard = str(found.upstream), str(found.ours)
    cut = found.path == ".content[0]" and said.startswith(heard) and 0 < len(heard) < len(said)
    return cut and (own or bool(found.entry["interrupted"]))


def _is_call_in_the_models_history(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "gemini" or found.channel != "model's history":
        return False
    return (found.label, found.upstream) == ("function_call", MISSING)


def _is_told_of_a_reconnect(found: Difference, script: HealthyScript) -> bool:
    if script.provider != "gemini" or "Reconnected" not in script.permits:
        return False
    return (found.label, found.upstream) == ("session_reconnected", MISSING)


def _is_result_of_a_cancelled_call(found: Difference, script: HealthyScript) -> bool:
    if (script.provider, script.situation) != ("gemini", "talk-during-a-tool"):
        return False
    if found.channel == "logs":  # upstream's word that it sends it all the same
        return str(found.upstream).startswith("a tool result wants no reply")
    return (found.channel, found.label, found.ours) == ("wire", "1 toolResponse", MISSING)


MEANT: tuple[Meant, ...] = (
    Meant(
        "pings",
        "more WebSocket pings",
        "A half-open connection is found by its missing pongs. Only a socket sees a ping.",
        "openai-greeting",
        _is_ping,
    ),
    Meant(
        "compression",
        "Gemini's set-up frame asks for context-window compression",
        "Without it the server ends the session when its context is full.",
        "gemini-greeting",
        _is_compression,
    ),
    Meant(
        "close-code",
        "Gemini's connection is closed with 1000 in place of 1011",
        "Upstream is cancelled in mid-read, which its client library reports as an internal error.",
        "gemini-greeting",
        _is_close_code,
    ),
    Meant(
        "heard",
        "an interrupted message in the history ends earlier",
        "It holds the words whose audio was heard; upstream's estimate holds some more.",
        "openai-barge-in",
        _is_cut_to_what_was_heard,
    ),
    Meant(
        "calls-kept",
        "the chat_ctx of Gemini's realtime session holds tool calls, not only their results",
        "A fresh session must be told what a result answered.",
        "gemini-tool",
        _is_call_in_the_models_history,
    ),
    Meant(
        "reconnected",
        "Gemini's session says session_reconnected where a change makes it dial again",
        "An application hears of it on every provider; upstream's Gemini session never says so.",
        "gemini-new-tools",
        _is_told_of_a_reconnect,
    ),
    Meant(
        "own-words",
        "Gemini's warnings of removed messages and of results that want no reply are worded anew",
        "On the same occasions; upstream's sentences are upstream's.",
        "gemini-silent-tool",
        _is_a_warning_in_our_words,
    ),
    Meant(
        "answered-once",
        "a Gemini call whose tool runs on is answered once, not again with its final result",
        "Each result goes to the model once.",
        "gemini-asynchronous-tool",
        _is_an_answer_given_once,
    ),
    Meant(
        "dial-given-up",
        "OpenAI's connection is given up, not first told all, where the caller hangs up at once",
        "Hanging up takes less than a second, whatever the server does.",
        "openai-hang-up-at-once",
        _is_a_dial_given_up,
    ),
    Meant(
        "cancelled-call",
        "the result of a call that the Gemini server took back is not sent",
        "The server knows that call no longer.",
        "gemini-talk-during-a-tool",
        _is_result_of_a_cancelled_call,
    ),
    Meant(
        "label",
        "metrics, spans and one message of livekit-agents have the name of our class",
        "The label is the name of the class that the application made.",
        "openai-greeting",
        _is_label,
    ),
)


def shown_by() -> dict[str, list[str]]:
    """The scripts that show meant differences, with the names of those that each shows."""
    shown: dict[str, list[str]] = {}
    for entry in MEANT:
        shown.setdefault(entry.shown_by, []).append(entry.name)
    return shown


def sort_out(
    differences: Iterable[Difference], script: HealthyScript
) -> tuple[list[Difference], frozenset[str]]:
    """The differences that are not meant, and the names of those that are."""
    left: list[Difference] = []
    met: set[str] = set()
    for difference in differences:
        names = [entry.name for entry in MEANT if entry.matches(difference, script)]
        met.update(names)
        if not names:
            left.append(difference)
    return left, frozenset(met)
