"""Where an execution stands: the fold of its facts. Only `apply` writes to it; it holds what is live."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct, field

from noetl.engine.facts import Token, Until
from noetl.output import JSON, Failure, Output

Status: TypeAlias = Literal["new", "running", "paused", "cancelling", "ok", "error", "cancelled"]
LIVE: frozenset[Status] = frozenset({"new", "running", "paused", "cancelling"})  # it has not ended


class Frame(Struct, kw_only=True, omit_defaults=True):
    """One pass through a pipeline: plain data that any worker can take up where it stands.

    `ctx` is the view of D28a: as of its scheduling, plus its own writes. Mappings are never changed in place.
    """

    id: str  # "fetch#2[17]"
    index: int | None = None
    ctx: dict[str, JSON] = {}
    step: dict[str, JSON] = {}
    iter: dict[str, JSON] = {}  # what it wrote; the item, the index and the parent come with the work
    pc: int = 0  # the task that is next; -1: over
    attempt: int = 1  # of the next call
    calls: int = 0  # calls on record: the position that a report extends
    entries: int = 0  # tasks entered so far: part of the idempotency key
    prev: JSON = None
    last: Output | None = None  # of the last task that ran
    last_error: Failure | None = None  # why it is over, when it failed
    failed_at: int | None = None  # the task that failed: where a retry takes it up (D69)
    before: Output | None = None  # `last` as that task saw it
    outputs: dict[
        str, dict[str, JSON]
    ] = {}  # by task, as templates read them; only those that are read by name
    written: dict[
        str, JSON
    ] = {}  # to ctx, by "path.of.names": of a parallel iteration, not yet seen by others
    until: datetime | None = None  # the next call must wait
    parked: Until | None = None
    answer: Output | None = None  # what the call it was parked in came back with
    asked: dict[str, JSON] | None = None  # the input of that call, as it was bound
    picked: dict[str, JSON] | None = None
    blocks: dict[str, int] = {}  # block → how often it was called from here
    epoch: tuple[int, int] | None = None  # the highest on record; a lower one is refused
    closed: tuple[int, int] | None = None  # the grant that has parked it: whatever it says again is on record
    block: Run | None = None  # the block's run that has failed: what a retry of this frame inherits


class LoopPiece(Struct, kw_only=True, omit_defaults=True):
    """Neighbours that went well: a range, with what they wrote to ctx in a parallel loop (D47, D50)."""

    end: int  # the iteration behind its last one
    folded: dict[str, JSON] = field(default_factory=dict)  # path → as its reducer keeps it
    bytes: dict[str, int] = field(default_factory=dict)  # path → at most so many, as JSON


class LoopState(Struct, kw_only=True, omit_defaults=True):
    """A loop under way: a window over its iterations, whatever their number."""

    count: int
    width: int
    parallel: bool
    items: list[JSON] | None = None  # None: in the result store
    ref: dict[str, JSON] | None = None
    frontier: int = 0  # every iteration below it has been handed out
    flying: dict[int, None] = field(default_factory=dict)  # handed out and not done, lowest first
    succeeded: int = 0
    failed: int = 0
    error: Failure | None = None  # of the lowest that failed
    error_at: int | None = None  # which one that is
    stopped: bool = False  # no new iterations
    results: dict[int, JSON] | None = field(default_factory=dict)  # None: too large, they are in the log
    result_bytes: int = 0
    reduce: dict[str, str] = {}
    start: dict[str, JSON] = {}  # ctx when it started, as reducers start from it (D86)
    pieces: dict[int, LoopPiece] = field(
        default_factory=dict
    )  # writes folded, by the first iteration of a piece
    ends: dict[int, int] = field(default_factory=dict)  # where a piece ends → where it begins
    conflict: Failure | None = None
    lost: dict[int, Frame] = field(
        default_factory=dict
    )  # of the first that failed, ready to be taken up again
    again: list[tuple[int, int]] = field(
        default_factory=list
    )  # of a retry: ranges to be handed out first, the lowest last


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
    frames: dict[int | None, Frame] = field(default_factory=dict)  # those with something on record
    loop: LoopState | None = None
    looped: bool = False  # its frames come with its loop, which may not have started yet
    started: bool = False
    scheduled_at: datetime | None = None
    timeout_at: datetime | None = None
    deadline_at: datetime | None = None
    output: Output | None = None  # None: still out there
    event: str = ""  # how it ended: step.done, step.failed, loop.done
    picked: dict[str, JSON] | None = None
    failure: Failure | None = None  # why nothing handled its end: its own failure, or that of its routing
    retry_of: str | None = None


class Spoiled(Struct, kw_only=True, omit_defaults=True):
    """A token that was spent without a run: its admission could not be evaluated (D16)."""

    token: Token
    error: Failure


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
    workload: dict[str, JSON] = {}
    ctx: dict[str, JSON] = {}
    tokens: dict[str, Token] = field(default_factory=dict)  # live, oldest first
    fresh: dict[str, None] = field(default_factory=dict)  # tokens to be tried
    waiting: dict[str, tuple[tuple[str, ...], ...]] = field(
        default_factory=dict
    )  # not admitted → what they read
    watched: dict[str, dict[str, None]] = field(
        default_factory=dict
    )  # name below ctx → tokens that wait for it
    waiting_at: dict[str, int] = field(default_factory=dict)  # step → tokens that are not admitted
    joins: dict[str, dict[str, None]] = field(default_factory=dict)  # join → tokens that have come
    runs: dict[str, Run] = field(default_factory=dict)  # live and not yet routed, oldest first
    running_at: dict[str, int] = field(default_factory=dict)  # step → runs of it, those in blocks aside
    ended: dict[str, None] = field(default_factory=dict)  # runs with an output, to be routed
    firings: dict[str, int] = field(default_factory=dict)
    fired: int = 0
    broken: dict[str, int] = field(default_factory=dict)  # step → failures that no arc took (D36, D38)
    failed: dict[str, Run] = field(default_factory=dict)  # runs that failed so, for a retry (D69)
    mended: dict[str, Run] = field(
        default_factory=dict
    )  # step → its last run with failures that were handled
    spoiled: dict[str, Spoiled] = field(default_factory=dict)  # tokens whose admission failed
    failure: Failure | None = None  # the first that nothing handled
    failed_step: str | None = None
    reached_end: Output | None = None  # of the run whose token reached `end` last (D31)
    last_output: Output | None = None  # of the run that finished last
    end_output: Output | None = None  # the playbook's own, when it has ended
    paused_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.status in LIVE
