"""What a fresh connection is told of the conversation, kept apart until it serves (R7, R24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm

from ..core.resumption import Resumption
from .handles import take_handle
from .history import SeedForm, is_told, told_text, told_turns

if TYPE_CHECKING:
    from .live_session import LiveSession

__all__ = ["Seed"]


class Seed:
    """The history for one fresh connection.

    Call `announce` for its set-up, `tell` once it is up, and `take_handle` for each message that is
    read before it serves; then `Mirror.serves`, by which the books kept here become those of the
    session. Until then nothing else knows of it, so that it can be dropped at any time.

    Args:
        form: How the history is told.
        record: The conversation as it stands.
        chosen: What of a record is told.
        arguments_of: A call's arguments in JSON; None for an unknown call.
        now: Monotonic seconds.

    Attributes:
        resumption: What this connection knows, and what it can be resumed from.
        items: The record as it was when it was told.
        told: How many of it were told, the set-up included.
        announced: Whether the set-up says that a history follows.
        instructed: The ids of the items that the set-up holds.
    """

    def __init__(
        self,
        form: SeedForm,
        record: Callable[[], llm.ChatContext],
        chosen: Callable[[llm.ChatContext], list[llm.ChatItem]],
        arguments_of: Callable[[str], str | None],
        now: Callable[[], float],
    ) -> None:
        self._form = form
        self._record = record
        self._chosen = chosen
        self._arguments_of = arguments_of
        self._now = now
        self.resumption = Resumption()
        self.items: list[llm.ChatItem] = []
        self.told = 0
        self.announced = False
        self.instructed: list[str] = []

    def announce(self, config: types.LiveConnectConfig) -> None:
        """Make a set-up one of a fresh session, and say in it what of the history belongs there."""
        if config.session_resumption is not None:
            config.session_resumption.handle = None
        if self._form is SeedForm.TURNS:
            return
        items = self._chosen(self._record())
        if self._form is SeedForm.ANNOUNCED:
            self.announced = any(is_told(item) for item in items)
            if self.announced:
                config.history_config = types.HistoryConfig(initial_history_in_client_content=True)
        elif text := told_text(items, self._arguments_of):
            self.instructed = [item.id for item in items]
            given = types.Content.model_validate(config.system_instruction or types.Content())
            parts = [*(given.parts or []), types.Part(text=text)]
            config.system_instruction = types.Content(role=given.role, parts=parts)

    async def tell(self, live: LiveSession) -> None:
        """Tell the connection the history, before it gets anything else.

        Raises:
            Exception: What the client library raises where it cannot be sent.
        """
        record = self._record()
        items = self._chosen(record)
        turns = told_turns(
            [item for item in items if item.id not in self.instructed], self._arguments_of
        )
        self.items = list(record.items)
        self.told = len(items) if turns or self.instructed else 0
        if turns or self.announced:
            await live.send_client_content(turns=turns, turn_complete=self.announced)
        known = [item.id for item in self.items]
        self.resumption.seeded(known, self._now(), live.sent)

    def take_handle(self, message: types.LiveServerMessage) -> None:
        """Keep the handle that a message brings, as of now: it is older than what follows."""
        if (issued := take_handle(message)) is not None:
            self.resumption.handle_issued(issued.token, self._now(), consumed=issued.consumed)
