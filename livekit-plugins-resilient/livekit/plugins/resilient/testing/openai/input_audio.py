"""The input audio buffer: what the server hears, on audio time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.plugins.resilient.testing import audio

from . import requests
from .captions import Captions
from .conversation import RATE, Item

if TYPE_CHECKING:
    from .connection import OpenAIConnection

_BYTES_PER_MS = RATE * audio.BYTES_PER_SAMPLE // 1000


class InputAudio:
    """Buffers the microphone, hears utterances and turns them into items.

    With turn detection on, an utterance is committed when it ends; the buffer keeps no more silence
    than the next utterance's prefix. With turn detection off, nothing happens until a commit.
    """

    def __init__(self, connection: OpenAIConnection) -> None:
        self._connection = connection
        self._ears = self._new_ears()
        self._detection = connection.session.turn_detection
        self._buffer = bytearray()
        self._ends_at_s = 0.0  # audio time of the buffer's end
        self._item_id: str | None = None
        self._begun: Item | None = None  # the utterance's item, where it is there from the start
        self._captions = Captions(connection)

    @property
    def buffered_ms(self) -> float:
        """Milliseconds of audio that a commit would take."""
        return len(self._buffer) / _BYTES_PER_MS

    def configure(self) -> None:
        """Follow a changed turn detection; an utterance that is going on is forgotten then."""
        detection = self._connection.session.turn_detection
        if detection != self._detection:
            self._detection = detection
            self._ears = self._new_ears()
            self._forget()

    async def append(self, pcm: bytes) -> None:
        """Take microphone audio, piece by piece, so that edges fall where they are heard."""
        session = self._connection.session
        session.appended_s += audio.duration_of(pcm, RATE)
        # Where silence holds no edge, there is no need to look for its place.
        at_rest = self._ears is not None and self._ears.at_rest and audio.is_silent(pcm)
        step = len(pcm) if at_rest and pcm else 10 * _BYTES_PER_MS
        for start in range(0, len(pcm), step):
            piece = pcm[start : start + step]
            self._buffer += piece
            self._ends_at_s += audio.duration_of(piece, RATE)
            if self._ears is None:
                continue
            for edge in self._ears.feed(piece):
                if isinstance(edge, audio.SpeechStarted):
                    await self._started(edge.at_s)
                else:
                    await self._stopped()
            if self._item_id is None:
                self._forget_silence(session.prefix_s + self._ears.start_s)

    def commit(self, item_id: str | None = None, *, text: str | None = None) -> None:
        """Make a user item of the buffer, and transcribe it; `text` is what was said, by default
        what the script has next."""
        connection = self._connection
        conversation = connection.session.conversation
        said = connection.server.script.next_user_text() if text is None else text
        item = self._begun
        if item is None:
            item = self._new_item(item_id or self._item_id or connection.new_id("item"))
        item.text, item.pcm, item.status = said, bytes(self._buffer), "completed"
        self._buffer.clear()
        self._item_id = self._begun = None
        begun = item in conversation.items
        previous = conversation.before(item) if begun else conversation.last_id()
        connection.send(
            "input_audio_buffer.committed", previous_item_id=previous, item_id=item.item_id
        )
        if not begun:
            connection.item_done(item, connection.add_item(item))
        self._captions.end(item, connection.server.transcription_delay_s)

    @staticmethod
    def _new_item(item_id: str) -> Item:
        return Item(item_id, "message", "server", "user")

    def clear(self) -> None:
        """Drop the buffer and an utterance that is going on."""
        self._buffer.clear()
        self._forget()
        if self._ears is not None:
            self._ears.reset()

    async def _started(self, at_s: float) -> None:
        connection, detection = self._connection, self._detection or {}
        self._item_id = connection.new_id("item")
        connection.send(
            "input_audio_buffer.speech_started",
            audio_start_ms=round(max(0.0, at_s - connection.session.prefix_s) * 1000),
            item_id=self._item_id,
        )
        if connection.dialect.item_at_start:
            self._begun = self._new_item(self._item_id)
            self._begun.status = "in_progress"
            connection.add_item(self._begun)
        self._captions.begin(self._item_id)
        connection.idle.stop()
        await connection.user_started()
        active = connection.active_response
        if active is not None and detection.get("interrupt_response") is not False:
            active.cancel("turn_detected")

    async def _stopped(self) -> None:
        connection, detection = self._connection, self._detection or {}
        item_id = self._item_id
        connection.send(
            "input_audio_buffer.speech_stopped",
            audio_end_ms=round(self._ends_at_s * 1000),
            item_id=item_id,
        )
        await connection.user_stopped()
        self.commit(item_id)
        if detection.get("create_response") is False:
            return
        if (active := connection.active_response) is not None:
            connection.refuse(requests.active_response(active.response_id), None)
            return
        heard = connection.session.items[-1].text
        connection.respond("speech", user_text=heard)

    def _forget(self) -> None:
        self._item_id = None
        self._captions.forget()
        if self._begun is not None:
            self._connection.session.conversation.remove(self._begun)
            self._begun = None

    def _new_ears(self) -> audio.SpeechDetector | None:
        return self._connection.session.speech_detector(self._connection.server.speech_threshold)

    def _forget_silence(self, keep_s: float) -> None:
        excess = len(self._buffer) - round(keep_s * 1000) * _BYTES_PER_MS
        if excess > 0:
            del self._buffer[:excess]
