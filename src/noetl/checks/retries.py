"""Checks of `spec.retry`, which repeats a call that fails (D92). Its keys may come from several layers (D60)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from noetl.net.program import CompiledTask, Program
from noetl.output import CALL_ERROR_KINDS, JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import RETRY_ATTEMPTS, Pipeline, Task
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport


class _RetryPlace(NamedTuple):
    """A `retry` of the document, and the tasks whose calls it is for."""

    at: Path
    options: dict[str, JSON]
    tasks: list[Task]


def check_retries(program: Program, kinds: Kinds, report: ProblemReport) -> None:
    for place in _places(program, kinds):
        _check_place(place, kinds, report)
    for pipeline in program.pipelines:
        for task in pipeline.source_tasks:
            options = task.spec.get("retry")
            if isinstance(options, dict) and task.kind in kinds and kinds[task.kind].repeats:
                _check_merged(task, options, list(_layers(pipeline.source, task.source, report)), report)


def _places(program: Program, kinds: Kinds) -> Iterator[_RetryPlace]:
    playbook = program.playbook
    owners = list(playbook.pipelines)
    yield from _in_spec(playbook.executor.spec, ("executor",), [task for each in owners for task in each.tasks], kinds)
    for owner in owners:
        for part in (owner, *owner.loops):
            yield from _in_spec(part.spec, part.at, owner.tasks, kinds)
        for task in owner.tasks:
            if task.kind in kinds and "retry" not in kinds[task.kind].ignores:  # they have a message of their own
                yield from _in_spec(task.spec, task.at, [task], kinds)


def _in_spec(spec: dict[str, JSON], at: Path, tasks: Iterable[Task], kinds: Kinds) -> Iterator[_RetryPlace]:
    """The `retry` of a spec, and those of its sections for a kind. A section without tasks is reported elsewhere."""
    if isinstance(options := spec.get("retry"), dict):
        yield _RetryPlace((*at, "spec", "retry"), options, list(tasks))
    for kind, section in spec.items():
        if kind not in kinds or not isinstance(section, dict):
            continue
        of_kind = [task for task in tasks if task.kind == kind]
        if isinstance(options := section.get("retry"), dict) and of_kind:
            yield _RetryPlace((*at, "spec", kind, "retry"), options, of_kind)


def _check_place(place: _RetryPlace, kinds: Kinds, report: ProblemReport) -> None:
    repeated = [kinds[task.kind] for task in place.tasks if task.kind in kinds and kinds[task.kind].repeats]
    if not repeated:
        if all(task.kind in kinds for task in place.tasks):
            message = '"retry" has no effect: no task here calls an external system'
            report.add("no-effect", place.at, message, key=True)
        return
    on = place.options.get("on")
    if on == []:
        message = '"on" is empty, so no call is repeated; without "on" every retryable error is'
        report.add("no-effect", (*place.at, "on"), message, key=True)
    if not on or any(kind.failures is None for kind in repeated):
        return
    known = dict.fromkeys([*(name for kind in repeated for name in kind.failures or ()), *CALL_ERROR_KINDS])
    for index, name in enumerate(on):
        if name not in known:
            message = f'no task here fails with kind "{name}"; the kinds are {", ".join(known)}'
            fix = report.similar(name, known)
            report.add("no-effect", (*place.at, "on", index), message, fix=fix)


def _layers(owner: Pipeline, task: Task, report: ProblemReport) -> Iterator[Path]:
    """Where the document has a `retry` for the task, the innermost first."""
    parts: list[Path] = [task.at, *(loop.at for loop in reversed(owner.loops)), owner.at, ("executor",)]
    for at in parts:
        for path in ((*at, "spec", "retry"), (*at, "spec", task.kind, "retry")):
            if report.document.find(path) is not None:
                yield path


def _check_merged(task: CompiledTask, options: dict[str, JSON], layers: list[Path], report: ProblemReport) -> None:
    """The effective values: a key that one layer lacks may be in another."""
    if not layers:  # the defaults of the kind
        return
    name, at = task.source.name, layers[0]
    if "attempts" not in options:
        message = f'spec.retry of "{name}" has no attempts: the default is {RETRY_ATTEMPTS} tries in all'
        report.add("retry-without-attempts", at, message, key=True, fix=f"attempts: {RETRY_ATTEMPTS}")
    if options.get("delay") or options.get("attempts") == 1:
        return
    unused = [(*layer, key) for key in ("backoff", "max_delay") for layer in layers if _has(report, (*layer, key))]
    for path in unused:
        message = f'"{path[-1]}" has no effect without "delay": the call of "{name}" is repeated immediately'
        report.add("no-effect", path, message, key=True, fix="delay: 1.0")
    if not unused:
        message = f'spec.retry of "{name}" has no delay, so the call is repeated immediately'
        report.add("retry-without-delay", at, message, key=True, fix="delay: 1.0")


def _has(report: ProblemReport, path: Path) -> bool:
    return report.document.find(path) is not None
