"""Writes docs/architecture.md: the machines from their tables, the walks, what each module is."""

from __future__ import annotations

import itertools
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias

from code_index import VENDORED, Code, Function, WalkError
from walks import DROP, FRAME, GAP, HANDLE, Hop, Walk, follow

from livekit.plugins.resilient.core import link
from livekit.plugins.resilient.core.generation import PHASE_MOVES, Phase
from livekit.plugins.resilient.core.state import CONNECTION_MOVES, Connection

Moves: TypeAlias = Mapping[Any, Mapping[Any, frozenset[Any]]]

PAGE: Final = Path(__file__).parents[1] / "docs/architecture.md"

BY_TIME: Final = {
    link.State.UP: (link.State.HANDING_OVER, "the time to leave it has come"),
    link.State.BACKING_OFF: (link.State.DIALLING, "the wait is over"),
}
"""Moves of the line that are no fact's: `Link.due` makes them."""

# Words of ours for what is upstream's.
UPSTREAM_SAYS: Final = {
    "RealtimeSession._recv_task": "Upstream's receive loop: ends with the error of the connection",
    "RealtimeSession._run_ws": "Upstream's send and receive loops on one socket",
    "RealtimeSession._send_client_event": "Upstream's queue, which its send loop empties",
    "RealtimeSession.push_audio": "Upstream's way of a frame: resampled, encoded, queued, sent",
}

PROTOCOLS: Final = ("Connector", "Carrier")
"""What implements them need not say again what each method does."""

FOLDERS: Final = ("core", "runtime", ".", "google", "openai", "inference", "xai", "testing")

HEAD: Final = """\
# Architecture

<!-- Written by scripts/docs.sh from the code; change scripts/architecture.py or the docstrings. -->

An application holds a session, which is upstream's class with ours above it: upstream's code
(`_vendor/`, fetched and patched at build time) still makes and reads the provider's messages, and
ours sees each of them. Ours has three parts. Two state machines without I/O in `core/` decide:
`Link` when to dial, to hand over to another connection and to give up; `TurnMachine` what is owed
to the caller, and when to ask the model again or to end a reply. They take facts (past tense) and
answer decisions (imperative); a clock they do not have, so each says when it wants to be asked
next.

On the event loop, `Runner` carries out what `Link` decides, for every provider in the same way:
dial, restore, serve, switch, close. What a provider does differently stands behind the protocol
`Connector`, which `google/` and `openai/` implement (`inference/` and `xai/` are OpenAI's with
small changes). `Driver` carries out what `TurnMachine` decides, through the session. So a
question of **when** is answered in `core/`, one of **how** in the provider's folder, and
`runtime/` and the drivers only connect the two.
"""

MACHINES: Final = """\
## The two machines

Drawn from the tables by which they move. A fact that leads nowhere else is taken in its state and
not drawn; one that a state has no entry for is refused. {over} leads to `OVER` from every state.

`Link`, the connection (`core/link_state.py`, `MOVES`; by time: `Link.due`):
"""

TURN: Final = """\
`TurnMachine`: the connection as it sees it (`core/state.py`, `CONNECTION_MOVES`), and the reply
that is open (`core/generation.py`, `PHASE_MOVES`; by time: `Rules.act`). {closed} leads to `CLOSED`
from everywhere, and {ended} to `NONE`.
"""

WALKS: Final = """\
## Three walks

A hop is one part's share of the way: an object (a session and upstream's class beneath it are
one), with the functions that a walk passes in it. How it is reached: by a **call**; by what a call
**returns** or raises; by a fact or decision that the part before makes and this one handles; or
what is on its way **rests** for a while. Facts travel by `Driver.feed` and `LinkDriver.feed`. A
test holds each step to the code, a handle to 12 hops, a drop to 15.
"""


def page(code: Code) -> str:
    """The whole page."""
    parts = [
        HEAD,
        "## The picture\n",
        picture(code),
        MACHINES.format(over=_names(_everywhere(link.MOVES, link.State.OVER))),
        _state_diagram(_link_moves()),
        TURN.format(
            closed=_names(_everywhere(_as_sets(CONNECTION_MOVES), Connection.CLOSED)),
            ended=_names(_everywhere(_as_sets(PHASE_MOVES), Phase.NONE)),
        ),
        _state_diagram(_turn_moves()),
        WALKS,
        _walks(code, "A handle", "from the server's message to the difference told", HANDLE),
        _walks(code, "A drop", "from the closed socket to the first audio of the next reply", DROP),
        _walks(code, "A microphone frame", "while a connection serves", FRAME),
        _walks(code, "A microphone frame", "in a gap", GAP),
        "## What lies where\n",
        _packages(code),
    ]
    return "\n".join(parts)


