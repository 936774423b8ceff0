"""The documents of `run`, `show` and `state`, and the outputs of playbooks and steps."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from noetl.engine import Event, apply
from noetl.engine.compensation import uncompensated
from noetl.engine.facts import Evaluated, Fact, Finished, ForPermit, LoopDone, StepDone, StepFailed
from noetl.engine.limits import frame_permit
from noetl.engine.state import State, Status
from noetl.errors import Damaged, Problem, Severity
from noetl.ids import call_id, frame_id, frame_parts
from noetl.net.program import Program
from noetl.output import JSON, Failure, Output
from noetl.views.debugging import ChangeDocument, HoldDocument, change_documents, held_documents
from noetl.views.log import instant
from noetl.views.pools import PoolLoad, ShareWait, no_worker, share_reasons
from noetl.views.runs import LoopProgress, RunRecord, Runs, item_text, permit_words

NESTED_RESULTS_MAX = 16  # levels of results that are lists of results
RUNNING_SHOWN_MAX = 5  # running calls of one run that are listed
LIMITS_MAX = 20  # limits that an execution waits for, listed
NAMES_MAX = 20  # names of steps that ran, listed when the requested step did not


class OutputLocation(NamedTuple):
    """Where the requested output is."""

    output: Output | None  # None: there is none
    error: Failure | None
    why: str  # there is none


def given_by_playbook(execution_id: str, last: Sequence[Fact]) -> OutputLocation:
    """The output of the playbook, from the last facts of its log. Raises Damaged when they have none."""
    for fact in reversed(last):
        match fact:
            case Finished(output=output, error=error):
                return OutputLocation(output, error, f"{execution_id} has no output")
            case Evaluated(error=error):
                return OutputLocation(None, error, f"{execution_id} did not run")
    raise Damaged(f"the log of {execution_id} has no end: see noetl audit")


class StepOutputFold:
    """Reads a log event by event: the output of the last ended run of a step or block; or of one run, by its id."""

    def __init__(self, execution_id: str, asked: str) -> None:
        self._state = State(execution_id=execution_id)
        self._asked = asked
        self._known = False
        self._found: Output | None = None

    def feed(self, event: Event) -> None:
        state, fact, asked = self._state, event.fact, self._asked
        apply(state, fact, event.at)
        if isinstance(fact, StepDone | LoopDone | StepFailed) and fact.run is not None:
            run = state.runs[fact.run]
            if asked in (run.id, run.step):
                self._found = run.output
        self._known = self._known or asked in state.firings or asked in state.runs

    def result(self) -> OutputLocation:
        found = self._found
        error = found.error if found is not None and found.status == "error" else None
        unknown = f'"{self._asked}" has not run; {_those_that_ran(self._state)}'
        return OutputLocation(found, error, f'"{self._asked}" has not ended' if self._known else unknown)


def _those_that_ran(state: State) -> str:
    names = list(state.firings)
    if not names:
        return "no step has run"
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    return f"these steps ran: {', '.join(names[:NAMES_MAX])}{more}"


def content_type(ref: dict[str, JSON]) -> str:
    """The content type in the Ref, without parameters."""
    meta = ref.get("meta")
    said = meta.get("content_type", "application/json") if isinstance(meta, dict) else "application/json"
    return str(said).partition(";")[0].strip().lower()


def decoded(body: bytes, ref: dict[str, JSON]) -> JSON:
    """A stored result as data: JSON, text, or base64 of other content. Raises Damaged."""
    kind = content_type(ref)
    try:
        if kind == "application/json" or kind.endswith("+json"):
            return msgspec.json.decode(body)
        return body.decode()
    except msgspec.DecodeError as error:
        raise Damaged(f"a stored result is not JSON: {error}") from error
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


async def load_output(
    output: Output,
    read_iterations: Callable[[str, str], Awaitable[Sequence[Output | None] | None]],
    read_result: Callable[[dict[str, JSON]], Awaitable[bytes]],
    depth: int = 0,
) -> JSON:
    """The data of an output; stored results are fetched. Raises Damaged.

    `read_iterations`: the outputs of the iterations of a run of an execution; None: it does not exist.
    """
    if output.data is not None or output.ref is None:
        return output.data
    match output.ref:
        case {"type": "relational", "locator": {"execution_id": str(execution_id), "run": str(run)}}:
            # The results of a loop are in the log, by index; failed iterations are null (D30).
            if depth >= NESTED_RESULTS_MAX:
                raise Damaged(f"the results of {run} are nested more than {NESTED_RESULTS_MAX} levels deep")
            outputs = await read_iterations(execution_id, run)
            if outputs is None:
                raise Damaged(f"the results of {run} are in the log of {execution_id}, which does not exist")
            return [
                None if each is None else await load_output(each, read_iterations, read_result, depth + 1)
                for each in outputs
            ]
        case {"locator": {"key": str()}}:
            return decoded(await read_result(output.ref), output.ref)
    return output.ref  # only the tool that stored it can read it (D56)


def refs_in(value: JSON) -> Iterator[dict[str, JSON]]:
    """All Refs to stored results in a value."""
    match value:
        case {"locator": {"key": str()}, "meta": dict()}:
            yield value
        case dict():
            for each in value.values():
                yield from refs_in(each)
        case list():
            for each in value:
                yield from refs_in(each)


DocumentStatus: TypeAlias = Literal["running", "paused", "ok", "error", "cancelled"]
_STATUS: dict[Status, DocumentStatus] = {
    "new": "running", "running": "running", "paused": "paused", "cancelling": "running",
    "ok": "ok", "error": "error", "cancelled": "cancelled",
}  # fmt: skip


class ErrorDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first unhandled failure."""

    kind: str
    message: str
    step: str | None = None
    run: str | None = None
    iteration: int | None = None  # of a loop: the iteration that failed first
    details: dict[str, JSON] = {}
    cause: Failure | None = None  # the failure that it replaced
    printed: str = ""  # the last lines that the failed call wrote to stdout and stderr

    @property
    def place(self) -> str | None:
        """`fetch#2[17]`, as exact as it is known; None: it concerns the execution as a whole."""
        return self.step if self.run is None else frame_id(self.run, self.iteration)


