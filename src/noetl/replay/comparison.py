"""Compare a recorded execution with its replay by another playbook: routes, calls and how much was covered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from noetl.ids import place_of_frame
from noetl.net.program import CompiledTask, Program
from noetl.replay.adapter import AnsweredCall, ReplayAdapter
from noetl.replay.execution import ReplayedExecution
from noetl.replay.recording import RecordedExecution, Recordings, RoutedStep, routed
from noetl.views.what_if import CallChange, CallCounts, Divergence, ReplayCoverage, RouteChange, WhatIfReport

CHANGES_MAX: Final = 100  # calls that are listed


def compare_replay(
    recorded: RecordedExecution,
    replayed: ReplayedExecution,
    adapter: ReplayAdapter,
    recordings: Recordings,
    *,
    same_output: bool,
) -> WhatIfReport:
    route = [each for event in replayed.log() if (each := routed(event)) is not None]
    effects = [each for each in adapter.calls if each.origin != "pure"]
    unused = recordings.unused
    counts = Counter(each.origin for each in effects)
    calls = CallCounts(
        same=counts["same"], changed=counts["changed"], missing=counts["missing"], live=counts["live"],
        unused=len(unused),
    )  # fmt: skip
    is_same_route = Counter(each.arc for each in recorded.route) == Counter(each.arc for each in route)
    # In this order where two are at the same place: a call that is new follows the arc that leads to it.
    changed, new = _of_calls(effects)
    routes = _of_routes(recorded.route, route, _ends(recorded))
    found = sorted([*changed, *routes, *new, *_of_end(recorded, replayed)], key=lambda each: each.seq)
    if unused and not found:
        place = unused[0]
        why = f"the call of task {place.task} in {place.frame} is no longer made"
        found.append(Divergence(seq=place.seq, step=place.frame, why=why))
    first = found[0] if found else None
    if first is None and not same_output:
        first = Divergence(seq=0, step="", why="the output of the playbook differs")
    return WhatIfReport(
        execution_id=recorded.id,
        path=recorded.path,
        differs=first is not None,
        status=(recorded.status, replayed.status),
        first_divergence=first,
        routes=RouteChange(
            same=is_same_route,
            recorded=tuple(each.step for each in recorded.route),
            replayed=tuple(each.step for each in route),
        ),
        calls=calls,
        changes=tuple(_changes(effects)),
        output="same" if same_output else "differs",
        coverage=ReplayCoverage(answered=counts["same"], of=len(effects)),
        error=None if replayed.error is None else f"{replayed.error.kind}: {replayed.error.message}",
    )


def _changes(effects: Sequence[AnsweredCall]) -> Iterator[CallChange]:
    listed = 0
    for each in effects:
        match each.origin:
            case "changed" | "missing" | "live" as what if listed < CHANGES_MAX:
                listed += 1
                yield CallChange(call=each.call.name, frame=each.call.frame, what=what, seq=each.seq)


def _of_calls(effects: Iterable[AnsweredCall]) -> tuple[list[Divergence], list[Divergence]]:
    """The first call that was not recorded like this: it was recorded in another way, or not at all."""
    last = 0
    for each in effects:
        made = ": the call was made" if each.origin == "live" else ""
        if each.origin == "changed" or (made and each.seq):
            why = f"the input or the code of {each.call.name} differs in {each.call.frame}{made}"
            return [Divergence(seq=each.seq, step=each.call.step, why=why)], []
        if each.origin == "missing" or made:
            why = f"the call of {each.call.name} in {each.call.frame} was not recorded{made}"
            return [], [Divergence(seq=last, step=each.call.step, why=why)]
        last = max(last, each.seq)
    return [], []


def _ends(recorded: RecordedExecution) -> dict[str, int]:
    """Step → seq of its last recorded call, or of its scheduling: its arcs were evaluated after that."""
    seqs = {each.step: each.seq for each in reversed(recorded.route)}
    return seqs | {place_of_frame(each.frame).partition("/")[0]: each.seq for each in recorded.calls}


def _of_routes(
    recorded: Sequence[RoutedStep], replayed: Sequence[RoutedStep], ends: Mapping[str, int]
) -> Iterator[Divergence]:
    """The first step that only one of them has. The order of independent branches does not count."""
    left = Counter(each.arc for each in replayed)
    place = len(recorded)
    for number, each in enumerate(recorded):
        if left[each.arc]:
            left[each.arc] -= 1
        elif number < place:
            place = number
            yield Divergence(seq=each.seq, step=each.step, why=f"{_arrival(each)} was recorded and does not happen")
    known = Counter(each.arc for each in recorded)
    for each in replayed:
        if known[each.arc]:
            known[each.arc] -= 1
        else:
            before = max((ends.get(origin, 0) for origin in each.origins), default=0)
            yield Divergence(seq=before, step=each.step, why=f"{_arrival(each)} happens and was not recorded")
            return


def _arrival(routed: RoutedStep) -> str:
    origins = " and ".join(each for each in routed.origins if each)
    return f"{origins} → {routed.step}" if origins else f"the start of {routed.step}"


def _of_end(recorded: RecordedExecution, replayed: ReplayedExecution) -> Iterator[Divergence]:
    if recorded.status != replayed.status:
        last = max([0, *(each.seq for each in recorded.route), *(each.seq for each in recorded.calls)])
        why = f"it ends with status {replayed.status} instead of {recorded.status}"
        if replayed.error is not None:
            why += f": {replayed.error.kind}: {replayed.error.message}"
        yield Divergence(seq=last + 1, step="", why=why)


def changed_tasks(path: str, old: Program, new: Program) -> frozenset[tuple[str, str, str]]:
    """(path, step, task) of tasks whose kind, code or credential differs: the hash of an input does not show it."""
    before = {
        (pipeline.name, task.name): _identity(task) for pipeline in old.pipelines for task in pipeline.source_tasks
    }
    return frozenset(
        (path, pipeline.name, task.name)
        for pipeline in new.pipelines
        for task in pipeline.source_tasks
        if before.get((pipeline.name, task.name), _identity(task)) != _identity(task)
    )


def _identity(task: CompiledTask) -> tuple[object, ...]:
    return task.kind, task.code, task.auth
