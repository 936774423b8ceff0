"""The content of a diagram: boxes for steps, marks for entry and end, lines for arcs. Without positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.escape import one_line, visible
from noetl.net import describe
from noetl.net.graph import Carries, carries, live_arcs, steps_in_order, steps_reached
from noetl.net.program import CompiledArc, CompiledStep, Program
from noetl.playbook.model import DEFAULT_MAX_IN_FLIGHT, END, Loop, Step, Task

LABEL_MAX = 60  # characters of a guard on a line

Role: TypeAlias = Literal["entry", "step", "end", "missing", "any"]


class Box(NamedTuple):
    """A step or a mark.

    `missing`: an arc names a step that does not exist; `any`: a template gives the target.
    """

    role: Role
    title: str = ""
    desc: str | None = None
    kinds: tuple[str, ...] = ()  # kinds of its tasks, in order, each once
    loop: str | None = None  # badge: "×10", "× each"
    loop_words: str | None = None
    join: bool = False
    fork: bool = False
    gate: bool = False  # it has admission rules
    reached: bool = True  # arcs lead here from the entry


class ChartLine(NamedTuple):
    """An arc; `start` and `to` are indexes in the list of boxes."""

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


def chart(program: Program) -> Chart:
    """The chart of a program. Boxes are in drawing order, the entry mark first and the end mark last."""
    return _Drafter(program).chart()


class _Drafter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.order = steps_in_order(program)
        self.boxes: list[Box] = []
        self.place: dict[tuple[Role, str], int] = {}

    def chart(self) -> Chart:
        playbook = self.program.playbook
        lines: list[ChartLine] = []
        reached = steps_reached(self.program)
        if playbook.entry in self.program.steps:
            lines.append(ChartLine(self._box(Box("entry")), 1))
        for name in self.order.names:
            self._box(_box(self.program.steps[name], name in reached), name)
        for name in self.order.names:
            lines += self._lines(self.program.steps[name])
        desc = playbook.metadata.get("description")
        said = one_line(desc) if isinstance(desc, str) and desc.strip() else None
        return Chart(one_line(playbook.name), said, tuple(self.boxes), tuple(lines))

    def _box(self, box: Box, key: str = "") -> int:
        place = self.place.setdefault((box.role, key), len(self.boxes))
        if place == len(self.boxes):
            self.boxes.append(box)
        return place

    def _lines(self, step: CompiledStep) -> Iterator[ChartLine]:
        start = self.place["step", step.source.name]
        live = {id(arc) for arc in live_arcs(step)}
        for arc in step.arcs:
            for to, back in self._targets(arc, step.source.name):
                when = describe.guard(arc.source.when)
                yield ChartLine(start, to, when, carries(arc, step), back, dead=id(arc) not in live)
        if not step.arcs:
            yield ChartLine(start, self._box(Box("end")), implied=True)

    def _targets(self, arc: CompiledArc, start: str) -> Iterator[tuple[int, bool]]:
        if arc.targets is None:
            title = describe.expression(arc.source.step)
            yield self._box(Box("any", title), title), False
        for target in arc.targets or ():
            if target in self.program.steps:
                yield self.place["step", target], (start, target) in self.order.back
            elif target == END:
                yield self._box(Box("end")), False
            else:
                yield self._box(Box("missing", one_line(target)), target), False


def _box(each: CompiledStep, reached: bool) -> Box:
    step = each.source
    desc = one_line(step.desc) if step.desc and step.desc.strip() else None
    return Box(
        "step",
        one_line(step.name),
        desc,
        tuple(dict.fromkeys(_kind(task) for task in step.tasks if task.form != "jump")),
        loop=" ".join(_badge(loop) for loop in step.loops) or None,
        loop_words="; ".join(describe.loop(loop) for loop in step.loops) or None,
        join=step.join == "all",
        fork=step.mode == "inclusive" and _may_fork(step),
        gate=step.admit is not None,
        reached=reached,
    )


def _kind(task: Task) -> str:
    kind, block = one_line(task.kind if task.form == "task" else task.form), task.fields.get("block")
    return f"{kind} {one_line(block)}" if isinstance(block, str) else kind


def _badge(loop: Loop) -> str:
    iterator = one_line(loop.iterator) or "?"
    if loop.mode == "sequential":
        return f"↻ {iterator}"
    at_once = DEFAULT_MAX_IN_FLIGHT if loop.max_in_flight is None else loop.max_in_flight
    return f"↻ {iterator} ×{at_once if isinstance(at_once, int) else 'n'}"


def _may_fork(step: Step) -> bool:
    return len(step.arcs or ()) > 1


def box_lines(box: Box) -> list[str]:
    """The text of a box: name, kinds, marks."""
    marks = [box.loop] if box.loop else []
    marks += ["⋈ joins all"] if box.join else []
    marks += ["⇉ forks"] if box.fork else []
    marks += ["◇ admission"] if box.gate else []
    return [box.title, *([" · ".join(box.kinds)] if box.kinds else []), *marks]


def quoted(text: str) -> str:
    """A quoted text, for dot and YAML."""
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
