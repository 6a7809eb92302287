"""Everything that crossed the wire, with connection numbers and times, so that a test can ask.

Connections are numbered from 1 in the order of their dials; a refused dial takes a number too.
Times are the event loop's monotonic seconds.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from .errors import ServerTimeoutError

SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "api-key", "x-goog-api-key", "cookie"}
)
SECRET_QUERY = frozenset({"key", "access_token", "api-key"})
REDACTED = "[redacted]"

TIME_UNIT = float(os.environ.get("RESILIENT_TEST_TIME_UNIT", "1"))
"""Factor on every wait of a test, for slow machines."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message, decoded.

    Attributes:
        connection: number of the connection, counted from 1.
        at: monotonic seconds.
        kinds: the names of what the message holds; usually one.
        message: the decoded JSON; for audio the payload is in `audio` instead.
        audio: PCM, where the message carries sound.
        audio_s: its length in seconds.
        texts: the texts that the message puts into the conversation.
        call_ids: the tool calls that it answers.
    """

    connection: int
    at: float
    kinds: tuple[str, ...]
    message: Mapping[str, Any] = field(default_factory=dict)
    audio: bytes = b""
    audio_s: float = 0.0
    texts: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The first of `kinds`."""
        return self.kinds[0]


@dataclass(frozen=True, slots=True)
class Dial:
    """One HTTP upgrade. `status` is 101, or the status it was refused with, or 0 while it hangs."""

    connection: int
    at: float
    path: str
    headers: Mapping[str, str]
    status: int = 101


@dataclass(frozen=True, slots=True)
class CloseInfo:
    """How a connection ended. `by` says who began it; "network" is an end without a CLOSE frame."""

    connection: int
    at: float
    code: int
    reason: str
    by: Literal["client", "server", "network"]


@dataclass(frozen=True, slots=True)
class FiredFault:
    """A fault's action that was performed."""

    connection: int
    at: float
    action: object


@dataclass(slots=True)
class _Waiter:
    condition: Callable[[], bool]
    future: asyncio.Future[None]


