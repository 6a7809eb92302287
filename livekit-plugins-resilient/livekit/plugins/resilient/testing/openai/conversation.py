"""What a simulated OpenAI session knows: its items, in order, with their audio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.script import Word

from .dialects import Dialect
from .shapes import item_on_wire

RATE = 24_000
"""Samples per second of `audio/pcm`, both ways."""

ItemKind = Literal["message", "function_call", "function_call_output"]


@dataclass(eq=False)
class Item:
    """One conversation item, as the server holds it.

    Attributes:
        item_id: its id.
        kind: message, function_call or function_call_output.
        made_by: "client" for `conversation.item.create`, "server" for heard and generated items.
        role: of a message; else empty.
        status: "in_progress", "completed" or "incomplete".
        text: a message's text: typed, understood, or generated and sent so far.
        pcm: a message's audio: heard from the user, or generated and sent so far.
        words: the generated words that were sent, with their places in the audio.
        truncated_ms: where the client cut the audio; None if it did not.
        transcript_sent: the user's transcript went out.
        phase: of a generated message: "final_answer", or "commentary" before a call.
        call_id, name, arguments, output: of calls and their results.
        content: the content as the client wrote it.
    """

    item_id: str
    kind: ItemKind
    made_by: Literal["client", "server"]
    role: str = ""
    status: str = "completed"
    text: str = ""
    pcm: bytes = field(default=b"", repr=False)
    words: list[Word] = field(default_factory=list, repr=False)
    spoken: bool = False
    truncated_ms: int | None = None
    transcript_sent: bool = False
    phase: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
    content: list[dict[str, Any]] | None = None

    @property
    def audio_ms(self) -> int:
        """Milliseconds of audio that the item holds, after truncation."""
        whole = round(audio.duration_of(self.pcm, RATE) * 1000)
        return whole if self.truncated_ms is None else min(whole, self.truncated_ms)

    @property
    def known_text(self) -> str:
        """What the model knows from this item: of truncated audio only the words before the cut."""
        if self.kind == "function_call":
            return f"{self.name}({self.arguments})"
        if self.kind == "function_call_output":
            return self.output
        if self.truncated_ms is not None and self.words:
            cut_s = self.truncated_ms / 1000
            return "".join(w.text for w in self.words if w.end_s <= cut_s + 1e-6)
        return self.text

    def to_wire(self, dialect: Dialect) -> dict[str, Any]:
        """The item as an event shows it."""
        wire: dict[str, Any] = {"id": self.item_id, "type": self.kind}
        if self.kind == "function_call_output":
            wire |= {"call_id": self.call_id, "output": self.output}
            if dialect.shape == "azure-legacy":
                wire["status"] = self.status
            return item_on_wire(dialect, wire)
        wire["status"] = self.status
        if self.kind == "function_call":
            wire |= {"name": self.name, "call_id": self.call_id, "arguments": self.arguments}
            return item_on_wire(dialect, wire)
        wire |= {"role": self.role, "content": self._content(dialect)}
        if self.phase and dialect.phases:
            wire["phase"] = self.phase
        return item_on_wire(dialect, wire)

    def _content(self, dialect: Dialect) -> list[dict[str, Any]]:
        if self.content is not None:
            return [_written(part, dialect) for part in self.content]
        if self.role == "user":
            unknown = "" if dialect.item_at_start else None
            transcript = self.text if self.transcript_sent else unknown
            return [{"type": "input_audio", "transcript": transcript}]
        if self.status == "in_progress":
            return []
        if not self.spoken:
            return [{"type": "text" if dialect.legacy else "output_text", "text": self.text}]
        return [{"type": "audio" if dialect.legacy else "output_audio", "transcript": self.text}]


def _written(part: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """A part of a client's message: audio is not repeated, and legacy dialects know one name."""
    shown = {key: value for key, value in part.items() if key != "audio"}
    if dialect.legacy and shown.get("type") == "output_text":
        shown["type"] = "text"
    return shown


class Conversation:
    """The items of one session in the order in which the model reads them."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def get(self, item_id: str) -> Item | None:
        """The item with this id, if there is one."""
        return next((item for item in self.items if item.item_id == item_id), None)

    def call(self, call_id: str) -> Item | None:
        """The newest function call with this call id, if there is one."""
        calls = (i for i in reversed(self.items) if i.kind == "function_call")
        return next((item for item in calls if item.call_id == call_id), None)

    def last_id(self) -> str | None:
        """Id of the last item; None in an empty conversation."""
        return self.items[-1].item_id if self.items else None

    def append(self, item: Item) -> str | None:
        """Add `item` at the end and return the id of the item before it."""
        previous = self.last_id()
        self.items.append(item)
        return previous

    def insert(self, item: Item, previous_id: str) -> str | None:
        """Add `item` after `previous_id`, or first for "root"; return the id before it.

        Raises:
            KeyError: no such previous item.
        """
        if previous_id == "root":
            self.items.insert(0, item)
            return None
        for index, other in enumerate(self.items):
            if other.item_id == previous_id:
                self.items.insert(index + 1, item)
                return previous_id
        raise KeyError(previous_id)

    def before(self, item: Item) -> str | None:
        """Id of the item before `item`, if there is one."""
        index = self.items.index(item)
        return self.items[index - 1].item_id if index else None

    def remove(self, item: Item) -> None:
        """Delete `item`."""
        self.items.remove(item)

    def open_results(self) -> dict[str, str]:
        """Results at the end of the conversation that no message has followed, by call id."""
        results: dict[str, str] = {}
        for item in reversed(self.items):
            if item.kind == "message":
                break
            if item.kind == "function_call_output":
                results[item.call_id] = item.output
        return dict(reversed(results.items()))


def client_item(item_id: str, written: Mapping[str, Any]) -> Item:
    """The item that a client's `conversation.item.create` describes."""
    kind: ItemKind = written["type"]
    if kind == "function_call":
        return Item(
            item_id,
            kind,
            "client",
            call_id=written.get("call_id", ""),
            name=written.get("name", ""),
            arguments=written.get("arguments", ""),
        )
    if kind == "function_call_output":
        return Item(
            item_id,
            kind,
            "client",
            call_id=written.get("call_id", ""),
            output=written.get("output", ""),
        )
    content = [dict(part) for part in written.get("content", ())]
    pcm = b"".join(audio.decode_audio(p["audio"]) for p in content if p.get("audio"))
    text = "".join(part.get("text") or part.get("transcript") or "" for part in content)
    return Item(
        item_id, kind, "client", written.get("role", ""), text=text, pcm=pcm, content=content
    )
