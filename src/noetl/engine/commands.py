"""Commands to an execution. A command is rejected, or it makes facts."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from noetl.engine.facts import Fact, ForkOrigin, FrameParked, TaskDone, TaskStarted
from noetl.output import JSON, Failure, Output

LEVEL = 2  # the current version of the language: an execution ends under the version it started with (D71)


class SetBreakpoint(Struct, frozen=True, kw_only=True):
    """Hold what comes to this place."""

    place: str  # a step or a block; a task of it, "fetch.get_page"; in a child, "load/fetch"; "*": what is next
    when: str | None = None  # a template, with or without its braces
    once: bool = False
    by: str | None = None


class ClearBreakpoint(Struct, frozen=True, kw_only=True):
    place: str | None = None  # None: all
    by: str | None = None


class Release(Struct, frozen=True, kw_only=True):
    """Let what is held continue."""

    at: str | None = None  # a run or a frame; None: all that are held now
    step: bool = False  # hold it again after one task
    by: str | None = None


class Change(Struct, frozen=True, kw_only=True):
    """Change values of a run or a frame that is held."""

    at: str
    set: dict[str, JSON]  # "ctx.total" → value
    by: str | None = None


class Start(Struct, frozen=True, kw_only=True):
    """Run the playbook. `error`: why it cannot run, which is recorded (D65)."""

    workload: dict[str, JSON] = {}
    parent: str | None = None
    depth: int = 0
    by: str | None = None
    error: Failure | None = None
    keychain: dict[str, str] = {}  # the versions of its credentials at the time of the request (D57)
    level: int = 1  # version of the language; control sets the current one (D71)
    ctx: dict[str, JSON] = {}  # its first values (000 §4.1)
    labels: dict[str, str] = {}  # control adds those of the playbook
    saved: dict[str, JSON] = {}  # control reads them from the store
    fork: ForkOrigin | None = None  # the finished work of this execution is kept (D114)
    held: str | None = None  # the key of the limit of executions that it waits for; None: it may begin (D113)
    breakpoints: tuple[SetBreakpoint, ...] = ()  # before anything begins


class Fork(Struct, frozen=True, kw_only=True):
    """Begin with the facts that a fork keeps. `noetl.fork` has derived them from another log (D114)."""

    facts: tuple[Fact, ...]
    breakpoints: tuple[SetBreakpoint, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """What a worker did in a frame since the position of its grant. Without facts, it returns the frame."""

    frame: str
    position: int  # calls in the log when it began: compare-and-set
    facts: tuple[TaskDone, ...] = ()
    parked: FrameParked | None = None
    document: str | None = None  # the text of the child that it waits for, which control checks and stores (D103)
    answer: Output | None = None  # what control answers to the parked call at once: the document has problems
    epoch: tuple[int, int] = (0, 0)
    started_at: datetime | None = None  # when the worker began the frame: the timeout of the step runs from here
    running: TaskStarted | None = None  # the call that runs now, after the facts


class StartLoop(Struct, frozen=True, kw_only=True):
    """The items of a loop have been stored, or read by a worker: it may start (D44)."""

    run: str
    count: int = 0
    ref: dict[str, JSON] | None = None  # where they are stored, in pages
    items: list[JSON] | None = None  # items that are small enough for the log
    digest: str | None = None  # digest of the list that was stored
    source: dict[str, JSON] | None = None  # the Ref that was read
    error: Failure | None = None  # why there are none


class EndLoop(Struct, frozen=True, kw_only=True):
    """A worker has evaluated what `set` and arcs read from the results of a loop: it may end (D52)."""

    run: str
    picked: dict[str, JSON]
    stored: bool = False  # parts of it are in the result store (D91)


class Decide(Struct, frozen=True, kw_only=True):
    """A worker has made a decision that reads or makes values in the result store (D91)."""

    decision: str  # "fetch#2!route"
    digest: str  # of what the decision depends on
    fact: Fact | None = None  # None: nothing follows
    error: Failure | None = None  # why a value could not be read


class Wake(Struct, frozen=True, kw_only=True):
    """Resume a parked frame: its time has come, its child has ended, or its signal has arrived."""

    frame: str
    output: Output | None = None
    call: int | None = None  # the position at which it is parked; None: anything that it waits for now


class Signal(Struct, frozen=True, kw_only=True):
    name: str
    data: JSON = None
    frame: str | None = None  # only for this frame; None: for all that wait for it
    by: str | None = None


class Lose(Struct, frozen=True, kw_only=True):
    """The worker that holds a frame does not respond: its lease has expired, or another worker begins the frame."""

    frame: str
    worker: str
    epoch: tuple[int, int]
    held: int = 1  # frames that the worker held, including this one


class Expire(Struct, frozen=True, kw_only=True):
    """The timeout or deadline of a run has passed (D33)."""

    run: str
    timeout_s: float | None = None  # of the playbook, for the message
    deadline_s: float | None = None


class Permitted(Struct, frozen=True, kw_only=True):
    """The store has granted a permit (D113)."""

    permit: str  # its id in the execution


class Pause(Struct, frozen=True, kw_only=True):
    by: str | None = None


class Resume(Struct, frozen=True, kw_only=True):
    by: str | None = None


class Cancel(Struct, frozen=True, kw_only=True):
    reason: str = ""
    by: str | None = None
    compensate: bool = False  # undo its completed runs before it ends (D116)


class Close(Struct, frozen=True, kw_only=True):
    """The grace period of a cancelled execution is over: its unfinished runs are abandoned (D68)."""


class Exceed(Struct, frozen=True, kw_only=True):
    """The execution exceeds a limit that only its process can measure: it ends with this error (D70)."""

    error: Failure


class Retry(Struct, frozen=True, kw_only=True):
    """Retry the failed parts of a finished execution (D69)."""

    step: str | None = None  # None: every unhandled failure
    iterations: tuple[int, ...] = ()  # only these iterations of the step; (): all that failed
    from_start: bool = False
    by: str | None = None
    permit: str = ""  # control sets the id of the permit of the execution (D113)
    held: str | None = None  # as in Start


Command: TypeAlias = (
    Start | Fork | Report | StartLoop | EndLoop | Decide | Wake | Signal | Lose | Expire
    | Permitted | Pause | Resume | Cancel | Close | Exceed | Retry | SetBreakpoint | ClearBreakpoint | Release | Change
)  # fmt: skip
