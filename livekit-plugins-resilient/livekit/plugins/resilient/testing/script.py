"""What the simulated model says, and what it understands the user to have said.

A script is the same for every provider. Every word has an exact place in the audio, which is the
ground truth for "what the caller heard".
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from . import audio
from .errors import ScriptError, check_number

CHARACTERS_PER_SECOND = 15.0
"""Default speaking rate; English read aloud is 14 to 16 characters per second."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word and its place in the reply's audio. `text` has a leading space except the first."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Reply:
    """The model says `text`, one sound per character at `characters_per_second`.

    Attributes:
        text: what is said. Empty text is an empty turn: it starts and ends without output.
        characters_per_second: speaking rate, above 0.
        first_token_s: thinking time before the first audio, in seconds; None takes the server's.
        transcript_lead_s: how far the transcript runs ahead of the audio; negative lags behind;
            None takes the connection's setting.
        pause_at_s: generation stalls once this much audio has been sent ...
        pause_s: ... for this long.
    """

    text: str
    characters_per_second: float = CHARACTERS_PER_SECOND
    first_token_s: float | None = None
    transcript_lead_s: float | None = None
    pause_at_s: float | None = None
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        _check_text("Reply.text", self.text)
        _check_number("characters_per_second", self.characters_per_second, above=True)
        if self.first_token_s is not None:
            _check_number("first_token_s", self.first_token_s)
        _check_number("pause_s", self.pause_s)
        if self.pause_at_s is not None:
            _check_number("pause_at_s", self.pause_at_s)
        if self.transcript_lead_s is not None:
            _check_number("transcript_lead_s", self.transcript_lead_s, least=-math.inf)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words in order; each begins where the one before it ended."""
        words: list[Word] = []
        at = 0.0
        for index, piece in enumerate(self.text.split()):
            text = piece if index == 0 else f" {piece}"
            end = at + len(text) / self.characters_per_second
            words.append(Word(text, at, end))
            at = end
        return tuple(words)

    @property
    def duration_s(self) -> float:
        """Seconds of audio."""
        return self.words[-1].end_s if self.words else 0.0

    def words_until(self, position_s: float) -> str:
        """The text whose audio lies wholly before `position_s`: what a caller has heard by then."""
        return "".join(word.text for word in self.words if word.end_s <= position_s + 1e-6)

    def pcm(self, rate: int, seed: int = 0) -> bytes:
        """The reply's audio. The same `seed` gives the same bytes (see `audio.speech`)."""
        return audio.speech(self.duration_s, rate, seed)

    def rest_after(self, position_s: float) -> Reply:
        """The part of the reply that a caller has not heard at `position_s`."""
        rest = "".join(w.text for w in self.words if w.end_s > position_s + 1e-6)
        return Reply(rest.strip(), self.characters_per_second)


@dataclass(frozen=True)
class ToolCall:
    """The model calls a tool, after saying `say_first` if that is not empty.

    Attributes:
        name: the tool's name as declared.
        args: its arguments.
        say_first: spoken in the same turn, before the call.
        call_id: fixed id; None lets the server issue one.
        trailing_text: spoken in the same turn, after the call.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    say_first: str = ""
    call_id: str | None = None
    trailing_text: str = ""

    def __post_init__(self) -> None:
        _check_text("ToolCall.name", self.name)
        if not self.name:
            raise ScriptError("ToolCall.name must not be empty")
        try:
            json.dumps(dict(self.args))
        except (TypeError, ValueError) as exc:
            raise ScriptError(f"ToolCall.args must be a mapping of JSON values: {exc}") from None


@dataclass(frozen=True)
class ToolCalls:
    """Several calls in one message (Gemini) or one response (OpenAI)."""

    calls: tuple[ToolCall, ...]
    say_first: str = ""

    def __post_init__(self) -> None:
        if not self.calls:
            raise ScriptError("ToolCalls needs at least one ToolCall")
        for call in self.calls:
            if not isinstance(call, ToolCall):
                raise ScriptError(f"ToolCalls must hold ToolCall, not {type(call).__name__}")


@dataclass(frozen=True)
class NoReply:
    """The model stays quiet: nothing at all is sent for this turn."""


Turn = Reply | ToolCall | ToolCalls | NoReply
"""What the model does when it is its turn."""

Reason = Literal["speech", "request", "tool_result", "continuation"]
"""Why it is the model's turn: the user spoke, the client asked, a tool answered, or by itself."""


