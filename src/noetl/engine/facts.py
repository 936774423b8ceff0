"""Everything that can happen to an execution. The log is append-only: facts are added, never changed.

A fact holds what cannot be derived again: decisions, values, instants. `apply` derives the rest. The annotations are
not postponed, because the decoder of a log would have to evaluate each of them.
"""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from noetl.output import JSON, Failure, Output, tries_of


class Token(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Permission to try a step, with the input that was bound when its arc fired (D66)."""

    id: str  # "fetch#2>0"
    step: str
    input: dict[str, JSON] = {}
    event: dict[str, JSON] | None = None  # the event that made it, as admission reads it; None: the request
    deadline_at: datetime | None = None  # deadline of the run that it makes, counted from now (D33)


class _Fact(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fact"):
    """The encoding that all facts share."""


class ForkOrigin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The execution whose finished work a fork keeps, and what the request asked for (D114)."""

    execution: str
    seq: int  # its last event that counts
    from_step: str | None = None  # the runs of this step are not kept
    failed_only: bool = False  # finished frames are kept even if their text or input has changed
    before: tuple[str, ...] = ()  # the executions that this one was forked from, the newest first


class Requested(_Fact, frozen=True, tag="playbook.execution.requested"):
    path: str
    digest: str
    workload: dict[str, JSON] = {}  # as given in the request
    parent: str | None = None  # "<execution>/<frame>" that waits for this execution
    depth: int = 0
    level: int = 1  # version of the language (D71)
    by: str | None = None
    stored: bool = False  # a child: values of its workload are in the result store (D91)
    ctx: dict[str, JSON] = {}  # first values of `ctx`, as given in the request
    labels: dict[str, str] = {}  # of the playbook and of the request, by which people find the execution
    fork: ForkOrigin | None = None  # None: it keeps nothing of another execution


class Evaluated(_Fact, frozen=True, tag="playbook.request.evaluated"):
    error: Failure | None = None  # None: the execution may run
    keychain: dict[str, str] = {}  # credential → its version at that time (D57)


class Started(_Fact, frozen=True, tag="workflow.started"):
    workload: dict[str, JSON]  # defaults and request, merged
    token: Token
    saved: dict[str, JSON] = {}  # the values of saved.* that the playbook reads, as they were now


class StepWaiting(_Fact, frozen=True, tag="step.waiting"):
    """Not admitted: tried again when one of these paths of ctx changes (D35). Or it waits for a permit (D113)."""

    token: str  # "": a retry has no token
    reads: tuple[tuple[str, ...], ...] = ()
    join: bool = False  # it waits at a join for other tokens (D36)
    limit: str | None = None  # the limit that it waits for; None: none
    key: str = ""  # of the limit
    run: str | None = None  # the run that waits for the permit; None: the execution does


class ForDebugger(Struct, frozen=True, kw_only=True, tag="debugger", omit_defaults=True):
    """A breakpoint, or the end of a single step, holds it here until someone releases it."""

    place: str  # "fetch.get_page": the step or the block, and the task that is next; "fetch": all of it is next
    breakpoint: str | None = None  # the place of the breakpoint; None: a single step has ended here
    error: str | None = None  # why the condition of the breakpoint could not be evaluated


class StepScheduled(_Fact, frozen=True, tag="step.scheduled"):
    run: str
    step: str  # or the block
    tokens: tuple[str, ...] = ()
    input: dict[str, JSON] = {}
    parent: str | None = None  # of a block: the frame that called it
    deadline_at: datetime | None = None
    loop: bool = False  # it has no frame of its own: loop.started brings the frames
    retry_of: str | None = None  # the run that it retries (D69)
    from_start: bool = False  # its failed frames restart from the first task, not from the one that failed
    iterations: tuple[int, ...] = ()  # only these iterations run: others that failed stay failed; (): no limit
    compensable: bool = False  # it is undone if the execution fails after it, so its input and output are kept (D116)
    compensates: str | None = None  # the completed run that it undoes
    limited: bool = False  # it waits for a permit before it begins (D113)
    hold: ForDebugger | None = None  # it is held before it begins; None: it is not


class PermitGranted(_Fact, frozen=True, tag="permit.granted"):
    """A limit permits the run, or the execution, to continue (D113)."""

    run: str | None = None  # None: the execution


class StepStarted(_Fact, frozen=True, tag="step.started"):
    run: str
    timeout_at: datetime | None = None


class TaskStarted(_Fact, frozen=True, tag="task.started"):
    """A call that has run for a while, recorded while it runs. Of a quick call only task.done is recorded (D94)."""

    frame: str
    call: int  # the position that its task.done will take
    task: str
    started_at: datetime
    attempt: int = 1
    worker: str = ""  # the worker that runs it
    epoch: tuple[int, int] | None = None  # only in the first fact of a grant


class TaskDone(_Fact, frozen=True, tag="task.done"):
    """One call of a task: its output and the directive that its rules gave."""

    frame: str
    call: int  # its number in the frame, from 1: the position that this fact takes
    task: str
    directive: Literal["continue", "retry", "jump", "break", "fail", "skip"]
    next: int  # the place of the task that follows; -1: the pipeline is over
    attempt: int = 1
    status: Literal["ok", "error", "skipped"] = "ok"
    rule: int | str | None = None  # the rule that matched; None: none did
    output: Output | None = None  # None: skipped
    set: dict[str, JSON] = {}  # "ctx.total" → value, in the order of writing
    until: datetime | None = None  # retry: not before
    error: Failure | None = None  # why the pipeline failed, when the output has no error of its own
    picked: dict[str, JSON] | None = None  # what routing reads from data that is not in the log (D52)
    keep: bool = False  # later templates read this output by name
    input_hash: str | None = None  # hash of what the tool was called with, without its secrets (D20)
    started_at: datetime | None = None
    ms: float = 0.0
    epoch: tuple[int, int] | None = None  # only in the first fact of a grant
    stored: tuple[str, ...] = ()  # the targets of `set` whose values are in the result store (D91)
    item: JSON | UnsetType = UNSET  # of a failed iteration whose item is stored, if output.failed is read
    kept: int = 0  # of a fork: the seq of this call in the log of the execution that it was forked from
    files: dict[str, str] = {}  # files beside the playbook that are a part of the task's code → digest

    @property
    def repeats(self) -> int:
        """How often the call was repeated by `spec.retry` (D92), and whether a rule repeats it now."""
        again = self.directive == "retry"
        return again + tries_of(self.output) - 1 if self.output is not None and self.output.meta else again


class ForTime(Struct, frozen=True, kw_only=True, tag="time"):
    at: datetime


class ForSignal(Struct, frozen=True, kw_only=True, tag="signal", omit_defaults=True):
    name: str
    title: str = ""  # the question to a person; "": the author gave none
    text: str = ""  # explains the question
    data: JSON = None  # what the decision is about
    form: dict[str, dict[str, JSON]] = {}  # the fields of the answer, declared as inputs of a playbook


class ForBlock(Struct, frozen=True, kw_only=True, tag="block", omit_defaults=True):
    block: str
    input: dict[str, JSON] = {}
    iter: dict[str, JSON] | None = None  # the iteration around it, when its item is in the result store


class ForChild(Struct, frozen=True, kw_only=True, tag="child", omit_defaults=True):
    execution_id: str
    path: str
    version: JSON = None
    workload: dict[str, JSON] = {}
    digest: str | None = None  # of a document that a task has made; None: the playbook is found by its path (D103)
    fork: str | None = None  # of a fork: the earlier child whose finished work the new one keeps


class ForDocument(Struct, frozen=True, kw_only=True, tag="document", omit_defaults=True):
    """A playbook that a task has made cannot run: no child starts, and its problems are the answer (D103)."""

    digest: str
    workload: dict[str, JSON] = {}


class ForPermit(Struct, frozen=True, kw_only=True, tag="permit"):
    """The next call waits until a limit that other executions share permits it (D113)."""

    limit: str
    key: str


Until: TypeAlias = ForTime | ForSignal | ForBlock | ForChild | ForDocument | ForPermit | ForDebugger


class FrameParked(_Fact, frozen=True, tag="frame.parked"):
    """The frame waits for something and holds no worker."""

    frame: str
    call: int  # the position at which it waits
    until: Until
    epoch: tuple[int, int] | None = None  # epoch of the grant that it returns
    stored: bool = False  # values of its input are in the result store (D91)
    tries: tuple[dict[str, JSON], ...] = ()  # it waits for the next try of the call; the tries so far (D92)


class FrameResumed(_Fact, frozen=True, tag="frame.resumed"):
    frame: str
    output: Output | None = None  # output of the call that it waited in; None: only time has passed
    run: str | None = None  # the block's run that has ended
    set: dict[str, JSON] = {}  # what the block wrote when it was done
    stored: tuple[str, ...] = ()  # the targets whose values are in the result store (D91)
    by: str | None = None  # who sent the signal that it waited for


class FrameLost(_Fact, frozen=True, tag="frame.lost"):
    """The worker that held the frame stopped responding. Another worker continues with this call (D94)."""

    frame: str
    call: int  # the first call that is not in the log: the worker may have made it
    task: str
    worker: str = ""
    epoch: tuple[int, int] | None = None  # epoch of the grant that was lost
    started_at: datetime | None = None  # None: the call is not known to have started
    held: int = 1  # frames that the worker held, including this one: each of them may be the cause


class LoopStarted(_Fact, frozen=True, tag="loop.started"):
    run: str
    count: int
    items: list[JSON] | None = None  # None: they are in the result store
    ref: dict[str, JSON] | None = None
    width: int = 1
    parallel: bool = False
    reduce: dict[str, str] = {}  # "total" or "user.total" below ctx → reducer
    failures: bool = False  # failed iterations are kept: a template reads output.failed


class IterationDone(_Fact, frozen=True, tag="loop.iteration.done"):
    run: str
    index: int


class IterationFailed(_Fact, frozen=True, tag="loop.iteration.failed"):
    run: str
    index: int
    error: Failure
    stop: bool = False  # no new iterations (D48)
    item: JSON | UnsetType = UNSET  # if it is stored and output.failed is read


class LoopDone(_Fact, frozen=True, tag="loop.done"):
    run: str
    output: Output
    set: dict[str, JSON] = {}  # what parallel iterations wrote to ctx, folded (D47)
    picked: dict[str, JSON] | None = None  # what routing reads from results that are not in the log (D52)
    stored: tuple[str, ...] = ()  # the targets whose values are in the result store (D91)


class StepDone(_Fact, frozen=True, tag="step.done"):
    run: str
    output: Output | None = None  # None: that of the last call of its frame


class StepFailed(_Fact, frozen=True, tag="step.failed"):
    error: Failure
    run: str | None = None  # None: its admission could not be evaluated, so there is none (D16)
    tokens: tuple[str, ...] = ()  # the tokens that are consumed in that case
    output: Output | None = None  # None: that of the last call of its frame, or only the error
    picked: dict[str, JSON] | None = None  # of a loop: as in loop.done
    stored: tuple[str, ...] = ()  # the targets whose values are in the result store (D91)


class NextEvaluated(_Fact, frozen=True, tag="next.evaluated"):
    """Step `set`, the arcs that were evaluated, those that fired, and the tokens they made."""

    run: str
    set: dict[str, JSON] = {}
    asked: tuple[tuple[int, bool], ...] = ()  # arc → did its guard hold
    tokens: tuple[Token, ...] = ()
    ended: int = 0  # tokens that reached `end` without a step
    error: Failure | None = None
    stored: tuple[str, ...] = ()  # the targets whose values are in the result store (D91)


class Paused(_Fact, frozen=True, tag="execution.paused"):
    by: str | None = None


class Resumed(_Fact, frozen=True, tag="execution.resumed"):
    by: str | None = None


class BreakpointSet(_Fact, frozen=True, tag="breakpoint.set"):
    """What comes to this place is held there."""

    place: str  # "fetch"; a task, "fetch.get_page"; in a child of the step "load", "load/fetch"; "*": what is next
    when: str | None = None  # a template: only while it is true; None: always
    once: bool = False  # it is gone after it has held something
    by: str | None = None
    error: str | None = None  # of a child: why the breakpoint of its parent does not fit, so that it holds here


class BreakpointCleared(_Fact, frozen=True, tag="breakpoint.cleared"):
    place: str  # of the breakpoint
    by: str | None = None


class HoldReleased(_Fact, frozen=True, tag="hold.released"):
    """A run or a frame that was held continues."""

    at: str  # the run that has not begun, or the frame
    step: bool = False  # it is held again after one task
    by: str | None = None


class ScopeChanged(_Fact, frozen=True, tag="scope.changed"):
    """Someone has changed values while the run or the frame was held."""

    at: str  # the run that has not begun, or the frame
    set: dict[str, JSON]  # "ctx.total" → value
    by: str | None = None


class Cancelled(_Fact, frozen=True, tag="execution.cancelled"):
    reason: str = ""
    by: str | None = None
    compensate: bool = False  # its completed runs are undone before it ends (D116)


class Compensating(_Fact, frozen=True, tag="execution.compensating"):
    """The execution has failed or was cancelled, and its completed runs are undone before it ends (D116)."""

    status: Literal["error", "cancelled"]  # how it ends afterwards
    error: Failure
    runs: tuple[str, ...]  # one after the other, the last to complete first


class Retried(_Fact, frozen=True, tag="execution.retried"):
    """The execution continues: new runs retry the failed ones, and failed tokens are tried again (D69)."""

    runs: tuple[str, ...] = ()  # each is followed by the step.scheduled that retries it
    tokens: tuple[str, ...] = ()
    by: str | None = None
    compensations: tuple[str, ...] = ()  # failed compensations, retried one after the other (D116)
    from_start: bool = False  # these compensations restart from the first task
    permit: str = ""  # id of the permit of the execution, if its playbook limits executions (D113)


class Finished(_Fact, frozen=True, tag="workflow.finished"):
    status: Literal["ok", "error", "cancelled"]
    output: Output | None = None
    error: Failure | None = None
    waiting: tuple[str, ...] = ()  # tokens that were never admitted
    uncompensated: tuple[str, ...] = ()  # completed runs whose compensation failed or was not done (D116)


class Processed(_Fact, frozen=True, tag="playbook.processed"):
    status: Literal["ok", "error", "cancelled"]


Fact: TypeAlias = (
    Requested | Evaluated | Started | StepWaiting | StepScheduled | PermitGranted | StepStarted | TaskStarted | TaskDone
    | FrameParked | FrameResumed | FrameLost | LoopStarted | IterationDone | IterationFailed | LoopDone
    | StepDone | StepFailed | NextEvaluated | Paused | Resumed | BreakpointSet | BreakpointCleared | HoldReleased
    | ScopeChanged | Cancelled | Compensating | Retried | Finished | Processed
)  # fmt: skip
