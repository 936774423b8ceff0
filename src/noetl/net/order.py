"""The order in which a person would draw the steps: from the entry on, branches before what they meet in.

It also says which ways lead back. It knows names and what follows them, nothing of playbooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Follows: TypeAlias = Mapping[str, Sequence[str]]


class Order(NamedTuple):
    """Without the ways that lead `back` there is no circle."""

    names: tuple[str, ...]
    back: frozenset[tuple[str, str]]  # ways to something that leads here, or to itself


class _Walk:
    """Depth first, without recursion."""

    def __init__(self, follows: Follows) -> None:
        self.follows = follows
        self.seen: set[str] = set()
        self.back: set[tuple[str, str]] = set()
        self.open: dict[str, Iterator[str]] = {}

    def left(self, start: str) -> Iterator[str]:
        """What the start reaches and was not seen before, in the order in which it is left for good."""
        entering = None if start in self.seen else start
        while entering is not None or self.open:
            if entering is not None:
                self.seen.add(entering)
                self.open[entering] = iter(self.follows.get(entering, ()))
            name = next(reversed(self.open))
            entering = self._next(name)
            if entering is None:
                del self.open[name]
                yield name

    def _next(self, name: str) -> str | None:
        for target in self.open[name]:
            if target in self.open:
                self.back.add((name, target))
            elif target not in self.seen:
                return target
        return None


def drawing_order(starts: Sequence[str], follows: Follows) -> Order:
    """All that the starts reach; what the first start does not reach comes later, start by start."""
    there = _Walk(follows)
    for start in starts:
        for _ in there.left(start):
            pass
    # Walked again from the last target on, then turned round: of each step the first targets come first.
    forward = {
        name: [target for target in reversed(targets) if (name, target) not in there.back]
        for name, targets in follows.items()
    }
    walk = _Walk(forward)
    names = [name for start in starts for name in reversed(list(walk.left(start)))]
    return Order(tuple(names), frozenset(there.back))
