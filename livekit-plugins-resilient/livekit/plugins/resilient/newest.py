"""A mapping that forgets its oldest entries, so that a long call keeps no more than a short one."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar

__all__ = ["Newest"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Newest(MutableMapping[_Key, _Value]):
    """Keeps the entries that were set last. Setting an entry again makes it a new one.

    Args:
        limit: How many (count), above 0.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[_Key, _Value] = {}

    def __getitem__(self, key: _Key) -> _Value:
        return self._entries[key]

    def __setitem__(self, key: _Key, value: _Value) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]

    def __delitem__(self, key: _Key) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
