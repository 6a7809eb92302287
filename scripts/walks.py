"""The walks of docs/architecture.md: which functions something passes on its way through the code.

A walk is a list of steps, each to the next function, and each must show in the code: see `follow`.
Consecutive functions of one part are one hop. A part is an object; a session and upstream's class
beneath it are one, and so are the turns and their `PARTS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from code_index import Code, Function, WalkError

How: TypeAlias = Literal["begin", "call", "back", "message", "rest"]

PARTS = dict.fromkeys(("Redrives", "Replies", "Rules", "TurnState"), "TurnMachine")
"""Objects that belong to another, which nobody else sees."""

MESSAGES = ("facts", "decisions", "link_decisions", "link_facts")
"""Modules of the facts and decisions."""

SENDING = frozenset({"send_str", "_live"})
"""What a function names that writes to a socket: only then can something rest with the server."""

MOST_RESTS = 4
"""In one walk."""


@dataclass(frozen=True)
class Step:
    """To the next function.

    Attributes:
        to: Its name, see `code_index`.
        how: "call": the one before names it. "back": it named the one before, and gets what that
            returns or raises. "message": the one before makes a fact or a decision, which it
            handles. "rest": what is on its way is kept for a while, and the rest is declared.
        by: The message's class; the attribute in which it rests, "" where it is not with us.
        why: How long it rests.
    """

    to: str
    how: How = "call"
    by: str = ""
    why: str = ""


@dataclass(frozen=True)
class Walk:
    """One way through the code, for one provider's folder.

    Attributes:
        most: How many hops it may have; None for any number.
        note: What happens beside it.
    """

    name: str
    provider: str
    steps: tuple[Step, ...]
    note: str
    most: int | None = None


@dataclass(frozen=True)
class Hop:
    """One part's share of a walk; `how` and `by` tell how it is reached."""

    part: str
    functions: tuple[Function, ...]
    how: How
    by: str


def begin(name: str) -> Step:
    return Step(name, "begin")


def calls(*names: str) -> list[Step]:
    return [Step(name) for name in names]


def back(*names: str) -> list[Step]:
    return [Step(name, "back") for name in names]


def sends(message: str, to: str) -> Step:
    return Step(to, "message", message)


def rests(where: str, to: str, why: str) -> Step:
    return Step(to, "rest", where, why)


def follow(code: Code, walk: Walk) -> list[Hop]:
    """The hops of a walk, each step checked.

    Raises:
        WalkError: A function is not there, a step does not show in the code, or there are more hops
            or rests than there may be.
    """
    functions = [code.function(step.to, walk.provider) for step in walk.steps]
    for number, step in enumerate(walk.steps):
        if (step.how == "begin") is not (number == 0):
            raise WalkError(f"{walk.name}: it begins once, and not at {step.to}")
        if number and (fault := _fault(code, step, functions, number)):
            before = functions[number - 1].qualified
            raise WalkError(f"{walk.name}, {walk.provider}: {before} to {step.to}: {fault}")
    hops: list[Hop] = []
    for step, function in zip(walk.steps, functions, strict=True):
        part = _part(function, hops)
        if hops and hops[-1].part == part:
            last = hops[-1]
            hops[-1] = Hop(part, (*last.functions, function), last.how, last.by)
        else:
            hops.append(Hop(part, (function,), step.how, step.by))
    if walk.most is not None and len(hops) > walk.most:
        raise WalkError(f"{walk.name}, {walk.provider}: {len(hops)} hops, of {walk.most}")
    if sum(step.how == "rest" for step in walk.steps) > MOST_RESTS:
        raise WalkError(f"{walk.name}, {walk.provider}: more than {MOST_RESTS} rests")
    return hops


