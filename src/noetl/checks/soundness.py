"""Soundness of the net of steps, for any value of guards (level L5): reachability, dead arcs, cycles, joins.

docs/explanation/soundness.md says what is proved and what is not.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noetl.checks.pipelines import check_pipeline
from noetl.errors import Related
from noetl.net.graph import carries, cycles, descendants, live_arcs, must_fire, reachable
from noetl.net.program import ANYWHERE, CompiledArc, CompiledStep, Program
from noetl.playbook.validation import ProblemReport

JOIN_WORK_MAX = 2_000_000  # forks × steps that are checked; beyond this a warning may be missing, never an error

Verdict: TypeAlias = Literal["sound", "unsound", "not-provable"]


class StepGraph:
    """Steps and the possible targets of their arcs; a dynamic arc leads to each of its targets (D36, D41).

    Arcs that may lead anywhere lead to one hub, so that the size of the skeleton stays linear.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.follows: dict[str, list[str]] = {name: self._targets(step) for name, step in program.steps.items()}
        self.follows[ANYWHERE] = list(program.steps)
        self.reached = reachable([program.playbook.entry], self.follows) & set(program.steps)

    def targets(self, arc: CompiledArc) -> tuple[str, ...]:
        return (ANYWHERE,) if arc.targets is None else arc.targets

    def _targets(self, step: CompiledStep) -> list[str]:
        if not step.source.whole:  # unreadable arcs may lead anywhere: no false finding
            return [ANYWHERE]
        arcs = live_arcs(step)
        found = dict.fromkeys(target for arc in arcs for target in self.targets(arc))
        return [target for target in found if target in self.program.steps or target == ANYWHERE]


def check_soundness(program: Program, report: ProblemReport) -> Verdict:
    """Report what is not sound, and return what is proved."""
    for pipeline in program.pipelines:
        check_pipeline(pipeline.source_tasks, report)
    skeleton = StepGraph(program)
    dynamic = [arc for step in program.steps.values() for arc in step.arcs if arc.targets is None]
    for arc in dynamic:
        message = "the target is a template: soundness of the net cannot be proved"
        report.add("not-provable", (*arc.source.at, "step"), message, fix="to: [a, b]")
    for step in program.steps.values():
        _dead_arcs(step, report)
    if program.playbook.entry in program.steps:
        _unreachable(skeleton, report)
        _endless(skeleton, report)
        _joins(skeleton, report)
    ends = {problem.code for problem in report.problems if problem.severity == "error"}
    if ends & {"endless-cycle", "endless-jump"}:
        return "unsound"
    return "not-provable" if dynamic else "sound"


def _unreachable(skeleton: StepGraph, report: ProblemReport) -> None:
    for name, step in skeleton.program.steps.items():
        if name and name not in skeleton.reached:
            message = f'no arcs lead from "{skeleton.program.playbook.entry}" to "{name}"'
            report.add("unreachable-step", (*step.source.at, "step"), message)


def _dead_arcs(step: CompiledStep, report: ProblemReport) -> None:
    live = {id(arc) for arc in live_arcs(step)}
    for arc in step.arcs:
        if id(arc) not in live and arc.when is not False:
            message = f'an earlier arc of "{step.source.name}" always fires first'
            report.add("dead-arc", arc.source.at, message)


def _endless(skeleton: StepGraph, report: ProblemReport) -> None:
    """A cycle is endless when every firing inside it leaves a token inside it."""
    reached = {name: to for name, to in skeleton.follows.items() if name in skeleton.reached or name == ANYWHERE}
    for cycle in cycles(reached):
        if ANYWHERE in cycle:
            continue  # a target may be the end
        inside = set(cycle)
        steps = [skeleton.program.steps[name] for name in cycle]
        if any(_an_arc_leaves(step, inside, skeleton) for step in steps):
            continue
        words = " → ".join([*cycle, cycle[0]])
        first = min(steps, key=lambda step: step.source.at[-1])
        at = (*first.source.at, "step")
        if any(_may_refuse_all(step) for step in steps):
            message = f"no arc leaves the cycle {words}; a token ends in it only when no guard is true"
            report.add("endless-cycle", at, message, severity="warning", fix="- step: end")
        else:
            report.add("endless-cycle", at, f"no arc leaves the cycle {words}", fix="- step: end")


def _an_arc_leaves(step: CompiledStep, inside: set[str], skeleton: StepGraph) -> bool:
    leaves = stays = False
    for arc in live_arcs(step):
        if all(target in inside for target in skeleton.targets(arc)):
            stays = stays or must_fire(arc, step).success
        elif carries(arc, step) != "success":
            return True
        else:
            leaves = True
    # In inclusive mode all arcs that hold fire: one that always stays inside keeps a token there.
    return leaves and not (step.source.mode == "inclusive" and stays)


def _may_refuse_all(step: CompiledStep) -> bool:
    return not any(must_fire(arc, step).success for arc in step.arcs)


def _joins(skeleton: StepGraph, report: ProblemReport) -> None:
    """Where branches of an inclusive fork meet, the author must declare whether to join (D36)."""
    program = skeleton.program
    forks = [step for step in program.steps.values() if step.inclusive]
    if not forks:
        return
    joined = {name for name, step in program.steps.items() if step.source.join == "all"}
    reach = descendants({name: () if name in joined else to for name, to in skeleton.follows.items()})
    entered: dict[str, list[str]] = {name: [] for name in program.steps}
    for name in program.steps:
        for target in skeleton.follows[name]:
            if target != ANYWHERE:
                entered[target].append(name)
    reported: set[str] = set()
    for fork in forks[: JOIN_WORK_MAX // max(1, len(program.steps))]:
        if fork.source.name in skeleton.reached:
            for name in _meetings(fork, skeleton, reach, entered):
                if name not in reported:
                    reported.add(name)
                    _report_join(fork, program.steps[name], report)


def _meetings(
    fork: CompiledStep, skeleton: StepGraph, reach: dict[str, int], entered: dict[str, list[str]]
) -> list[str]:
    """The first steps that two branches of the fork both reach and that declare no join."""
    steps = skeleton.program.steps
    place = {name: index for index, name in enumerate(steps)}
    direct: dict[str, int] = dict.fromkeys(steps, 0)
    once = twice = 0
    for arc in live_arcs(fork):
        mask = 0
        for target in skeleton.targets(arc):
            mask |= reach.get(target, 0)
            if target in steps:
                direct[target] += 1
        twice |= once & mask
        once |= mask
    found = []
    for name, index in place.items():
        if not twice >> index & 1 or steps[name].source.join is not None or name == fork.source.name:
            continue
        # An arc from a step that both branches reach is after their meeting.
        fresh = [each for each in entered[name] if each != fork.source.name and not twice >> place[each] & 1]
        if len(fresh) + direct[name] >= 2:
            found.append(name)
    return found


def _report_join(fork: CompiledStep, step: CompiledStep, report: ProblemReport) -> None:
    related = (Related(report.at((*fork.source.at, "next")), f'"{fork.source.name}" forks here'),)
    message = f'branches of "{fork.source.name}" meet in "{step.source.name}": it runs once for each token'
    fix = "spec: {policy: {admit: {join: all}}}"
    report.add("undeclared-join", (*step.source.at, "step"), message, fix=fix, related=related)
