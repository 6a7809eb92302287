"""A bare Gemini Live client: sends what it is told, hides nothing. For tests of the wire itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.recording import TIME_UNIT

from .codec import INPUT_RATE
from .tls import client_context

if TYPE_CHECKING:
    from .server import GeminiLiveServer

API_PATH = "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
FRAME_S = 0.05  # what LiveKit's plugin sends


class GeminiPeer:
    """One connection. Use it with `async with`; nothing is sent until you say so.

    Args:
        server: the simulator to dial.
        path: the request path.
        timeout_s: how long a wait for a message may take, in loop time.
    """

    def __init__(
        self, server: GeminiLiveServer, *, path: str = API_PATH, timeout_s: float = 10.0
    ) -> None:
        self._server = server
        self._path = path
        self._timeout_s = timeout_s * TIME_UNIT
        self._socket: ClientConnection | None = None
        self.received: list[dict[str, Any]] = []

    async def __aenter__(self) -> GeminiPeer:
        self._socket = await connect(
            f"wss://{self._server.host}:{self._server.port}{self._path}",
            ssl=client_context(),
            additional_headers={"x-goog-api-key": "test-key"},
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

    async def send(self, message: Mapping[str, Any] | str) -> None:
        """Send one message, or any text."""
        await self.socket.send(message if isinstance(message, str) else json.dumps(message))

    async def set_up(self, *, handle: str | None = None, **fields: Any) -> None:
        """Send set-up with resumption and transcription on, and wait for the answer.

        Raises:
            ConnectionClosed: the server refused.
        """
        setup: dict[str, Any] = {
            "model": f"models/{self._server.rules.model}",
            "sessionResumption": {} if handle is None else {"handle": handle},
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
        }
        await self.send({"setup": setup | fields})
        await self.until("setupComplete")

    async def ask(self, text: str, *, complete: bool = True, role: str = "user") -> None:
        """Send one `clientContent` turn."""
        turn = {"role": role, "parts": [{"text": text}]}
        await self.send({"clientContent": {"turns": [turn], "turnComplete": complete}})

    async def answer(self, call_id: str, result: Any, name: str = "tool", **fields: Any) -> None:
        """Send one tool response."""
        response = {"id": call_id, "name": name, "response": {"output": result}} | fields
        await self.send({"toolResponse": {"functionResponses": [response]}})

    async def speak(self, duration_s: float = 0.6, *, quiet_s: float = 0.5) -> None:
        """Send speech and the silence that ends it, at once."""
        pcm = audio.speech(duration_s, INPUT_RATE) + audio.silence(quiet_s, INPUT_RATE)
        await self.send_audio(pcm)

    async def send_audio(self, pcm: bytes) -> None:
        """Send microphone audio in frames, at once."""
        size = round(FRAME_S * INPUT_RATE) * audio.BYTES_PER_SAMPLE
        for at in range(0, len(pcm), size):
            blob = {
                "data": audio.encode_audio(pcm[at : at + size]),
                "mimeType": f"audio/pcm;rate={INPUT_RATE}",
            }
            await self.send({"realtimeInput": {"audio": blob}})

    async def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            TimeoutError: nothing came.
            ConnectionClosed: the connection ended.
        """
        raw = await asyncio.wait_for(self.socket.recv(), self._timeout_s)
        message: dict[str, Any] = json.loads(raw)
        self.received.append(message)
        return message

    async def until(self, event: str) -> list[dict[str, Any]]:
        """Receive up to and including the first message that holds `event`."""
        messages = []
        while True:
            message = await self.receive()
            messages.append(message)
            if event in event_names(message):
                return messages

    async def until_handle(self) -> str:
        """Receive up to the next resumption handle."""
        while True:
            update = (await self.receive()).get("sessionResumptionUpdate") or {}
            if update.get("newHandle"):
                return str(update["newHandle"])

    async def until_closed(self) -> tuple[int, str]:
        """Receive until the connection ends; its close code and reason, 1006 without a CLOSE."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as exc:
            return (1006, "") if exc.rcvd is None else (exc.rcvd.code, exc.rcvd.reason)


def event_names(message: Mapping[str, Any]) -> list[str]:
    """What a server message holds, by the names that faults use."""
    names = [name for name in message if name != "serverContent"]
    return [*message.get("serverContent", {}), *names]


def spoken_text(messages: list[dict[str, Any]]) -> str:
    """The output transcript in `messages`, joined."""
    contents = [message.get("serverContent", {}) for message in messages]
    return "".join(content.get("outputTranscription", {}).get("text", "") for content in contents)


def spoken_audio(messages: list[dict[str, Any]]) -> bytes:
    """The model's audio in `messages`, joined."""
    contents = [message.get("serverContent", {}) for message in messages]
    return b"".join(
        audio.decode_audio(part["inlineData"]["data"])
        for content in contents
        for part in content.get("modelTurn", {}).get("parts", [])
        if "inlineData" in part
    )