def _fault(code: Code, step: Step, functions: list[Function], number: int) -> str:
    """What is wrong with a step; "" for nothing."""
    before, after = functions[number - 1], functions[number]
    match step.how:
        case "call" if not before.names(after):
            return "the first does not name the second"
        case "back" if not after.names(before):
            return "the second does not name the first"
        case "message" if not code.has_class(step.by, MESSAGES):
            return f"{step.by} is no fact and no decision"
        case "message" if step.by not in before.mentioned:
            return f"the first makes no {step.by}"
        case "message" if step.by not in after.mentioned:
            return f"the second handles no {step.by}"
        case "rest" if not step.why:
            return "a rest must be explained"
        case "rest" if not step.by and not before.attributes & SENDING:
            return "the first sends nothing to a server"
        case "rest" if step.by and not _is_kept(step.by, functions[:number]):
            return f"nothing before it keeps it in {step.by}"
        case "rest" if step.by and not _is_kept(step.by, functions[number:]):
            return f"nothing after it reads {step.by}"
        case _:
            return ""


def _is_kept(attribute: str, functions: list[Function]) -> bool:
    return any(attribute in function.mentioned for function in functions)


def _part(function: Function, hops: list[Hop]) -> str:
    """The part that a function is of; one of no class is of the part before, in the same module."""
    if function.owner is not None:
        return PARTS.get(function.owner.name, function.owner.name)
    if hops and hops[-1].functions[-1].path == function.path:
        return hops[-1].part
    return function.path.stem


_LOST = [
    *back("Connector.serve", "Runner._serve", "Runner._over_one", "Runner._attempt"),
    *calls("LinkDriver.lost"),
    sends("LineLost", "Link._take"),
    *calls("Link._lost"),
    rests("_redial_at", "Link.next_deadline", "until the wait before the redial is over"),
    *back("Link.due"),
    *calls("Link._dial"),
    sends("Dial", "Runner.run"),
    *calls("Runner._attempt", "Runner._over_one", "Connector.serves"),
]

_ASKED = [
    *calls("TurnState.connected", "Replies.reconnected"),
    rests("_edge", "TurnMachine.due", "until the model had its time to go on by itself"),
    *calls("Rules.act", "Replies.redrive", "Redrives.ask", "redrives:asking"),
    sends("Redrive", "Driver._carry_out"),
    *calls("Driver._redrive", "RealtimeSession.redrive"),
]

_QUEUED = "in the session's queue, until upstream's loop sends it"
_ANSWER = "with the server, until it answers with the first audio"
_NEXT = "until the next connection is made"

HANDLE = (
    Walk(
        "handle",
        "google",
        (
            begin("LiveSession.receive"),
            *back("upstream:RealtimeSession._recv_task"),
            *calls("hooks:received", "RealtimeSession._received"),
            *calls("Dispatch.received", "Dispatch._follow"),
            *calls("Mirror.take_handle", "Resumption.handle_issued"),
            rests("resumption", "Runner._over_one", _NEXT),
            *calls("Runner._restore", "Connector.restore"),
            *calls("Mirror.restore", "Mirror._tell_difference"),
            *calls("LiveSession.send_client_content"),
        ),
        "The handle itself goes into the set-up of that connection: `Connector.dial`, "
        "`RealtimeSession._build_connect_config`. What is told is what `Resumption` holds "
        "open: the items that the handle does not stand for.",
        most=12,
    ),
    Walk(
        "handle",
        "openai",
        (
            begin("SwappableSocket.receive"),
            *back("upstream:RealtimeSession._run_ws"),
            *calls("RealtimeSession._handle_conversion_item_added"),
            *calls("upstream:RealtimeSession._handle_conversion_item_added"),
            rests("_remote_chat_ctx", "Runner._over_one", _NEXT),
            *calls(
                "Runner._restore",
                "Connector.restore",
                "Connector._tell",
                "ConnectionEvents.difference_for",
            ),
            *calls("ReplayState.difference", "ReplayState._new_items", "ReplayState._updates"),
            *calls("Engine.history_events"),
        ),
        "OpenAI issues no handles: every connection is told the whole history. What the server "
        "said is kept in upstream's copy of it, the mirror, which is compared with what a "
        "connection knows.",
        most=12,
    ),
)

