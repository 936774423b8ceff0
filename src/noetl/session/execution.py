"""One execution, as a handle with verbs; and the Result that it ends with.

Everything here reads through the ports of a Session, so that a file and a server give the same answers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from noetl.control.log_pages import fold_log, read_iterations, read_slices
from noetl.engine.facts import ForkOrigin
from noetl.engine.state import LIVE, State
from noetl.errors import Damaged, NotFound, Problem, Rejected
from noetl.output import JSON, Failure, Output
from noetl.session.declared import DeclaredWorkload
from noetl.session.errors import ExecutionFailed, UsageError
from noetl.session.protocol import ExecutionInfo, ForkSpec, Session, Standing
from noetl.session.sources import MigrationNote
from noetl.views.documents import (
    OutputLocation,
    ShowDocument,
    StateDocument,
    StepOutputFold,
    given_by_playbook,
    load_output,
    show_document,
    state_document,
)
from noetl.views.log import STARTUP_FACTS, events_of, readable, require_started
from noetl.views.runs import Runs

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from noetl.engine import Event
    from noetl.engine.state import Status
    from noetl.fork.plan import ForkPlan
    from noetl.ports import ExecutionListing, LogRow, PrintedLine
    from noetl.session.debugger import Debugger
    from noetl.views.envelopes import Envelope

LAST: Final = "last"
PAGE: Final = 200  # executions in one request
MATCHES_SHOWN_MAX: Final = 10  # ids with the same prefix
POLL_S: Final = 0.1
LOGS_S: Final = 1.0  # between two looks for printed lines; longer than a worker keeps them
CANCEL_S: Final = 60.0  # running calls have 10 s; then compensations run, on a machine that may be busy

_ID_PART: Final = re.compile(r"[0-9a-f-]{1,36}\Z")
_STATUS: Final[dict[Status, str]] = {"new": "running", "cancelling": "running"}  # the others keep their name


def public_status(status: Status) -> str:
    """As documents show it."""
    return _STATUS.get(status, status)


class Result(NamedTuple):
    """How an execution ended, or that it is paused.

    `status` is `ok`, `error`, `cancelled` or `paused`; `output` the data that the playbook returned; `ctx`
    the values that its steps set; `error` the first failure that no arc handled.
    """

    id: str
    status: str
    output: JSON
    ctx: dict[str, JSON]
    error: Failure | None
    duration_s: float | None = None

    def raise_for_status(self) -> Result:
        """Itself when the status is `ok`. Raises ExecutionFailed otherwise."""
        if self.status != "ok":
            raise ExecutionFailed(self)
        return self


class StartNotes(NamedTuple):
    """Remarks about a playbook that was started."""

    problems: tuple[Problem, ...] = ()  # warnings and advice; a playbook with errors does not start
    migration: tuple[MigrationNote, ...] = ()
    declared: DeclaredWorkload = DeclaredWorkload()
    ignored: tuple[str, ...] = ()  # sentences about keys that have no effect where it runs (D100)


class Execution:
    """A handle on one execution; it holds no state of it, so each call reads the current state."""

    def __init__(self, session: Session, id: str, notes: StartNotes | None = None) -> None:
        self.session = session
        self.id = id
        self.notes = notes or StartNotes()

    def __repr__(self) -> str:
        return f"Execution({self.id!r})"

    # Reading

    async def info(self) -> ExecutionInfo:
        """Its path, status, owner and times, without a look into its log. Raises NotFound."""
        return ExecutionInfo(*await self.session.listing.head(self.id))

    async def status(self) -> Standing:
        return (await self.info()).standing

    async def runs(self, up_to: int | None = None) -> tuple[ExecutionInfo, Runs]:
        """What a reader remembers of it, after a fact or after the last one. Raises Damaged."""
        return await self.info(), await self.session.read_runs(self.id, up_to)

    async def events(
        self, *, after: int = 0, follow: bool = False, on_ownerless: Callable[[], None] | None = None
    ) -> AsyncIterator[Envelope]:
        """Its events in order, those of facts after `after`; with `follow` until it has ended."""
        from noetl.views.envelopes import Envelopes

        await self.info()
        envelopes = Envelopes(State(execution_id=self.id))
        async for events in self._slices(follow=follow, on_ownerless=on_ownerless):
            found: list[Envelope] = []
            with readable(self.id):
                for event in events:
                    found += (each for each in envelopes.feed(event) if each.seq > after)
            for envelope in found:
                yield envelope

    async def _slices(self, *, follow: bool, on_ownerless: Callable[[], None] | None) -> AsyncIterator[list[Event]]:
        seq = 0
        async for events in read_slices(self.session.log, self.id):
            seq = events[-1].seq
            yield events
        if follow:
            async for rows in self.session.follow(self.id, seq, on_ownerless):
                # Rows are read whole: the first one may contain facts that were shown already.
                yield (events := list(events_of(rows, after=seq)))
                seq = events[-1].seq if events else seq

    async def logs(
        self,
        step: str | None = None,
        *,
        failed: bool = False,
        follow: bool = False,
        on_ownerless: Callable[[], None] | None = None,
    ) -> AsyncIterator[PrintedLine]:
        """The lines that its tasks have printed, in the order of storing; with `follow` until it has ended.

        `step`: only those of a step, a run, a frame or a call. `failed`: only those of calls that failed.
        `on_ownerless` is called once when the execution no longer has a process. Raises UsageError.
        """
        from noetl.views.log_filter import CallFold, LineFilter

        calls = CallFold(step)
        if failed or (step is not None and not follow):
            await fold_log(self.session.log, self.id, calls.feed)
        if step is not None and not follow and not calls.has_run:
            ran = ", ".join(calls.steps) or "none"
            raise UsageError(f'"{step}" has not run: the steps that have run are {ran}')
        wanted, after, had_ended = LineFilter(step, calls.failed if failed else None), 0, False
        while True:
            info = await self.info()
            has_ended = not follow or not info.live
            while batches := await self.session.logs.read(self.id, after):
                after = batches[-1].number
                for line in [each for batch in batches for each in batch.lines if wanted.accepts(each.call)]:
                    yield line
            if not follow or had_ended:
                return
            if on_ownerless is not None and info.live and not info.owner_alive:
                on_ownerless()
                on_ownerless = None
            had_ended = has_ended  # the last lines may be stored a moment after the end
            await self.session.clock.sleep(LOGS_S)

    async def state(self, at: int | None = None) -> StateDocument:
        """Tokens, runs, `workload` and `ctx` after fact `at`; None: after the last one. Raises UsageError."""
        return state_document((await self.runs_at(at))[1])

    async def runs_at(self, at: int | None) -> tuple[ExecutionInfo, Runs]:
        info = await self.info()
        if at is not None and not 1 <= at <= info.seq:
            raise UsageError(f"--at {at}: there is no such fact: the log of {self.id} has 1 to {info.seq}")
        return await self.runs(at)

    async def show(self) -> ShowDocument:
        """Its steps, output and error: what `noetl show --format json` prints."""
        return await self.session.show(self.id)

    async def children(self) -> list[ExecutionInfo]:
        """The executions that its steps started, in the order of their starts."""
        return [ExecutionInfo(*head) for head in await self.session.listing.children(self.id)]

    async def output(self, step: str | None = None) -> JSON:
        """The data that it returned, or that a step did. Raises NotFound when there is none."""
        found = await self.find_output(step)
        if found.output is None:
            raise NotFound(found.why)
        return await self.fetch(found.output)

    async def find_output(self, step: str | None = None) -> OutputLocation:
        info = await self.info()
        if step is not None:
            fold = StepOutputFold(self.id, step)
            await fold_log(self.session.log, self.id, fold.feed)
            return fold.result()
        if info.live:
            return OutputLocation(None, None, f"{self.id} has not ended")
        # The last facts contain it, however long the log is.
        rows = await self.session.log.read(self.id, max(0, info.seq - 2))
        return given_by_playbook(self.id, [fact for row in rows for fact in row.facts])

    async def fetch(self, output: Output) -> JSON:
        """The data of an output; stored results are fetched. Raises Damaged."""
        return await load_output(output, partial(read_iterations, self.session.log), self._result)

    async def _result(self, ref: dict[str, JSON]) -> bytes:
        try:
            return await self.session.results.get(ref)
        except NotFound as error:
            raise Damaged(f"{error}: it was stored, and its file is missing") from error

    async def _complete(self, ctx: dict[str, JSON]) -> dict[str, JSON]:
        """ctx with the values that are in the result store (D91). Raises Damaged."""
        from noetl.engine.stored import filled, key_of, marks_on

        values = {key_of(ref): await self.fetch(Output(ref=ref)) for ref in marks_on(ctx, ())}
        complete: dict[str, JSON] = filled(ctx, values)
        return complete

    # Waiting

    async def result(self, timeout_s: float | None = None) -> Result:
        """Wait until it has ended or is paused. Raises TimeoutError, or Unavailable when nothing runs it."""
        async with asyncio.timeout(timeout_s):
            await self.session.rest(self.id)
        _, runs = await self.runs()
        document = show_document(runs)
        output = runs.state.end_output
        return Result(
            id=self.id,
            status=document.status,
            output=None if output is None else await self.fetch(output),
            ctx=await self._complete(runs.state.ctx),
            error=runs.state.failure,
            duration_s=document.duration_s,
        )

    # Commands

    async def pause(self) -> None:
        """Running calls finish, nothing new starts."""
        await self.session.pause(self.id)

    async def resume(self) -> None:
        """Continue it after a pause or an interruption."""
        await self.session.resume(self.id)

    async def retry(self, step: str | None = None, *, iterations: Sequence[int] = (), from_start: bool = False) -> None:
        """Retry its failed parts; what succeeded is kept. Raises Rejected when nothing failed.

        `iterations`: only these iterations of the step; others that failed stay failed.
        """
        await self.session.retry(self.id, step, iterations=iterations, from_start=from_start)

    async def plan_fork(
        self,
        playbook: str | Path | None = None,
        *,
        workload: Mapping[str, JSON] | None = None,
        at: int | None = None,
        from_step: str | None = None,
        failed_only: bool = False,
    ) -> ForkPlan:
        """What `fork` with these arguments would keep and repeat. Nothing is started."""
        return await self.session.plan_fork(
            self.id, _fork_spec(playbook, workload, at, from_step, failed_only=failed_only)
        )

    async def fork(
        self,
        playbook: str | Path | None = None,
        *,
        workload: Mapping[str, JSON] | None = None,
        at: int | None = None,
        from_step: str | None = None,
        failed_only: bool = False,
        secrets: Mapping[str, str] | None = None,
    ) -> Execution:
        """Start a new execution that keeps the finished work of this one.

        `playbook`: the corrected file, or the path of a registered playbook; None: the same text. `workload`:
        values that replace earlier ones. `at`: only events up to this one count. `from_step`: runs of this step
        are not kept. `failed_only`: keep all finished work, even if its text or its input has changed. `secrets`:
        of secret inputs; those that the execution still has are taken over.
        Raises InputError when a secret input no longer has a value, Rejected when the execution runs, or was
        compensated.
        """
        spec = _fork_spec(playbook, workload, at, from_step, failed_only=failed_only)
        return await self.session.fork(self.id, spec._replace(secrets=dict(secrets or {})))

    async def cancel(self, reason: str = "", *, compensate: bool = False) -> None:
        """End it and its children; running calls have 10 seconds.

        `compensate`: undo its completed steps before it ends, as their `compensate` says.
        """
        await self.session.cancel(self.id, reason, compensate=compensate)

    async def label(self, change: Mapping[str, str | None]) -> None:
        """Add labels, or remove those with None. It may have ended."""
        await self.session.label(self.id, change)

    def debugger(self) -> Debugger:
        """Breakpoints, what they hold, and the values there."""
        return self.session.debugger(self.id)

    async def delete(self) -> None:
        """Delete it and the executions that it called. Raises Rejected when one of them has not ended."""
        await self.session.delete(self.id)

    async def signal(self, name: str, data: JSON = None, *, frame: str | None = None) -> None:
        """Send the signal that a `wait` task waits for. Raises Rejected when none waits for it.

        `frame`: only for the wait of this frame, such as `ask#1[2]`; None: for all that wait for the signal.
        """
        await self.session.signal(self.id, name, data, frame=frame)

    async def require_started(self) -> None:
        """Raises Rejected for a request that could not run: it has no step to explain or retry."""
        first = events_of(await self.session.log.read(self.id, 0, STARTUP_FACTS))
        require_started(first, f"run it again: noetl run FILE{self.session.hint}")


def _fork_spec(
    playbook: str | Path | None,
    workload: Mapping[str, JSON] | None,
    at: int | None,
    from_step: str | None,
    *,
    failed_only: bool,
) -> ForkSpec:
    return ForkSpec(playbook, at, from_step, dict(workload or {}), failed_only)


def fork_origin(info: ExecutionInfo, wanted: ForkSpec) -> ForkOrigin:
    """What the new execution is forked from. Raises UsageError, or Rejected for one that is running."""
    if wanted.at is None and info.standing == "running":
        reason = f"{info.id} is running: pause it first, or name the last event that counts (--at SEQ)"
        raise Rejected("not-paused", reason)
    if wanted.at is not None and not 1 <= wanted.at <= info.seq:
        raise UsageError(f"--at {wanted.at}: there is no such fact: the log of {info.id} has 1 to {info.seq}")
    return ForkOrigin(
        execution=info.id, seq=wanted.at or info.seq, from_step=wanted.from_step, failed_only=wanted.failed_only
    )


def last_seq(rows: list[LogRow]) -> int:
    return rows[-1].first_seq + len(rows[-1].facts) - 1 if rows else 0


async def until_ended(session: Session, execution_id: str) -> Status:
    """Its status when it has ended, or when a cancellation takes too long."""
    until = session.clock.monotonic() + CANCEL_S
    while (head := await session.listing.head(execution_id)).status in LIVE:
        if session.clock.monotonic() >= until:
            break
        await session.clock.sleep(POLL_S)
    return head.status


async def list_executions(
    listing: ExecutionListing,
    *,
    status: Standing | Collection[Standing] | None = None,
    path: str | None = None,
    open_only: bool = False,
    roots: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    labels: Mapping[str, str] | None = None,
    waiting: bool = False,
    search: str | None = None,
    limit: int | None = None,
) -> AsyncIterator[ExecutionInfo]:
    """A page at a time: whether an owner is alive is known only when the page is read."""
    from fnmatch import fnmatchcase

    from noetl.ports import ExecutionFilter

    before: str | None = None
    left = limit if limit is not None else -1
    wanted = frozenset({status} if isinstance(status, str) else status or ())
    open_only = open_only or (bool(wanted) and wanted <= {"running", "interrupted", "paused"})
    (only,) = wanted if len(wanted) == 1 else (None,)  # an ended one has the same status in the store, which finds it
    pattern = path if path is not None and any(each in path for each in "*?[") else None
    exact = path if pattern is None else None
    prefix = re.split(r"[*?[]", pattern)[0] if pattern else ""
    filter = ExecutionFilter(
        status=only if only in ("ok", "error", "cancelled") else None, open_only=open_only, path=exact,
        path_prefix=prefix or None, labels=labels, since=since, until=until, roots=roots, waiting=waiting,
        search=search,
    )  # fmt: skip
    while left:
        page = await listing.executions(PAGE, filter, before=before)
        for head in page:
            info = ExecutionInfo(*head)
            if (wanted and info.standing not in wanted) or (pattern and not fnmatchcase(info.path, pattern)):
                continue
            yield info
            left -= 1
            if not left:
                return
        if len(page) < PAGE:
            return
        before = page[-1].execution_id


def is_id_part(name: str) -> bool:
    """Could it be the id of an execution, or the beginning of one?"""
    return _ID_PART.match(name.strip().lower()) is not None


async def find_execution(listing: ExecutionListing, name: str, hint: str = "") -> str:
    """The id of the execution that a person means: an id, a prefix of it, or `last`. Raises UsageError."""
    if name == LAST:
        async for info in list_executions(listing, roots=True, limit=1):  # a child belongs to its caller
            return info.execution_id
        raise UsageError("no execution has been started yet")
    prefix = name.strip().lower()
    if not is_id_part(name):
        raise UsageError(f'"{name}" is not an execution id: give an id, a prefix of one, or `{LAST}`')
    found = await listing.find(prefix)
    if not found:
        raise UsageError(f'no execution id starts with "{name}"; see `noetl list{hint}`')
    if len(found) > 1:
        names = "".join(f"\n  {each}" for each in found[:MATCHES_SHOWN_MAX])
        more = "\n  …" if len(found) > MATCHES_SHOWN_MAX else ""
        raise UsageError(f'several execution ids start with "{name}"; give more of it:{names}{more}')
    return found[0]


class SessionVerbs:
    """What a session on a file and a session on a server do in the same way."""

    async def __aexit__(
        self: Session, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def execution(self: Session, name: str) -> Execution:
        return Execution(self, await find_execution(self.listing, name, self.hint))

    def executions(
        self: Session,
        *,
        status: Standing | Collection[Standing] | None = None,
        path: str | None = None,
        open_only: bool = False,
        roots: bool = False,
        since: datetime | None = None,
        until: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        waiting: bool = False,
        search: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ExecutionInfo]:
        return list_executions(
            self.listing, status=status, path=path, open_only=open_only, roots=roots, since=since, until=until,
            labels=labels, waiting=waiting, search=search, limit=limit,
        )  # fmt: skip

    async def deletable(self: Session, execution_id: str) -> list[ExecutionInfo]:
        from noetl.control.retention import deletable

        return [ExecutionInfo(*head) for head in await deletable(self.listing, execution_id)]
