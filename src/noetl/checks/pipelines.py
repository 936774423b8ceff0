"""The paths through a pipeline: which task may follow which, for any value of guards (level L5 for tasks).

END and FAIL are the ends of a pipeline, not tasks. Constant guards keep their value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from noetl.errors import Related
from noetl.net.graph import cycles, descendants, reachable
from noetl.net.program import CompiledTask
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.compile import Template

END = "→ end"
FAIL = "→ fail"
LOOPS = ("while", "until")


class TaskSuccessors(NamedTuple):
    """The tasks that may follow a task, and how."""

    falls: bool  # the next task follows: by `continue`, or because no rule matches
    jumps: tuple[str, ...]
    follows: tuple[str, ...]  # all of them: tasks, the task itself by `retry`, END, and FAIL by `do: fail`
    may_fail: bool  # an error that no rule handles, or a retry without attempts left, ends the pipeline


def successors(tasks: tuple[CompiledTask, ...]) -> dict[str, TaskSuccessors]:
    names = [each.source.name for each in tasks]
    after, known = dict(zip(names, [*names[1:], END], strict=True)), frozenset(names)
    after |= {each.source.name: each.source.after or END for each in tasks if each.source.after is not None}
    return {each.source.name: _successors(each, after[each.source.name], known) for each in tasks}


def _successors(each: CompiledTask, after: str, names: frozenset[str]) -> TaskSuccessors:
    follows: list[str] = []
    falls = bool(each.skips)
    jumps: list[str] = []
    decided = False
    may_fail = not each.written_rules
    for rule in each.written_rules:
        if rule.when is False or decided:
            continue
        match rule.source.do:
            case "continue":
                falls = True
            case "retry":
                follows.append(each.source.name)
                may_fail = True
            case "break":
                follows.append(END)
            case "fail":
                follows.append(FAIL)
            case "jump" if rule.source.to in names:
                jumps.append(rule.source.to)
        decided = rule.always
    if not decided:
        falls = True
        may_fail = may_fail or each.on_unmatched == "fail"
    if falls:
        follows.append(after)
    return TaskSuccessors(falls, tuple(jumps), tuple(dict.fromkeys([*follows, *jumps])), may_fail)


def runs_before(tasks: tuple[CompiledTask, ...]) -> Callable[[str, str], bool]:
    """A function (first, second): may the first task have run before the second, in the same frame?"""
    if not _readable(tasks):
        return lambda _first, _second: True
    follows = {name: way.follows for name, way in successors(tasks).items()}
    masks = descendants(follows)
    place = {name: index for index, name in enumerate(follows)}

    def may(first: str, second: str) -> bool:
        return any(masks.get(to, 0) >> place[second] & 1 for to in follows[first])

    return may


def _readable(tasks: tuple[CompiledTask, ...]) -> bool:
    """A pipeline with unreadable rules is not checked: the findings might be wrong."""
    return all(each.source.policy is None or each.source.policy.whole for each in tasks)


def check_pipeline(tasks: tuple[CompiledTask, ...], report: ProblemReport) -> None:
    """Report unreachable tasks, endless cycles, and forward jumps into a fall-through."""
    if not tasks or not _readable(tasks):
        return
    if len(tasks) == 1 and not tasks[0].written_rules:
        return  # the usual step: nothing can be wrong
    place = {each.source.name: index for index, each in enumerate(tasks)}
    through = successors(tasks)
    follows = {name: way.follows for name, way in through.items()}
    reached = reachable([tasks[0].name], follows)
    for each in tasks:
        if each.source.name not in reached:
            message = f'no path through the pipeline reaches "{each.source.name}"'
            report.add("unreachable-task", each.source.at, message)
        _dead_rules(each, report)
    _endless(tasks, through, reached, report)
    _unchanged(tasks, through, reached, report)
    _fall_through(tasks, place, through, reached, report)


def _endless(
    tasks: tuple[CompiledTask, ...], through: dict[str, TaskSuccessors], reached: set[str], report: ProblemReport
) -> None:
    """A cycle needs a rule that leaves it: that a call may fail is not a way out (D111).

    `retry` is not part of a cycle, because its attempts are limited.
    """
    by_name = {each.source.name: each for each in tasks}
    for cycle in cycles({name: _next_tasks(name, way) for name, way in through.items()}):
        inside = set(cycle)
        exits = {to for name in cycle for to in through[name].follows} - inside
        if not inside <= reached or exits - {FAIL}:
            continue
        first = next(name for name in by_name if name in inside)
        words = " → ".join([*cycle, cycle[0]])
        at, fix = by_name[first].source.at, '- when: "{{ … }}"\n  then: {do: break}'
        loop = next((each.source for each in tasks if each.name in inside and each.source.form in LOOPS), None)
        if loop is not None:
            at, fix = (*loop.at, loop.form, "when"), '"{{ … }}"'
        if exits:
            message = f"the cycle {words} ends only with do: fail: no way leads to the end of the pipeline"
            report.add("endless-jump", at, message, severity="warning", fix=fix)
        else:
            unless = "; it ends only when a call fails" if any(through[name].may_fail for name in cycle) else ""
            report.add("endless-jump", at, f"no rule leaves the cycle {words}{unless}", fix=fix)


def _unchanged(
    tasks: tuple[CompiledTask, ...], through: dict[str, TaskSuccessors], reached: set[str], report: ProblemReport
) -> None:
    """A loop whose guard reads only what its tasks do not change runs never, once or forever."""
    for loop in tasks:
        form, guard = loop.source.form, loop.rules[0].when if loop.rules else None
        if form not in LOOPS or not isinstance(guard, Template) or guard.calls or loop.name not in reached:
            continue
        at: Path = (*loop.source.at, form)
        inside = {each.name: each for each in tasks if each.source.at[: len(at)] == at}
        leaves = {to for name in inside for to in through[name].follows} - {*inside, loop.name}
        if leaves or any(each.kind == "workbook" for each in inside.values()):
            continue
        changed: set[Path] = {("output",), ("_prev",), *((name,) for name in inside)}
        for each in inside.values():
            writes = [*each.set, *(write for rule in (*each.skips, *each.rules) for write in rule.set)]
            changed |= {(write.scope, *write.path) for write in writes}
        if not any(_overlap(read.path, path) for read in guard.reads for path in changed):
            words = ", ".join(dict.fromkeys(".".join(map(str, read.path)) for read in guard.reads))
            message = f'no task in the {form} "{loop.name}" changes {words}, so its guard stays the same'
            fix = f"set: {{{words.partition(', ')[0]}: …}}"
            report.add("endless-jump", (*at, "when"), message, severity="warning", fix=fix)


def _overlap(one: Path, other: Path) -> bool:
    return all(left == right for left, right in zip(one, other, strict=False))


def _next_tasks(name: str, way: TaskSuccessors) -> list[str]:
    return [to for to in way.follows if to not in (END, FAIL) and (to != name or name in way.jumps)]


def _dead_rules(each: CompiledTask, report: ProblemReport) -> None:
    decided = False
    for rule in each.written_rules:
        if decided and rule.source.at != each.source.at:  # not the last rule of a choose or loop
            message = f'an earlier rule of "{each.source.name}" always matches'
            report.add("dead-rule", rule.source.at, message)
            return
        decided = rule.always


def _fall_through(
    tasks: tuple[CompiledTask, ...],
    place: dict[str, int],
    through: dict[str, TaskSuccessors],
    reached: set[str],
    report: ProblemReport,
) -> None:
    reported: set[str] = set()
    for name, index_of_jump in place.items():
        if tasks[index_of_jump].source.form != "task":
            continue  # a choose or a loop: the tasks in it continue where they should
        for target in through[name].jumps:
            index = place[target]
            if index <= index_of_jump or target in reported or name not in reached:
                continue
            previous = tasks[index - 1].source
            siblings = previous.after is None and previous.at[:-1] == tasks[index].source.at[:-1]
            if siblings and previous.name != name and through[previous.name].falls and previous.name in reached:
                reported.add(target)
                message = f'"{name}" jumps here, and "{previous.name}" also falls through to "{target}"'
                related = (Related(report.at(previous.at), f'"{previous.name}" continues here without a jump'),)
                fix = f'end "{previous.name}" with do: break, or with a jump to the task that should follow'
                report.add("fall-through", tasks[index].source.at, message, fix=fix, related=related)
