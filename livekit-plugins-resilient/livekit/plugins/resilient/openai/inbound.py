"""What arrives: server events as facts, what arrived of each reply, and what is late for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import facts as f
from ..core.playout import ReplyProgress, TranscriptDelta
from .errors import error_of, retry_after_s

if TYPE_CHECKING:
    from ..runtime.driver import Driver

__all__ = ["InboundEvents"]

# The protocol's output audio: 16-bit mono at this rate. Four base64 characters carry three bytes.
_SAMPLE_RATE = 24_000
_BYTES_PER_SAMPLE = 2

# Replies whose words a re-drive may still need: the one that was cut, and those still playing.
_REMEMBERED_REPLIES = 8

# Other items are the provider's own work, such as reasoning or a call of a remote tool.
_ANSWERS = frozenset({"message", "function_call"})

_ENDINGS: dict[str, f.Ending] = {
    "completed": "completed",
    "incomplete": "completed",
    "cancelled": "cancelled",
    "failed": "failed",
}


class InboundEvents:
    """Follows the raw events of one session. Events of other types are a sign of life, no more.

    Args:
        driver: Of the session.
        speaks: Whether replies are spoken, so that their text is a caption.
    """

    def __init__(self, driver: Driver, *, speaks: bool = True) -> None:
        self._driver = driver
        self._speaks = speaks
        self.response_id: str | None = None
        """The response that is open; None between responses."""
        self._discarded: str | None = None
        self._replies: dict[str, dict[str, ReplyProgress]] = {}
        self._untranscribed: set[str] = set()
        # The server commits the silence of a caller who says nothing.
        self._idle = False

    @property
    def words_lost(self) -> bool:
        """Whether the caller's last turn is in no record: committed, but never transcribed."""
        return bool(self._untranscribed)

    def receive(
        self,
        event: dict[str, Any],
        *,
        answers_turns: bool,
        interrupts: bool,
        works_unseen: bool = False,
    ) -> None:
        """Take one server event.

        Args:
            event: As received, with current event names.
            answers_turns: The server answers the caller's turns by itself.
            interrupts: The server cancels its response when the caller speaks.
            works_unseen: The model may be at work for long within a response without a sign.
        """
        feed, now = self._driver.feed, self._driver.now
        feed(f.MessageArrived(now))
        response_id = self.response_id
        if response_id is not None and response_id == self._discarded:
            response_id = None
        if response_id is not None and _response_of(event) not in (None, response_id):
            response_id = None  # another one took its place, and this is late
        match event.get("type"):
            case "response.created":
                self._opened(event["response"])
                if works_unseen and self.response_id is not None:
                    feed(f.PauseExpected(now, self.response_id))
            case "response.output_audio.delta" if response_id is not None:
                samples = len(event["delta"]) * 3 // 4 // _BYTES_PER_SAMPLE
                seconds = samples / _SAMPLE_RATE
                self._progress(event["item_id"]).received(seconds)
                feed(f.AudioReceived(now, response_id, seconds))
            case "response.output_audio_transcript.delta" | "response.output_text.delta" if (
                response_id is not None
            ):
                delta = TranscriptDelta(event["delta"], event.get("start_time"))
                self._progress(event["item_id"]).transcribed(delta)
                feed(f.TextReceived(now, response_id, is_caption=self._speaks))
            case "response.output_item.added" if response_id is not None:
                item = event["item"]
                if item.get("phase") == "commentary" or item.get("type") not in _ANSWERS:
                    feed(f.PauseExpected(now, response_id))
            case "response.output_item.done" if response_id is not None:
                # Another item may follow, after long thought: only the response has an end.
                item = event["item"]
                if item.get("status") == "completed" and item["id"] in self._messages:
                    self._messages[item["id"]].completed()
                if item.get("type") == "function_call":
                    feed(f.ToolCallOpened(now, response_id, item["call_id"]))
            case "response.done" if response_id is not None:
                self.response_id = None
                response = event["response"]
                ending = _ENDINGS.get(response.get("status", ""), "completed")
                wait_s = retry_after_s(error_of(response))
                feed(f.GenerationEnded(now, response_id, ending, wait_s))
            case "response.done":
                ended = _response_of(event) or ""
                if ended in ("", self.response_id):
                    self.response_id = None
                feed(f.GenerationEnded(now, ended))
            case "input_audio_buffer.timeout_triggered":
                self._idle = True
            case "input_audio_buffer.committed" if self._idle:
                self._idle = False
            case "input_audio_buffer.speech_started":
                self._idle = False
                feed(f.UserSpeechStarted(now))
                if interrupts and response_id is not None:
                    feed(f.Interrupted(now, response_id))
            case "input_audio_buffer.speech_stopped":
                feed(f.UserSpeechStopped(now))
            case "input_audio_buffer.committed":
                # Only the turn that waits for an answer matters.
                self._untranscribed = {event["item_id"]}
                if answers_turns:
                    feed(f.UserTurnEnded(now))
            case "conversation.item.input_audio_transcription.completed" if (
                event.get("status") != "in_progress"  # xAI: so far
            ):
                self._untranscribed.discard(event["item_id"])
            case _:
                pass

    def is_late(self, response_id: str | None) -> bool:
        """Whether an event that was received is of a response whose place another one took."""
        return self.response_id is not None and response_id != self.response_id

    def discard(self, response_id: str) -> None:
        """A response is cancelled by us: what still comes of it is nobody's."""
        self._discarded = response_id

    def connection_ended(self) -> None:
        """The open response ended with its connection."""
        self.response_id = None
        self._idle = False

    def progress_of(self, item_id: str) -> ReplyProgress | None:
        """What arrived of one of the replies' messages."""
        for messages in self._replies.values():
            if item_id in messages:
                return messages[item_id]
        return None

    def after(self, item_id: str) -> list[str]:
        """The messages that follow one within its response."""
        for messages in self._replies.values():
            ids = list(messages)
            if item_id in messages:
                return ids[ids.index(item_id) + 1 :]
        return []

    def messages_of(self, response_id: str) -> list[str]:
        """The messages of a response of which anything arrived."""
        return list(self._replies.get(response_id, ()))

    def words_of(self, response_id: str, audio_s: float, rate_cps: float) -> str:
        """The words within the first `audio_s` seconds of a response, over all its messages."""
        words = []
        for progress in self._replies.get(response_id, {}).values():
            words.append(progress.spoken(rate_cps, audio_s))
            audio_s -= progress.audio_s
        return " ".join(filter(None, words))

    def _opened(self, response: dict[str, Any]) -> None:
        self.response_id = response_id = response["id"]
        self._untranscribed.clear()
        self._replies[response_id] = {}
        if len(self._replies) > _REMEMBERED_REPLIES:
            del self._replies[next(iter(self._replies))]
        request_id = (response.get("metadata") or {}).get("client_event_id")
        self._driver.feed(f.GenerationOpened(self._driver.now, response_id, request_id))

    @property
    def _messages(self) -> dict[str, ReplyProgress]:
        assert self.response_id is not None
        return self._replies[self.response_id]

    def _progress(self, item_id: str) -> ReplyProgress:
        return self._messages.setdefault(item_id, ReplyProgress())


def _response_of(event: dict[str, Any]) -> str | None:
    """The response that an event is about, if it is about one."""
    response_id = event.get("response_id") or (event.get("response") or {}).get("id")
    return response_id if isinstance(response_id, str) else None
