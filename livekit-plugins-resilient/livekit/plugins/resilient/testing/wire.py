"""One server-side WebSocket that can misbehave below the message level."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.frames import Frame, Opcode
from websockets.http11 import Response

_CLOSE = 0x8
_PONG = 0xA
_FLUSH_STEP_S = 0.001
_FLUSH_BOUND_S = 1.0


class Wire(ServerConnection):
    """A `ServerConnection` that can stop reading, hold its CLOSE back, or answer pings late."""

    number = 0
    """Number of the dial, counted from 1; 0 before the HTTP request arrived."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.aborted = False
        self.pings: list[float] = []
        """Loop times at which a ping of the client arrived."""
        self._frozen = False
        self._holds_close = False
        self._eof_after_s: float | None = None
        self._pong_delay_s = 0.0
        self._plain = True

    # Faults --------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stop reading and writing while TCP stays up."""
        self._frozen = True
        self._plain = False
        self.transport.pause_reading()

    def hold_close(self, eof_after_s: float | None) -> None:
        """Never answer the peer's CLOSE; end TCP `eof_after_s` after it, or never."""
        self._holds_close = True
        self._eof_after_s = eof_after_s
        self._plain = False

    def delay_pongs(self, delay_s: float) -> None:
        """Answer pings `delay_s` late."""
        self._pong_delay_s = delay_s
        self._plain = False

    def abort(self) -> None:
        """End TCP at once, without a CLOSE frame. What is still buffered is lost: `flush` first."""
        self.aborted = True
        if hasattr(self, "transport"):
            self.transport.abort()

    async def flush(self) -> None:
        """Wait until what was sent has left the process, at most a second."""
        deadline = self.loop.time() + _FLUSH_BOUND_S
        # asyncio does not tell when a buffer is empty
        while self._buffered() and self.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_FLUSH_STEP_S)

    def refuse(self, status: int, body: str) -> Response:
        """An HTTP answer for `process_request`, for any status code."""
        try:
            return self.respond(HTTPStatus(status), body)
        except ValueError:
            response = self.respond(HTTPStatus.INTERNAL_SERVER_ERROR, body)
            response.status_code, response.reason_phrase = status, "Refused"
            return response

    def _buffered(self) -> int:
        if self.transport.is_closing():
            return 0
        size: int = self.transport.get_write_buffer_size()
        # A TLS transport does not count what the TCP transport below it still holds.
        below = getattr(getattr(self.transport, "_ssl_protocol", None), "_transport", None)
        if below is not None:
            size += below.get_write_buffer_size()
        return size

    # Overrides of the websockets connection ------------------------------------------------

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame) and event.opcode is Opcode.PING:
            self.pings.append(self.loop.time())
        super().process_event(event)

    def data_received(self, data: bytes) -> None:
        if not self._frozen:
            super().data_received(data)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio takes a bool
        if self._frozen:
            return True  # keep the transport open
        super().eof_received()
        return None

    def send_data(self) -> None:
        if self._plain:
            super().send_data()
            return
        for data in self.protocol.data_to_send():
            if self._frozen:
                continue
            opcode = data[0] & 0x0F if data else None
            if self._holds_close and opcode in (None, _CLOSE):
                self._schedule_eof()
            elif opcode == _PONG and self._pong_delay_s:
                self.loop.call_later(self._pong_delay_s, self._write_late, data)
            elif data:
                self.transport.write(data)
            elif self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.transport.close()

    def _schedule_eof(self) -> None:
        if self._eof_after_s is not None:
            self.loop.call_later(self._eof_after_s, self.abort)
            self._eof_after_s = None

    def _write_late(self, data: bytes) -> None:
        if not self._frozen and not self.transport.is_closing():
            self.transport.write(data)
