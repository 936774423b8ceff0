"""Which parts of a playbook some tests have run: steps, arcs, rules and arcs of failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.engine.facts import NextEvaluated, Requested, StepScheduled, TaskDone
from noetl.ids import frame_parts
from noetl.net.program import CompiledPipeline
from noetl.playbook.source import Document, Path
from noetl.replay.execution import ReplayedExecution
from noetl.replay.programs import CompiledText

PartKind: TypeAlias = Literal["step", "arc", "failure arc", "rule"]
KINDS: tuple[PartKind, ...] = ("step", "arc", "rule", "failure arc")


class Part(NamedTuple):
    """A part of a playbook that a test can run."""

    kind: PartKind
    name: str  # "fetch", "fetch → store", "fetch.get_page rule 2"
    at: Path


class PlaybookCoverage:
    """The parts of one playbook, and those that ran."""

    def __init__(self, compiled: CompiledText) -> None:
        self.document: Document = compiled.checked.document
        self.file = self.document.file
        self._program = compiled.program
        self.parts: dict[tuple[str, ...], Part] = dict(_parts(compiled))
        self.ran: set[tuple[str, ...]] = set()

    def add(self, replayed: ReplayedExecution) -> None:
        """Count what an execution did, also as a child."""
        ours = {
            event.execution_id
            for event in replayed.events
            if isinstance(event.fact, Requested) and event.fact.digest == self._program.digest
        }
        names: dict[tuple[str, str], str] = {}  # (execution, run) → its step or block
        for event in replayed.events:
            if event.execution_id not in ours:
                continue
            match event.fact:
                case StepScheduled(run=run, step=step):
                    names[event.execution_id, run] = step
                    self._hit("step", step)
                case NextEvaluated(run=run, asked=asked):
                    step = names.get((event.execution_id, run), "")
                    for place, holds in asked:
                        if holds:
                            self._hit("arc", step, str(place))
                case TaskDone(frame=frame, task=task, rule=rule) if rule is not None:
                    pipeline = names.get((event.execution_id, frame_parts(frame)[0]), "")
                    self._hit("rule", self._owner(pipeline), task, str(rule))

    def _owner(self, pipeline: str) -> str:
        """The step of a block that the compiler made for a list of loops."""
        found = self._program.blocks.get(pipeline)
        return pipeline if found is None else found.source.name

    def _hit(self, *key: str) -> None:
        if key in self.parts:
            self.ran.add(key)

    def count(self, kind: PartKind) -> tuple[int, int]:
        """How many ran, and how many there are."""
        of_kind = [key for key, part in self.parts.items() if part.kind == kind]
        return sum(key in self.ran for key in of_kind), len(of_kind)

    def missed(self) -> list[Part]:
        return [part for key, part in self.parts.items() if key not in self.ran]

    def line(self, part: Part) -> int:
        return self.document.at(part.at).line


def _parts(compiled: CompiledText) -> Iterator[tuple[tuple[str, ...], Part]]:
    program = compiled.program
    for step in program.steps.values():
        yield ("step", step.name), Part("step", step.name, step.source.at)
        for place, arc in enumerate(step.arcs):
            kind: PartKind = "failure arc" if arc.takes_failure else "arc"
            yield ("arc", step.name, str(place)), Part(kind, f"{step.name} → {arc.source.step}", arc.source.at)
        yield from _rules(step.pipeline)
    for block in program.playbook.blocks:
        yield from _rules(program.blocks[block.name])


def _rules(pipeline: CompiledPipeline) -> Iterator[tuple[tuple[str, ...], Part]]:
    for task in pipeline.source_tasks:
        for rule in (*task.skips, *task.written_rules):
            name = f"{pipeline.name}.{task.name} {rule.title}"
            yield ("rule", pipeline.source.name, task.name, str(rule.place)), Part("rule", name, rule.source.at)


def covered(found: Iterable[PlaybookCoverage]) -> dict[PartKind, tuple[int, int]]:
    """FrameEnded several playbooks."""
    counts = [{kind: each.count(kind) for kind in KINDS} for each in found]
    return {kind: (sum(each[kind][0] for each in counts), sum(each[kind][1] for each in counts)) for kind in KINDS}
