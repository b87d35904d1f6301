"""A cache that is bounded by the size of what it holds, not by the number of its entries."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Drops what was not asked for the longest time. `size` of an entry: what its memory is proportional to.

    Threads may share it without a lock: each change of the entries is one operation, and a size that two threads change
    at once is wrong by one entry at most.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self.size = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()  # the latest last

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        with suppress(KeyError):  # dropped by another thread meanwhile
            self._entries.move_to_end(key)
        return entry[0]

    def setdefault(self, key: Key, value: Value, size: int) -> Value:
        """The value of the key, which is `value` where there was none."""
        known = self.get(key)
        if known is not None:
            return known
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self._size_max:
            self.size -= self._entries.popitem(last=False)[1][1]
        return value
