"""Scopes: the names that templates may read at each place (D18–D20, D26, D85), and the `set`s that write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from noetl.output import JSON
from noetl.playbook.model import Block, Pipeline, Playbook
from noetl.playbook.source import Path

Place: TypeAlias = Literal[
    "admission", "step input", "loop", "task", "task result", "skip rule", "step set", "arc",
    "concurrency", "step limit", "task limit", "notification",
]  # fmt: skip

EVENT_FIELDS = ("name", "status", "error", "step", "run", "tokens")

_ALWAYS = frozenset({"workload", "ctx", "saved", "execution_id"})
_PIPELINE = _ALWAYS | {"step", "iter", "input", "output", "_prev", "_task", "_attempt"}

READABLE: dict[Place, frozenset[str]] = {
    "admission": _ALWAYS | {"input", "event"},
    "step input": _ALWAYS | {"event"},  # event: only for joins (D40)
    "loop": _ALWAYS | {"input", "iter"},  # iter: that of the loop around it (D85)
    "task": _PIPELINE | {"keychain"},
    "task result": _PIPELINE,
    "skip rule": _PIPELINE - {"output"},
    "step set": _ALWAYS | {"step", "input", "output", "event"},
    "arc": _ALWAYS | {"step", "input", "output", "event"},
    "concurrency": _ALWAYS,
    "step limit": _ALWAYS | {"input"},
    "task limit": _PIPELINE - {"output"},
    "notification": frozenset({"workload", "execution", "event"}),
}
PLACES: dict[Place, str] = {
    "admission": "a rule under `spec.policy.admit`",
    "step input": "the `input` of a step",
    "loop": "`loop.in` and `max_in_flight`",
    "task": "a field or the `input` of a task",
    "task result": "a rule or the `set` of a task",
    "skip rule": "a rule with `do: skip`",
    "step set": "the `set` of a step",
    "arc": "`step`, `when` and `set` of an arc",
    "concurrency": "the `key` of `executor.spec.policy.concurrency`",
    "step limit": "the `key` of the `limit` of a step",
    "task limit": "the `key` of the `limit` of a task",
    "notification": "the `when` of a notification",
}
# What the tasks of a notification and its `when` read besides, with their fields.
SUBJECT = {
    "execution": (
        "id",
        "path",
        "status",
        "error",
        "output",
        "started_at",
        "ended_at",
        "duration_s",
        "labels",
        "url",
    ),
    "event": ("name", "step", "run", "signal", "title", "url"),
}
SEES_TASKS: frozenset[Place] = frozenset({"task", "task result", "skip rule", "task limit"})  # earlier tasks, by name

OLD_NAMES = {"outcome": "output", "args": "input", "vars": "step", "result": "output.data"}


def readable(place: Place, owner: Pipeline) -> frozenset[str]:
    """The scopes that a template of this owner may read."""
    if isinstance(owner, Block) and owner.notifies and place in SEES_TASKS:
        return READABLE[place] - {"saved"} | SUBJECT.keys()
    return READABLE[place]


def task_writes(owner: Pipeline) -> Iterator[tuple[dict[str, JSON], Path]]:
    """Every `set` inside the pipeline that writes something, with its path."""
    for task in owner.tasks:
        if task.set:
            yield task.set, (*task.at, "set")
        for rule in task.policy.rules if task.policy else ():
            if rule.set:
                yield rule.set, (*rule.at, *(("then",) if rule.when is not None else ("else", "then")), "set")


def all_writes(playbook: Playbook) -> Iterator[tuple[dict[str, JSON], Path]]:
    """Every `set` of the playbook that writes something, with its path."""
    for owner in playbook.pipelines:
        if owner.set:
            yield owner.set, (*owner.at, "set")
        yield from task_writes(owner)
    for step in playbook.steps:
        for arc in step.arcs or ():
            if arc.set:
                yield arc.set, (*arc.at, "set")
