"""The idle time-out of server VAD: the model speaks up when the caller says nothing.

Assumed, since no recording at hand shows it: the silence is committed as the caller's item, and
the server explains itself to the model in a system item. The order of the events, their fields and
the place where the time begins are those of OpenAI's API reference for `idle_timeout_ms` and
`input_audio_buffer.timeout_triggered`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .conversation import Item

if TYPE_CHECKING:
    from .connection import OpenAIConnection
    from .responses import Response

__all__ = ["EXPLANATION", "IdleTimeout"]

EXPLANATION = "The user has not said anything for a while."
"""Text of the system item."""


class IdleTimeout:
    """Counts from the end of a response's playback until somebody speaks."""

    def __init__(self, connection: OpenAIConnection) -> None:
        self._connection = connection
        self._count = 0

    def stop(self) -> None:
        """Somebody speaks."""
        self._count += 1

    def start(self, response: Response) -> None:
        """A response was sent to its end."""
        connection = self._connection
        idle_s = self._seconds
        if idle_s is None or response.status != "completed":
            return
        self._count = count = self._count + 1
        audio_s = sum(item.audio_ms for item in response.items) / 1000
        left_s = max(0.0, response.began_at + audio_s - connection.loop.time())

        def due() -> None:
            if self._count == count:
                self._trigger(idle_s)

        connection.after(left_s + idle_s, due)

    @property
    def _seconds(self) -> float | None:
        idle_ms = (self._connection.session.turn_detection or {}).get("idle_timeout_ms")
        return None if idle_ms is None else idle_ms / 1000

    def _trigger(self, idle_s: float) -> None:
        connection = self._connection
        if connection.active_response is not None:
            return
        item_id = connection.new_id("item")
        now_ms = round(connection.session.appended_s * 1000)
        connection.send(
            "input_audio_buffer.timeout_triggered",
            audio_start_ms=max(0, now_ms - round(idle_s * 1000)),
            audio_end_ms=now_ms,
            item_id=item_id,
        )
        connection.input.commit(item_id, text="")
        why = Item(
            connection.new_id("item"),
            "message",
            "server",
            "system",
            text=EXPLANATION,
            content=[{"type": "input_text", "text": EXPLANATION}],
        )
        connection.item_done(why, connection.add_item(why))
        connection.respond("continuation")
