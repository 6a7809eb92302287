"""The transcript of what the caller says: while it is said, and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing import audio

from .conversation import RATE, Item

if TYPE_CHECKING:
    from .connection import OpenAIConnection

_EVENT = "conversation.item.input_audio_transcription"
_LEFT_AT_END = 2  # words, of those recorded, that came after the end of the utterance

FAILURE = {
    "type": "server_error",
    "code": "DeploymentNotFound",
    "message": "The transcription deployment does not exist.",
    "param": None,
}
"""What is said of an utterance that cannot be transcribed, as by Azure."""


class Captions:
    """Tells the words of one utterance after another.

    A streaming transcriber tells the scripted words while the caller speaks, all but the last; an
    utterance without scripted text, since nobody knows yet what it will be, has none.
    """

    def __init__(self, connection: OpenAIConnection) -> None:
        self._connection = connection
        self._item_id: str | None = None
        self._told = 0  # words of the utterance that goes on

    def begin(self, item_id: str) -> None:
        """The caller began to speak."""
        self._item_id, self._told = item_id, 0
        connection = self._connection
        times = connection.server.times
        if connection.session.streams_captions and times.caption_s:
            connection.after(times.caption_s, lambda: self._tell_next(item_id))
        elif connection.dialect.shape == "xai" and connection.session.transcription is not None:
            words = (connection.server.script.upcoming_user_text() or "").split()
            self._so_far(item_id, " ".join(words[:1]))

    def forget(self) -> None:
        """The utterance is dropped."""
        self._item_id = None

    def end(self, item: Item, wait_s: float) -> None:
        """The utterance became `item`; its transcript is complete `wait_s` from now."""
        connection = self._connection
        told, self._told = self._told if self._item_id == item.item_id else 0, 0
        self._item_id = None
        if connection.session.transcription is None:
            return
        if connection.server.transcription_fails:
            # As recorded: after the response began, and before its first item.
            times = connection.server.times
            connection.after(times.created_s + times.item_s / 2, lambda: self._failed(item))
        elif connection.dialect.shape == "xai":
            self._xai_end(item)
        else:
            connection.after(wait_s, lambda: self._completed(item, told))

    def _tell_next(self, item_id: str) -> None:
        text = self._connection.server.script.upcoming_user_text()
        words = _deltas(text or "")
        if self._item_id != item_id or self._told >= len(words) - _LEFT_AT_END:
            return
        self._delta(item_id, words[self._told])
        self._told += 1
        every_s = self._connection.server.times.caption_every_s
        self._connection.after(every_s, lambda: self._tell_next(item_id))

    def _delta(self, item_id: str, delta: str) -> None:
        self._send("delta", item_id, delta=delta)

    def _completed(self, item: Item, told: int) -> None:
        whole = self._connection.dialect.shape == "azure-voice-live"
        for delta in [item.text] if whole else _deltas(item.text)[told:]:
            self._delta(item.item_id, delta)
        item.transcript_sent = True
        self._send("completed", item.item_id, transcript=item.text, usage=self._usage(item))

    def _failed(self, item: Item) -> None:
        self._send("failed", item.item_id, error=dict(FAILURE))

    def _xai_end(self, item: Item) -> None:
        self._so_far(item.item_id, " ".join(item.text.split()[:-1]))
        item.transcript_sent = True
        self._send("completed", item.item_id, transcript=item.text, status="completed")

    def _so_far(self, item_id: str, text: str) -> None:
        self._send("updated", item_id, transcript=text)
        self._send("completed", item_id, transcript=text, status="in_progress")

    def _send(self, what: str, item_id: str, **fields: Any) -> None:
        self._connection.send(f"{_EVENT}.{what}", item_id=item_id, content_index=0, **fields)

    def _usage(self, item: Item) -> dict[str, Any]:
        if self._connection.session.streams_captions:
            return {"type": "duration", "seconds": round(audio.duration_of(item.pcm, RATE))}
        tokens = {"text_tokens": 0, "audio_tokens": item.audio_ms // 100}
        out = max(1, len(item.text) // 4)
        return {
            "type": "tokens",
            "total_tokens": tokens["audio_tokens"] + out,
            "input_tokens": tokens["audio_tokens"],
            "output_tokens": out,
            "input_token_details": tokens,
        }


def _deltas(text: str) -> list[str]:
    return [word if index == 0 else f" {word}" for index, word in enumerate(text.split())]
