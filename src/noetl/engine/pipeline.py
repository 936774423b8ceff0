"""The pipeline machine: it says what to do next and receives the result. It is pure; the worker drives it.

match next_move(work, at):
    case RunTask() as called: fact = take(work, called, await tool(called), at)
    case Answered() as called: fact = take(work, called, called.output, at)
    case Decided(fact): …
    case Park() | Wait() | FrameEnded(): …
advance(work.frame, fact)
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from noetl.engine.apply import put
from noetl.engine.breakpoints import hold_at_task
from noetl.engine.facts import ForPermit, FrameParked, TaskDone
from noetl.engine.limits import BadKey, key_of
from noetl.engine.moves import Answered, Decided, FrameEnded, Move, Park, RunTask, Wait, Work
from noetl.engine.parking import DELAY_S_MAX, PARKING, BadField, document_text, is_amount, waits_for, with_iteration
from noetl.engine.scopes import ctx_misfit, is_foreign, misfit, split
from noetl.engine.stored import ValueTooLarge, stored_bytes
from noetl.escape import shorten
from noetl.ids import call_id
from noetl.net.origins import SUFFIX
from noetl.net.program import CompiledLimit, CompiledRule, CompiledTask, Write
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import RETRY_ATTEMPTS, Directive
from noetl.template.compile import Moment, Template, TemplateError, Value, json_text
from noetl.template.limits import TaskMeter

MESSAGE_CHARS_MAX = 4_096  # of the error that a rule states
DETAILS_BYTES_MAX = 65_536  # as JSON
_encoded = msgspec.json.Encoder().encode


class _Turn(Struct, frozen=True):
    """One evaluation of one task."""

    work: Work
    task: CompiledTask
    scope: dict[str, JSON]
    at: datetime

    def moment(self, where: str) -> Moment:
        """The values that now() and uuid() are derived from: different for each field of each call (D17)."""
        return Moment(_instant(self.at), f"{self.call_id()}/{where}")

    def call_id(self) -> str:
        frame = self.work.frame
        return f"{self.work.place.execution_id}/{call_id(frame.id, frame.calls + 1)}"

    def value(self, value: Value, where: str) -> JSON:
        try:
            return value(self.scope, self.moment(where) if value.calls else None, TaskMeter)
        except TemplateError as error:
            message = error.message
            if "keychain" in self.scope and error.path is None:
                message = "it cannot be evaluated; the reason is withheld, because it may contain a secret"
            raise self.broken("template", message, where) from None

    def holds(self, when: Template, rule: CompiledRule) -> bool:
        try:
            return when.holds(self.scope, self.moment(f"rule {rule.place}") if when.calls else None)
        except TemplateError as error:
            raise self.broken("template", error.message, rule.title) from None

    def broken(self, kind: str, message: str, where: str) -> _Broken:
        return _Broken(Failure(kind=kind, message=f'{where} of task "{self.task.name}": {message}'))

    def inputs(self) -> tuple[dict[str, JSON], dict[str, JSON]]:
        task = self.task
        fields = self.value(task.fields, "a field")
        return {**task.code, **fields} if task.code else fields, self.value(task.input, "input")


class _Broken(Exception):
    """The task cannot continue: the failure says what cannot be evaluated or written, and where (D16)."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def next_move(work: Work, at: datetime, keychain: dict[str, JSON] | None = None) -> Move:
    """The next move of the frame. `keychain`: the values of the entries that the task reads.

    Only the input of a tool may contain them: what a frame is parked for is recorded in the log (D20).
    """
    pipeline, frame, place = work.pipeline, work.frame, work.place
    if not 0 <= frame.pc < len(pipeline.tasks):
        return FrameEnded()
    if frame.until is not None and at < frame.until and frame.answer is None:
        return Wait(frame.until)
    task = pipeline.tasks[frame.pc]
    turn = _Turn(work, task, _scope(work, task), at)
    try:
        if frame.answer is not None:
            # The input as bound when the frame was parked: later writes do not change it (D19).
            input = turn.inputs()[1] if frame.asked is None else frame.asked
            answer = frame.answer if task.schema is None else task.schema.applied(frame.answer)
            return Answered(task, input, answer, turn.scope)
        if frame.calls >= pipeline.calls_max:
            message = f"{frame.id} made {frame.calls:,} calls; the limit is limits.calls"
            raise _Broken(Failure(kind="runaway", message=message))
        if task.skips and frame.attempt == 1 and not frame.tries and (rule := _first(turn, task.skips)):
            return Decided(_skipped(turn, rule))
        if (frame.stepping or place.breaks is not None) and (hold := hold_at_task(work, task, turn.scope)) is not None:
            return Park(FrameParked(frame=frame.id, call=frame.calls + 1, until=hold))
        if task.limit is not None and frame.permit is None:
            return Park(FrameParked(frame=frame.id, call=frame.calls + 1, until=_permit(turn, task.limit)))
        asking = turn
        if keychain is not None and task.kind not in PARKING:
            asking = replace(turn, scope={**turn.scope, "keychain": keychain})
        fields, input = asking.inputs()
        if task.kind in PARKING:
            _check_handed_over(task, input)
            document = document_text(fields["document"]) if "document" in fields else None
            until = waits_for(task.kind, fields, input, turn.call_id(), at, document=document)
            if place.items is not None:
                until = with_iteration(until, turn.scope["iter"])
            return Park(FrameParked(frame=frame.id, call=frame.calls + 1, until=until), document)
    except BadField as error:
        failure = turn.broken("input", str(error), error.field).failure
        return Decided(_broken(turn, Output(status="error", error=failure), failure))
    except _Broken as error:
        return Decided(_broken(turn, Output(status="error", error=error.failure), error.failure))
    # All attempts belong to one entry into a task: the number of entries distinguishes them.
    entry = f"{place.execution_id}/{frame.id}/{task.name}/{frame.entries}"
    return RunTask(task, fields, input, frame.attempt, entry, turn.scope, place.folder, place.keychain, place.origins)


