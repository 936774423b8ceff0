"""Bodies of the routes that start, list, read and command executions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from noetl.api.debugging import BreakpointRequest
from noetl.engine.breakpoints import BREAKPOINTS_MAX
from noetl.engine.facts import Fact
from noetl.engine.state import Status
from noetl.escape import visible
from noetl.fork.plan import ForkPlan
from noetl.output import JSON
from noetl.ports import ExecutionHead, LogRow, PersonWait, PrintedLine
from noetl.views.decisions import PersonDecision
from noetl.views.documents import ProblemDocument
from noetl.views.envelopes import Envelope
from noetl.views.log import instant

VERSION_MAX: Final = 2**31 - 1
RETRIED_ITERATIONS_MAX: Final = 1_000  # named in one request

Dialect: TypeAlias = Literal["canonical", "auto"]  # auto: a text in an older dialect is upgraded first


class StartRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The playbook to run: the current version of a path, another version of it, a digest, or a text."""

    path: str | None = None
    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)] | None = None
    digest: str | None = None
    text: str | None = None  # a new text is registered, which needs the scope `write` besides `run`
    dialect: Dialect = "canonical"  # of `text`
    workload: dict[str, JSON] = {}
    secrets: dict[str, str] = {}  # the values of secret inputs; encrypted, and never in the log or in a response
    ctx: dict[str, JSON] = {}  # first values of `ctx`, which is otherwise empty; at most 64 KiB
    labels: dict[str, str] = {}  # by which lists find it; those of the playbook are added
    breakpoints: Annotated[tuple[BreakpointRequest, ...], Meta(max_length=BREAKPOINTS_MAX)] = ()


class ForkRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the fork runs, and what it keeps. Without path, digest and text: the text of the old execution."""

    path: str | None = None
    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)] | None = None
    digest: str | None = None
    text: str | None = None  # a new text is registered, which needs the scope `write` besides `run`
    dialect: Dialect = "canonical"  # of `text`
    at: Annotated[int, Meta(ge=1)] | None = None  # the last event that counts; None: all
    from_step: str | None = None  # the runs of this step are not kept
    failed_only: bool = False  # keep all finished work, even if its text or its input has changed
    workload: dict[str, JSON] = {}  # values that replace those of the old execution
    secrets: dict[str, str] = {}  # of secret inputs; those that the old execution still has are taken over
    labels: dict[str, str] = {}
    dry_run: bool = False  # only the plan; nothing is started
    breakpoints: Annotated[tuple[BreakpointRequest, ...], Meta(max_length=BREAKPOINTS_MAX)] = ()


class ForkResponse(Struct, frozen=True, kw_only=True):
    """The plan of a fork, and the new execution."""

    plan: ForkPlan
    execution_id: str | UnsetType = UNSET  # UNSET: nothing was started
    problems: tuple[ProblemDocument, ...] | UnsetType = UNSET  # of a text: warnings and advice


class StartResponse(Struct, frozen=True, kw_only=True):
    """An execution that was started, and its status."""

    execution_id: str
    status: Status
    problems: tuple[ProblemDocument, ...] | UnsetType = UNSET  # of a text: warnings and advice


class CommandResponse(Struct, frozen=True, kw_only=True):
    """The status of an execution after a command."""

    execution_id: str
    status: Status


class PrintedPage(Struct, frozen=True, kw_only=True):
    """Lines that tasks have printed. Without secrets."""

    items: tuple[PrintedLine, ...]
    last: int  # the position after them: `after` of the next request


def line_text(line: PrintedLine) -> str:
    """A line for people. Control characters are escaped: they could change what a terminal shows."""
    return f"{line.call} {line.stream} | {visible(line.text.expandtabs())}"


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    reason: str = ""
    compensate: bool = False  # undo its completed steps before it ends, as their `compensate` says


class RetryRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    step: str | None = None  # None: every unhandled failure
    # Only these iterations of the step; []: all that failed
    iterations: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=RETRIED_ITERATIONS_MAX)] = []
    from_start: bool = False  # True: repeat the whole step; False: continue at the task that failed


class SignalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    data: JSON = None
    frame: str | None = None  # only for this wait; None: for all that wait for the signal


class DecisionList(Struct, frozen=True, kw_only=True):
    items: tuple[PersonDecision, ...]


class LabelsRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    labels: dict[str, str | None]  # null: remove this label


class LabelChangeItem(Struct, frozen=True, kw_only=True):
    at: str
    by: str | None  # None: without a server
    labels: dict[str, str | None]  # null: removed


class LabelsResponse(Struct, frozen=True, kw_only=True):
    execution_id: str
    labels: dict[str, str]  # now
    changes: tuple[LabelChangeItem, ...]  # after the start, the oldest first


class EmptyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without fields."""


