"""Servers whose messages are odd: one field of a message that a simulator sends is replaced.

    with Rewriting() as rewriting:
        ...
        rewriting.todo = OneField(is_done, ("response", "status"), 5)

Both simulators send what they send through one socket class, so that is where messages are changed.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any
from unittest.mock import patch

from livekit.plugins.resilient.testing import HeadlessCall
from livekit.plugins.resilient.testing.server import SimulatedServer
from livekit.plugins.resilient.testing.wire import Wire

Path = tuple[str | int, ...]


class _Missing:
    def __repr__(self) -> str:
        return "missing"


MISSING: Any = _Missing()

ODD_VALUES: tuple[Any, ...] = (
    MISSING,
    None,
    True,
    -1,
    10**30,
    float("inf"),
    "",
    "odd",
    "\ud800",
    [],
    [None],
    {},
    {"odd": 1},
)
"""What a field can hold that nobody expects: no value, other types, other values of its type."""


@dataclass(frozen=True)
class OneField:
    """One field of the next message that has it is replaced.

    Attributes:
        holds: what the message must have for that.
        path: of the field.
        value: what stands there instead; MISSING for nothing.
    """

    holds: Callable[[Mapping[str, Any]], bool]
    path: Path
    value: Any

    def applied_to(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The message with it; None where it has no such field."""
        if not self.holds(message):
            return None
        changed = copy.deepcopy(dict(message))
        parent: Any = changed
        try:
            for key in self.path[:-1]:
                parent = parent[key]
            parent[self.path[-1]]
        except (KeyError, IndexError, TypeError):
            return None
        if self.value is MISSING:
            del parent[self.path[-1]]
        else:
            parent[self.path[-1]] = self.value
        return changed


class Rewriting:
    """While it is entered, messages that a simulator sends are changed.

    Args:
        ahead: the frames that are sent ahead of a message.

    Attributes:
        todo: the change that is to be made next, if any; it is made once.
        sent: the messages as they would have been sent.
    """

    def __init__(
        self, ahead: Callable[[Mapping[str, Any]], Iterable[str | bytes]] = lambda _: ()
    ) -> None:
        self._ahead = ahead
        self.todo: OneField | None = None
        self.sent: list[dict[str, Any]] = []
        self._patch: Any = None

    def __enter__(self) -> Rewriting:
        send = Wire.send

        async def rewritten(wire: Wire, text: str | bytes) -> None:
            try:
                message = json.loads(text)
            except ValueError:
                await send(wire, text)
                return
            for frame in self._ahead(message):
                await send(wire, frame)
            self.sent.append(message)
            changed = None if self.todo is None else self.todo.applied_to(message)
            if changed is not None:
                self.todo = None
            await send(wire, text if changed is None else json.dumps(changed))

        self._patch = patch.object(Wire, "send", rewritten)
        self._patch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._patch.stop()


def odd_fields(
    message: Mapping[str, Any], holds: Callable[[Mapping[str, Any]], bool], *, each: int = 3
) -> list[OneField]:
    """Changes of every field of a message, `each` per field, by turns of all the odd values."""
    values = cycle(ODD_VALUES)
    return [
        OneField(holds, path, value) for path in paths_of(message) for value in islice(values, each)
    ]


async def answered_over(
    call: HeadlessCall,
    server: SimulatedServer,
    rewriting: Rewriting,
    changes: Iterable[OneField],
    question: str,
) -> int:
    """Have a caller ask `question` once for each change, which spoils a message of that turn, and
    then something else, which must be answered on the same connection.

    Returns:
        How many of the changes were made.
    """
    made = 0
    for change in changes:
        rewriting.todo = change
        server.user_says(question)
        await call.say(1.0)
        await asyncio.sleep(TURN_S)
        made += rewriting.todo is None
        rewriting.todo = None
        server.user_says("can you hear me")
        said = await call.say(1.0)
        try:
            await call.reply(after=said.ended_at, timeout_s=20.0)
        except Exception as e:
            raise AssertionError(f"no answer after {change.path} = {change.value!r}") from e
        await call.agent_done()
        assert len(server.dials()) == 1, f"redialled for {change.path} = {change.value!r}"
        assert call.closed is None, f"closed for {change.path} = {change.value!r}"
    return made


# A turn with a tool, to its end.
TURN_S = 10.0


def paths_of(message: Any) -> Iterator[Path]:
    """Every field of a message, the outer ones first; of a list, the first element."""
    if isinstance(message, dict):
        for key, value in message.items():
            yield (key,)
            for below in paths_of(value):
                yield (key, *below)
    elif isinstance(message, list) and message:
        yield (0,)
        for below in paths_of(message[0]):
            yield (0, *below)