def _permit(turn: _Turn, limit: CompiledLimit) -> ForPermit:
    """What the call waits for, if other executions share a limit with it (D113)."""
    try:
        return ForPermit(limit=limit.words, key=key_of(limit.key, turn.scope, turn.moment("limit")))
    except BadKey as error:
        raise turn.broken("template", str(error), "key of the limit") from None


def _check_handed_over(task: CompiledTask, input: dict[str, JSON]) -> None:
    """A child trusts the Refs in its workload: data that looks like a Ref to another system is refused (D99)."""
    if task.kind != "playbook":
        return
    for name, value in input.items():
        if name.endswith(SUFFIX) and type(value) is dict and is_foreign(value) and (name,) not in task.refs:
            raise BadField(name, "it takes a Ref, and this is data that looks like one: assign output.ref")


def take(
    work: Work,
    called: RunTask | Answered,
    output: Output,
    at: datetime,
    *,
    chance: float = 0.5,
    ms: float = 0.0,
    started_at: datetime | None = None,
) -> TaskDone:
    """The fact for a call that has returned, with the directive that its rules give (D28).

    `chance`, between 0 and 1, gives the jitter of a retry; `ms` is the duration of the call.
    """
    task, frame = called.task, work.frame
    if output.status == "error" or work.pipeline.reads_meta:
        output = _with_defaults(work, task, output, at, ms)
    input_hash = called.input_hash if isinstance(called, RunTask) else None
    turn = _Turn(work, task, _scope_after(work, called, output) if task.rules or task.set else {}, at)
    written = _Written({}, [])
    try:
        if task.set and output.status == "ok":
            _write(turn, task.set, written)
        rule = _first(turn, task.rules)
        if rule is not None and rule.set:
            _write(turn, rule.set, written)
        directive, until = _directive(turn, rule, output, chance)
        why = _why(turn, rule, output) if directive == "fail" else None
    except _Broken as error:
        return replace(_broken(turn, output, error.failure, ms), input_hash=input_hash, started_at=started_at)
    return TaskDone(
        frame=frame.id,
        call=frame.calls + 1,
        task=task.name,
        directive=directive,
        next=_next(work, directive, rule),
        attempt=frame.attempt,
        status=output.status,
        rule=rule.place if rule else None,
        output=output,
        set=written.values,
        until=until,
        error=why,
        keep=task.kept,
        input_hash=input_hash,
        started_at=started_at,
        ms=ms,
        stored=tuple(written.stored),
        item=_failed_item(work) if directive == "fail" else UNSET,
    )


def _with_defaults(work: Work, task: CompiledTask, output: Output, at: datetime, ms: float) -> Output:
    """The output with all parts that rules and `set` may read."""
    if task.own and not output.own and output.status == "error":
        output = replace(output, own=task.own)  # output.http.status can be read after a timeout, too
    if work.pipeline.reads_meta:
        meta = {"attempt": work.frame.attempt, "duration_ms": ms, "ts": _instant(at)}
        output = replace(output, meta={**meta, **output.meta})
    return output


