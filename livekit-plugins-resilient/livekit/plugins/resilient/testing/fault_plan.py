"""Check fault plans, read them from TOML, and keep count of what has fired."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from .errors import FaultPlanError, missing_dependency, unknown
from .faults import (
    ACTIONS,
    TRIGGERS,
    Action,
    After,
    AtTime,
    Before,
    Fault,
    Received,
    Trigger,
)
from .fields import check_type, hints_of

_Part = TypeVar("_Part", Trigger, Action)


@dataclass(frozen=True)
class Vocabulary:
    """What one provider's server can do: its events, its client's messages, its actions."""

    provider: str
    server_events: frozenset[str]
    client_events: frozenset[str]
    actions: frozenset[type[Action]]

    def check(self, fault: Fault) -> None:
        """Refuse what this provider does not have.

        Raises:
            FaultPlanError: an unknown event or action; the message lists the known ones.
        """
        trigger = fault.trigger
        if isinstance(trigger, Before | After) and trigger.event not in self.server_events:
            raise unknown(f"{self.provider} server event", trigger.event, self.server_events)
        if isinstance(trigger, Received) and trigger.event not in self.client_events:
            raise unknown(f"{self.provider} client message", trigger.event, self.client_events)
        for action in fault.actions:
            if type(action) not in self.actions:
                known = (known.__name__ for known in self.actions)
                raise unknown(f"{self.provider} action", type(action).__name__, known)


def snake_case(name: str) -> str:
    """`AtAudio` as it is written in a plan: `at_audio`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_TRIGGER_NAMES: dict[str, type[Trigger]] = {snake_case(t.__name__): t for t in TRIGGERS}
_ACTION_NAMES: dict[str, type[Action]] = {snake_case(a.__name__): a for a in ACTIONS}


