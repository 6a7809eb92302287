"""Facts about the providers' wires, and whether a session keeps to them.

A fact names the recording that shows it, a public report that measured it, or, where nobody
recorded it, the document that it is assumed from. It speaks of one situation, such as a spoken
turn, and is looked for in sessions: what a simulator and a client said to each other in that
situation, or the recording itself (`scripts/bench.sh recordings`).

    [[fact]]
    id = "2.5-spoken-turn"
    recording = "test_google_ws/test_audio_in_server_vad_turn.yaml"
    dialect = "2.5"
    situation = "spoken-turn"
    order = "> setup | setupComplete ..."

A session is a list of steps; each has a name, which a provider's module gives it. `order` is a
pattern of names with the operators ( ) | * + ? that must fit the whole session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from vendoring.toml import read_toml

Range: TypeAlias = tuple[float, float]
"""Least and greatest."""

SOURCES = ("recording", "report", "assumed")
"""What a fact rests on; each names one. "report": a public log or measurement; "assumed": a
document or a report that nobody recorded."""

_TOKEN = re.compile(r"[()|*+?]|[^\s()|*+?]+")
_LENGTH = re.compile(r"<(\d+)(?:-(\d+))? chars>")


@dataclass(frozen=True)
class Step:
    """One message of a session.

    Attributes:
        name: what the message is; see the provider's module. Those of the client begin with ">".
        message: as decoded from JSON; of the client's some recordings keep nothing.
        at: seconds on any clock; None where a recording has no times.
    """

    name: str
    message: Mapping[str, Any] = field(default_factory=dict)
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What a provider does in one situation.

    Attributes:
        id: unique in its file.
        source: what it rests on.
        where: name of the recording, or address of the report or document.
        dialect: which of the provider's families or endpoints.
        situation: what happens, by the name of a function that plays it.
        note: what a reader should know.
        order: pattern of the steps' names.
        before: pairs of names: the first step of the one comes before the first of the other.
        never: names that no step has.
        fields: by a step's name, exactly the paths that its message has; one that ends with "?"
            may be missing.
        has: the same, but there may be others.
        values: by path, what stands there: a literal, or a length as in "<33-34 chars>".
        times: by a measure's name, its range; see `measures`.
    """

    id: str
    source: Literal["recording", "report", "assumed"]
    where: str
    dialect: str
    situation: str
    note: str = ""
    order: str = ""
    before: tuple[tuple[str, str], ...] = ()
    never: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    times: Mapping[str, Range] = field(default_factory=dict)


def load(path: Path) -> list[Fact]:
    """The facts of a file.

    Raises:
        ValueError: an unknown key, no source or two, a doubled id, or a fact that says nothing.
    """
    facts = [_fact(entry) for entry in read_toml(path)["fact"]]
    ids = [fact.id for fact in facts]
    doubled = sorted({name for name in ids if ids.count(name) > 1})
    if doubled:
        raise ValueError(f"{path.name}: more than one fact is named {', '.join(doubled)}")
    return facts


def _fact(entry: dict[str, Any]) -> Fact:
    name = entry.get("id", "?")
    given = [source for source in SOURCES if source in entry]
    if len(given) != 1:
        raise ValueError(f"{name}: needs one of {', '.join(SOURCES)}, not {given or 'none'}")
    source: Any = given[0]
    where = entry.pop(source)
    unknown = set(entry) - set(Fact.__dataclass_fields__)
    if unknown:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
    if not set(entry) & {"order", "before", "never", "fields", "has", "values", "times"}:
        raise ValueError(f"{name}: says nothing")
    tables: dict[str, Any] = {
        key: {path: _strings(value) for path, value in entry.pop(key, {}).items()}
        for key in ("fields", "has", "values")
    }
    return Fact(
        source=source,
        where=where,
        before=tuple((first, second) for first, second in entry.pop("before", ())),
        never=tuple(entry.pop("never", ())),
        times={key: (least, most) for key, (least, most) in entry.pop("times", {}).items()},
        **tables,
        **entry,
    )


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(one) for one in value)
    return (str(value),)