@dataclass(frozen=True)
class TurnRequest:
    """What a reply callable is told about the turn it is asked for.

    Attributes:
        reason: why the model speaks now.
        user_text: what the user said (speech) or the text of the request, instructions included.
        tool_results: results that this turn answers, by call id.
        connection: number of the connection that asked, counted from 1.
        knows: the texts that the session's context holds, oldest first.
    """

    reason: Reason
    user_text: str
    connection: int
    tool_results: Mapping[str, Any] = field(default_factory=dict)
    knows: tuple[str, ...] = ()


TurnSource = Turn | str | Callable[[TurnRequest], "Turn | str"]


class Script:
    """The queue of what the model says and of what it hears the user say.

    `replies` is a plain deque: append `Reply`, `ToolCall`, `ToolCalls`, `NoReply`, a string, or a
    callable that takes a `TurnRequest` and returns one of these. When it is empty, `default_reply`
    is used.
    """

    def __init__(
        self,
        replies: Iterable[TurnSource] = (),
        default_reply: TurnSource = "Hello, this is the simulated model speaking.",
    ) -> None:
        if isinstance(replies, str | Reply | ToolCall | ToolCalls | NoReply):
            raise ScriptError(f"replies must be a list of turns, not one {type(replies).__name__}")
        self.replies: deque[TurnSource] = deque(replies)
        for index, source in enumerate(self.replies):
            _check_source(f"replies[{index}]", source)
        _check_source("default_reply", default_reply)
        self.default_reply: TurnSource = default_reply
        self.default_user_text = "hello there"
        self._user_texts: deque[str] = deque()
        self.turns = 0
        """How many turns were performed so far, over all connections; see `next_seed`."""

    def user_says(self, *texts: str) -> None:
        """Queue transcripts: the next utterances that are heard are understood as `texts`."""
        self._user_texts.extend(texts)

    def next_user_text(self) -> str:
        """What the utterance that was just heard means."""
        return self._user_texts.popleft() if self._user_texts else self.default_user_text

    def upcoming_user_text(self) -> str | None:
        """What the next utterance will mean, if that was scripted."""
        return self._user_texts[0] if self._user_texts else None

    def next_turn(self, request: TurnRequest) -> Turn:
        """Take the next scripted turn.

        Raises:
            ScriptError: a callable or the queue gave something that is no turn.
        """
        source = self.replies.popleft() if self.replies else self.default_reply
        produced: object = source(request) if callable(source) else source
        if isinstance(produced, str):
            return Reply(produced)
        if isinstance(produced, Reply | ToolCall | ToolCalls | NoReply):
            return produced
        raise _no_turn("a reply", produced)

    def next_seed(self, connection: int) -> int:
        """A fresh seed, so that no two turns have the same audio: the number of the turn.

        Args:
            connection: number of the connection that performs it.
        """
        self.turns += 1
        return self.turns


def _check_source(name: str, source: object) -> None:
    if not callable(source) and not isinstance(
        source, str | Reply | ToolCall | ToolCalls | NoReply
    ):
        raise _no_turn(name, source)
    if isinstance(source, type):
        raise ScriptError(f"{name} is the class {source.__name__}, not one of its instances")


def _no_turn(name: str, given: object) -> ScriptError:
    return ScriptError(
        f"{name} must be str, Reply, ToolCall, ToolCalls or NoReply, not {type(given).__name__}"
    )


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ScriptError(f"{name} must be a string, not {type(value).__name__}")


def _check_number(name: str, value: object, *, least: float = 0.0, above: bool = False) -> None:
    check_number(name, value, least=least, above=above, error=ScriptError)