def load_plan(path: str | Path, vocabulary: Vocabulary | None = None) -> tuple[Fault, ...]:
    """Read a fault plan from a TOML file; see `parse_plan`.

    Raises:
        FaultPlanError: the file is missing or no UTF-8, or as `parse_plan` says.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise FaultPlanError(f"cannot read the fault plan {path.name!r}: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise FaultPlanError(f"the fault plan {path.name!r} is not UTF-8") from None
    return parse_plan(text, vocabulary)


def parse_plan(text: str, vocabulary: Vocabulary | None = None) -> tuple[Fault, ...]:
    """Read a fault plan from TOML text.

    One `[[fault]]` table per fault. `trigger` and `action` are a name or a table with `name` and
    the fields of the class; `action` may be an array of these. Names are in snake case::

        [[fault]]
        trigger = { name = "at_audio", position_s = 1.0, connection = 1 }
        action = "abort"

        [[fault]]
        trigger = { name = "on_connection", connection = 2 }
        action = [{ name = "stale_handle", when = "after_setup" }, "no_handle"]
        times = 1

    Raises:
        FaultPlanError: no TOML, or an unknown key, trigger, action, field or event; the message
            names the fault by its position and lists what is known.
    """
    toml = _toml()
    try:
        document: dict[str, Any] = toml.loads(text)
    except toml.TOMLDecodeError as exc:
        raise FaultPlanError(f"the fault plan is not TOML: {exc}") from None
    if extra := document.keys() - {"fault"}:
        raise unknown("key in a fault plan", min(extra), ["fault"])
    tables = document.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FaultPlanError("write each fault as a [[fault]] table")
    faults = []
    for number, table in enumerate(tables, start=1):
        try:
            fault = _fault(table)
            if vocabulary is not None:
                vocabulary.check(fault)
        except FaultPlanError as exc:
            raise FaultPlanError(f"fault {number}: {exc}") from None
        faults.append(fault)
    return tuple(faults)


def _toml() -> Any:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing_dependency(name, "Reading a fault plan from TOML") from None


def _fault(table: Mapping[str, Any]) -> Fault:
    keys = {"trigger", "action", "times"}
    if extra := table.keys() - keys:
        raise unknown("key", min(extra), keys)
    for key in ("trigger", "action"):
        if key not in table:
            raise FaultPlanError(f"{key!r} is missing")
    written = table["action"]
    actions = written if isinstance(written, list) else [written]
    return Fault(
        _part("trigger", table["trigger"], _TRIGGER_NAMES),
        tuple(_part("action", action, _ACTION_NAMES) for action in actions),
        table.get("times", 1),
    )


def _part(what: str, written: object, known: Mapping[str, type[_Part]]) -> _Part:
    if isinstance(written, str):
        written = {"name": written}
    if not isinstance(written, dict) or not isinstance(written.get("name"), str):
        raise FaultPlanError(f"{what} must be a name or a table with a name, not {written!r}")
    name: str = written["name"]
    if name not in known:
        raise unknown(what, name, known)
    cls = known[name]
    hints = hints_of(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in written.items():
        if key == "name":
            continue
        if key not in fields:
            raise unknown(f"field of {name}", key, fields)
        check_type(f"{name}.{key}", value, hints[key])
        values[key] = value
    for field in fields.values():
        needed = field.default is dataclasses.MISSING
        if needed and field.default_factory is dataclasses.MISSING and field.name not in values:
            raise FaultPlanError(f"{name} needs the field {field.name!r}")
    return cls(**values)


class _Armed:
    __slots__ = ("fault", "fired", "seen")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.seen = 0
        self.fired = 0


class FaultEngine:
    """Counts matches and says which actions fall due. It performs nothing itself."""

    def __init__(self, vocabulary: Vocabulary, faults: Iterable[Fault] = ()) -> None:
        self.vocabulary = vocabulary
        self._armed: dict[type[Trigger], list[_Armed]] = {}
        if isinstance(faults, Fault | str):
            raise FaultPlanError(
                f"faults must be a list of Fault, not {type(faults).__name__} "
                "(parse_plan reads TOML)"
            )
        for fault in faults:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """Arm a fault.

        Raises:
            FaultPlanError: this provider lacks its event or action, or it is no fault at all.
        """
        if not isinstance(fault, Fault):
            raise FaultPlanError(f"a fault must be of type Fault, not {type(fault).__name__}")
        self.vocabulary.check(fault)
        self._armed.setdefault(type(fault.trigger), []).append(_Armed(fault))

    def watches(self, kind: type[Trigger]) -> bool:
        """Whether any fault waits for this kind of trigger: lets hot paths skip the search."""
        return kind in self._armed

    def fire(
        self,
        kind: type[Trigger],
        connection: int,
        matches: Callable[[Any], bool] = lambda trigger: True,
        *,
        only: Callable[[Action], bool] = lambda action: True,
    ) -> list[tuple[Fault, Action]]:
        """Count a match of `kind` on `connection` and return the actions that now fall due.

        `only` chooses the actions of one stage of a connection; a fault with none is not counted.
        """
        found: list[tuple[Fault, Action]] = []
        for armed in self._armed.get(kind, ()):
            fault, trigger = armed.fault, armed.fault.trigger
            due = [action for action in fault.actions if only(action)]
            if not due or trigger.connection not in (None, connection) or not matches(trigger):
                continue
            armed.seen += 1
            if armed.seen < trigger.nth:
                continue
            if fault.times != "always" and armed.fired >= fault.times:
                continue
            armed.fired += 1
            found.extend((fault, action) for action in due)
        return found

    def timers(self, connection: int) -> list[AtTime]:
        """The distinct timed triggers that concern a connection which has just opened."""
        found = [armed.fault.trigger for armed in self._armed.get(AtTime, ())]
        return list(
            dict.fromkeys(
                trigger
                for trigger in found
                if isinstance(trigger, AtTime) and trigger.connection in (None, connection)
            )
        )
