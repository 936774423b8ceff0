"""Soundness of the skeleton of steps, with guards free (level L5): reachability, dead arcs, circles, joins.

What is proved and what is not stands in docs/explanation/soundness.md.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noetl.check.pipelines import check_pipeline
from noetl.errors import Related
from noetl.net.graph import circles, descendants, reachable
from noetl.net.net import Net, NetArc, NetStep
from noetl.playbook.report import ProblemReport

ANYWHERE = "*"  # no name: where an arc leads whose target is not known before the run
JOIN_WORK_MAX = (
    2_000_000  # forks × steps that are looked at; beyond it a warning may be missing, never an error
)

Verdict: TypeAlias = Literal["sound", "unsound", "not-provable"]


def live_arcs(step: NetStep) -> list[NetArc]:
    """The arcs that may fire: in exclusive mode none behind one that takes every success, failures aside."""
    live: list[NetArc] = []
    closed = False
    for arc in step.arcs:
        if arc.when is not False and (not closed or arc.takes_failure):
            live.append(arc)
        closed = closed or (step.step.mode == "exclusive" and arc.takes_every_success)
    return live


class Skeleton:
    """Steps and where their arcs may lead; a dynamic arc leads to each of its targets (D36, D41).

    Arcs that may lead anywhere lead to one hub, so that the skeleton stays as small as the text.
    """

    def __init__(self, net: Net) -> None:
        self.net = net
        self.follows: dict[str, list[str]] = {name: self._targets(step) for name, step in net.steps.items()}
        self.follows[ANYWHERE] = list(net.steps)
        self.reached = reachable([net.playbook.entry], self.follows) & set(net.steps)

    def targets(self, arc: NetArc) -> tuple[str, ...]:
        return (ANYWHERE,) if arc.targets is None else arc.targets

    def _targets(self, step: NetStep) -> list[str]:
        if not step.step.whole:  # what could not be read may lead anywhere: nothing false is said of it
            return [ANYWHERE]
        arcs = live_arcs(step)
        found = dict.fromkeys(target for arc in arcs for target in self.targets(arc))
        return [target for target in found if target in self.net.steps or target == ANYWHERE]


def check_soundness(net: Net, report: ProblemReport) -> Verdict:
    """Tell what is not sound, and say what is proved."""
    for pipeline in net.pipelines:
        check_pipeline(pipeline.tasks, report)
    skeleton = Skeleton(net)
    dynamic = [arc for step in net.steps.values() for arc in step.arcs if arc.targets is None]
    for arc in dynamic:
        message = "the target is a template: whether the net is sound can not be proved"
        report.tell("not-provable", (*arc.arc.at, "step"), message, fix="to: [a, b]")
    for step in net.steps.values():
        _dead_arcs(step, report)
    if net.playbook.entry in net.steps:
        _unreachable(skeleton, report)
        _endless(skeleton, report)
        _joins(skeleton, report)
    ends = {problem.code for problem in report.problems if problem.severity == "error"}
    if ends & {"endless-cycle", "endless-jump"}:
        return "unsound"
    return "not-provable" if dynamic else "sound"


def _unreachable(skeleton: Skeleton, report: ProblemReport) -> None:
    for name, step in skeleton.net.steps.items():
        if name and name not in skeleton.reached:
            message = f'no arcs lead from "{skeleton.net.playbook.entry}" to "{name}"'
            report.tell("unreachable-step", (*step.step.at, "step"), message)


def _dead_arcs(step: NetStep, report: ProblemReport) -> None:
    live = {id(arc) for arc in live_arcs(step)}
    for arc in step.arcs:
        if id(arc) not in live and arc.when is not False:
            message = f'an arc of "{step.step.name}" before this one always fires first'
            report.tell("dead-arc", arc.arc.at, message)


def _endless(skeleton: Skeleton, report: ProblemReport) -> None:
    """A circle is endless when no firing inside it can leave no token inside it."""
    reached = {
        name: to for name, to in skeleton.follows.items() if name in skeleton.reached or name == ANYWHERE
    }
    for circle in circles(reached):
        if ANYWHERE in circle:
            continue  # a target may be the end
        inside = set(circle)
        steps = [skeleton.net.steps[name] for name in circle]
        if any(_an_arc_leaves(step, inside, skeleton) for step in steps):
            continue
        words = " → ".join([*circle, circle[0]])
        first = min(steps, key=lambda step: step.step.at[-1])
        at = (*first.step.at, "step")
        if any(_may_refuse_all(step) for step in steps):
            message = f"no arc leaves the circle {words}; a token ends in it only when no guard fits"
            report.tell("endless-cycle", at, message, severity="warning", fix="- step: end")
        else:
            report.tell("endless-cycle", at, f"no arc leaves the circle {words}", fix="- step: end")


def _an_arc_leaves(step: NetStep, inside: set[str], skeleton: Skeleton) -> bool:
    leaves = stays = False
    for arc in live_arcs(step):
        if all(target in inside for target in skeleton.targets(arc)):
            stays = stays or arc.takes_every_success
        elif arc.takes_failure:
            return True
        else:
            leaves = True
    # All arcs that hold fire in inclusive mode: one that always stays keeps a token inside, whatever leaves.
    return leaves and not (step.step.mode == "inclusive" and stays)


def _may_refuse_all(step: NetStep) -> bool:
    return not any(arc.takes_every_success for arc in step.arcs)


def _joins(skeleton: Skeleton, report: ProblemReport) -> None:
    """Where branches of an inclusive fork meet, the author must have said what is meant (D36)."""
    net = skeleton.net
    joined = {name for name, step in net.steps.items() if step.step.join == "all"}
    reach = descendants({name: () if name in joined else to for name, to in skeleton.follows.items()})
    entered: dict[str, list[str]] = {name: [] for name in net.steps}
    for name in net.steps:
        for target in skeleton.follows[name]:
            if target != ANYWHERE:
                entered[target].append(name)
    forks = [step for step in net.steps.values() if step.step.mode == "inclusive"]
    told: set[str] = set()
    for fork in forks[: JOIN_WORK_MAX // max(1, len(net.steps))]:
        if fork.step.name in skeleton.reached:
            for name in _meetings(fork, skeleton, reach, entered):
                if name not in told:
                    told.add(name)
                    _tell_join(fork, net.steps[name], report)


def _meetings(
    fork: NetStep, skeleton: Skeleton, reach: dict[str, int], entered: dict[str, list[str]]
) -> list[str]:
    """The first steps that two branches of the fork both come to, and that declare no join."""
    steps = skeleton.net.steps
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
        if not twice >> index & 1 or steps[name].step.join is not None or name == fork.step.name:
            continue
        # Who comes from within what both reach has met before.
        fresh = [each for each in entered[name] if each != fork.step.name and not twice >> place[each] & 1]
        if len(fresh) + direct[name] >= 2:
            found.append(name)
    return found


def _tell_join(fork: NetStep, step: NetStep, report: ProblemReport) -> None:
    related = (Related(report.at((*fork.step.at, "next")), f'"{fork.step.name}" forks here'),)
    message = f'branches of "{fork.step.name}" meet in "{step.step.name}": it runs once for each token'
    fix = "spec: {policy: {admit: {join: all}}}"
    report.tell("undeclared-join", (*step.step.at, "step"), message, fix=fix, related=related)
