"""Reachability and circles in a directed graph: iterative, linear. It knows nothing of playbooks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeAlias, TypeVar

V = TypeVar("V", bound=Hashable)
Follows: TypeAlias = Mapping[V, Collection[V]]  # vertex → the vertices it leads to


def reachable(starts: Iterable[V], follows: Follows[V]) -> set[V]:
    """Everything that can be reached, the starts included."""
    seen = set(starts)
    todo = list(seen)
    while todo:
        for target in follows.get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def components(follows: Follows[V]) -> list[list[V]]:
    """Strongly connected components, each after those it leads to (Tarjan, without recursion)."""
    number: dict[V, int] = {}
    low: dict[V, int] = {}
    open_: dict[V, None] = {}
    found: list[list[V]] = []
    for root in follows:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_[root] = None
        walk = [(root, iter(follows[root]))]
        while walk:
            vertex, targets = walk[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    open_[target] = None
                    walk.append((target, iter(follows.get(target, ()))))
                    break
                if target in open_:
                    low[vertex] = min(low[vertex], number[target])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[vertex])
                if low[vertex] == number[vertex]:
                    found.append(_close(vertex, open_))
    return found


def _close(vertex: V, open_: dict[V, None]) -> list[V]:
    members = []
    while True:
        member, _ = open_.popitem()
        members.append(member)
        if member == vertex:
            return members[::-1]


def circles(follows: Follows[V]) -> list[list[V]]:
    """Components that one can go round in."""
    return [each for each in components(follows) if len(each) > 1 or each[0] in follows.get(each[0], ())]


def descendants(follows: Follows[V]) -> dict[V, int]:
    """For each vertex what it reaches, itself included, as a bit mask over the order of `follows`."""
    bit = {vertex: 1 << place for place, vertex in enumerate(follows)}
    masks: dict[V, int] = {}
    for members in components(follows):
        mask = 0
        for member in members:
            mask |= bit.get(member, 0)
            for target in follows.get(member, ()):
                mask |= masks.get(target, 0)
        for member in members:
            masks[member] = mask
    return masks
