"""Mappings that make their values at first use, and a cache with an upper limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LazyMapping(Mapping[K, V]):
    """A mapping whose names are known and whose values are made at first use."""

    def __init__(self, names: Collection[K], make: Callable[[K], V]) -> None:
        self._names = names
        self._make = make
        self._made: dict[K, V] = {}

    def __getitem__(self, name: K) -> V:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[K]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class DeferredMapping(Mapping[K, V]):
    """A mapping that is made as a whole at first use."""

    def __init__(self, make: Callable[[], Mapping[K, V]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[K, V]:
        return self._make()

    def __getitem__(self, name: K) -> V:
        return self._made[name]

    def __iter__(self) -> Iterator[K]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class BoundedCache(Generic[K, V]):
    """A mapping that holds at most `limit` entries, or entries of a total size of at most `limit`.

    The least recently used entry is removed first.
    """

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