class Recording:
    """What happened, in order. Every query takes an optional connection number."""

    def __init__(self) -> None:
        self.received: list[Frame] = []
        self.sent: list[Frame] = []
        self.handshakes: list[Dial] = []
        self.closes: list[CloseInfo] = []
        self.faults: list[FiredFault] = []
        self._counts: Counter[tuple[str, int | None]] = Counter()
        self._audio_s: defaultdict[int, float] = defaultdict(float)
        self._waiters: list[_Waiter] = []

    # Queries -------------------------------------------------------------------------------

    def frames(self, kind: str | None = None, connection: int | None = None) -> list[Frame]:
        """The client's messages."""
        return _select(self.received, kind, connection)

    def events(self, kind: str | None = None, connection: int | None = None) -> list[Frame]:
        """The server's messages that went out."""
        return _select(self.sent, kind, connection)

    def dials(self) -> list[Dial]:
        """Every dial, refused ones included."""
        return list(self.handshakes)

    def closed(self, connection: int) -> CloseInfo | None:
        """How `connection` ended; None while it is open."""
        return next((info for info in self.closes if info.connection == connection), None)

    def deliveries_of(self, call_id: str) -> list[Frame]:
        """The client's answers to one tool call, over all connections, in native form."""
        return [frame for frame in self.received if call_id in frame.call_ids]

    def texts_sent(self, connection: int | None = None) -> list[str]:
        """The texts that the client put into the conversation, set-up instructions excluded."""
        return [text for frame in self.frames(connection=connection) for text in frame.texts]

    def audio_seconds(self, connection: int | None = None) -> float:
        """Seconds of microphone audio received."""
        if connection is not None:
            return self._audio_s.get(connection, 0.0)
        return sum(self._audio_s.values())

    def audio(self, connection: int | None = None) -> bytes:
        """The microphone audio received, joined."""
        return b"".join(frame.audio for frame in self.frames(connection=connection))

    def audio_sent(self, connection: int | None = None) -> bytes:
        """The model's audio that went out, joined."""
        return b"".join(frame.audio for frame in self.events(connection=connection))

    def count(self, kind: str, connection: int | None = None) -> int:
        """How often `kind` occurred.

        A kind is a message of either side, or "dial", "open", "close", "fault".
        """
        return self._counts[kind, connection]

    # Waiting -------------------------------------------------------------------------------

    async def wait_for(
        self,
        kind: str,
        *,
        connection: int | None = None,
        count: int = 1,
        timeout_s: float = 10.0,
    ) -> None:
        """Wait until `kind` has occurred `count` times; see `count` for the kinds.

        Raises:
            ServerTimeoutError: it did not within `timeout_s` seconds of loop time.
        """
        await self.wait_until(
            lambda: self._counts[kind, connection] >= count,
            timeout_s=timeout_s,
            what=f"{kind!r} x{count}"
            + ("" if connection is None else f" on connection {connection}"),
        )

    async def wait_until(
        self,
        condition: Callable[[], bool],
        *,
        timeout_s: float = 10.0,
        what: str = "the condition",
    ) -> None:
        """Wait until `condition` holds; it is looked at after each recorded event.

        Raises:
            ServerTimeoutError: it did not within `timeout_s` seconds of loop time.
        """
        if condition():
            return
        waiter = _Waiter(condition, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await asyncio.wait_for(waiter.future, timeout_s * TIME_UNIT)
        except asyncio.TimeoutError:
            seen = {kind: n for (kind, number), n in self._counts.items() if number is None}
            raise ServerTimeoutError(
                f"{what} did not happen within {timeout_s * TIME_UNIT:g} s; seen: {seen}"
            ) from None
        finally:
            self._waiters.remove(waiter)

    # Writing, by the servers ---------------------------------------------------------------

    def add_received(self, frame: Frame) -> None:
        """Record a message from the client."""
        self.received.append(frame)
        if frame.audio_s:
            self._audio_s[frame.connection] += frame.audio_s
        self.note(frame.kinds, frame.connection)

    def add_sent(self, frame: Frame) -> None:
        """Record a message from the server."""
        self.sent.append(frame)
        self.note(frame.kinds, frame.connection)

    def add_dial(self, dial: Dial) -> None:
        """Record a dial, or how it went on."""
        if self.handshakes and self.handshakes[-1].connection == dial.connection:
            self.handshakes[-1] = dial
            return
        for index, earlier in enumerate(self.handshakes):
            if earlier.connection == dial.connection:
                self.handshakes[index] = dial
                return
        self.handshakes.append(dial)
        self.note(("dial",), dial.connection)

    def add_close(self, info: CloseInfo) -> None:
        """Record the end of a connection."""
        self.closes.append(info)
        self.note(("close",), info.connection)

    def add_fault(self, fired: FiredFault) -> None:
        """Record that a fault's action was performed."""
        self.faults.append(fired)
        self.note(("fault",), fired.connection)

    def note(self, kinds: tuple[str, ...], connection: int) -> None:
        """Count `kinds` and wake those who wait for them."""
        for kind in kinds:
            self._counts[kind, connection] += 1
            self._counts[kind, None] += 1
        for waiter in self._waiters:
            if not waiter.future.done() and waiter.condition():
                waiter.future.set_result(None)


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Lower-case header names; the values of keys and tokens are replaced."""
    return {
        name.lower(): REDACTED if name.lower() in SECRET_HEADERS else value
        for name, value in headers.items()
    }


def redact_path(path: str) -> str:
    """The request path with the values of keys in its query replaced."""
    parts = urlsplit(path)
    if not parts.query:
        return path
    pairs = [
        (name, REDACTED if name.lower() in SECRET_QUERY else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(query=urlencode(pairs)))


def _select(frames: list[Frame], kind: str | None, connection: int | None) -> list[Frame]:
    return [
        frame
        for frame in frames
        if (kind is None or kind in frame.kinds) and connection in (None, frame.connection)
    ]
