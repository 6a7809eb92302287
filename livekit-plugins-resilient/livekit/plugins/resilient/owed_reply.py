"""Asks the next model in upstream's fallback adapter for what one that gave up left owed (R26).

The adapter itself has the next model speak where the agent was still speaking or thinking at the
error. What it asks for is left to it, and so is what the application asks for.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from livekit import rtc

from .runtime.speech_hint import HINT_LASTS_S, SpeechHint
from .runtime.timer import Deadline, Timer
from .wording import RedriveContext, RedriveInstructions, redrive_text

__all__ = ["Left", "OwedReply"]


@dataclass(frozen=True)
class Left:
    """What a session that gives up leaves behind.

    Attributes:
        owed: Why the caller waits for a reply; None where that is not known.
        requested: Whether a reply was requested that has not begun.
        spoke_at: When the caller last sounded, in loop time; None for never.
        quiet_s: Seconds of quiet that end the caller's speech.
        answers_in_s: Seconds that a model has to answer by itself what it heard of the caller.
        listens: Whether the microphone may be listened to for speech.
        wording: The application's own.
    """

    owed: RedriveContext | None
    requested: bool
    spoke_at: float | None
    quiet_s: float
    answers_in_s: float
    listens: bool
    wording: RedriveInstructions | None


# By the adapter's session: the reply that one of its models still has to be asked for.
_pending: WeakKeyDictionary[Any, OwedReply] = WeakKeyDictionary()


class OwedReply:
    """A reply that is owed, until the adapter has a model that takes the request.

    Call `follow` right after the final error was emitted.

    Args:
        holder: The adapter's session.
        left: What the model leaves that gives up.
        timer: Of its session, by which is waited after its end as well.
    """

    def __init__(self, holder: Any, left: Left, timer: Timer) -> None:
        self._holder = holder
        self._agent_session: Any = holder._agent_session
        self._left = left
        self._owed = left.owed
        speech = self._agent_session.current_speech
        # Who asks for a reply has a handle that tells of its end; who commits the caller's turn
        # has none.
        committed = speech is not None and speech.input_details.modality == "audio"
        if self._owed is None and left.requested and committed:
            self._owed = RedriveContext("unanswered_turn")
        self._timer = timer
        self._waiting: Deadline | None = None
        self._replies: list[Any] = []
        self._caller_heard = False
        self._hint = SpeechHint()
        self._spoke_at = -math.inf if left.spoke_at is None else left.spoke_at
        self._moved_at = math.inf

    def follow(self) -> None:
        """Have the next model asked, where the adapter turns to one and something is owed."""
        swap = self._holder._swap_task
        # An application that wants no reply after a move has said so to the adapter.
        wanted = self._owed is not None and self._holder._adapter._regenerate_on_swap
        if not wanted or swap is None or swap.done():
            return
        if (before := _pending.get(self._holder)) is not None:
            before._end()  # what this model left includes it
            self._spoke_at = max(self._spoke_at, before._spoke_at)
        _pending[self._holder] = self
        if self._left.listens:
            # None of its models hears what is said while it turns to the next, and upstream's do
            # not all tell of what they hear then.
            self._holder.push_audio = self._listen
        self._await(swap)

    def _listen(self, frame: rtc.AudioFrame) -> None:
        """In place of the adapter's `push_audio`."""
        if self._hint.is_speech(frame):
            self._spoke_at = self._timer.now
        type(self._holder).push_audio(self._holder, frame)

    def _await(self, swap: asyncio.Task[None]) -> None:
        self._replies.clear()
        self._caller_heard = False
        self._agent_session.on("speech_created", self._on_speech)
        self._agent_session.on("user_state_changed", self._on_user_state)
        swap.add_done_callback(self._on_moved)

    def _on_speech(self, event: Any) -> None:
        if event.source != "say":
            self._replies.append(event.speech_handle)

    def _on_user_state(self, event: Any) -> None:
        self._caller_heard |= event.new_state == "speaking"

    def _on_moved(self, swap: asyncio.Task[None]) -> None:
        if _pending.get(self._holder) is not self:
            return
        if swap.cancelled() or swap.exception() is not None:
            self._end()  # the call is over
            return
        self._moved_at = self._timer.now
        self._ask()

    def _ask(self) -> None:
        """Ask once the caller is quiet, unless there is a reply or the next model hears them."""
        replied = not all(_failed(reply) for reply in self._replies)
        if replied or self._caller_heard or self._agent_session._is_closing():
            self._end()
            return
        quiet_at = self._quiet_at()
        if quiet_at > self._timer.now:
            self._waiting = self._timer.at(quiet_at, self._ask)
            return
        self._unlisten()
        handle = self._agent_session.generate_reply(**self._request())
        handle.add_done_callback(self._on_done)

    def _quiet_at(self) -> float:
        """When the caller has been quiet for long enough.

        A model that heard the end of their sentence may answer it by itself; one of ours says
        itself what it hears.
        """
        own = hasattr(self._holder._active, "_driver")
        heard = not own and self._spoke_at > self._moved_at - HINT_LASTS_S
        quiet_s = self._left.quiet_s
        return self._spoke_at + (max(quiet_s, self._left.answers_in_s) if heard else quiet_s)

    def _request(self) -> dict[str, str]:
        owed = self._owed
        assert owed is not None
        if owed.cause == "unanswered_turn" and not self._knows_turn():
            owed = replace(owed, cause="user_words_lost")
        if owed.cause == "reply_requested":
            return {}  # as the adapter asks
        return {"instructions": redrive_text(owed, self._left.wording)}

    def _knows_turn(self) -> bool:
        """Whether the record that the next model was told ends with words of the caller."""
        messages = self._agent_session.current_agent.chat_ctx.messages()
        return bool(messages and messages[-1].role == "user" and messages[-1].text_content)

    def _on_done(self, handle: Any) -> None:
        """The reply was spoken, or its model gave up before it could begin."""
        if _pending.get(self._holder) is not self:
            return
        swap = self._holder._swap_task
        if _failed(handle) and not handle.chat_items and swap is not None and not swap.done():
            self._await(swap)
        else:
            self._end()

    def _unlisten(self) -> None:
        self._agent_session.off("speech_created", self._on_speech)
        self._agent_session.off("user_state_changed", self._on_user_state)

    def _end(self) -> None:
        self._unlisten()
        self._holder.__dict__.pop("push_audio", None)
        if self._waiting is not None:
            self._waiting.cancel()
        if _pending.get(self._holder) is self:
            del _pending[self._holder]


def _failed(speech: Any) -> bool:
    return bool(speech.interrupted or (speech.done() and speech.exception() is not None))
