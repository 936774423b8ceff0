"""The state of an execution: the fold of its facts. Only `apply` writes to it; it holds only what is live."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

from noetl.engine.facts import ForDebugger, ForPermit, TaskStarted, Token, Until
from noetl.output import JSON, Failure, Output

Status: TypeAlias = Literal["new", "running", "paused", "cancelling", "ok", "error", "cancelled"]
LIVE: frozenset[Status] = frozenset({"new", "running", "paused", "cancelling"})  # it has not ended


class Frame(Struct, kw_only=True, omit_defaults=True):
    """One pass through a pipeline: plain data, from which any worker can continue.

    `ctx` is the view of D28a: ctx as of its scheduling, plus its own writes. Mappings are never changed in
    place.
    """

    id: str  # "fetch#2[17]"
    index: int | None = None
    ctx: dict[str, JSON] = {}
    step: dict[str, JSON] = {}
    iter: dict[str, JSON] = {}  # what it wrote; `work_of` adds the item, the index and the parent
    pc: int = 0  # the next task; -1: the pipeline is over
    attempt: int = 1  # of the next call
    tries: tuple[dict[str, JSON], ...] = ()  # of the next call, which spec.retry repeats (D92)
    calls: int = 0  # calls in the log: the position that a report extends
    entries: int = 0  # tasks entered so far: part of the idempotency key
    prev: JSON = None
    last: Output | None = None  # of the last task that ran
    last_error: Failure | None = None  # why it is over, when it failed
    failed_at: int | None = None  # the task that failed, where a retry continues (D69)
    before: Output | None = None  # `last` as that task saw it
    outputs: dict[
        str, dict[str, JSON]
    ] = {}  # by task, as templates read them; only outputs that some template reads by name
    written: dict[
        str, JSON
    ] = {}  # writes to ctx, by "path.of.names", of a parallel iteration: not yet visible to others
    until: datetime | None = None  # the next call must wait
    running: TaskStarted | None = None  # the next call, if it is known to have started
    parked: Until | None = None
    answer: Output | None = None  # the output of the call in which it was parked
    asked: dict[str, JSON] | None = None  # the input of that call, as it was bound
    failed_item: JSON | UnsetType = UNSET  # of an iteration whose item is in the result store
    picked: dict[str, JSON] | None = None
    blocks: dict[str, int] = {}  # block → how often this frame has called it
    epoch: tuple[int, int] | None = None  # the highest in the log; a lower one is rejected
    closed: tuple[int, int] | None = None  # the grant that has parked it: its repeated reports are in the log
    block: Run | None = None  # the failed run of the block, which a retry of this frame inherits
    lost: int = 0  # workers that were lost in a row with the next call
    permit: ForPermit | None = None  # that the next call holds (D113)
    lost_held: int = 0  # frames that these workers held, including this one
    stepping: bool = False  # it is held before its next task
    released: bool = False  # it was held before the next call, and is not held there again


class LoopPiece(Struct, kw_only=True, omit_defaults=True):
    """A range of successful iterations, with what they wrote to ctx in a parallel loop (D47, D50)."""

    end: int  # the iteration after its last one
    folded: dict[str, JSON] = field(default_factory=dict)  # path → the partial result of its reducer
    bytes: dict[str, int] = field(default_factory=dict)  # path → an upper bound of its bytes, as JSON
    # Path → values in the result store and partial results around them, in order: a worker folds them (D91).
    unfolded: dict[str, list[tuple[bool, JSON]]] = field(default_factory=dict)  # (is it a partial result, value)


class LoopState(Struct, kw_only=True, omit_defaults=True):
    """A running loop: a window over its iterations. Its size does not depend on their number."""

    count: int
    width: int
    parallel: bool
    items: list[JSON] | None = None  # None: in the result store
    ref: dict[str, JSON] | None = None
    frontier: int = 0  # every iteration below it has been scheduled
    flying: dict[int, None] = field(default_factory=dict)  # scheduled and not done, lowest first
    succeeded: int = 0
    failed: int = 0
    error: Failure | None = None  # error of the lowest iteration that failed
    error_at: int | None = None  # the index of that iteration
    failures: dict[int, JSON] | None = None  # the entries of output.failed; None: no template reads it
    failures_bytes: int = 0
    failures_end: int | None = None  # the lowest iteration that does not fit into output.failed
    stopped: bool = False  # no new iterations
    results: dict[int, JSON] | None = field(default_factory=dict)  # None: too large, only in the log
    result_bytes: int = 0
    reduce: dict[str, str] = {}
    start: dict[str, JSON] = {}  # ctx when it started, as reducers start from it (D86)
    pieces: dict[int, LoopPiece] = field(default_factory=dict)  # folded writes, by the first iteration of a piece
    ends: dict[int, int] = field(default_factory=dict)  # where a piece ends → where it begins
    conflict: Failure | None = None
    lost: dict[int, Frame] = field(default_factory=dict)  # frames of the first failed iterations, ready for a retry
    again: list[tuple[int, int]] = field(
        default_factory=list
    )  # of a retry: ranges to be scheduled first, the lowest last
    named: bool = False  # a retry of named iterations: nothing else is scheduled
    unended: int = 0  # of a kept loop: iterations that were scheduled and had not ended


class Run(Struct, kw_only=True, omit_defaults=True):
    """One firing of a step, or one call of a block."""

    id: str
    step: str
    block: bool = False
    parent: str | None = None  # of a block: the frame that called it
    tokens: tuple[str, ...] = ()
    input: dict[str, JSON] = {}
    ctx: dict[str, JSON] = {}  # what its next frame sees (D28a)
    values: dict[str, JSON] = {}  # `step.*`: what its next frame starts from, and what arcs read
    frames: dict[int | None, Frame] = field(default_factory=dict)  # those with facts in the log
    loop: LoopState | None = None
    looped: bool = False  # its frames come with its loop, which may not have started yet
    started: bool = False
    scheduled_at: datetime | None = None
    timeout_at: datetime | None = None
    deadline_at: datetime | None = None
    output: Output | None = None  # None: it has not ended
    event: str = ""  # how it ended: step.done, step.failed, loop.done
    picked: dict[str, JSON] | None = None
    failure: Failure | None = None  # the unhandled failure: its own, or that of its routing
    retry_of: str | None = None
    compensable: bool = False  # what a compensation needs is kept when it has ended (D116)
    compensates: str | None = None  # of a compensation: the run that it undoes
    undone: Output | None = None  # of a compensation: the output of that run
    limited: bool = False  # it needs a permit before it begins (D113)
    key: str | None = None  # of the limit; None: it has not asked for the permit
    permitted: bool = False
    hold: ForDebugger | None = None  # it is held before it begins; None: it is not
    stepping: bool = False  # what follows it is held: it has ended within a single step
    step_at: int | None = None  # the iteration that is held before its first task; None: none
    holds: int = 0  # of itself, its frames, and the runs of blocks that these have called
    held_at: datetime | None = None  # since when there are holds: its timeout is postponed


class CompletedRun(Struct, kw_only=True, omit_defaults=True):
    """A run that has ended and can be undone: what its compensation reads (D116)."""

    step: str
    input: dict[str, JSON] = {}
    values: dict[str, JSON] = {}  # `step.*`
    output: Output


class Compensation(Struct, kw_only=True, omit_defaults=True):
    """Completed runs are undone, or were, before the execution ends (D116)."""

    status: Literal["error", "cancelled"]
    error: Failure
    failed: dict[str, Run] = field(default_factory=dict)  # compensations that failed, ready for a retry
    again: dict[str, Run] = field(default_factory=dict)  # those of them that are retried
    tries: dict[str, int] = field(default_factory=dict)  # run → how often its compensation was scheduled


class Spoiled(Struct, kw_only=True, omit_defaults=True):
    """A token that was consumed without a run: its admission could not be evaluated (D16)."""

    token: Token
    error: Failure


class Breakpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is held at a place."""

    when: str | None = None  # a template; None: everything
    once: bool = False
    error: str | None = None  # why a breakpoint of the parent does not fit: it holds without a condition


