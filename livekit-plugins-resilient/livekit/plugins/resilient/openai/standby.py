"""A connection that is told the session while another one still serves it."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any

from aiohttp import WSMessage, WSMsgType
from livekit.agents import APIConnectionError

from ..core.limits import POISONED_WITHIN_S
from ..runtime.awake import within
from .errors import error_of, is_complaint, is_refusal
from .pings import Pings
from .websocket import ENDS, abort_socket, close_socket, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtime.driver import HedgeRequest
    from ..runtime.timer import Timer
    from .history import Event, ReplayState

__all__ = ["NoAnswerError", "StandbyConnection"]

# First output of a response: Azure's older API has names of its own.
_OUTPUT = frozenset(
    {
        "response.output_audio.delta",
        "response.audio.delta",
        "response.output_text.delta",
        "response.text.delta",
    }
)

# A close frame that came before the connection was lost is there already.
_LAST_WORDS_S = 0.5


class NoAnswerError(APIConnectionError):
    """The reply that was asked for beside ended without any output.

    Args:
        refusal: The error by which the server said so; empty for none.
    """

    def __init__(self, refusal: Event) -> None:
        super().__init__("the connection beside gave no answer")
        self.refusal = refusal


class StandbyConnection:
    """Reads its socket from the start, so that pings are answered and answers are counted.

    Call `send` until `replay` has no difference left, then hand it to `SwappableSocket.switch`, or
    `close` it.

    Args:
        socket: Just dialled.
        replay: Of this connection, which was told nothing yet.
        dialled_in_s: Seconds that it took.
        on_sent: Called with each event of the session that it is sent; None for a connection of
            which the application is to notice nothing.
        timer: Of the session.
    """

    def __init__(
        self,
        *,
        socket: Any,
        replay: ReplayState,
        dialled_in_s: float,
        on_sent: Callable[[Event], None] | None,
        timer: Timer,
    ) -> None:
        self._timer = timer
        self.socket = socket
        self.dialled_in_s = dialled_in_s
        self.replay = replay
        self.refused: list[str] = []
        """Items that the server would not have."""
        self._on_sent = on_sent
        self._arrived: deque[WSMessage] = deque()
        self._pending: dict[str, Event] = {}
        self._settled = asyncio.Event()
        self._lost = self._broken = False
        self._sent_at = 0.0
        self._complained = False
        self.request: HedgeRequest | None = None
        """What it was asked for beside, if it was."""
        self._refusal: Event = {}
        self._answering = asyncio.Event()
        self._gave_output = False
        self.refuses_replay = False
        """Whether the server ended it because of what it was told; known once it is closed."""
        self._reader = asyncio.create_task(self._read(), name="resilient-openai-standby")

    async def send(self, events: list[Event]) -> None:
        """Send what `replay.difference()` gave, without waiting for answers.

        Raises:
            APIConnectionError: The connection is lost.
        """
        if self._on_sent is not None:
            for event in events:
                self._on_sent(event)
        await self._write(events)

    async def _write(self, events: list[Event]) -> None:
        for event in events:
            self._pending[event["event_id"]] = event
            self._sent_at = asyncio.get_running_loop().time()
            try:
                await self.socket.send_str(json.dumps(event))
            except ConnectionError as e:
                self._broken = True
                raise APIConnectionError("the new connection was lost") from e

    async def ask(self, request: HedgeRequest, events: list[Event]) -> None:
        """Ask for a reply, of which nobody hears before this connection serves.

        Raises:
            APIConnectionError: The connection is lost.
        """
        self.request = request
        await self._write(events)

    async def answered(self) -> None:
        """Wait for output of that reply.

        Raises:
            NoAnswerError: The connection is lost, or the reply ended without any.
        """
        await self._answering.wait()
        if not self._gave_output:
            raise NoAnswerError(self._refusal)

    async def settled(self, timeout_s: float) -> None:
        """Wait until the server has answered all that was sent.

        Raises:
            APIConnectionError: The connection is lost, or nothing was answered at all.
        """
        self._settle()
        try:
            await within(self._settled.wait(), timeout_s, timer=self._timer)
        except asyncio.TimeoutError:
            # Not every provider answers every event; one that answers none is not there.
            if not self._arrived:
                raise APIConnectionError("the new connection was not answered") from None
        if self._lost:
            raise APIConnectionError("the new connection was closed")

    async def stop(self) -> list[WSMessage]:
        """Read no more; returns the messages that upstream is to see."""
        self._reader.cancel()
        await asyncio.wait({self._reader})
        return list(self._arrived)

    @property
    def has_answered(self) -> bool:
        """Whether the server has said anything that upstream is to see."""
        return bool(self._arrived)

    def abort(self) -> None:
        """As `SwappableSocket.abort`."""
        abort_socket(self.socket)

    async def close(self) -> None:
        """Give the connection up."""
        if self._broken:  # the server may have said why
            await asyncio.wait({self._reader}, timeout=_LAST_WORDS_S)
        await self.stop()
        await close_socket(self.socket)

    @property
    def lost(self) -> bool:
        """Whether the server ended it."""
        return self._lost

    async def _read(self) -> None:
        pings = Pings(lambda _: None)
        while True:
            message = await self.socket.receive()
            if await pings.take(self.socket, message):
                continue
            if message.type in ENDS:
                self._ended()
                self._settled.set()
                self._answering.set()
                return
            event = read(message) if message.type is WSMsgType.TEXT else None
            if event is None:
                continue
            received = json.loads(event.data)
            if not self._answers(received):
                self._arrived.append(event)
                self._look_for_output(received)
            self._settle()

    def _ended(self) -> None:
        self._lost = True
        age_s = asyncio.get_running_loop().time() - self._sent_at
        refuses = self._complained or is_refusal(self.socket.close_code)
        self.refuses_replay = refuses and age_s < POISONED_WITHIN_S

    def _look_for_output(self, event: Event) -> None:
        kind = event["type"]
        item = event.get("item") or {} if kind == "response.output_item.done" else {}
        if kind in _OUTPUT or item.get("type") == "function_call":
            self._gave_output = True
            self._answering.set()
        elif kind == "response.done":
            self._refusal = dict(error_of(event["response"]))
            self._answering.set()

    def _answers(self, event: Event) -> bool:
        """Take an answer off the list; False where upstream is to see it too."""
        match event["type"]:
            case "session.updated":
                self._take(lambda sent: sent["type"] == "session.update")
                return False
            case "conversation.item.added" | "conversation.item.created":
                item_id = (event.get("item") or {}).get("id")
                self._take(lambda sent: (sent.get("item") or {}).get("id") == item_id)
                return self._knows(item_id)
            case "conversation.item.deleted":
                self._take(lambda sent: sent["type"] == "conversation.item.delete")
                return True
            case "conversation.item.done":
                return self._knows((event.get("item") or {}).get("id"))
            case "error":
                self._complained |= is_complaint(event.get("error") or {})
                sent = self._pending.pop((event.get("error") or {}).get("event_id") or "", None)
                if sent is None:
                    return False
                if sent["type"] == "conversation.item.create":
                    self.replay.refused(sent["item"]["id"])
                    self.refused.append(sent["item"]["id"])
                elif sent["type"] == "response.create":
                    self._refusal = event["error"]
                    self._answering.set()
                return True
            case _:
                return False

    def _knows(self, item_id: Any) -> bool:
        """Whether it was told of an item, or refused it; others are of its own reply."""
        return item_id in self.refused or self.replay.items.get(item_id or "") is not None

    def _take(self, answered: Any) -> None:
        for event_id, sent in self._pending.items():
            if answered(sent):
                del self._pending[event_id]
                return

    def _settle(self) -> None:
        if self._pending and not self._lost:
            self._settled.clear()
        else:
            self._settled.set()
