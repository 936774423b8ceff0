"""Every `set` of a playbook, of its steps, tasks, rules and arcs, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.output import JSON
from noetl.playbook.model import Pipeline, Playbook
from noetl.playbook.source import Path


def task_writes(owner: Pipeline) -> Iterator[tuple[dict[str, JSON], Path]]:
    """Every `set` inside the pipeline, and where it stands."""
    for task in owner.tasks:
        yield task.set, (*task.at, "set")
        for rule in task.policy.rules if task.policy else ():
            inside = ("then",) if rule.when is not None else ("else", "then")
            yield rule.set, (*rule.at, *inside, "set")


def all_writes(playbook: Playbook) -> Iterator[tuple[dict[str, JSON], Path]]:
    """Every `set` of the playbook, and where it stands."""
    for owner in playbook.pipelines:
        yield owner.set, (*owner.at, "set")
        yield from task_writes(owner)
    for step in playbook.steps:
        for arc in step.arcs or ():
            yield arc.set, (*arc.at, "set")
