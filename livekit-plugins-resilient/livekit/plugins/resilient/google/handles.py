"""The resumption handle in a message of the server (R5)."""

from __future__ import annotations

from typing import NamedTuple

from google.genai import types

__all__ = ["IssuedHandle", "take_handle"]


class IssuedHandle(NamedTuple):
    """A handle as it came.

    Attributes:
        token: A secret.
        consumed: Number of the last client message that it stands for; None where the server
            does not say.
    """

    token: str
    consumed: int | None


def take_handle(message: types.LiveServerMessage) -> IssuedHandle | None:
    """Take the handle out of a message, for which upstream would copy the whole context.

    Returns:
        None where the message brings none that can be resumed.
    """
    update, message.session_resumption_update = message.session_resumption_update, None
    if update is None or not update.resumable or not update.new_handle:
        return None
    return IssuedHandle(update.new_handle, update.last_consumed_client_message_index)
