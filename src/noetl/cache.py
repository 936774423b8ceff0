"""A cache with an upper limit: the least recently used entry is removed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A mapping that holds at most `limit` entries, or entries of a total size of at most `limit`."""

    def __init__(self, limit: int, size: Callable[[V], int] | None = None) -> None:
        """`size`: the size of a value; None: each entry counts as 1."""
        self._limit = limit
        self._size = size
        self._total = 0
        self._entries: dict[K, V] = {}

    @property
    def total(self) -> int:
        """The sum of the sizes of all values; without a size function, their number."""
        return self._total

    def get(self, key: K) -> V | None:
        """The value, which becomes the most recently used one."""
        entries = self._entries
        value = entries.get(key)
        if value is not None:
            del entries[key]
            entries[key] = value
        return value

    def peek(self, key: K) -> V | None:
        """The value. Its age does not change, so that entries are removed in the order of insertion."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Store the value as the most recently used one, and remove entries until the limit holds.

        The new entry stays, even if it alone exceeds the limit.
        """
        self.pop(key)
        self._entries[key] = value
        self._total += 1 if self._size is None else self._size(value)
        while self._total > self._limit and len(self._entries) > 1:
            self.pop(next(iter(self._entries)))
        return value

    def pop(self, key: K) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._total -= 1 if self._size is None else self._size(value)
        return value

    def clear(self) -> None:
        self._entries.clear()
        self._total = 0

    def items(self) -> list[tuple[K, V]]:
        """All entries, the least recently used one first."""
        return list(self._entries.items())

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
