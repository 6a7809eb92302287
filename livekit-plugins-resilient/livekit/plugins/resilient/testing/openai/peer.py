"""A bare OpenAI Realtime client: sends what it is told, hides nothing. For tests of the wire."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.recording import TIME_UNIT

from .conversation import RATE

if TYPE_CHECKING:
    from .server import OpenAIRealtimeServer

FRAME_S = 0.1  # what LiveKit's plugin sends


class OpenAIPeer:
    """One connection. Use it with `async with`; nothing is sent until you say so.

    Args:
        server: the simulator to dial.
        path: the request path with its query.
        headers: in place of the right Authorization header.
        timeout_s: how long a wait for an event may take, in loop time.
    """

    def __init__(
        self,
        server: OpenAIRealtimeServer,
        *,
        path: str = "/v1/realtime?model=gpt-realtime",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._server = server
        self._path = path
        self._headers = headers
        self._timeout_s = timeout_s * TIME_UNIT
        self._numbers = itertools.count(1)
        self._socket: ClientConnection | None = None
        self.received: list[dict[str, Any]] = []

    async def __aenter__(self) -> OpenAIPeer:
        headers = self._headers
        if headers is None:
            headers = {"Authorization": f"Bearer {self._server.model_kwargs()['api_key']}"}
        self._socket = await connect(
            f"ws://{self._server.host}:{self._server.port}{self._path}",
            additional_headers=headers,
            ping_interval=None,
            close_timeout=0.1,
            max_size=None,
            proxy=None,
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.socket.close()

    @property
    def socket(self) -> ClientConnection:
        """The WebSocket below."""
        assert self._socket is not None, "use `async with`"
        return self._socket

    async def send(self, event: str, **fields: Any) -> str:
        """Send one event and return the event id that it carries."""
        event_id = f"client_{next(self._numbers)}"
        await self.send_raw(json.dumps({"type": event, "event_id": event_id, **fields}))
        return event_id

    async def send_raw(self, text: str) -> None:
        """Send any text."""
        await self.socket.send(text)

    async def configure(self, **session: Any) -> None:
        """Send a `session.update` and wait for the answer."""
        await self.send("session.update", session={"type": "realtime", **session})
        await self.until("session.updated")

    async def turn_detection(self, detection: Mapping[str, Any] | None) -> None:
        """Set the turn detection, with transcription on, and wait for the answer."""
        transcription = {"model": "gpt-4o-mini-transcribe"}
        sound = {"turn_detection": detection, "transcription": transcription}
        await self.configure(audio={"input": sound})

    async def create_item(
        self, text: str = "hi", *, item_id: str | None = None, role: str = "user", **fields: Any
    ) -> str:
        """Send a `conversation.item.create` with a message; return the event id."""
        kind = "output_text" if role == "assistant" else "input_text"
        item: dict[str, Any] = {
            "type": "message",
            "role": role,
            "content": [{"type": kind, "text": text}],
        }
        if item_id is not None:
            item["id"] = item_id
        return await self.send("conversation.item.create", item=item, **fields)

    async def answer(self, call_id: str, output: str) -> None:
        """Send a tool's result and wait until it was taken."""
        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        await self.send("conversation.item.create", item=item)
        await self.until("conversation.item.added")

    async def respond(self, **response: Any) -> list[dict[str, Any]]:
        """Ask for a response and return its events up to `response.done`."""
        await self.send("response.create", response=response)
        return await self.until("response.done")

    async def speak(self, duration_s: float = 0.6, *, quiet_s: float = 0.8) -> None:
        """Send speech and the silence that ends it, at once."""
        await self.send_audio(audio.speech(duration_s, RATE) + audio.silence(quiet_s, RATE))

    async def send_audio(self, pcm: bytes) -> None:
        """Send microphone audio in frames, at once."""
        size = round(FRAME_S * RATE) * audio.BYTES_PER_SAMPLE
        for at in range(0, len(pcm), size):
            data = audio.encode_audio(pcm[at : at + size])
            await self.send("input_audio_buffer.append", audio=data)

    async def receive(self) -> dict[str, Any]:
        """The next event.

        Raises:
            TimeoutError: nothing came.
            ConnectionClosed: the connection ended.
        """
        raw = await asyncio.wait_for(self.socket.recv(), self._timeout_s)
        message: dict[str, Any] = json.loads(raw)
        self.received.append(message)
        return message

    async def until(self, event: str) -> list[dict[str, Any]]:
        """Receive up to and including the first `event`."""
        messages = []
        while True:
            message = await self.receive()
            messages.append(message)
            if message.get("type") == event:
                return messages

    async def error(self) -> dict[str, Any]:
        """Receive up to the next `error` event and return its body."""
        body: dict[str, Any] = (await self.until("error"))[-1]["error"]
        return body

    async def until_closed(self) -> tuple[int, str]:
        """Receive until the connection ends; its close code and reason, 1006 without a CLOSE."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as exc:
            return (1006, "") if exc.rcvd is None else (exc.rcvd.code, exc.rcvd.reason)


def types_of(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The events' names, each run of equal ones once."""
    return [name for name, _ in itertools.groupby(str(m.get("type")) for m in messages)]


def spoken_text(messages: Iterable[Mapping[str, Any]]) -> str:
    """The output transcript in `messages`, joined."""
    return "".join(
        m["delta"] for m in messages if m["type"] == "response.output_audio_transcript.delta"
    )


def spoken_audio(messages: Iterable[Mapping[str, Any]]) -> bytes:
    """The model's audio in `messages`, joined."""
    deltas = (m["delta"] for m in messages if m["type"] == "response.output_audio.delta")
    return b"".join(audio.decode_audio(delta) for delta in deltas)