def broken(
    fact: Fact, session: Sequence[Step], measured: Mapping[str, float] | None = None
) -> list[str]:
    """In what the session does not keep to the fact; empty where it does.

    `measured` has the session's measures by name, without those that cannot be taken of it.
    """
    return [
        *_order(fact, session),
        *_places(fact, session),
        *_paths(fact, session),
        *_values(fact, session),
        *_times(fact, measured),
    ]


def _order(fact: Fact, session: Sequence[Step]) -> Iterator[str]:
    names = [step.name for step in session]
    for name in fact.never:
        if name in names:
            yield f"there is {name}"
    if not fact.order:
        return
    steps = "".join(f"{name} " for name in names)
    if not re.fullmatch(_pattern(fact.order), steps):
        yield f"the order is {_short(names)}"


def _pattern(order: str) -> str:
    return "".join(
        token if token in "()|*+?" else f"(?:{re.escape(token)} )"
        for token in _TOKEN.findall(order)
    )


def _short(names: Sequence[str]) -> str:
    """The names, each run of equal ones once, with its length."""
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return " ".join(name if count == 1 else f"{name}*{count}" for name, count in runs)


def _places(fact: Fact, session: Sequence[Step]) -> Iterator[str]:
    names = [step.name for step in session]
    for first, second in fact.before:
        for name in (first, second):
            if name not in names:
                yield f"there is no {name}"
                break
        else:
            if names.index(first) > names.index(second):
                yield f"{second} comes before {first}"


def _paths(fact: Fact, session: Sequence[Step]) -> Iterator[str]:
    for name, wanted in {**fact.fields, **fact.has}.items():
        own = [step for step in session if step.name == name]
        if not own:
            yield f"there is no {name}"
        needed = {path for path in wanted if not path.endswith("?")}
        allowed = {path.rstrip("?") for path in wanted}
        for step in own:
            found = set(paths(step.message))
            missing = sorted(needed - found)
            if missing:
                yield f"{name} lacks {', '.join(missing)}"
                break
            if name in fact.fields and (more := sorted(found - allowed)):
                yield f"{name} has {', '.join(more)} too"
                break


def _values(fact: Fact, session: Sequence[Step]) -> Iterator[str]:
    for path, allowed in fact.values.items():
        name, _, below = path.partition("/")
        found = [
            value
            for step in session
            if step.name == name
            for at, value in leaves(step.message)
            if at == below
        ]
        if not found:
            yield f"there is no {path}"
        for value in found:
            if not any(_is(value, one) for one in allowed):
                yield f"{path} is {value!r}"
                break


def _is(value: object, allowed: str) -> bool:
    length = _LENGTH.fullmatch(allowed)
    if length is None:
        return str(value) == allowed
    least, most = int(length[1]), int(length[2] or length[1])
    written = _LENGTH.fullmatch(str(value))  # a recording keeps no ids, but their lengths
    return least <= (int(written[1]) if written else len(str(value))) <= most


def _times(fact: Fact, measured: Mapping[str, float] | None) -> Iterator[str]:
    if measured is None:
        return
    for name, (least, most) in fact.times.items():
        if name not in measured:
            yield f"{name} cannot be measured"
        elif not least <= measured[name] <= most:
            yield f"{name} is {measured[name]:.3f}, not {least:g} to {most:g}"


def paths(message: object, at: str = "") -> Iterator[str]:
    """The paths of a message's leaves, with "[]" for the elements of a list."""
    seen = dict.fromkeys(path for path, _ in leaves(message, at))
    yield from seen


def leaves(message: object, at: str = "") -> Iterator[tuple[str, object]]:
    """Path and value of everything in a message that holds nothing itself."""
    if isinstance(message, Mapping) and message:
        for key, value in message.items():
            yield from leaves(value, f"{at}.{key}" if at else str(key))
    elif isinstance(message, list) and message:
        for value in message:
            yield from leaves(value, f"{at}[]")
    elif at:
        yield at, message


def between(session: Sequence[Step], first: str, second: str) -> float | None:
    """Seconds from the first step of one name to the first after it of another."""
    started = next((step for step in session if step.name == first), None)
    if started is None or started.at is None:
        return None
    rest = session[session.index(started) + 1 :]
    ended = next((step for step in rest if step.name == second), None)
    return None if ended is None or ended.at is None else ended.at - started.at