def _failed_item(work: Work) -> JSON | UnsetType:
    """The item of a failed iteration, if it is small, control does not have it, and `output.failed` is read."""
    pipeline, place = work.pipeline, work.place
    if not pipeline.reads_failed or place.items is None or pipeline.loop is None or place.iter is None:
        return UNSET
    item = place.iter.get(pipeline.loop.iterator, UNSET)
    return UNSET if item is UNSET or stored_bytes(item) else item


def task_scope(work: Work) -> dict[str, JSON]:
    """What the templates of the next task see, without the keychain."""
    return _scope(work, work.pipeline.tasks[work.frame.pc])


def _scope(work: Work, task: CompiledTask) -> dict[str, JSON]:
    pipeline, frame, place = work.pipeline, work.frame, work.place
    scope: dict[str, JSON] = {
        "saved": place.saved,  # a task of this name hides it: playbooks of 0.1.0 may have one
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
    if pipeline.notifies:  # the workload and more of the execution that it speaks of
        scope |= place.workload
    return scope


def _scope_after(work: Work, called: RunTask | Answered, output: Output) -> dict[str, JSON]:
    """The scope of rules and `set`: the task's input over the step's, without its secrets (D19, D20)."""
    scope = {**called.scope, "output": output.view()}
    if called.input:
        input = scope["input"] = {**work.place.input, **called.input}
        for key in called.task.secret_inputs:
            input.pop(key, None)
    return scope


def _first(turn: _Turn, rules: tuple[CompiledRule, ...]) -> CompiledRule | None:
    for rule in rules:
        when = rule.when
        if when is True or (when is not False and turn.holds(when, rule)):
            return rule
    return None


class _Written(Struct, frozen=True):
    """The writes of one task."""

    values: dict[str, JSON]  # target → value, in the order of the last writes
    stored: list[str]  # the targets whose values belong in the result store (D91)


def _write(turn: _Turn, writes: tuple[Write, ...], written: _Written) -> None:
    """Evaluate all right sides, then write (D28); later evaluations see the writes."""
    scope = turn.scope
    values = [turn.value(write.value, write.target) for write in writes]
    for write, value in zip(writes, values, strict=True):
        target, root = write.target, write.scope
        failure = misfit(target, value, turn.work.place.execution_id, origin=write.origin)
        if failure is not None:
            raise turn.broken(failure.kind, failure.message, "set")
        written.values.pop(target, None)  # The order is that of the last writes.
        if target in written.stored:
            written.stored.remove(target)
        written.values[target] = value
        if size := stored_bytes(value):
            if size > (limit := turn.work.pipeline.value_bytes):
                failure = ValueTooLarge(target, size, limit).failure
                raise turn.broken(failure.kind, failure.message, "set")
            written.stored.append(target)
        scope[root] = put(scope.get(root) or {}, write.path, value)
    if turn.work.pipeline.weighs_ctx and any(write.scope == "ctx" for write in writes):
        failure = ctx_misfit(_ctx_in_log(turn, written))
        if failure is not None:
            raise turn.broken(failure.kind, failure.message, "set")


def _ctx_in_log(turn: _Turn, written: _Written) -> dict[str, JSON]:
    """ctx without the values that are in the result store."""
    ctx: dict[str, JSON] = turn.scope["ctx"]
    for target in (*turn.work.place.marks, *written.stored):
        if target.startswith("ctx.") and (target in written.stored or target not in written.values):
            ctx = put(ctx, split(target)[1], None)
    return ctx


def _directive(
    turn: _Turn, rule: CompiledRule | None, output: Output, chance: float
) -> tuple[Directive, datetime | None]:
    """The directive, and for a retry its earliest time. A retry without attempts left fails (D24)."""
    task, attempt = turn.task, turn.work.frame.attempt
    if rule is None:
        goes_on = output.status == "ok" or (task.has_policy and task.on_unmatched == "continue")
        return ("continue" if goes_on else "fail"), None
    if rule.do != "retry":
        return rule.do, None
    if attempt >= _attempts(turn, rule):
        return "fail", None
    delay = _delay_s(turn, rule, chance)
    return "retry", turn.at + timedelta(seconds=delay) if delay else None


def _attempts(turn: _Turn, rule: CompiledRule) -> float:
    return RETRY_ATTEMPTS if rule.attempts is None else _number(turn, rule, rule.attempts, "attempts")


def _delay_s(turn: _Turn, rule: CompiledRule, chance: float) -> float:
    """The delay of a retry (D25)."""
    if rule.delay is None:
        return 0.0
    delay = _number(turn, rule, rule.delay, "delay")
    longest = None if rule.max_delay is None else _number(turn, rule, rule.max_delay, "max_delay")
    delay = backoff_s(rule.backoff, delay, turn.work.frame.attempt, longest)
    delay *= 1 + rule.jitter * (2 * chance - 1)
    return max(0.0, min(delay, DELAY_S_MAX))


def backoff_s(backoff: str, delay: float, attempt: int, max_delay: float | None) -> float:
    """The delay after this attempt, without jitter (D25)."""
    match backoff:
        case "linear":
            delay *= attempt
        case "exponential":
            delay *= 2.0 ** min(attempt - 1, 60)
    return min(delay, DELAY_S_MAX, DELAY_S_MAX if max_delay is None else max_delay)


def _number(turn: _Turn, rule: CompiledRule, value: Value, key: str) -> float:
    where = f"{key} of {rule.title}"
    number = turn.value(value, where)
    if not is_amount(number):
        message = f"it gives {json_text(number)[:40]}, and not a number of at least 0"
        raise turn.broken("template", message, where)
    return float(number)


def _why(turn: _Turn, rule: CompiledRule | None, output: Output) -> Failure | None:
    """Why the pipeline fails; None: the error of the output says it."""
    if rule is not None and rule.do == "fail" and (rule.message is not None or rule.details is not None):
        return _own_error(turn, rule, output)
    if output.error is not None:
        return None
    name = turn.task.name
    if rule is None or output.status == "error":
        return Failure(kind=turn.task.kind, message=f'task "{name}" gave an error and no reason')
    if rule.do == "retry":
        message = f'{rule.title} of task "{name}" has used up its {turn.work.frame.attempt} attempts'
        return Failure(kind="rule", message=message)
    return Failure(kind="rule", message=_says_fail(turn, rule))


def _says_fail(turn: _Turn, rule: CompiledRule) -> str:
    return f'{rule.title} of task "{turn.task.name}" says fail'


def _own_error(turn: _Turn, rule: CompiledRule, output: Output) -> Failure:
    """The error that a rule states itself (D105). It keeps the one that it replaces."""
    try:
        message = _says_fail(turn, rule)
        if rule.message is not None:
            given = turn.value(rule.message, f"message of {rule.title}")
            message = shorten(given if isinstance(given, str) else json_text(given), MESSAGE_CHARS_MAX)
        details: JSON = {}
        if rule.details is not None:
            details = turn.value(rule.details, f"details of {rule.title}")
            if len(_encoded(details)) > DETAILS_BYTES_MAX:
                message = f"they are over {DETAILS_BYTES_MAX:,} bytes"
                raise turn.broken("payload-too-large", message, f"details of {rule.title}")
    except _Broken as broken:
        raise _Broken(replace(broken.failure, cause=output.error)) from None
    return Failure(kind="rule", message=message, details=details, cause=output.error)


def _next(work: Work, directive: Directive, rule: CompiledRule | None) -> int:
    pc = work.frame.pc
    match directive:
        case "continue" | "skip":
            return pc + 1 if pc + 1 < len(work.pipeline.tasks) else -1
        case "retry":
            return pc
        case "jump":
            assert rule is not None
            assert rule.to is not None
            return rule.to
        case "break" | "fail":
            return -1


def _skipped(turn: _Turn, rule: CompiledRule) -> TaskDone:
    written = _Written({}, [])
    _write(turn, rule.set, written)
    return TaskDone(
        frame=turn.work.frame.id,
        call=turn.work.frame.calls + 1,
        task=turn.task.name,
        directive="skip",
        next=_next(turn.work, "skip", None),
        status="skipped",
        rule=rule.place,
        set=written.values,
        stored=tuple(written.stored),
    )


def _broken(turn: _Turn, output: Output, error: Failure, ms: float = 0.0) -> TaskDone:
    """The pipeline ends here without evaluating rules."""
    return TaskDone(
        frame=turn.work.frame.id,
        call=turn.work.frame.calls + 1,
        task=turn.task.name,
        directive="fail",
        next=-1,
        attempt=turn.work.frame.attempt,
        status=output.status,
        output=output,
        error=None if error is output.error else error,
        keep=turn.task.kept,
        ms=ms,
        item=_failed_item(turn.work),
    )


def refused(work: Work, failure: Failure, at: datetime) -> TaskDone:
    """The next task fails without a call, because a value that the frame reads is missing."""
    task = work.pipeline.tasks[work.frame.pc]
    return _broken(_Turn(work, task, {}, at), Output(status="error", error=failure), failure)


def _instant(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
