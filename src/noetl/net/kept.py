"""Compiled steps that a later version of a playbook keeps, so that an edit in an editor compiles one step again."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from noetl.net.origins import RefOrigins
from noetl.net.program import CompiledPipeline, CompiledRule, CompiledStep, CompiledTask, Program, TemplateUse
from noetl.output import JSON
from noetl.playbook.model import Executor, Playbook, Rule, Step, Task
from noetl.playbook.moved import moved
from noetl.playbook.source import Document


class KeptStep(NamedTuple):
    """A compiled step with everything that its compilation added to the program."""

    step: CompiledStep
    templates: list[TemplateUse]
    blocks: dict[str, CompiledPipeline]  # the bodies of a list of loops

    def as_step(self, source: Step, document: Document) -> KeptStep | None:
        """The same for a step of the new playbook; None: it differs, or it is not easily moved."""
        old = self.step.source
        if old is source:
            return self
        place = source.at[1]
        if self.blocks or old.at == source.at or not isinstance(place, int) or moved(old, place) != source:
            return None
        made = _moved(self, source, place)
        # The same model may be written in two ways: with fields of a task beside or in `input`.
        two_ways = (use.path for use in made.templates if use.place in ("task", "loop"))
        return made if all(document.find(path) is not None for path in two_ways) else None


def kept_steps(before: Program, playbook: Playbook, origins: RefOrigins, *, weighs_ctx: bool) -> dict[str, KeptStep]:
    """By name. Those whose text had problems are missing, because the problems have to be reported again.

    The caller keeps a step only if its source is the same. All steps are missing if another part of the playbook
    that the compiler reads differs.
    """
    old = before.playbook
    if before.origins is None or not origins.same_as(before.origins):
        return {}
    if _read_parts(old.executor) != _read_parts(playbook.executor) or old.libs != playbook.libs:
        return {}
    calls_differ = old.blocks != playbook.blocks
    kept = {
        name: KeptStep(step, [], {})
        for name, step in before.steps.items()
        if name not in before.faulty
        and step.pipeline.weighs_ctx == weighs_ctx
        and not (calls_differ and any(task.kind == "workbook" for task in step.source.tasks))
    }
    for use in before.templates:
        found = kept.get(use.owner.name)
        if found is not None and found.step.source is use.owner and use.place != "concurrency":
            found.templates.append(use)
    for name, block in before.blocks.items():
        found = kept.get(block.source.name)
        if found is not None and found.step.source is block.source:
            found.blocks[name] = block
    return kept


def _read_parts(executor: Executor) -> tuple[JSON, ...]:
    """The parts that the compilation of a step reads."""
    return executor.spec, {key: each for key, each in executor.policy.items() if key != "concurrency"}


def _moved(kept: KeptStep, source: Step, place: int) -> KeptStep:
    """The step, which has no body blocks, at another place of the workflow."""
    step, pipeline = kept.step, kept.step.pipeline
    new_tasks = {id(old): new for old, new in zip(step.source.tasks, source.tasks, strict=True)}
    tasks = tuple(_moved_task(task, new_tasks[id(task.source)], place) for task in pipeline.source_tasks)
    admit = None
    if step.admit is not None and source.admit is not None:
        admit = tuple(replace(old, source=new) for old, new in zip(step.admit, source.admit, strict=True))
    arcs = zip(step.arcs, source.arcs or (), strict=True)
    made = replace(
        step,
        pipeline=replace(pipeline, source=source, tasks=tasks, source_tasks=tasks),
        admit=admit,
        arcs=tuple(replace(old, source=new) for old, new in arcs),
        source=source,
    )
    templates = [
        TemplateUse(
            use.place,
            ("workflow", place, *use.path[2:]),
            use.template,
            source,
            None if use.task is None else new_tasks[id(use.task)],
            use.loop,
        )
        for use in kept.templates
    ]
    return KeptStep(made, templates, {})


def _moved_task(task: CompiledTask, source: Task, place: int) -> CompiledTask:
    written: dict[int, Rule] = {}
    if task.source.policy is not None and source.policy is not None:
        written = {id(old): new for old, new in zip(task.source.policy.rules, source.policy.rules, strict=True)}

    def rules(compiled: tuple[CompiledRule, ...]) -> tuple[CompiledRule, ...]:
        new = (written.get(id(rule.source)) or moved(rule.source, place) for rule in compiled)
        return tuple(replace(rule, source=each) for rule, each in zip(compiled, new, strict=True))

    return replace(task, source=source, skips=rules(task.skips), rules=rules(task.rules))
