"""`choose`, `while` and `until` in a pipeline, expanded into a list of tasks that rules and jumps connect (003 §14).

Each of them becomes one task of kind noop, which decides; the tasks inside stay as they are. `Task.after` says
which task follows where that is not the next one of the list. Every part keeps the path of the author's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from noetl.playbook.model import ON_UNMATCHED, PIPELINE_END, Form, Policy, Rule, Task, When
from noetl.playbook.source import Path

_NOOP = "noop"
_OK = "{{ output.status == 'ok' }}"


class BranchItems(NamedTuple):
    when: When | None  # None: else
    items: Sequence[Item]  # not empty
    at: Path


class Branching(NamedTuple):
    """A `choose`, whose first branch with a true guard runs, or a loop, which has one branch."""

    form: Form
    name: str
    desc: str | None
    branches: Sequence[BranchItems]
    whole: bool  # False: a part of it could not be read
    at: Path


Item: TypeAlias = Task | Branching


def expanded(items: Sequence[Item]) -> tuple[Task, ...]:
    """The tasks in the order of the text."""
    return tuple(_placed(items, PIPELINE_END, PIPELINE_END))


def _placed(items: Sequence[Item], after: str, below: str) -> list[Task]:
    """`after` is the task that follows the items, `below` the next one of the list."""
    tasks: list[Task] = []
    for place, item in enumerate(items, 1):
        to, under = (after, below) if place == len(items) else (_first(items[place]),) * 2
        if isinstance(item, Task):
            tasks += _task(item, to, under)
        elif item.form == "choose":
            tasks += _choose(item, to, under)
        else:
            tasks += _loop(item, to, under)
    return tasks


def _first(item: Item) -> str:
    """The name of the task at which an item begins."""
    return _first(item.branches[0].items[0]) if isinstance(item, Branching) and item.form == "until" else item.name


def _task(task: Task, after: str, below: str) -> list[Task]:
    if after == below:
        return [task]
    if any(rule.do == "skip" for rule in (task.policy.rules if task.policy else ())):
        # A skipped task continues with the next one of the list: that one jumps.
        policy = Policy(rules=(_rule(None, after, task.at),), at=task.at)
        return [task, Task(name=f"{task.name}_end", kind=_NOOP, form="jump", policy=policy, at=task.at)]
    return [replace(task, after=after)]


def _choose(item: Branching, after: str, below: str) -> list[Task]:
    rules = [_rule(branch.when, _first(branch.items[0]), branch.at) for branch in item.branches]
    if item.branches[-1].when is not None:
        rules.append(_rule(None, after, item.at))
    tasks = [_decision(item, rules)]
    firsts = [_first(branch.items[0]) for branch in item.branches]
    for branch, under in zip(item.branches, [*firsts[1:], below], strict=True):
        tasks += _placed(branch.items, after, under)
    return tasks


def _loop(item: Branching, after: str, below: str) -> list[Task]:
    (body,) = item.branches
    begin = _first(body.items[0])
    if item.form == "while":
        rules = [_rule(body.when, begin, body.at), _rule(None, after, item.at)]
        return [_decision(item, rules), *_placed(body.items, item.name, below)]
    rules = [_rule(body.when, after, body.at), _rule(None, begin, item.at)]
    return [*_placed(body.items, item.name, item.name), _decision(item, rules)]


def _rule(when: When | None, to: str, at: Path) -> Rule:
    return Rule(when=when, do="break", at=at) if to == PIPELINE_END else Rule(when=when, do="jump", to=to, at=at)


def _decision(item: Branching, rules: list[Rule]) -> Task:
    policy = Policy(rules=tuple(rules), whole=item.whole, at=item.at)
    return Task(name=item.name, kind=_NOOP, form=item.form, desc=item.desc, policy=policy, at=item.at)


def with_jumps(task: Task) -> Task:
    """The task with rules that lead to the task after it: each `continue` jumps, and a last rule replaces no match."""
    if task.after is None:
        return task
    policy = task.policy or Policy(rules=(), on_unmatched="fail", at=task.at)
    jump = _rule(None, task.after, task.at)
    rules = [replace(rule, do=jump.do, to=jump.to) if rule.do == "continue" else rule for rule in policy.rules]
    if not any(rule.when in (None, True) for rule in rules):
        errors_too = (policy.on_unmatched or ON_UNMATCHED) == "continue"
        rules.append(jump if errors_too else replace(jump, when=_OK))
    return replace(task, policy=replace(policy, rules=tuple(rules)), after=None)
