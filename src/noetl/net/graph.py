"""The steps as a graph: reachability, cycles, drawing order, and what arcs carry."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from noetl.net.program import ANYWHERE, CompiledArc, CompiledStep, Program
from noetl.output import JSON
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template

V = TypeVar("V", bound=Hashable)
Follows: TypeAlias = Mapping[V, Collection[V]]  # vertex → the vertices it leads to


def reachable(starts: Iterable[V], follows: Follows[V]) -> set[V]:
    """All vertices that can be reached, the starts included."""
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


def cycles(follows: Follows[V]) -> list[list[V]]:
    """Components that contain a cycle."""
    if not any(follows.values()):
        return []
    return [each for each in components(follows) if len(each) > 1 or each[0] in follows.get(each[0], ())]


def descendants(follows: Follows[V]) -> dict[V, int]:
    """The vertices that each vertex reaches, itself included, as a bit mask over the order of `follows`."""
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


def reach_of(steps: Mapping[str, CompiledStep]) -> dict[str, int]:
    """The steps that each step's arcs lead to, as bits; the step itself only when a path leads back to it."""
    # One vertex represents the targets of all arcs that may lead to any step, so that the graph stays linear.
    follows: dict[str, list[str]] = {}
    for name, step in steps.items():
        found: dict[str, None] = {}
        for arc in step.arcs:
            found.update(dict.fromkeys((ANYWHERE,) if arc.targets is None else arc.targets))
        follows[name] = [target for target in found if target in steps or target == ANYWHERE]
    anywhere = 1 << len(steps)
    reach = descendants({**follows, ANYWHERE: list(steps)})
    made: dict[str, int] = {}
    for name, targets in follows.items():
        mask = 0
        for target in targets:
            mask |= reach[target]
        made[name] = mask & ~anywhere
    return made


class Order(NamedTuple):
    """An order of vertices in which only the edges in `back` lead backwards."""

    names: tuple[str, ...]
    back: frozenset[tuple[str, str]]  # edges to a vertex that leads here, or to itself


class _Walk:
    """Depth first, without recursion."""

    def __init__(self, follows: Mapping[str, Sequence[str]]) -> None:
        self.follows = follows
        self.seen: set[str] = set()
        self.back: set[tuple[str, str]] = set()
        self.open: dict[str, Iterator[str]] = {}

    def finished(self, start: str) -> Iterator[str]:
        """The new vertices that the start reaches, in the order in which the walk finishes them."""
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


def drawing_order(starts: Sequence[str], follows: Mapping[str, Sequence[str]]) -> Order:
    """The order in which to draw what the starts reach: branches before the vertex in which they meet.

    Vertices that the first start does not reach come later, start by start.
    """
    there = _Walk(follows)
    for start in starts:
        for _ in there.finished(start):
            pass
    # The second walk takes the targets in reverse, and its result is reversed: first targets come first.
    forward = {
        name: [target for target in reversed(targets) if (name, target) not in there.back]
        for name, targets in follows.items()
    }
    walk = _Walk(forward)
    names = [name for start in starts for name in reversed(list(walk.finished(start)))]
    return Order(tuple(names), frozenset(there.back))


Carries: TypeAlias = Literal["success", "failure", "both"]

