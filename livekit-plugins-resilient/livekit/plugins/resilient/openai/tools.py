"""The tool calls of one session: which came, and the results of which went to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import facts as f
from ..core.limits import REMEMBERED_CALLS
from ..newest import Newest
from .engine import short_call_id

if TYPE_CHECKING:
    from ..runtime.driver import Driver

__all__ = ["ToolCalls"]


class ToolCalls:
    """Remembers the newest calls, so that none runs twice.

    Call `came` for each call of the model, and `answered` where its result is sent.

    Args:
        driver: Of the session.
    """

    def __init__(self, *, driver: Driver) -> None:
        self._driver = driver
        # By the id that upstream answers with, and those whose results went. xAI's ids have 43
        # characters; upstream shortens those of more than 32.
        self._called: Newest[str, str] = Newest(REMEMBERED_CALLS)
        self._answered: Newest[str, None] = Newest(REMEMBERED_CALLS)

    def came(self, call_id: str) -> bool:
        """Note a call of the model; False for one that came before and must not run again."""
        if short_call_id(call_id) in self._called:
            # A replayed conversation can have the model make a call whose tool ran or runs.
            if call_id in self._answered:
                self._delivered(call_id)
            return False
        self._called[short_call_id(call_id)] = call_id
        return True

    def has_begun(self, call_id: str) -> bool:
        """Whether a call came with all its arguments, so that its tool runs or ran."""
        return short_call_id(call_id) in self._called

    def waits_for(self, answered_id: str) -> bool:
        """Whether the result of a call of this session did not go to a server; old ones did."""
        call_id = self._called.get(short_call_id(answered_id))
        return call_id is not None and call_id not in self._answered

    def answered(self, answered_id: str) -> None:
        """A result is sent, or is not to be sent any more.

        Args:
            answered_id: The id of its call, as upstream answers with it.
        """
        call_id = self._called.get(answered_id, answered_id)
        self._answered[call_id] = None
        # The application asks for the reply to it by itself.
        self._delivered(call_id)

    def _delivered(self, call_id: str) -> None:
        driver = self._driver
        driver.feed(f.ToolResultDelivered(driver.now, call_id, expects_reply=False))