DROP = (
    Walk(
        "drop",
        "google",
        (
            begin("LiveSession.receive"),
            *back("upstream:RealtimeSession._recv_task", "Engine.receive_loop"),
            *_LOST,
            *calls("ConnectionEvents.on_connected", "InboundEvents.connected"),
            sends("Connected", "TurnMachine._take"),
            *_ASKED,
            *calls("RealtimeSession._send_client_event"),
            *calls("upstream:RealtimeSession._send_client_event"),
            rests("_msg_ch", "upstream:RealtimeSession._send_task", _QUEUED),
            *calls("LiveSession.send_client_content"),
            rests("", "LiveSession.receive", _ANSWER),
        ),
        "On the way, `Runner._serve` has `Connector.ended` tell the `TurnMachine` `Disconnected`: "
        "the streams of the reply that was cut are closed at once. `Runner._over_one` dials and "
        "restores (the walk of a handle) before the connection serves. The audio then goes the way "
        "of any.",
        most=15,
    ),
    Walk(
        "drop",
        "openai",
        (
            begin("SwappableSocket.receive"),
            *back("upstream:RealtimeSession._run_ws", "Engine.run"),
            *_LOST,
            *calls("ConnectionEvents.on_connected", "ConnectionEvents._feed_connected"),
            sends("Connected", "TurnMachine._take"),
            *_ASKED,
            *calls("RealtimeSession.send_event"),
            *calls("upstream:RealtimeSession.send_event"),
            rests("_msg_ch", "upstream:RealtimeSession._run_ws", _QUEUED),
            rests("", "SwappableSocket.receive", _ANSWER),
        ),
        "`SwappableSocket` passes on what upstream's loop sends, so that the socket below it can "
        "be swapped.",
        most=15,
    ),
)

FRAME = (
    Walk(
        "frame",
        "google",
        (
            begin("RealtimeSession.push_audio"),
            *calls("upstream:RealtimeSession.push_audio", "RealtimeSession._send_client_event"),
            *calls("Dispatch.sending", "SendQueue.keeps"),
            *back("Dispatch.sending", "RealtimeSession._send_client_event"),
            *calls("upstream:RealtimeSession._send_client_event"),
            rests("_msg_ch", "upstream:RealtimeSession._send_task", _QUEUED),
            *calls("LiveSession.send_realtime_input"),
        ),
        "`Driver.hear` listens to each frame for speech, beside this walk, and sends nothing.",
    ),
    Walk(
        "frame",
        "openai",
        (
            begin("RealtimeSession.push_audio"),
            *calls("Microphone.takes"),
            *back("RealtimeSession.push_audio"),
            *calls("upstream:RealtimeSession.push_audio", "upstream:RealtimeSession._append_audio"),
            *calls("RealtimeSession.send_event", "upstream:RealtimeSession.send_event"),
            rests("_msg_ch", "upstream:RealtimeSession._run_ws", _QUEUED),
        ),
        "Upstream's loop writes to the socket, through `SwappableSocket`.",
    ),
)

GAP = (
    Walk(
        "frame",
        "google",
        (
            begin("RealtimeSession.push_audio"),
            *calls("upstream:RealtimeSession.push_audio", "RealtimeSession._send_client_event"),
            *calls("Dispatch.sending", "SendQueue.keeps", "GapAudio.keep"),
            rests("_gap_audio", "Connector.serves", _NEXT),
            *calls("ConnectionEvents.on_connected", "SendQueue.release", "Engine.enqueue"),
            *calls("upstream:RealtimeSession._send_client_event"),
            rests("_msg_ch", "upstream:RealtimeSession._send_task", _QUEUED),
            *calls("LiveSession.send_realtime_input"),
        ),
        "Only the newest second is kept; what is older is dropped and counted.",
    ),
    Walk(
        "frame",
        "openai",
        (
            begin("RealtimeSession.push_audio"),
            *calls("Microphone.takes", "Microphone.missed", "GapAudio.keep"),
            rests("_gap", "Connector.serves", _NEXT),
            *calls("ConnectionEvents.on_connected", "Microphone.for_new_connection"),
            *back("ConnectionEvents.on_connected"),
            *calls("ConnectionEvents._push_again", "Engine.push_audio"),
            *calls("upstream:RealtimeSession.push_audio"),
            *calls("upstream:RealtimeSession._append_audio"),
            *calls("RealtimeSession.send_event", "upstream:RealtimeSession.send_event"),
            rests("_msg_ch", "upstream:RealtimeSession._run_ws", _QUEUED),
        ),
        "A sentence that was under way is kept from its beginning.",
    ),
)
