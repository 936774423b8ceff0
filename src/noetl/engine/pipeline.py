"""A pipeline as a machine: says what to do next, is told how it went. Pure; the worker drives it.

match next_move(work, at):
    case RunTask() as called: fact = take(work, called, await tool(called), at)
    case Answered() as called: fact = take(work, called, called.output, at)
    case Decided(fact): …
    case Park() | Wait() | Over(): …
advance(work.frame, fact)
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from noetl.engine.apply import put
from noetl.engine.facts import ForBlock, ForChild, ForSignal, ForTime, FrameParked, TaskDone, Until
from noetl.engine.state import Frame
from noetl.ids import call_id
from noetl.net.program import ATTEMPTS, Pipeline, Rule, Task, Write
from noetl.net.template import Moment, Template, TemplateError, Value
from noetl.output import JSON, Failure, Output, failed
from noetl.playbook.model import Directive

VALUE_BYTES_MAX = 65_536  # of one value that `set` writes (D55)
DELAY_S_MAX = 366 * 86_400.0  # of a retry or a wait
_encoded = msgspec.json.Encoder().encode


class Place(NamedTuple):
    """Where a frame runs: what its templates see besides the frame itself."""

    execution_id: str
    workload: dict[str, JSON]
    input: dict[str, JSON]  # of the step or the block
    iter: dict[str, JSON] | None  # item, index and parent; None: no loop around it


class Work(NamedTuple):
    """One frame, ready to be taken up: a copy that the worker may change."""

    pipeline: Pipeline
    frame: Frame
    place: Place


class RunTask(NamedTuple):
    task: Task
    fields: dict[str, JSON]
    input: dict[str, JSON]
    attempt: int
    key: str  # the same for every attempt of one entry into a task (P3)


class Answered(NamedTuple):
    """The call that the frame was parked in has come back."""

    task: Task
    input: dict[str, JSON]
    output: Output


class Decided(NamedTuple):
    """No call is made: skipped, or it can not be made."""

    fact: TaskDone


class Park(NamedTuple):
    fact: FrameParked


class Wait(NamedTuple):
    until: datetime


class Over(NamedTuple):
    """Nothing is left to do."""


Move: TypeAlias = RunTask | Answered | Decided | Park | Wait | Over


class _Turn(NamedTuple):
    """One look at one task."""

    work: Work
    task: Task
    scope: dict[str, JSON]
    at: datetime

    def moment(self, where: str) -> Moment:
        """What now() and uuid() are derived from: another one for each field of each call (D17)."""
        frame = self.work.frame
        seed = f"{self.work.place.execution_id}/{call_id(frame.id, frame.calls + 1)}/{where}"
        return Moment(self.at.isoformat().replace("+00:00", "Z"), seed)

    def value(self, value: Value, where: str) -> JSON:
        return value(self.scope, self.moment(where))

    def inputs(self) -> tuple[dict[str, JSON], dict[str, JSON]]:
        fields = {**self.task.code, **self.value(self.task.fields, "fields")}
        return fields, self.value(self.task.input, "input")


def next_move(work: Work, at: datetime) -> Move:
    """What the frame wants now."""
    pipeline, frame, place = work
    if not 0 <= frame.pc < len(pipeline.tasks):
        return Over()
    task = pipeline.tasks[frame.pc]
    turn = _Turn(work, task, _scope(work, task), at)
    try:
        if frame.answer is not None:
            return Answered(task, turn.inputs()[1], frame.answer)
        if frame.until is not None and at < frame.until:
            return Wait(frame.until)
        if frame.calls >= pipeline.calls_max:
            message = f"{frame.id} made {frame.calls:,} calls; the limit is limits.calls"
            return Decided(_broken(turn, failed("runaway", message)))
        if frame.attempt == 1 and (rule := _first(turn, task.skips)):
            return Decided(_skipped(turn, rule))
        fields, input = turn.inputs()
        if until := _waits_for(turn, fields, input):
            return Park(FrameParked(frame=frame.id, call=frame.calls + 1, until=until))
    except TemplateError as error:
        return Decided(_broken(turn, failed("template", str(error))))
    except _TooLarge as error:
        return Decided(_broken(turn, failed("payload-too-large", str(error))))
    except ValueError as error:
        return Decided(_broken(turn, failed("input", str(error))))
    return RunTask(task, fields, input, frame.attempt, key_of(frame, place, task))


def take(
    work: Work, called: RunTask | Answered, output: Output, at: datetime, *, chance: float = 0.5
) -> TaskDone:
    """The call has come back: the fact that it makes, with the directive that its rules give (D28).

    `chance`, between 0 and 1, is what the jitter of a retry is drawn from.
    """
    task = called.task
    turn = _Turn(work, task, _scope(work, task), at)
    kept = {key: value for key, value in called.input.items() if key not in task.secret_inputs}
    turn.scope["input"] = {**work.place.input, **kept}
    turn.scope["output"] = output.view()
    written: dict[str, JSON] = {}
    try:
        if output.status == "ok":
            _write(turn, task.set, written)
        rule = _first(turn, task.rules)
        if rule is not None:
            _write(turn, rule.set, written)
        directive, until = _directive(turn, rule, output, chance)
    except TemplateError as error:
        return _broken(turn, output, Failure(kind="template", message=str(error)))
    except _TooLarge as error:
        return _broken(turn, output, Failure(kind="payload-too-large", message=str(error)))
    why = None
    if directive == "fail" and output.error is None:
        why = Failure(kind="rule", message=f'a rule of "{task.name}" says fail')
    return TaskDone(
        frame=work.frame.id,
        call=work.frame.calls + 1,
        task=task.name,
        directive=directive,
        next=_next(work, directive, rule),
        attempt=work.frame.attempt,
        status=output.status,
        rule=rule.place if rule else None,
        output=output,
        set=written,
        until=until,
        error=why,
        keep=task.kept,
    )


def key_of(frame: Frame, place: Place, task: Task) -> str:
    """The idempotency key: one for each entry into a task, the same for all its attempts."""
    text = f"{place.execution_id}/{frame.id}/{task.name}/{frame.entries}"
    return hashlib.sha256(text.encode()).hexdigest()


def _scope(work: Work, task: Task) -> dict[str, JSON]:
    _, frame, place = work
    scope: dict[str, JSON] = {
        **frame.outputs,
        "workload": place.workload,
        "ctx": frame.ctx,
        "step": frame.step,
        "input": place.input,
        "execution_id": place.execution_id,
        "_prev": frame.prev,
        "_task": task.name,
        "_attempt": frame.attempt,
    }
    if place.iter is not None:
        scope["iter"] = {**place.iter, **frame.iter}
    if frame.last is not None:
        scope["output"] = frame.last.view()
    return scope


def _first(turn: _Turn, rules: tuple[Rule, ...]) -> Rule | None:
    for rule in rules:
        if rule.when is True:
            return rule
        if isinstance(rule.when, Template) and rule.when.holds(turn.scope, turn.moment(f"rule {rule.place}")):
            return rule
    return None


class _TooLarge(Exception):
    """A value that ctx, step or iter can not hold."""


def _write(turn: _Turn, writes: tuple[Write, ...], written: dict[str, JSON]) -> None:
    """All right sides first, then all writes (D28); what follows sees them."""
    values = [(write, turn.value(write.value, write.target)) for write in writes]
    for write, value in values:
        if isinstance(value, str | list | dict) and len(_encoded(value)) > VALUE_BYTES_MAX:
            raise _TooLarge(f'"{write.target}" is over {VALUE_BYTES_MAX:,} bytes: keep a reference instead')
        written.pop(write.target, None)
        written[write.target] = value
        turn.scope[write.scope] = put(turn.scope.get(write.scope) or {}, write.path, value)


def _directive(
    turn: _Turn, rule: Rule | None, output: Output, chance: float
) -> tuple[Directive, datetime | None]:
    """What happens next, and for a retry not before when. One that is used up fails (D24)."""
    task, attempt = turn.task, turn.work.frame.attempt
    if rule is None:
        goes_on = output.status == "ok" or (task.has_policy and task.on_unmatched == "continue")
        return ("continue" if goes_on else "fail"), None
    if rule.do != "retry":
        return rule.do, None
    attempts = ATTEMPTS
    if rule.attempts is not None:
        attempts = int(_number(turn.value(rule.attempts, "attempts"), "attempts"))
    if attempt >= attempts:
        return "fail", None
    delay = _delay_s(turn, rule, chance)
    return "retry", turn.at + timedelta(seconds=delay) if delay else None


def _delay_s(turn: _Turn, rule: Rule, chance: float) -> float:
    """How long a retry waits (D25)."""
    if rule.delay is None:
        return 0.0
    delay = _number(turn.value(rule.delay, "delay"), "delay")
    attempt = turn.work.frame.attempt
    match rule.backoff:
        case "linear":
            delay *= attempt
        case "exponential":
            delay *= 2.0 ** min(attempt - 1, 60)
    if rule.max_delay is not None:
        delay = min(delay, _number(turn.value(rule.max_delay, "max_delay"), "max_delay"))
    delay *= 1 + rule.jitter * (2 * chance - 1)
    return max(0.0, min(delay, DELAY_S_MAX))


def _number(value: JSON, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise TemplateError(f"{what} must be a number of at least 0")
    return float(value)


def _next(work: Work, directive: Directive, rule: Rule | None) -> int:
    pc = work.frame.pc
    match directive:
        case "retry":
            return pc
        case "jump":
            assert rule is not None
            assert rule.to is not None
            return rule.to
        case "break" | "fail":
            return -1
        case "continue" | "skip":
            return pc + 1 if pc + 1 < len(work.pipeline.tasks) else -1


def _skipped(turn: _Turn, rule: Rule) -> TaskDone:
    written: dict[str, JSON] = {}
    _write(turn, rule.set, written)
    return TaskDone(
        frame=turn.work.frame.id,
        call=turn.work.frame.calls + 1,
        task=turn.task.name,
        directive="skip",
        next=_next(turn.work, "skip", None),
        status="skipped",
        rule=rule.place,
        set=written,
    )


def _broken(turn: _Turn, output: Output, error: Failure | None = None) -> TaskDone:
    """The pipeline ends here, and no rule is asked."""
    return TaskDone(
        frame=turn.work.frame.id,
        call=turn.work.frame.calls + 1,
        task=turn.task.name,
        directive="fail",
        next=-1,
        attempt=turn.work.frame.attempt,
        status=output.status,
        output=output,
        error=error or output.error,
        keep=turn.task.kept,
    )


def _waits_for(turn: _Turn, fields: dict[str, JSON], input: dict[str, JSON]) -> Until | None:
    """Some kinds are no calls: the frame is parked, and control does the rest."""
    match turn.task.kind:
        case "workbook":
            return ForBlock(block=fields["block"], input=input)
        case "playbook":
            key = key_of(turn.work.frame, turn.work.place, turn.task)
            child = str(UUID(bytes=hashlib.sha256(f"child {key}".encode()).digest()[:16], version=5))
            version = fields.get("version")
            return ForChild(execution_id=child, path=fields["path"], version=version, workload=input)
        case "wait":
            return _pause(input, turn.at)
    return None


def _pause(input: dict[str, JSON], at: datetime) -> Until:
    if "signal" in input:
        return ForSignal(name=str(input["signal"]))
    if "seconds" in input:
        seconds = input["seconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            raise ValueError("seconds must be a number of at least 0")
        return ForTime(at=at + timedelta(seconds=min(float(seconds), DELAY_S_MAX)))
    written = str(input.get("until"))
    try:
        until = datetime.fromisoformat(written.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f'until must be an instant such as 2026-01-31T12:00:00Z, not "{written}"') from None
    if until.tzinfo is None:
        raise ValueError("until must name its time zone, for example by a Z at the end")
    return ForTime(at=until)
