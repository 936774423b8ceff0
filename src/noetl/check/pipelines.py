"""The ways through a pipeline: which task may follow which, with guards free (level L5 for tasks).

END and FAIL are where a pipeline ends; they are not tasks. Guards that are constant are taken as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from noetl.errors import Related
from noetl.net.graph import circles, descendants, reachable
from noetl.net.program import CompiledTask
from noetl.playbook.report import ProblemReport

END = "→ end"
FAIL = "→ fail"


class Way(NamedTuple):
    """Where a task may lead, and by what."""

    falls: bool  # the next task follows by itself: continue, or no rule
    jumps: tuple[str, ...]
    follows: tuple[str, ...]  # all of them: tasks, END, FAIL


def ways(tasks: tuple[CompiledTask, ...]) -> dict[str, Way]:
    names = [each.source.name for each in tasks]
    after = dict(zip(names, [*names[1:], END], strict=True))
    return {each.source.name: _way(each, after[each.source.name], frozenset(names)) for each in tasks}


def _way(each: CompiledTask, after: str, names: frozenset[str]) -> Way:
    follows: list[str] = []
    falls = bool(each.skips)
    jumps: list[str] = []
    decided = False
    for rule in each.rules:
        if rule.when is False or decided:
            continue
        match rule.source.do:
            case "continue":
                falls = True
            case "retry":
                follows += [each.source.name, FAIL]
            case "break":
                follows.append(END)
            case "fail":
                follows.append(FAIL)
            case "jump" if rule.source.to in names:
                jumps.append(rule.source.to)
        decided = rule.always
    if not each.rules:
        falls = True
        follows.append(FAIL)
    elif not decided:
        falls = True
        if each.source.policy and each.source.policy.on_unmatched == "fail":
            follows.append(FAIL)
    if falls:
        follows.append(after)
    return Way(falls, tuple(jumps), tuple(dict.fromkeys([*follows, *jumps])))


def runs_before(tasks: tuple[CompiledTask, ...]) -> Callable[[str, str], bool]:
    """A question: may the first task have run before the second, in the same frame?"""
    if not _readable(tasks):
        return lambda _first, _second: True
    follows = {name: way.follows for name, way in ways(tasks).items()}
    masks = descendants(follows)
    place = {name: index for index, name in enumerate(follows)}

    def may(first: str, second: str) -> bool:
        return any(masks.get(to, 0) >> place[second] & 1 for to in follows[first])

    return may


def _readable(tasks: tuple[CompiledTask, ...]) -> bool:
    """Of a pipeline with rules that could not be read nothing is said: it might be false."""
    return all(each.source.policy is None or each.source.policy.whole for each in tasks)


def check_pipeline(tasks: tuple[CompiledTask, ...], report: ProblemReport) -> None:
    """Tasks that nothing leads to, circles that nothing leaves, forward jumps into a fall-through."""
    if not tasks or not _readable(tasks):
        return
    if len(tasks) == 1 and not tasks[0].rules:
        return  # the usual step: there is nothing to go wrong
    by_name = {each.source.name: each for each in tasks}
    place = {each.source.name: index for index, each in enumerate(tasks)}
    through = ways(tasks)
    follows = {name: way.follows for name, way in through.items()}
    reached = reachable([tasks[0].name], follows)
    for each in tasks:
        if each.source.name not in reached:
            message = f'no way through the pipeline comes to "{each.source.name}"'
            report.tell("unreachable-task", each.source.at, message)
        _dead_rules(each, report)
    for circle in circles({name: [to for to in follows[name] if to in by_name] for name in follows}):
        inside = set(circle)
        if inside <= reached and not any(set(follows[name]) - inside for name in circle):
            words = " → ".join([*circle, circle[0]])
            first = min(circle, key=lambda name: place[name])
            report.tell("endless-jump", by_name[first].source.at, f"no rule leaves the circle {words}")
    _fall_through(tasks, place, through, reached, report)


def _dead_rules(each: CompiledTask, report: ProblemReport) -> None:
    decided = False
    for rule in each.rules:
        if decided:
            message = f'a rule before this one always matches in "{each.source.name}"'
            report.tell("dead-rule", rule.source.at, message)
            return
        decided = rule.always


def _fall_through(
    tasks: tuple[CompiledTask, ...],
    place: dict[str, int],
    through: dict[str, Way],
    reached: set[str],
    report: ProblemReport,
) -> None:
    told: set[str] = set()
    for name in place:
        for target in through[name].jumps:
            index = place[target]
            if index <= place[name] or target in told or name not in reached:
                continue
            previous = tasks[index - 1].source
            if previous.name != name and through[previous.name].falls and previous.name in reached:
                told.add(target)
                message = f'"{name}" jumps here, and "{previous.name}" falls through into "{target}" as well'
                related = (Related(report.at(previous.at), f'"{previous.name}" goes on by itself'),)
                fix = f'end "{previous.name}" with do: break, or with a jump to where it should go on'
                report.tell("fall-through", tasks[index].source.at, message, fix=fix, related=related)