_KNOWN = frozenset({("event", "name"), ("event", "status"), ("output", "status")})
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[()\[\]{}]|\b(?:and|or|if)\b""")


class StepEnds(NamedTuple):
    """The ends of a step, after which something may or must happen."""

    success: bool
    failure: bool


_NEVER = StepEnds(success=False, failure=False)
_BOTH = StepEnds(success=True, failure=True)


def live_arcs(step: CompiledStep) -> list[CompiledArc]:
    """The arcs that may fire.

    In exclusive mode an arc that takes every success hides the later ones that can fire only after a success;
    the same holds for failures (D111).
    """
    live: list[CompiledArc] = []
    taken = _NEVER
    for arc in step.arcs:
        may = _may_fire(arc, step)
        if (may.success and not taken.success) or (may.failure and not taken.failure):
            live.append(arc)
        if not step.inclusive:
            must = must_fire(arc, step)
            taken = StepEnds(taken.success or must.success, taken.failure or must.failure)
    return live


def steps_in_order(program: Program) -> Order:
    """From the entry on, then the steps that it does not reach, in the order of the text."""
    follows = {name: _targets(step, program) for name, step in program.steps.items()}
    entry = [program.playbook.entry] if program.playbook.entry in program.steps else []
    return drawing_order([*entry, *program.steps], follows)


def steps_reached(program: Program) -> frozenset[str]:
    """The steps that arcs lead to from the entry."""
    if any(arc.targets is None for step in program.steps.values() for arc in step.arcs):
        return frozenset(program.steps)
    if program.playbook.entry not in program.steps:
        return frozenset()
    follows = {name: _targets(step, program) for name, step in program.steps.items()}
    return frozenset(reachable([program.playbook.entry], follows))


def _targets(step: CompiledStep, program: Program) -> list[str]:
    """A dynamic arc without `to` has no known target."""
    return [target for arc in step.arcs for target in arc.targets or () if target in program.steps]


def carries(arc: CompiledArc, step: CompiledStep) -> Carries:
    """What an arc may carry: the success of its step, its failure, or both (D37).

    For checks and display: the engine never decides by it.
    """
    may = _may_fire(arc, step)
    if may.success == may.failure:
        return "both" if arc.takes_failure else "success"
    return "success" if may.success else "failure"


def _may_fire(arc: CompiledArc, step: CompiledStep) -> StepEnds:
    """A guard is split at its `and`s; a part that reads only how the step ended is evaluated before the run."""
    if arc.when is False:
        return _NEVER
    if not (arc.takes_failure and isinstance(arc.when, Template)):
        return StepEnds(success=True, failure=False)
    after_success, after_failure = _values(arc.when, step)
    may = StepEnds(False not in after_success, False not in after_failure)
    return may if any(may) else _BOTH  # a guard that can never hold is reported by other checks


def must_fire(arc: CompiledArc, step: CompiledStep) -> StepEnds:
    """After which ends the guard of the arc holds in every run."""
    if not isinstance(arc.when, Template):
        return StepEnds(success=arc.takes_every_success, failure=False)
    if not arc.takes_failure:
        return _NEVER
    after_success, after_failure = _values(arc.when, step)
    return StepEnds(set(after_success) == {True}, set(after_failure) == {True})


def _values(when: Template, step: CompiledStep) -> tuple[list[bool | None], list[bool | None]]:
    """The values of the parts of a guard after a success and after a failure; None: known only in a run."""
    parts = _parts(when)
    success = _ended("loop.done" if step.source.loops else "step.done", "ok")
    failure = _ended("step.failed", "error")
    return [_value(part, success) for part in parts], [_value(part, failure) for part in parts]


def _ended(name: str, status: str) -> dict[str, JSON]:
    return {"event": {"name": name, "status": status}, "output": {"status": status}}


def _value(part: Template, scope: dict[str, JSON]) -> bool | None:
    if not all(read.path in _KNOWN for read in part.reads):
        return None
    try:
        return part.holds(scope)
    except TemplateError:
        return None


def _parts(when: Template) -> tuple[Template, ...]:
    """The guard holds when all parts hold; one that cannot be split is its only part."""
    if when.typed and "and" in when.source:
        return _split(when.source) or (when,)
    return (when,)


@lru_cache(maxsize=1024)
def _split(source: str) -> tuple[Template, ...]:
    texts = _conjuncts(source.strip().removeprefix("{{").removesuffix("}}")) or ()
    try:
        return tuple(compile_template(f"{{{{ {each} }}}}") for each in texts)
    except BadTemplate:
        return ()


def _conjuncts(text: str) -> list[str] | None:
    """Split at `and` outside quotes and brackets; None when there is also an `or` or `if`."""
    depth, begin = 0, 0
    found = []
    for word in _WORD.finditer(text):
        if word[0] in ("(", "[", "{"):
            depth += 1
        elif word[0] in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and word[0] in ("or", "if"):
            return None
        elif depth == 0 and word[0] == "and":
            found.append(text[begin : word.start()])
            begin = word.end()
    return [*found, text[begin:]]