class OutputDocument(Struct, frozen=True, kw_only=True):
    """The output of the playbook (D31)."""

    status: Literal["ok", "error"]
    data: JSON
    ref: dict[str, JSON] | UnsetType = UNSET
    error: Failure | UnsetType = UNSET


class IterationCounts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Iterations of a loop; of a list of loops, of the first one."""

    count: int
    succeeded: int
    failed: int
    inside: IterationCounts | None = None  # of a list of loops: all iterations of the last one


class IterationFailure(Struct, frozen=True, kw_only=True):
    """An iteration that failed, and why."""

    index: int
    error: Failure


class RunningCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that takes long, while it runs. Quick calls are shown when they are done."""

    id: str  # "fetch#2[17]/5"
    task: str
    since: str
    duration_s: float | None = None  # until now; None: the reader computes it
    attempt: int = 1
    worker: str = ""  # the worker that runs it
    item: str = ""  # of an iteration: its item, on one line; "" if the item is in the result store


class StepDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run of a step or a block; or a token that is not admitted, or whose admission failed."""

    id: str
    step: str
    status: str  # scheduled, running, ok, error, cancelled, stopped; of a token: waiting, error
    started: str | None = None
    ended: str | None = None
    duration_s: float | None = None
    iterations: IterationCounts | None = None
    failures: tuple[IterationFailure, ...] = ()  # the first failed iterations
    calls: int = 0  # calls of tools, also in its blocks
    kept: int = 0  # how many of them a fork has kept from the execution that it was forked from
    running: tuple[RunningCall, ...] = ()  # calls that take long, in the order of the iterations
    running_left_out: int = 0
    lost: int = 0  # workers that were lost while they held a frame of it
    retries: int = 0
    error: Failure | None = None
    handled: bool = False  # an arc has handled the failure
    why: str | None = None  # what it waits for
    child: str | None = None  # the execution that it called
    retry_of: str | None = None
    compensates: str | None = None  # of a compensation: the run that it undoes
    blocks: tuple[StepDocument, ...] = ()
    blocks_left_out: int = 0


class CompensationDocument(Struct, frozen=True, kw_only=True):
    """Completed runs are undone, because the execution has failed or was cancelled (D116)."""

    status: Literal["running", "done", "incomplete"]
    uncompensated: tuple[str, ...]  # the runs that are not undone, or not yet


class CancelDocument(Struct, frozen=True, kw_only=True):
    """Who cancelled an execution, and why."""

    reason: str  # "": none was given
    by: str | None  # None: a command on the machine of the database


class LimitDocument(Struct, frozen=True, kw_only=True):
    """A limit that other executions share, and that the execution waits for (D113)."""

    waits: str  # the run or the frame; "": the whole execution
    key: str  # of the limit; "": all executions of the playbook share it
    permit: str  # the id of what it waits for
    ahead: int | None = None  # requests that come before it; None: not known
    held_by: tuple[str, ...] = ()  # executions that hold the limit


class ShowDocument(Struct, frozen=True, kw_only=True):
    execution_id: str
    status: DocumentStatus
    output: OutputDocument | None  # None: it has not ended, or has no output
    error: ErrorDocument | None
    duration_s: float | None
    steps: tuple[StepDocument, ...]
    compensation: CompensationDocument | UnsetType = UNSET  # absent: nothing is undone
    cancelled: CancelDocument | UnsetType = UNSET  # absent: it was not cancelled
    fork: ForkDocument | UnsetType = UNSET  # absent: it is not a fork
    limits: tuple[LimitDocument, ...] | UnsetType = UNSET  # the first that it waits for; absent: none
    held: tuple[HoldDocument, ...] | UnsetType = UNSET  # what breakpoints hold; absent: nothing
    changes: tuple[ChangeDocument, ...] | UnsetType = UNSET  # the last values changed by hand; absent: none


class ForkDocument(Struct, frozen=True, kw_only=True):
    """The execution whose finished work this one keeps."""

    execution_id: str
    seq: int  # its last event that counts


class TokenDocument(Struct, frozen=True, kw_only=True):
    id: str
    step: str
    waiting: bool


class RunDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    step: str
    status: str
    iterations: IterationCounts | None = None
    why: str | None = None  # what it waits for; of the present state only


class StateDocument(Struct, frozen=True, kw_only=True):
    seq: int
    status: DocumentStatus
    workload: dict[str, JSON]
    ctx: dict[str, JSON]
    tokens: tuple[TokenDocument, ...]
    runs: tuple[RunDocument, ...]  # ended runs come last


def read_runs(execution_id: str, events: Iterable[Event], *, up_to: int | None = None) -> Runs:
    """Read a log up to a fact; None: to its end. The result accepts further events."""
    runs = Runs(execution_id)
    for event in events:
        if up_to is not None and event.seq > up_to:
            break
        runs.feed(event)
    return runs


def show_document(runs: Runs, now: datetime | None = None) -> ShowDocument:
    """`now`: the end of the duration of unfinished runs; None: the time of the last fact."""
    slices = show_slices(runs, now)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            document: ShowDocument = end.value
            return document


def show_slices(runs: Runs, now: datetime | None = None) -> Generator[None, None, ShowDocument]:
    """The same; it yields after each run of a step. Facts that `runs` receives meanwhile change only later runs."""
    state = runs.state
    until = now if now is not None and state.live else state.at
    document = _show_document(runs, until)
    steps = []
    for record in [*runs.steps.values()]:
        steps.append(_run(record, until))
        yield
    return replace(document, steps=(*steps, *document.steps))


def _show_document(runs: Runs, until: datetime | None) -> ShowDocument:
    """Without runs: `steps` are those that wait for a token."""
    state = runs.state
    why, fork = runs.cancelled, runs.fork
    return ShowDocument(
        execution_id=state.execution_id,
        status=_STATUS[state.status],
        output=output_document(state.end_output),
        error=_error(runs),
        duration_s=_between(runs.begun_at, until),
        steps=tuple(_tokens(state)),
        compensation=_compensation(state),
        cancelled=UNSET if why is None else CancelDocument(reason=why.reason, by=why.by),
        fork=UNSET if fork is None else ForkDocument(execution_id=fork.execution, seq=fork.seq),
        limits=tuple(islice(_limits(state), LIMITS_MAX)) or UNSET,
        held=held_documents(state) or UNSET,
        changes=change_documents(runs) or UNSET,
    )


def _limits(state: State) -> Iterator[LimitDocument]:
    if state.held is not None:
        yield LimitDocument(waits="", key=state.held, permit=state.permit)
    for run in state.runs.values() if state.live else ():
        if run.key is not None and not run.permitted and run.output is None:
            yield LimitDocument(waits=run.id, key=run.key, permit=run.id)
        for frame in run.frames.values():
            if isinstance(frame.parked, ForPermit):
                yield LimitDocument(waits=frame.id, key=frame.parked.key, permit=frame_permit(frame))


def _compensation(state: State) -> CompensationDocument | UnsetType:
    if state.compensation is None:
        return UNSET
    left = uncompensated(state)
    ended: Literal["done", "incomplete"] = "incomplete" if left else "done"
    return CompensationDocument(status="running" if state.live else ended, uncompensated=left)


def with_pool_reasons(
    document: ShowDocument, program: Program, load_of: Callable[[str], PoolLoad], share_waits: Iterable[ShareWait] = ()
) -> ShowDocument:
    """The same document, where due runs say when their pool has no worker, or when they wait for the execution's share.

    The log does not contain this. `share_waits`: of the execution, as its owner knows them.
    """
    known: dict[str, PoolLoad] = {}
    shares = share_reasons(share_waits, load_of)

    def with_reason(step: StepDocument, *, block: bool = False) -> StepDocument:
        step = replace(step, blocks=tuple(with_reason(each, block=True) for each in step.blocks))
        if step.status not in ("scheduled", "running") or step.why is not None:
            return step
        if step.id in shares:
            return replace(step, why=shares[step.id])
        if step.running:
            return step
        pool = program.pipeline(step.step, block=block or step.compensates is not None).pool
        if pool not in known:
            known[pool] = load_of(pool)
        return step if known[pool].workers else replace(step, why=no_worker(pool))

    if document.status != "running":
        return document
    return replace(document, steps=tuple(map(with_reason, document.steps)))


def with_run_reasons(state: StateDocument, shown: ShowDocument) -> StateDocument:
    """The same document, where unfinished runs say what they wait for, as in the other document."""
    left, reasons = [*shown.steps], dict[str, str]()
    while left:
        step = left.pop()
        left += step.blocks
        if step.why is not None:
            reasons[step.id] = step.why
    return replace(state, runs=tuple(replace(run, why=reasons.get(run.id)) for run in state.runs)) if reasons else state


def state_document(runs: Runs) -> StateDocument:
    state = runs.state
    listed = sorted(runs.records(), key=lambda record: record.ended_at is not None)
    waiting = {*state.waiting, *(token for tokens in state.joins.values() for token in tokens)}
    return StateDocument(
        seq=state.seq,
        status=_STATUS[state.status],
        workload=state.workload,
        ctx=state.ctx,
        tokens=tuple(
            TokenDocument(id=token.id, step=token.step, waiting=token.id in waiting) for token in state.tokens.values()
        ),
        runs=tuple(
            RunDocument(id=each.id, step=each.step, status=each.status, iterations=iterations_of(each))
            for each in listed
        ),
    )


def output_document(output: Output | None) -> OutputDocument | None:
    if output is None:
        return None
    ref, error = UNSET if output.ref is None else output.ref, output.error or UNSET
    return OutputDocument(status=output.status, data=output.data, ref=ref, error=error)


def _error(runs: Runs) -> ErrorDocument | None:
    failure = runs.state.failure
    if failure is None:
        return None
    step, run = runs.failed_at or (None, None)
    return ErrorDocument(
        kind=failure.kind,
        message=failure.message,
        step=step,
        run=run,
        iteration=runs.failed_iteration,
        details=failure.details,
        cause=failure.cause,
        printed=runs.printed,
    )


def _run(record: RunRecord, until: datetime | None) -> StepDocument:
    begun = record.started_at or (record.scheduled_at if record.ended_at is not None else None)
    ended = record.ended_at
    return StepDocument(
        id=record.id,
        step=record.step,
        status=record.status,
        started=None if begun is None else instant(begun),
        ended=None if ended is None else instant(ended),
        duration_s=_between(begun, ended or until),
        iterations=iterations_of(record),
        failures=tuple(
            IterationFailure(index=index, error=record.failures[index]) for index in sorted(record.failures)
        ),
        calls=record.calls,
        kept=record.kept,
        running=running_calls(record, until),
        running_left_out=max(0, len(record.running) - RUNNING_SHOWN_MAX),
        lost=record.lost,
        retries=record.retries,
        error=record.error,
        handled=record.handled,
        why=record.waits_for and f"waits {record.waits_for}",
        child=record.child,
        retry_of=record.retry_of,
        compensates=record.compensates,
        blocks=tuple(_run(block, until) for block in record.blocks.values()),
        blocks_left_out=max(0, sum(record.blocks_ended.values()) - _ended(record)),
    )


def running_calls(
    record: RunRecord, until: datetime | None = None, state: State | None = None
) -> tuple[RunningCall, ...]:
    """The first calls that take long. `state`: it has the items of iterations."""
    facts = sorted(record.running.values(), key=lambda fact: frame_parts(fact.frame)[1] or 0)[:RUNNING_SHOWN_MAX]
    return tuple(
        RunningCall(
            id=call_id(fact.frame, fact.call),
            task=fact.task,
            since=instant(fact.started_at),
            duration_s=_between(fact.started_at, until),
            attempt=fact.attempt,
            worker=fact.worker,
            item="" if state is None else item_text(state, fact.frame),
        )
        for fact in facts
    )


def _ended(record: RunRecord) -> int:
    return sum(block.ended_at is not None for block in record.blocks.values())


def iterations_of(record: RunRecord) -> IterationCounts | None:
    """None: it is not a loop."""
    return None if record.iterations is None else _tallied(record.iterations, record.inside)


def _tallied(tally: LoopProgress, inside: LoopProgress | None = None) -> IterationCounts:
    return IterationCounts(
        count=tally.total,
        succeeded=tally.succeeded,
        failed=tally.failed,
        inside=None if inside is None else _tallied(inside),
    )


def _tokens(state: State) -> Iterable[StepDocument]:
    """Tokens that were never admitted are listed; they do not change the status."""
    for token in state.tokens.values():
        if token.id in state.waiting:
            why = describe_waiting(state.waiting[token.id], ended=not state.live)
        elif token.id in state.joins.get(token.step, ()):
            why = "waits for other tokens that can still arrive"
        elif state.held is not None:
            why = f"waits {permit_words('executions at once', state.held)}"
        else:
            why = "has not been tried yet"
        yield StepDocument(id=token.id, step=token.step, status="waiting", why=why)
    for id, spoiled in state.spoiled.items():
        yield StepDocument(id=id, step=spoiled.token.step, status="error", error=spoiled.error)


def describe_waiting(reads: tuple[tuple[str, ...], ...], *, ended: bool = False) -> str:
    """Why a token waits for admission; or, in a finished execution, what could have admitted it."""
    paths = ", ".join(".".join(("ctx", *path)) for path in reads)
    if ended:
        return f"was never admitted; its rules read {paths}" if reads else "was never admitted"
    if not reads:
        return "is not admitted, and its rules read nothing that can change"
    return f"is not admitted; tried again when {paths} changes"


def _between(begun: datetime | None, ended: datetime | None) -> float | None:
    if begun is None or ended is None:
        return None
    return round((ended - begun).total_seconds(), 6)


class PlaceDocument(Struct, frozen=True, kw_only=True):
    """Another place in the text that is related to a problem."""

    file: str
    line: int
    column: int
    note: str


class ProblemDocument(Struct, frozen=True, kw_only=True):
    """One error, warning or advice; line and column count from 1."""

    code: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    fix: str | UnsetType = UNSET  # what to write instead
    related: tuple[PlaceDocument, ...] | UnsetType = UNSET


def problem_document(problem: Problem) -> ProblemDocument:
    related = tuple(
        PlaceDocument(file=each.at.file, line=each.at.line, column=each.at.column, note=each.note)
        for each in problem.related
    )
    return ProblemDocument(
        code=problem.code,
        severity=problem.severity,
        message=problem.message,
        file=problem.at.file,
        line=problem.at.line,
        column=problem.at.column,
        fix=UNSET if problem.fix is None else problem.fix,
        related=related or UNSET,
    )
