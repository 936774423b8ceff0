"""Everything about one task: its effective spec with the origin of each value, fields, rules and reads."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from noetl.escape import one_line
from noetl.net import describe
from noetl.net.program import Program
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.model import Pipeline, Task
from noetl.playbook.spec import effective_spec
from noetl.views.explain.playbook import ExplainedTask, explain_task, paths_read


class SpecRow(Struct, frozen=True, kw_only=True):
    path: str  # "timeout.connect"
    value: str
    layer: str  # the layer of the value: "kind defaults", "step.spec", …


class TaskDetails(Struct, frozen=True, kw_only=True):
    owner: str
    task: ExplainedTask
    spec: tuple[SpecRow, ...]
    fields: tuple[tuple[str, str], ...]  # the tool's own fields and its input, as dotted paths
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class NoSuchTask(Exception):
    """The message lists the existing tasks."""


def find_task(program: Program, name: str) -> tuple[Pipeline, Task]:
    """`step.task`, or the name of a step or block with only one task. Raises NoSuchTask."""
    owners: dict[str, Pipeline] = {
        **{block.name: block for block in program.playbook.blocks},
        **{name: step.source for name, step in program.steps.items()},
    }
    owner_name, _, task_name = name.partition(".")
    owner = owners.get(owner_name)
    if owner is None:
        raise NoSuchTask(f'no step "{owner_name}"; there are {", ".join(map(one_line, owners))}')
    if not owner.tasks:
        raise NoSuchTask(f'step "{owner_name}" has no tasks')
    if not task_name and len(owner.tasks) == 1:
        return owner, owner.tasks[0]
    found = next((task for task in owner.tasks if task.name == task_name), None)
    if found is None:
        known = ", ".join(f"{owner_name}.{one_line(task.name)}" for task in owner.tasks)
        what = f'has no task "{task_name}"' if task_name else "has several tasks"
        raise NoSuchTask(f'"{owner_name}" {what}; there are {known}')
    return owner, found


def task_details(program: Program, kinds: Kinds, owner: Pipeline, task: Task) -> TaskDetails:
    spec = effective_spec(program.playbook, owner, task, kinds)
    values = dict(_leaves(spec.values))
    writes = [
        *task.set,
        *(target for rule in (task.policy.rules if task.policy else ()) for target in rule.set),
    ]
    return TaskDetails(
        owner=one_line(owner.name),
        task=explain_task(task, kinds),
        spec=tuple(
            SpecRow(path=one_line(path), value=describe.value(values.get(path)), layer=layer)
            for path, layer in sorted(spec.origin.items())
        ),
        fields=tuple(
            (one_line(path), describe.value(data)) for path, data in _leaves({**task.fields, **task.input})
        ),
        reads=paths_read(use for use in program.templates if use.task is not None and use.task.at == task.at),
        writes=tuple(one_line(target) for target in dict.fromkeys(writes)),
    )


def _leaves(values: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    if isinstance(values, dict) and (values or not path):
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values
