"""What differs between two playbooks by meaning, and between two executions by step."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from noetl.engine import Event
from noetl.engine.facts import (
    Finished,
    LoopDone,
    NextEvaluated,
    Requested,
    Started,
    StepDone,
    StepFailed,
    StepScheduled,
    TaskDone,
)
from noetl.escape import shorten
from noetl.ids import frame_parts, place_of_frame
from noetl.output import JSON, Output
from noetl.playbook.model import Playbook
from noetl.playbook.write import document

Change: TypeAlias = Literal["added", "removed", "changed", "moved"]
VALUE_CHARS_MAX: Final = 120
CHANGES_MAX: Final = 1_000
_NAMED: Final = {"workflow": "step", "tool": "name", "keychain": "name", "triggers": "name", "arcs": "step"}


class PartChange(Struct, frozen=True, kw_only=True):
    """One difference between two values."""

    path: str  # "workflow.fetch.tool.get_page.url"
    change: Change
    before: str | None = None  # as short JSON; None: there is none
    after: str | None = None


def playbook_changes(old: Playbook, new: Playbook) -> list[PartChange]:
    """Steps, tasks and arcs are compared by name; the layout and the order of keys do not count."""
    return value_changes(_by_name(document(old)), _by_name(document(new)))


def _by_name(value: JSON, key: str = "") -> JSON:
    """Lists of named parts as mappings, so that parts are compared with their namesakes."""
    if isinstance(value, dict):
        return {name: _by_name(each, name) for name, each in value.items()}
    if isinstance(value, list) and key in _NAMED and all(isinstance(each, dict) for each in value):
        found: dict[str, JSON] = {}
        for each in value:
            name = str(each.get(_NAMED[key], key))
            while name in found:
                name += "'"
            found[name] = {part: _by_name(item, part) for part, item in each.items() if part != _NAMED[key]}
        return found
    return value


def value_changes(before: JSON, after: JSON, path: str = "") -> list[PartChange]:
    """The places where two values differ; at most CHANGES_MAX of them."""
    found: list[PartChange] = []
    for each in _changes(before, after, path):
        found.append(each)
        if len(found) == CHANGES_MAX:
            break
    return found


def _changes(before: JSON, after: JSON, path: str) -> Iterator[PartChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *(key for key in after if key not in before)):
            below = f"{path}.{key}" if path else key
            if key not in after:
                yield PartChange(path=below, change="removed", before=_shown(before[key]))
            elif key not in before:
                yield PartChange(path=below, change="added", after=_shown(after[key]))
            else:
                yield from _changes(before[key], after[key], below)
        ordered = path.rpartition(".")[2] in ("tool", "arcs")
        if ordered and list(before) != list(after) and before.keys() == after.keys():
            yield PartChange(path=path, change="moved", before=_shown(list(before)), after=_shown(list(after)))
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield PartChange(path=path, change="changed", before=_shown(before), after=_shown(after))


def _shown(value: JSON) -> str:
    return shorten(msgspec.json.encode(value).decode(), VALUE_CHARS_MAX)


# Executions


class StepSummary(Struct, kw_only=True):
    """All runs of one step in an execution."""

    runs: int = 0
    status: str = ""  # of the last one
    seconds: float = 0.0
    calls: int = 0
    retries: int = 0


class StepDifference(Struct, frozen=True, kw_only=True):
    step: str
    same: bool  # except for durations
    differs: tuple[str, ...]  # of: runs, status, calls, retries, inputs, outputs
    a: StepSummary | None  # None: it did not run
    b: StepSummary | None


class ComparedExecution(Struct, kw_only=True):
    id: str
    path: str = ""
    digest: str = ""
    status: str = "running"
    seconds: float | None = None  # None: it has not ended


class ExecutionDifference(Struct, frozen=True, kw_only=True):
    """What differs between two executions. Durations are listed, but do not count."""

    a: ComparedExecution
    b: ComparedExecution
    differs: bool
    routes: tuple[tuple[str, ...], tuple[str, ...]]
    same_route: bool
    workload: tuple[PartChange, ...]
    steps: tuple[StepDifference, ...]
    output: tuple[PartChange, ...]


class _Values:
    """Values in any order: equal if they are the same values, each as often. It does not hold them."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, text: str) -> None:
        self._sum += int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Values) and self._sum == other._sum

    __hash__ = None  # type: ignore[assignment]  # it changes


