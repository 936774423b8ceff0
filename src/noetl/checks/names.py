"""Names (level L3): do steps, tasks, blocks, credentials and the names in templates exist?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from noetl.checks.reads import ReadChecker, check_comparisons
from noetl.checks.references import check_references
from noetl.net.credentials import used_credentials
from noetl.net.graph import cycles
from noetl.net.program import CompiledTask, Program, TemplateUse
from noetl.net.scopes import task_writes
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import COMPENSATE, END, ENTRY_STEP, Pipeline, Playbook, Task
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.values import is_template

NAMES_SHOWN_MAX = 12  # in a message about a name that does not exist
UNUSED_MAX = 10  # blocks that nothing calls; more of them are one problem


_Key: TypeAlias = tuple[str, Path]  # of a template of a step: the name of the step, and the path inside of it


class CheckedNames(NamedTuple):
    """A program, and its templates that have problems."""

    program: Program
    faulty: frozenset[_Key]


def check_names(
    program: Program, kinds: Kinds, report: ProblemReport, before: CheckedNames | None = None
) -> CheckedNames:
    """`before`: of an earlier version with the same kinds; the templates of unchanged steps are not checked again."""
    _entry(program.playbook, report)
    _arcs(program, report)
    for pipeline in program.pipelines:
        _jumps(pipeline.source_tasks, report)
    _blocks(program.playbook, report)
    _documents(program.playbook, report)
    _credentials(program, report)
    _iter_writes(program.playbook, report)
    reader = ReadChecker(program, kinds, report)
    kept = _kept(program, before) if before is not None else None
    faulty: set[_Key] = set()
    for use in program.templates:
        if kept is not None and kept.has(use):
            continue
        problems = len(report.problems)
        reader.check(use)
        _purity(use, report)
        check_comparisons(use, kinds, report)
        if len(report.problems) > problems:
            faulty.add(_key(use))
    check_references(program, report)
    return CheckedNames(program, frozenset(faulty))


def _key(use: TemplateUse) -> _Key:
    return use.owner.name, use.path[2:]


class _Kept(NamedTuple):
    """The templates that have no problems: neither their steps nor the names that they read have changed."""

    steps: dict[str, Pipeline]
    changed: frozenset[str]  # scopes with other names than before
    faulty: frozenset[_Key]

    def has(self, use: TemplateUse) -> bool:
        if self.steps.get(use.owner.name) is not use.owner or use.place == "concurrency" or _key(use) in self.faulty:
            return False
        return not self.changed or self.changed.isdisjoint(str(read.path[0]) for read in use.template.reads)


def _kept(program: Program, before: CheckedNames) -> _Kept | None:
    old, new = before.program.playbook, program.playbook
    if program.origins is None or before.program.origins is None:
        return None
    differs = {
        "workload": (old.workload, old.inputs) != (new.workload, new.inputs),
        "keychain": before.program.keychain != program.keychain,
        "ctx": program.origins.ctx_targets != before.program.origins.ctx_targets,
    }
    changed = frozenset(scope for scope, other in differs.items() if other)
    kept = before.program.steps
    steps: dict[str, Pipeline] = {
        name: step.source
        for name, step in program.steps.items()
        if name in program.same or (name in kept and kept[name].source is step.source)
    }
    return _Kept(steps, changed, before.faulty)


def _entry(playbook: Playbook, report: ProblemReport) -> None:
    names = [step.name for step in playbook.steps]
    if playbook.entry in names or not names:
        return
    if playbook.executor.entry_step is not None:
        near = report.similar(playbook.entry, names)
        hint = f'; did you mean "{near}"?' if near else ""
        at: Path = ("executor", "spec", "entry_step")
        report.add("no-start", at, f'entry_step "{playbook.entry}" is not a step{hint}', fix=near)
        return
    message = f'there is no step "{ENTRY_STEP}", and executor.spec.entry_step names no other entry step'
    report.add("no-start", ("workflow",), message, key=True, fix=f"executor: {{spec: {{entry_step: {names[0]}}}}}")


def _arcs(program: Program, report: ProblemReport) -> None:
    known = [*program.steps, END]
    for step in program.steps.values():
        for arc in step.arcs:
            at: Path = (*arc.source.at, "to" if is_template(arc.source.step) else "step")
            for index, target in enumerate(arc.targets or ()):
                if target not in program.steps and target != END:
                    near = report.similar(target, known)
                    hint = f'; did you mean "{near}"?' if near else _few("the steps are", program.steps)
                    where = (*at, index) if at[-1] == "to" else at
                    message = f'arc of "{step.source.name}" leads to "{target}", which is not a step{hint}'
                    report.add("unknown-step", where, message, fix=near)


def _few(before: str, names: Collection[str]) -> str:
    """The names for a message, if there are not too many of them."""
    return f"; {before} {', '.join(names)}" if len(names) <= NAMES_SHOWN_MAX else ""


def _jumps(tasks: tuple[CompiledTask, ...], report: ProblemReport) -> None:
    names = [each.source.name for each in tasks]
    known = frozenset(names)
    for each in tasks:
        for rule in each.rules:
            to = rule.source.to
            if rule.source.do == "jump" and to is not None and to not in known:
                near = report.similar(to, names)
                hint = f'; did you mean "{near}"?' if near else f"; it has {', '.join(names)}"
                inside = ("then",) if rule.source.when is not None else ("else", "then")
                message = f'"{each.source.name}" jumps to "{to}", which is not a task of this pipeline{hint}'
                report.add("unknown-task", (*rule.source.at, *inside, "to"), message, fix=near)


def _calls(owner: Pipeline) -> Iterator[tuple[Task, str]]:
    for task in owner.tasks:
        if task.kind == "workbook" and isinstance(task.fields.get("block"), str):
            yield task, task.fields["block"]


def _blocks(playbook: Playbook, report: ProblemReport) -> None:
    names = {block.name for block in playbook.blocks}
    called: set[str] = set()
    for owner in playbook.pipelines:
        for task, name in _calls(owner):
            called.add(name)
            if name not in names:
                near = report.similar(name, names)
                hint = f'; did you mean "{near}"?' if near else ""
                report.add("unknown-block", (*task.at, "block"), f'no block "{name}"{hint}', fix=near)
    follows = {block.name: [name for _, name in _calls(block)] for block in playbook.blocks}
    for cycle in cycles(follows):
        words = " → ".join([*cycle, cycle[0]])
        report.add("block-cycle", ("workbook", cycle[0]), f"blocks call each other in a cycle: {words}", key=True)
    if COMPENSATE in names and playbook.compensations:
        message = f'"{COMPENSATE}" is the name of the compensations of steps here; choose another name for the block'
        report.add("bad-name", ("workbook", COMPENSATE), message, key=True)
    unused = [block for block in playbook.blocks if block.name not in called]
    if len(unused) > UNUSED_MAX:  # a library of blocks, as of an imported API
        report.add(
            "unused-block", unused[0].at, f"nothing calls {len(unused)} of the blocks", key=True, severity="info"
        )
        return
    for block in unused:
        report.add("unused-block", block.at, f'nothing calls the block "{block.name}"', key=True)


def _documents(playbook: Playbook, report: ProblemReport) -> None:
    """Only the catalog has versions: a playbook that a task has made has none (D103)."""
    for owner in playbook.pipelines:
        for task in owner.tasks:
            if task.kind == "playbook" and {"document", "version"} <= task.fields.keys():
                message = '"version" belongs to "path": a document has no versions'
                report.add("misplaced-key", (*task.at, "version"), message, key=True)


def _credentials(program: Program, report: ProblemReport) -> None:
    """Every `auth`, and the name that a `secrets` task requests, must be declared (D57)."""
    known = [entry.name for entry in program.keychain]
    for owner in program.playbook.pipelines:
        for task in owner.tasks:
            for name, place in used_credentials(task):
                if name not in known:
                    beside: Path = (*task.at, *place)
                    at = beside if report.document.find(beside) else (*task.at, "input", *place)
                    near = report.similar(name, known)
                    hint = f'; did you mean "{near}"?' if near else ""
                    fix = near or f"keychain: [{{name: {name}, kind: stored}}]"
                    report.add("unknown-credential", at, f'keychain has no entry "{name}"{hint}', fix=fix)


def _iter_writes(playbook: Playbook, report: ProblemReport) -> None:
    """`iter` may be written only inside an iteration: not after a loop, not without one (D28)."""
    for step in playbook.steps:
        _report_iter(step.set, (*step.at, "set"), "iter-after-loop", report)
        for arc in step.arcs or ():
            _report_iter(arc.set, (*arc.at, "set"), "iter-after-loop", report)
        if not step.loops:
            for writes, at in task_writes(step):
                _report_iter(writes, at, "not-in-scope", report)
    for block in playbook.blocks:
        if block.loops:
            _report_iter(block.set, (*block.at, "set"), "iter-after-loop", report)


def _report_iter(writes: dict[str, JSON], at: Path, code: str, report: ProblemReport) -> None:
    for target in writes:
        if target.startswith("iter."):
            message = f'"{target}": there is no iteration here; write to step.* or ctx.*'
            report.add(code, (*at, target), message, key=True, fix="step." + target.removeprefix("iter."))


def _purity(use: TemplateUse, report: ProblemReport) -> None:
    if use.place == "admission":
        for name in sorted(use.template.calls):
            message = f"{name}() is not allowed in admission, which is evaluated repeatedly"
            report.add("impure", use.path, message, word=name)