class State(Struct, kw_only=True, omit_defaults=True):
    """One execution."""

    execution_id: str
    seq: int = 0
    at: datetime | None = None  # when the last fact was recorded
    status: Status = "new"
    path: str = ""
    digest: str = ""
    parent: str | None = None
    depth: int = 0
    level: int = 1  # version of the language that it started with (D71)
    workload: dict[str, JSON] = {}
    ctx: dict[str, JSON] = {}
    saved: dict[str, JSON] = {}  # as of the start
    stored: bool = False  # some values are in the result store: the state has marks in their place (D91)
    origins: tuple[str, ...] = ()  # the executions that it was forked from, the newest first: it may read their results
    tokens: dict[str, Token] = field(default_factory=dict)  # the live tokens, oldest first
    fresh: dict[str, None] = field(default_factory=dict)  # tokens to be tried
    waiting: dict[str, tuple[tuple[str, ...], ...]] = field(
        default_factory=dict
    )  # tokens that are not admitted → the paths of ctx that their rules read
    watched: dict[str, dict[str, None]] = field(default_factory=dict)  # name below ctx → tokens that wait for it
    waiting_at: dict[str, int] = field(default_factory=dict)  # step → tokens that are not admitted
    joins: dict[str, dict[str, None]] = field(default_factory=dict)  # join → tokens that have arrived
    runs: dict[str, Run] = field(default_factory=dict)  # live and not yet routed, oldest first
    running_at: dict[str, int] = field(default_factory=dict)  # step → its runs, without those of blocks
    ended: dict[str, None] = field(default_factory=dict)  # runs with an output, to be routed
    firings: dict[str, int] = field(default_factory=dict)
    fired: int = 0
    broken: dict[str, int] = field(default_factory=dict)  # step → failures that no arc took (D36, D38)
    failed: dict[str, Run] = field(default_factory=dict)  # the failed runs of these, for a retry (D69)
    # Step → its last run whose failure was handled. The states of 0.1.0 in tests/replay have this name.
    mended: dict[str, Run] = field(default_factory=dict)
    spoiled: dict[str, Spoiled] = field(default_factory=dict)  # tokens whose admission failed
    failure: Failure | None = None  # the first unhandled failure
    failed_step: str | None = None
    reached_end: Output | None = None  # of the run whose token reached `end` last (D31)
    last_output: Output | None = None  # of the run that finished last
    end_output: Output | None = None  # the output of the playbook, when it has ended
    completed: dict[str, CompletedRun] = field(default_factory=dict)  # runs that can be undone, oldest first (D116)
    compensate: bool = False  # a cancel asked for it
    compensation: Compensation | None = None  # None: nothing has been undone
    paused_at: datetime | None = None
    permit: str = ""  # id of its permit, if its playbook limits executions (D113)
    held: str | None = None  # the key of the limit that the whole execution waits for
    breakpoints: dict[str, Breakpoint] = field(default_factory=dict)  # by place
    stepping: dict[str, None] = field(default_factory=dict)  # tokens of held steps: a single step continues there

    @property
    def live(self) -> bool:
        return self.status in LIVE
