"""What is drawn of a net: boxes for steps, marks for entry and end, lines for arcs. It knows no positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.check.soundness import live_arcs
from noetl.escape import one_line
from noetl.net import describe
from noetl.net.carries import Carries, carries
from noetl.net.net import Net, NetArc, NetStep
from noetl.playbook.model import DEFAULT_MAX_IN_FLIGHT, END, Loop, Step
from noetl.views.explain.playbook import steps_in_order, steps_reached

Role: TypeAlias = Literal["entry", "step", "end", "missing", "any"]


class Box(NamedTuple):
    """A step or a mark. `missing`: an arc leads there, to no step; `any`: a template says where."""

    role: Role
    title: str = ""
    desc: str | None = None
    kinds: tuple[str, ...] = ()  # of its tasks, in order, each once
    loop: str | None = None  # badge: "×10", "× each"
    loop_words: str | None = None
    join: bool = False
    fork: bool = False
    gate: bool = False  # it has rules of admission
    reached: bool = True  # from the entry


class ChartLine(NamedTuple):
    """An arc; `start` and `to` are places in the list of boxes."""

    start: int
    to: int
    when: str | None = None  # None: always
    carries: Carries = "success"
    back: bool = False
    dead: bool = False
    implied: bool = False  # no arc was written: the token ends here


class Chart(NamedTuple):
    name: str
    desc: str | None
    boxes: tuple[Box, ...]
    lines: tuple[ChartLine, ...]


def chart(net: Net) -> Chart:
    """Boxes in the order in which they are told, the entry's mark first and the end's last."""
    return _Drafter(net).chart()


class _Drafter:
    def __init__(self, net: Net) -> None:
        self.net = net
        self.order = steps_in_order(net)
        self.boxes: list[Box] = []
        self.place: dict[tuple[Role, str], int] = {}

    def chart(self) -> Chart:
        playbook = self.net.playbook
        lines: list[ChartLine] = []
        reached = steps_reached(self.net)
        if playbook.entry in self.net.steps:
            lines.append(ChartLine(self._box(Box("entry")), 1))
        for name in self.order.names:
            self._box(_box(self.net.steps[name], name in reached), name)
        for name in self.order.names:
            lines += self._lines(self.net.steps[name])
        desc = playbook.metadata.get("description")
        said = one_line(desc) if isinstance(desc, str) and desc.strip() else None
        return Chart(one_line(playbook.name), said, tuple(self.boxes), tuple(lines))

    def _box(self, box: Box, key: str = "") -> int:
        place = self.place.setdefault((box.role, key), len(self.boxes))
        if place == len(self.boxes):
            self.boxes.append(box)
        return place

    def _lines(self, step: NetStep) -> Iterator[ChartLine]:
        start = self.place["step", step.step.name]
        live = {id(arc) for arc in live_arcs(step)}
        for arc in step.arcs:
            for to, back in self._targets(arc, step.step.name):
                when = describe.guard(arc.arc.when)
                yield ChartLine(start, to, when, carries(arc, step.step), back, dead=id(arc) not in live)
        if not step.arcs:
            yield ChartLine(start, self._box(Box("end")), implied=True)

    def _targets(self, arc: NetArc, start: str) -> Iterator[tuple[int, bool]]:
        if arc.targets is None:
            title = describe.expression(arc.arc.step)
            yield self._box(Box("any", title), title), False
        for target in arc.targets or ():
            if target in self.net.steps:
                yield self.place["step", target], (start, target) in self.order.back
            elif target == END:
                yield self._box(Box("end")), False
            else:
                yield self._box(Box("missing", one_line(target)), target), False


def _box(each: NetStep, reached: bool) -> Box:
    step = each.step
    desc = one_line(step.desc) if step.desc and step.desc.strip() else None
    return Box(
        "step",
        one_line(step.name),
        desc,
        tuple(dict.fromkeys(_kind(task.kind, task.fields.get("block")) for task in step.tasks)),
        loop=" ".join(_badge(loop) for loop in step.loops) or None,
        loop_words="; ".join(describe.loop(loop) for loop in step.loops) or None,
        join=step.join == "all",
        fork=step.mode == "inclusive" and _may_fork(step),
        gate=step.admit is not None,
        reached=reached,
    )


def _kind(kind: str, block: object) -> str:
    return f"{one_line(kind)} {one_line(block)}" if isinstance(block, str) else one_line(kind)


def _badge(loop: Loop) -> str:
    iterator = one_line(loop.iterator) or "?"
    if loop.mode == "sequential":
        return f"↻ {iterator}"
    at_once = DEFAULT_MAX_IN_FLIGHT if loop.max_in_flight is None else loop.max_in_flight
    return f"↻ {iterator} ×{at_once if isinstance(at_once, int) else 'n'}"


def _may_fork(step: Step) -> bool:
    return len(step.arcs or ()) > 1