# -- the machines


def _link_moves() -> list[str]:
    lines = _moves(link.State, link.MOVES, link.State.OVER)
    lines += [
        f"    {state.name} --> {after.name}: (time) {why}"
        for state, (after, why) in BY_TIME.items()
    ]
    return lines


def _turn_moves() -> list[str]:
    return [
        *_moves(Connection, _as_sets(CONNECTION_MOVES), Connection.CLOSED),
        *_moves(Phase, _as_sets(PHASE_MOVES), Phase.NONE),
    ]


def _as_sets(moves: Mapping[Any, Mapping[Any, Any]]) -> Moves:
    return {
        state: {fact: frozenset({after}) for fact, after in facts.items()}
        for state, facts in moves.items()
    }


def _moves(states: type[Enum], moves: Moves, sink: Enum) -> list[str]:
    """A table's arrows; but for facts that stay, and those that lead to `sink` from everywhere."""
    hidden = _everywhere(moves, sink)
    arrows: dict[tuple[Enum, Enum], list[str]] = {}
    for state in states:
        for fact, into in moves[state].items():
            for after in states:
                if after in into and after is not state and fact.__name__ not in hidden:
                    arrows.setdefault((state, after), []).append(fact.__name__)
    first = next(iter(states))
    return [
        f"    [*] --> {first.name}",
        *(
            f"    {one.name} --> {other.name}: {', '.join(facts)}"
            for (one, other), facts in arrows.items()
        ),
    ]


def _everywhere(moves: Moves, sink: Enum) -> set[str]:
    """The facts that lead to one state from every state, and nowhere else."""
    leading = [
        {fact.__name__ for fact, into in facts.items() if into == {sink}}
        for facts in moves.values()
    ]
    return set.intersection(*leading)


def _state_diagram(arrows: list[str]) -> str:
    return "\n".join(["```mermaid", "stateDiagram-v2", "    direction LR", *arrows, "```", ""])


def _names(names: set[str]) -> str:
    return " or ".join(f"`{name}`" for name in sorted(names))


# -- the picture and the walks


def picture(code: Code) -> str:
    """The parts that Gemini's walks pass, by folder, and the ways between them."""
    ways: dict[tuple[str, str], list[str]] = defaultdict(list)
    folders: dict[str, dict[str, None]] = defaultdict(dict)
    for walk in (HANDLE[0], DROP[0], FRAME[0], GAP[0]):
        hops = follow(code, walk)
        for hop in hops:
            folders[_home(hop)][hop.part] = None
        for before, after in itertools.pairwise(hops):
            label = after.by if after.how == "message" else walk.name
            if label not in ways[before.part, after.part]:
                ways[before.part, after.part].append(label)
    lines = ["```mermaid", "flowchart LR"]
    for folder, parts in folders.items():
        lines.append(f'    subgraph {folder.strip(".") or "resilient"}["{folder}/"]')
        lines += [f"        {part}" for part in parts]
        lines.append("    end")
    for (one, other), labels in ways.items():
        lines.append(f'    {one} -->|"{", ".join(labels)}"| {other}')
    legend = (
        "The ways of a handle, a drop and a microphone frame through the parts, for Gemini; a fact "
        "or a decision is an arrow of its own name. OpenAI's differ in the provider's folder only."
    )
    return "\n".join([*lines, "```", "", _wrapped(legend), ""])


def _home(hop: Hop) -> str:
    """The folder of a part: ours, where upstream's class is beneath it."""
    parts = [part for part in hop.functions[0].path.parts[:-1] if part != VENDORED]
    return parts[0] if parts else "."


def _walks(code: Code, what: str, span: str, walks: tuple[Walk, ...]) -> str:
    first, second = walks
    known = follow(code, first)
    lines = [f"### {what}, {span}", ""]
    lines += [
        *_table(code, first, known, []),
        "",
        *_table(code, second, follow(code, second), known),
    ]
    return "\n".join([*lines, ""])