class ExecutionSummary(Struct, frozen=True, kw_only=True):
    """An execution in a list."""

    execution_id: str
    path: str
    digest: str
    status: Status
    seq: int
    started_at: str
    updated_at: str
    parent: str | None
    owner_alive: bool
    labels: dict[str, str] = {}
    error: str | None = None  # why it ended, at most 500 characters; of executions that ended since 0.2.0
    waits: tuple[PersonWait, ...] = ()  # what a person has to decide, at most 20 entries

    @staticmethod
    def from_head(head: ExecutionHead) -> ExecutionSummary:
        return ExecutionSummary(
            execution_id=head.execution_id,
            path=head.path,
            digest=head.digest,
            status=head.status,
            seq=head.seq,
            started_at=instant(head.started_at),
            updated_at=instant(head.updated_at),
            parent=head.parent,
            owner_alive=head.owner_alive,
            labels=head.labels,
            error=head.error,
            waits=head.waits,
        )

    def to_head(self) -> ExecutionHead:
        """Raises msgspec.ValidationError when a time is invalid."""
        return ExecutionHead(
            self.execution_id, self.path, self.digest, self.status, self.seq, to_datetime(self.started_at),
            to_datetime(self.updated_at), self.parent, None, self.owner_alive, self.labels, self.error,
            self.waits,
        )  # fmt: skip


class ExecutionsPage(Struct, frozen=True, kw_only=True):
    items: tuple[ExecutionSummary, ...]
    next: str | None = None  # `before` of the next page; None: this is the last page
    total: int | UnsetType = UNSET  # on all pages, if `total` asks for it


class DeleteResponse(Struct, frozen=True, kw_only=True):
    deleted: int  # executions: itself, and those that it called


class ExecutionIds(Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class LastExecution(Struct, frozen=True, kw_only=True):
    execution_id: str


class ExecutionTree(Struct, frozen=True, kw_only=True):
    """An execution, and the executions that its steps have started."""

    execution: ExecutionSummary
    children: tuple[ExecutionTree, ...] = ()
    left_out: int = 0  # children that are not listed, because the tree is too large or too deep


class ExecutionOverview(Struct, frozen=True, kw_only=True):
    """What a row of a list shows besides the summary."""

    execution_id: str
    by: str | None  # who requested it
    steps: dict[str, int] | None  # number of runs by status; None: the log is too long to count them


class ExecutionOverviews(Struct, frozen=True, kw_only=True):
    items: tuple[ExecutionOverview, ...]


class EventsPage(Struct, frozen=True, kw_only=True):
    items: tuple[Envelope, ...]
    next: int | None = None  # `after` of the next page; None: the log ends here for now


class LogEntry(Struct, frozen=True, kw_only=True):
    """Facts that were committed together."""

    first_seq: int
    at: str
    facts: tuple[Fact, ...]

    @staticmethod
    def from_row(row: LogRow) -> LogEntry:
        return LogEntry(first_seq=row.first_seq, at=instant(row.at), facts=row.facts)

    def to_row(self) -> LogRow:
        """Raises msgspec.ValidationError when the time is invalid."""
        return LogRow(self.first_seq, to_datetime(self.at), self.facts)


class LogPage(Struct, frozen=True, kw_only=True):
    items: tuple[LogEntry, ...]
    next: int | None = None


class StreamLine(Struct, frozen=True, kw_only=True):
    """A line that a tool prints while it works. It is not stored."""

    frame: str = ""
    kind: Literal["line", "progress"] = "line"
    words: str = ""


class LogGrowth(Struct, frozen=True, kw_only=True):
    """The log of an execution has grown."""

    execution_id: str
    seq: int  # the number of facts in it


class StreamEnd(Struct, frozen=True, kw_only=True):
    """The last message of a stream."""

    execution_id: str = ""
    status: str = ""


def to_datetime(text: str) -> datetime:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(text, datetime)
