"""The order in which a person would draw the steps: from the entry on, branches before what they meet in.

It also says which ways lead back. It knows names and what follows them, nothing of playbooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

Follows: TypeAlias = Mapping[str, Sequence[str]]


class Order(NamedTuple):
    """Without the ways that lead `back`, `names` is in topological order."""

    names: tuple[str, ...]
    back: frozenset[tuple[str, str]]  # ways to something that comes before, or to itself


class _Walked(NamedTuple):
    left: list[str]  # in the order in which each name was left for good
    back: set[tuple[str, str]]  # ways to a name that was still open


def drawing_order(starts: Sequence[str], follows: Follows) -> Order:
    """All that the starts reach; what the first start does not reach comes later, start by start."""
    back = _walk(starts, follows).back
    # Walked again from the last start and the last target on, then turned round: the first come first.
    forward = {
        name: [target for target in reversed(targets) if (name, target) not in back]
        for name, targets in follows.items()
    }
    return Order(tuple(reversed(_walk(starts[::-1], forward).left)), frozenset(back))


def _walk(starts: Sequence[str], follows: Follows) -> _Walked:
    """Depth first, without recursion."""
    walked = _Walked([], set())
    seen: set[str] = set()
    open_: dict[str, Iterator[str]] = {}
    for start in starts:
        entering: str | None = start if start not in seen else None
        while entering is not None or open_:
            if entering is not None:
                seen.add(entering)
                open_[entering] = iter(follows.get(entering, ()))
            name = next(reversed(open_))
            entering = _next(name, open_, seen, walked.back)
            if entering is None:
                del open_[name]
                walked.left.append(name)
    return walked


def _next(
    name: str, open_: Mapping[str, Iterator[str]], seen: set[str], back: set[tuple[str, str]]
) -> str | None:
    for target in open_[name]:
        if target in open_:
            back.add((name, target))
        elif target not in seen:
            return target
    return None