def _table(code: Code, walk: Walk, hops: list[Hop], known: list[Hop]) -> list[str]:
    label = {"google": "Gemini", "openai": "OpenAI"}[walk.provider]
    lines = [
        _wrapped(f"**{label}**, {len(hops)} hops, {len(walk.steps)} functions. {walk.note}"),
        "",
        "| | reached by | part: functions | in | what it does |",
        "|---|---|---|---|---|",
    ]
    same = {_look(hop): number for number, hop in enumerate(known, 1)}
    number = 0
    while number < len(hops):
        run = number
        while run < len(hops) and _look(hops[run]) in same:
            run += 1
        if run - number > 1:
            there = [same[_look(hop)] for hop in hops[number:run]]
            numbers = f"{number + 1} to {run}"
            lines.append(f"| {numbers} | | as Gemini's {there[0]} to {there[-1]} | | |")
            number = run
            continue
        hop = hops[number]
        number += 1
        lines.append(
            f"| {number} | {_reached(hop)} | `{hop.part}`: {_functions(hop)} "
            f"| {_files(hop)} | {_says(code, hop)} |"
        )
    rested = [step for step in walk.steps if step.how == "rest"]
    if rested:
        where = "; ".join(_rest(step.by, step.why) for step in rested)
        lines += ["", _wrapped(f"Rests: {where}.")]
    return lines


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 99, break_long_words=False, break_on_hyphens=False)


def _look(hop: Hop) -> tuple[object, ...]:
    return hop.how, hop.by, tuple((f.path, f.qualified) for f in hop.functions)


def _rest(where: str, why: str) -> str:
    return f"`{where}`, {why}" if where else why


def _reached(hop: Hop) -> str:
    match hop.how:
        case "begin":
            return ""
        case "back":
            return "return"
        case "message":
            return f"`{hop.by}`"
        case "rest":
            return f"rest in `{hop.by}`" if hop.by else "rest"
        case _:
            return "call"


def _functions(hop: Hop) -> str:
    return ", ".join(_name(hop.part, function) for function in hop.functions)


def _name(part: str, function: Function) -> str:
    if function.owner is not None and function.owner.name != part:
        return f"`{function.qualified}`"
    return f"upstream's `{function.name}`" if function.is_upstream else f"`{function.name}`"


def _files(hop: Hop) -> str:
    return ", ".join(dict.fromkeys(f"`{f.path.as_posix()}`" for f in hop.functions))


def _says(code: Code, hop: Hop) -> str:
    function = hop.functions[0]
    said = says(code, function)
    if not said:
        raise WalkError(f"{function.path}: {function.qualified} needs a docstring")
    return said.replace("|", "\\|")


def says(code: Code, function: Function) -> str:
    """The first sentence on a function; "" where nobody wrote one."""
    if function.is_upstream:
        return UPSTREAM_SAYS.get(function.qualified, "")
    return code.doc(function, PROTOCOLS)


# -- the modules


def _packages(code: Code) -> str:
    docs: dict[str, list[tuple[str, str]]] = {folder: [] for folder in FOLDERS}
    heads: dict[str, str] = {".": "What both providers' sessions share, and the public face"}
    for module in code.modules:
        path = module.path
        folder = path.parts[0] if len(path.parts) > 1 else "."
        if folder == VENDORED:
            continue
        if not module.doc:
            raise WalkError(f"{path}: a module needs a docstring")
        if path.stem == "__init__" and len(path.parts) == 2:
            heads[folder] = module.doc
        elif len(path.parts) < 3 or path.stem == "__init__":
            docs[folder].append((path.relative_to(folder).as_posix(), module.doc))
    lines = ["| folder | modules | what it is |", "|---|---|---|"]
    lines += [f"| `{folder}/` | {len(docs[folder])} | {heads[folder]} |" for folder in FOLDERS]
    lines.append(f"| `{VENDORED}/` | | Upstream's classes, fetched and patched at build time |")
    for folder in FOLDERS:
        lines += ["", f"<details><summary>{folder}/</summary>", ""]
        lines += [f"- `{name}`: {doc}" for name, doc in docs[folder]]
        lines += ["", "</details>"]
    return "\n".join([*lines, ""])


def main() -> None:
    PAGE.write_text(page(Code()), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