class ComparedFold:
    """Reads a log event by event: what is compared of one execution."""

    def __init__(self, execution_id: str) -> None:
        self.summary = ComparedExecution(id=execution_id)
        self.workload: dict[str, JSON] = {}
        self.output: JSON = None
        self.route: list[str] = []
        self.arcs: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.steps: dict[str, StepSummary] = {}
        self.inputs: dict[str, _Values] = defaultdict(_Values)
        self.outputs: dict[str, _Values] = defaultdict(_Values)
        self._began: dict[str, tuple[str, datetime]] = {}  # run → its step, and when it was scheduled
        self._started_at: datetime | None = None

    def feed(self, event: Event) -> None:
        match event.fact:
            case Requested(path=path, digest=digest):
                self.summary.path, self.summary.digest, self._started_at = path, digest, event.at
            case Started(workload=workload):
                self.workload = workload
            case StepScheduled(run=run, step=step, input=input, parent=None):
                self._began[run] = step, event.at
                self.route.append(step)
                self.steps.setdefault(step, StepSummary()).runs += 1
                self.inputs[step].add(_shown(input))
            case TaskDone(status="ok" | "error") as fact:
                self._add_call(fact)
            case StepDone(run=run) | LoopDone(run=run):
                self._end(run, "ok", event.at)
            case StepFailed(run=str(run)):
                self._end(run, "error", event.at)
            case NextEvaluated(run=run, tokens=tokens):
                step = place_of_frame(run)
                self.arcs[step, tuple(token.step for token in tokens)] += 1
            case Finished(status=status, output=output):
                self.summary.status = status
                self.output = _content(output)
                if self._started_at is not None:
                    self.summary.seconds = round((event.at - self._started_at).total_seconds(), 3)

    def _add_call(self, fact: TaskDone) -> None:
        step = place_of_frame(frame_parts(fact.frame)[0]).partition("/")[0]
        summary = self.steps.setdefault(step, StepSummary())
        summary.retries += fact.repeats
        if fact.input_hash is not None:
            summary.calls += 1
            self.inputs[step].add(f"{fact.task} {fact.input_hash}")
        self.outputs[step].add(f"{fact.task} {msgspec.json.encode(_content(fact.output)).decode()}")

    def _end(self, run: str, status: str, at: datetime) -> None:
        if run in self._began:
            step, began = self._began.pop(run)
            self.steps[step].status = status
            self.steps[step].seconds = round(self.steps[step].seconds + (at - began).total_seconds(), 3)


def _content(output: Output | None) -> JSON:
    """The result without times: data, or the hash of stored data, and the kind of a failure."""
    if output is None:
        return None
    if output.ref is not None and output.data is None:
        meta = output.ref.get("meta")
        return {"stored": meta.get("sha256") if isinstance(meta, Mapping) else None}
    error = None if output.error is None else {"kind": output.error.kind, "message": output.error.message}
    return output.data if error is None else {"data": output.data, "error": error}


def execution_difference(one: ComparedFold, other: ComparedFold) -> ExecutionDifference:
    """By their logs."""
    steps = tuple(_step(name, one, other) for name in dict.fromkeys((*one.steps, *other.steps)))
    workload = tuple(value_changes(one.workload, other.workload, "workload"))
    output = tuple(value_changes(one.output, other.output, "output"))
    same_route = one.arcs == other.arcs
    differs = bool(workload or output) or not same_route or not all(each.same for each in steps)
    return ExecutionDifference(
        a=one.summary,
        b=other.summary,
        differs=differs or one.summary.status != other.summary.status,
        routes=(tuple(one.route), tuple(other.route)),
        same_route=same_route,
        workload=workload,
        steps=steps,
        output=output,
    )


def _step(name: str, one: ComparedFold, other: ComparedFold) -> StepDifference:
    a, b = one.steps.get(name), other.steps.get(name)
    differs: list[str] = []
    if a is None or b is None:
        differs.append("runs")
    else:
        differs += [key for key in ("runs", "status", "calls", "retries") if getattr(a, key) != getattr(b, key)]
        differs += ["inputs"] if one.inputs[name] != other.inputs[name] else []
        differs += ["outputs"] if one.outputs[name] != other.outputs[name] else []
    return StepDifference(step=name, same=not differs, differs=tuple(differs), a=a, b=b)
