"""Control accepts commands and reports, commits the resulting facts, and only then answers and dispatches.

It is the single writer of the executions that it owns: the store refuses appends of any other writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from noetl.background import BackgroundTasks
from noetl.clock import Clock
from noetl.control.children import RELAYED, Children
from noetl.control.deps import (
    ControlHooks,
    ControlPorts,
    ControlSettings,
    CrashedCalls,
    OwnershipRegistry,
    ProgramSource,
)
from noetl.control.dispatch import DISPATCHING, Dispatch
from noetl.control.heartbeats import TIMED, Timers, handle_heartbeat, release_frame
from noetl.control.idle import IdleExecution
from noetl.control.limits import REFUSED, SharedLimits
from noetl.control.live_execution import (
    UNKNOWN_WORKER,
    DispatchedFrame,
    Item,
    LiveExecution,
    LostWorkers,
    PendingCommand,
    PendingRead,
    answer_all,
    ensure_usable,
    fold,
    is_alone,
    is_due,
    is_open,
    lost_workers,
    resolve,
)
from noetl.control.log_pages import read_iterations, read_parent
from noetl.control.loop_data import LOOPING, LoopData
from noetl.control.notifications import Notifications, notifies_end
from noetl.control.person_waits import person_waits, read_waits
from noetl.control.snapshots import Snapshots, read_snapshot
from noetl.engine import Event, Recorded, handle
from noetl.engine.commands import LEVEL, Command, Decide, Exceed, Fork, Lose, Report, Retry, Start
from noetl.engine.delegation import decision_work, is_decision
from noetl.engine.facts import Fact
from noetl.engine.limits import Permit
from noetl.engine.moves import work_of
from noetl.engine.saved import saved_in
from noetl.engine.settle import delegated
from noetl.engine.state import Frame, State
from noetl.engine.stored import ITEMS_LIMIT
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.ids import frame_parts
from noetl.labels import declared_labels
from noetl.net.program import Program
from noetl.output import Output
from noetl.ports import Append, Epoch, Grant, Link, ReportAnswer, SavedWrite, encode_facts
from noetl.slices import turn

if TYPE_CHECKING:
    from noetl.control.forks import ForkPlanner

T = TypeVar("T")

BATCH_MAX = 256  # items of one execution that share a commit
FACTS_PER_TURN = 16  # then other executions have their turn
LEADS_PER_TURN = 8  # commits of an execution that nothing can join: then others have their turn
FOLLOWED = DISPATCHING | LOOPING | RELAYED | TIMED  # facts that need work after their commit; most need none
FACTS_PER_COMMIT = 1_000  # then they are committed: the work after a commit is not interrupted


class Control:
    """The executions of one server. It implements Link for the executions that it owns."""

    def __init__(
        self,
        ports: ControlPorts,
        programs: ProgramSource,
        owners: OwnershipRegistry,
        clock: Clock,
        settings: ControlSettings,
        *,
        hooks: ControlHooks = ControlHooks(),  # noqa: B008  # immutable
    ) -> None:
        self.store, self.queue, self.results, link, limits, pending = ports
        self.programs = programs
        self.owners = owners
        self.clock = clock
        self.settings = settings
        self.dispatch = Dispatch(self.queue, clock, settings, hooks, on_lost=self._on_lost)
        self.loops = LoopData(self)
        others: Link = self if link is None else link
        self.children = Children(self, others)
        self.limits = SharedLimits(self, limits, others, hooks.post)
        self.notifications = Notifications(self, others, pending)
        self.timers = Timers(self)
        self.snapshots = Snapshots(self)
        self.executions: dict[str, LiveExecution] = {}  # in memory, by id
        self.idle: dict[str, IdleExecution] = {}  # those that are not in memory, by id
        self._hooks = hooks
        self._loading: dict[str, asyncio.Future[LiveExecution]] = {}
        self._background = BackgroundTasks()
        self.set_time(clock.now())
        self._granted = 0
        self._last_program: tuple[Program, Program] | None = None  # as compiled, and with our limits

    def set_time(self, at: datetime) -> None:
        """Synchronise with the time of the store."""
        self._time = (at.timestamp(), self.clock.monotonic())

    def now(self) -> datetime:
        """The store's time, extrapolated with the local monotonic clock: all servers agree on it."""
        at, then = self._time
        # This takes half the time of adding a timedelta. A float has 52 bits: microseconds are exact until 2106.
        return datetime.fromtimestamp(at + (self.clock.monotonic() - then), UTC)

    # Requests of workers and callers

    async def start(self, execution_id: str, digest: str, start: Start, *, is_new: bool = False) -> None:
        """`is_new`: the caller has just made the id, so that no log can have it."""
        command: Command = start
        if (live := None if is_new else await self._known(execution_id)) is None:
            program = await self.programs.by_digest(digest)
            labels = declared_labels(program.playbook.metadata)
            start = replace(start, level=LEVEL, labels={**labels, **start.labels})
            for hook in self._hooks.on_start:
                start = await hook(execution_id, program, start)
            made = self._new(execution_id, program, await self.owners.number(execution_id, is_new=is_new))
            if program.limited:
                start = await self.limits.admit(execution_id, program, start)
            command = start if start.fork is None else await self._fork(execution_id, program, start)
            live = self.executions.setdefault(execution_id, made)
            if program.concurrency is not None:
                live.permits.setdefault("", Permit("", start.held or "", program.concurrency, start.held is not None))
        try:
            await self.submit(live, command, _nothing)
        except Rejected as error:
            if error.code != "already-started":
                self._discard(live)
                raise
            await self.read(live, _nothing)  # the first start may not be committed yet
        finally:
            if live.program.limited:
                self.limits.entered(execution_id)
        failure = live.state.failure
        if failure is not None and failure.kind == REFUSED and not live.state.firings:
            raise Rejected(REFUSED, failure.message)

    async def _fork(self, execution_id: str, program: Program, start: Start) -> Command:
        """The start of an execution that keeps the finished work of another one (D114)."""
        planner = self.fork_planner()
        try:
            planned = await planner.plan(execution_id, program, start, self.now(), self.results)
            return Fork(facts=planned.facts, breakpoints=start.breakpoints)
        except (NotFound, Rejected):
            if start.parent is None:
                raise
            return replace(start, fork=None)  # nothing of the earlier child can be kept

    def fork_planner(self) -> ForkPlanner:
        from noetl.control.forks import ForkPlanner  # most processes start no fork

        return ForkPlanner(self.store, self.programs, self._hooks.files)

    def _discard(self, live: LiveExecution) -> None:
        """A refused start leaves nothing: the next one with this id may name another playbook."""
        if live.state.status == "new" and not live.busy and not live.inbox:
            self.executions.pop(live.id, None)
            self.owners.on_ended(live.id)
            if live.permits:
                self.limits.drop(live)

    async def _known(self, execution_id: str) -> LiveExecution | None:
        """None: it is new. The status is enough to see that."""
        if execution_id not in self.executions and await self.store.status(execution_id) is None:
            return None
        with suppress(NotFound):  # it was started here, and its commit failed
            return await self.load(execution_id)
        return None

    async def command(self, execution_id: str, command: Command) -> None:
        live = await self.load(execution_id)
        if live.program.concurrency is not None and isinstance(command, Retry):
            await self._retry(live, command)
            return
        await self.submit(live, command, lambda: self._release(live, command))

    async def _retry(self, live: LiveExecution, retry: Retry) -> None:
        """A retried execution needs its turn again (D113)."""
        retry = await self.limits.readmit(live, retry)
        try:
            await self.submit(live, retry, _nothing)
        except Rejected:
            if not live.state.live:
                self.limits.drop(live)
            raise
        finally:
            self.limits.entered(live.id)

    def _release(self, live: LiveExecution, command: Command) -> None:
        """The worker that has made a decision is free; a decision that must be made again is dispatched."""
        if isinstance(command, Decide):
            self.dispatch.release(live, command.decision)
            self.dispatch.enqueue(live, delegated(live.agenda))

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        try:
            live = await self.load(execution_id)
        except NotFound:
            return None
        grant: Grant | None = await self.read(live, lambda: self._grant(live, frame, worker))
        await self.dispatch.pump()
        return grant

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        live = await self.load(execution_id)
        known = live.in_flight.get(report.frame)
        if known is not None and report.epoch < known.epoch:
            return ReportAnswer("stop", "fenced")
        if not report.facts and report.parked is None and report.started_at is None and report.running is None:
            return await release_frame(self, live, report)
        if report.document is not None:
            report = await self.children.with_document(live.program.digest, report)
        try:
            answer: ReportAnswer = await self.submit(live, report, lambda: self._continue(live, report, room))
        except Rejected as error:
            return ReportAnswer("stop", error.code)
        return answer

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        return await handle_heartbeat(self, worker, holds)

    def _grant(self, live: LiveExecution, frame: str, worker: str) -> Grant | None:
        known = live.in_flight.get(frame)
        now = self.clock.monotonic()
        if known is not None and known.worker not in ("", worker) and now < known.until:
            return None
        if not is_due(live, frame) or (known is None and not self.dispatch.may_begin(live, frame, now)):
            return None
        return self._new_grant(live, frame, worker)

    def _new_grant(self, live: LiveExecution, frame: str, worker: str, pool: str | None = None) -> Grant:
        """The grant of a frame that is due and that no other worker holds. `pool`: its own, if it is known."""
        # One counter for all executions of this process: a reloaded execution must not reuse an epoch.
        self._granted += 1
        epoch = (live.owner, self._granted)
        self.dispatch.mark_granted(live, frame, worker, epoch, pool)
        if is_decision(frame):
            work = decision_work(live.program, live.state, frame)
        else:
            work = self.loops.with_loop_work(live, frame, work_of(live.program, live.state, frame))
        lost = 0
        if live.lost or work.frame.lost or work.frame.running is not None:
            lost = self._count_lost(live, work.frame)
        return Grant(work, epoch, self.settings.lease_s, self.now(), lost)

    def _count_lost(self, live: LiveExecution, frame: Frame) -> int:
        """The workers that vanished with the next call of the frame, if the call is the likely cause."""
        lost = lost_workers(live, frame.id)
        if frame.running is not None and frame.id not in live.lost:
            # Another owner has granted it, and did not live to see the end of the lease.
            live.lost[frame.id] = lost = LostWorkers(lost.workers + 1, lost.company + 1)
            self._on_lost(live, Lose(frame=frame.id, worker=frame.running.worker, epoch=frame.epoch or (0, 0)))
        return lost.workers if lost.blames_frame(self.settings.lost_max) else 0

    def _on_lost(self, live: LiveExecution, lose: Lose) -> None:
        """Record that the worker of a frame was lost, before the first report of the next worker."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(asyncio.Future.exception)  # the frame may have ended meanwhile
        live.inbox.append(PendingCommand(lose, answer, _nothing))
        self.spawn(self._lead_rest(live))

    async def _lead_rest(self, live: LiveExecution) -> None:
        if live.inbox and not live.busy:
            await self._lead(live)

    def _continue(self, live: LiveExecution, report: Report, room: int) -> ReportAnswer:
        """After the commit: whether the worker may continue with the frame; if not, its next frames."""
        known = live.in_flight.get(report.frame)
        if known is not None and known.epoch > report.epoch:
            return ReportAnswer("stop", "fenced")
        if report.facts:
            live.lost.pop(report.frame, None)
        # A running call finishes during a pause.
        may_continue = is_due if report.facts and report.running is None else is_open
        stale = report.facts and report.running is None and report.frame in live.unaware
        if report.parked is not None or stale or not may_continue(live, report.frame):
            if report.parked is not None or stale:
                self.dispatch.release_and_requeue(live, report.frame)
            else:
                self.dispatch.release(live, report.frame)
            return ReportAnswer("stop", "over", self._next(live, known, room) if known and known.worker else ())
        owner, index = frame_parts(report.frame)
        frame = live.state.runs[owner].frames.get(index)
        if (frame.calls if frame else 0) != report.position + len(report.facts):
            return ReportAnswer("stop", "elsewhere")
        worker = known.worker if known and known.worker else UNKNOWN_WORKER
        self.dispatch.mark_granted(live, report.frame, worker, report.epoch)
        return ReportAnswer("go")

    def _next(self, live: LiveExecution, before: DispatchedFrame, room: int) -> tuple[Grant, ...]:
        """The next frames for the worker: a chain of steps does not pass through the queue."""
        grants: list[Grant] = []
        while len(grants) < room and (frame := self.dispatch.next_for(live, before.pool)) is not None:
            grants.append(self._new_grant(live, frame, before.worker, before.pool))
        return tuple(grants)

    # The only path to the log

    async def decide_rest(self, live: LiveExecution) -> None:
        """Decide what remains to be decided: after a load, or when a server died between two commits."""
        if live.agenda and live.state.live:
            await self.submit(live, None, _nothing)

    async def submit(self, live: LiveExecution, command: Command | None, then: Callable[[], T]) -> T:
        """Commit a command; the result of `then`, called with the committed state."""
        ensure_usable(live)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        live.inbox.append(PendingCommand(command, answer, then))
        if not live.busy:
            await self._lead(live)
        return await answer

    async def read(self, live: LiveExecution, then: Callable[[], T]) -> T:
        """The result of `then`, called between two commits: it sees only committed state."""
        ensure_usable(live)
        if not live.busy:
            return then()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        live.inbox.append(PendingRead(then, answer))
        return await answer

    async def _lead(self, live: LiveExecution) -> None:
        """The first caller commits for all callers of the same turn; later ones wait for the next commit."""
        live.busy = True
        live.leads += 1
        try:
            if live.leads % LEADS_PER_TURN == 0 or not is_alone(live):
                await turn()
            await self._batch(live)
        except BaseException:
            self.spawn(self._drain(live))  # this caller fails, but the others still wait
            raise
        if live.inbox or self.snapshots.is_due(live):
            self.spawn(self._drain(live))
        else:
            live.busy = False

    async def _drain(self, live: LiveExecution) -> None:
        """Items that arrive during a commit are collected for the next. Callers do not wait for a snapshot."""
        while (is_due := self.snapshots.is_due(live)) or live.inbox:
            await (self.snapshots.save(live) if is_due else self._batch(live))
        live.busy = False

    async def _batch(self, live: LiveExecution) -> None:
        batch = live.inbox[:BATCH_MAX]
        del live.inbox[:BATCH_MAX]
        commands = [item for item in batch if isinstance(item, PendingCommand)]
        try:
            events, refused = await self._decide(live, commands)
            await self._record(live, events)
            if refused and not events and not all(type(item.command) is Report for item in commands):
                await self._ensure_current(live)
        except (Conflict, Fenced, Unavailable) as error:
            self._abandon(live, batch, error)
            return
        except BaseException as error:
            self._abandon(live, batch, error)  # a bug, or cancellation: no caller waits forever
            raise
        await answer_all(batch, refused)
        failpoint("control.before-dispatch")
        await self.dispatch.pump()

    async def _ensure_current(self, live: LiveExecution) -> None:
        """Raises Conflict if a late commit, or another server, has extended the log: then a refusal may be wrong."""
        seq = live.state.seq
        if await self.store.read(live.id, seq, seq + 1):
            raise Conflict(f"the log of {live.id} has more than {seq} facts")

    async def _decide(
        self, live: LiveExecution, commands: list[PendingCommand]
    ) -> tuple[list[Event], dict[asyncio.Future[object], Rejected]]:
        """The events that are still to be committed, and the refusals that are to be sent after the commit."""
        events: list[Event] = []
        refused: dict[asyncio.Future[object], Rejected] = {}
        at = self.now()  # one instant for a commit: the log has one, and replay uses it
        turned = 0  # number of facts at the last turn of the others
        for item in commands:
            if len(events) >= FACTS_PER_COMMIT:
                await self._record(live, events, is_part=True)
                events, at, turned = [], self.now(), 0
            if len(events) - turned >= FACTS_PER_TURN:
                await turn()
                turned = len(events)
            if live.excess is not None:
                events += self._end_excess(live, at)
            try:
                made = self._handle(live, item.command, at)
            except Recorded:
                continue
            except Rejected as error:
                refused[item.answer] = error
                continue
            events += made
            while len(made) >= FACTS_PER_TURN:
                if len(events) >= FACTS_PER_COMMIT:  # the rest goes into the next one (D70)
                    await self._record(live, events, is_part=True)
                    events, at = [], self.now()
                await turn()
                turned = len(events)
                events += (made := self._end_excess(live, at) or self._handle(live, None, at))
        return events, refused

    def _end_excess(self, live: LiveExecution, at: datetime) -> list[Event]:
        """The end of an execution whose state is too large; nothing for any other."""
        error, live.excess = live.excess, None
        return [] if error is None or not live.state.live else self._handle(live, Exceed(error=error), at)

    def _handle(self, live: LiveExecution, command: Command | None, at: datetime) -> list[Event]:
        return handle(live.program, live.state, command, at, live.agenda, at_most=FACTS_PER_TURN)

    async def _record(self, live: LiveExecution, events: list[Event], *, is_part: bool = False) -> None:
        """Commit the events, and do the work that follows. `is_part`: of a decision, which a limit may end here."""
        facts = tuple([event.fact for event in events])
        if events:
            body = encode_facts(facts)
            self.snapshots.on_growth(live, len(body))
            append = Append(live.id, events[0].seq, events[0].at, facts, live.owner, live.state.status, encoded=body)
            if live.program.saves:
                path = live.program.playbook.path
                append = replace(append, saved=tuple(SavedWrite(path, *each) for each in saved_in(facts)))
            if live.program.notifications and not live.state.live:
                append = replace(append, notifies=notifies_end(live.program, live.state.status))
            if live.program.asks:
                append = replace(append, waits=person_waits(live, events))
            failpoint("control.before-commit")
            if (refused := (await self.store.append([append]))[0]) is not None:
                raise refused
            failpoint("control.after-commit")
        self._on_commit(live, events, [fact for fact in facts if type(fact) in FOLLOWED])
        if is_part and self.snapshots.is_due(live):
            await self.snapshots.save(live)

    def _abandon(self, live: LiveExecution, batch: list[Item], error: BaseException) -> None:
        """Our state may differ from the log: drop it. The callers try again."""
        live.abandoned = True
        if self.executions.get(live.id) is live:
            del self.executions[live.id]
        if isinstance(error, Fenced):
            self.owners.on_fenced(live.id)
        if isinstance(error, Unavailable):
            for hook in self._hooks.on_unavailable:
                hook(error)
        for item in (*batch, *live.inbox):
            if not item.answer.done():
                item.answer.set_exception(Unavailable(f"the commit failed: {error}"))
                item.answer.exception()  # retrieved: the caller may be gone
        live.inbox.clear()
        live.busy = False

    def _on_commit(self, live: LiveExecution, events: list[Event], followed: list[Fact]) -> None:
        """`followed`: the facts of the events that need more work."""
        if followed:
            self.dispatch.on_commit(live, followed)
        if live.agenda and (waiting := delegated(live.agenda)):
            self.dispatch.enqueue(live, waiting)
        if followed:
            self.loops.on_commit(live, followed)
        if live.program.limited:
            self.limits.on_commit(live, events)
        for hook in self._hooks.on_commit:
            hook(live, events)
        if live.state.parent is not None and not live.state.live:
            failpoint("control.before-wake")
        for fact in followed:
            kind = type(fact)
            if kind in RELAYED:
                self.children.on_fact(live.state, fact)
            if kind in TIMED:
                self.timers.on_fact(live.id, fact)
        if live.program.notifications:
            self.notifications.on_commit(live, events)

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run work in the background."""
        self._background.spawn(work)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        """The outputs of the iterations of a loop, from the log: any process may read it (D30)."""
        return await read_iterations(self.store, execution_id, run, only) or []

    async def parent(self, execution_id: str) -> str | None:
        """From the first fact of the log: any process may read it (D99)."""
        return await read_parent(self.store, execution_id)

    # Loading

    def drop_if_behind(self, execution_id: str, head: int) -> None:
        """Drop an execution whose log is ahead: a commit that seemed to fail may have succeeded later."""
        live, idle = self.executions.get(execution_id), self.idle.get(execution_id)
        if live is not None and not live.busy and live.state.seq < head:
            del self.executions[execution_id]
        if idle is not None and idle.seq < head:
            del self.idle[execution_id]

    async def load(self, execution_id: str) -> LiveExecution:
        """The execution, from memory or from the log. Raises NotFound, Unavailable or Rejected."""
        live = self.executions.get(execution_id)
        if live is not None:
            if self.owners.is_current(execution_id, live.owner):
                return live
            del self.executions[execution_id]
        if execution_id in self._loading:
            return await asyncio.shield(self._loading[execution_id])
        loading = self._loading[execution_id] = asyncio.get_running_loop().create_future()
        try:
            live = await self._read_log(execution_id)
            resolve(loading, live)
            return live
        except BaseException as error:
            loading.set_exception(error)
            loading.exception()  # retrieved: other waiters receive it too, if there are any
            raise
        finally:
            del self._loading[execution_id]

    async def _read_log(self, execution_id: str) -> LiveExecution:
        owner = await self.owners.number(execution_id)
        stored = await read_snapshot(self.store, execution_id)
        if stored.state is None and not stored.rows:
            raise NotFound(f"no execution {execution_id}")
        state = stored.state or State(execution_id=execution_id)
        fold(state, stored.rows)
        live = self._new(execution_id, await self.programs.by_digest(state.digest), owner)
        if (started := self.executions.get(execution_id)) is not None:
            return started  # here, since the load began: no other server has granted its frames
        live.restore(state)
        if live.program.asks and state.live:
            live.waits = await read_waits(self.store, state)
        if live.program.limited:
            self.limits.on_load(live)
        if self._hooks.crashes is not None and state.live:
            await self._record_crashes(live, self._hooks.crashes)
        self.executions[execution_id] = live
        self.snapshots.on_load(live, stored)
        idle = self.idle.pop(execution_id, None)
        held_by_nobody = idle is not None and (idle.owner, idle.seq) == (owner, state.seq)
        if self.settings.settle_s and state.live and not held_by_nobody:
            live.quiet_until = self.clock.monotonic() + self.settings.settle_s
            for hook in self._hooks.on_load:
                hook()
            self.spawn(self._settle(live))
        else:
            self.dispatch.enqueue_all(live)
        return live

    async def _record_crashes(self, live: LiveExecution, crashes: CrashedCalls) -> None:
        """Before a frame is dispatched again: the call may end this process, too."""
        if not (lost := crashes.lost(live.id)):
            return
        for command in lost:
            with suppress(Rejected):  # the frame has ended
                await self.submit(live, command, _nothing)
        crashes.forget(live.id)

    async def _settle(self, live: LiveExecution) -> None:
        """Workers may hold frames of it: wait for their heartbeats, then dispatch all other frames."""
        await self.clock.sleep(self.settings.settle_s)
        with suppress(Unavailable):  # it was abandoned meanwhile, and is reloaded
            await self.read(live, lambda: self.dispatch.enqueue_all(live))
            await self.dispatch.pump()

    def _new(self, execution_id: str, program: Program, owner: int) -> LiveExecution:
        return LiveExecution(execution_id, self._with_limits(program), owner, State(execution_id=execution_id))

    def _with_limits(self, program: Program) -> Program:
        """The program with the limits of this process. Many executions have the same one."""
        if self._last_program is None or self._last_program[0] is not program:
            limits = {**program.limits, ITEMS_LIMIT: self.settings.items_bytes}
            self._last_program = program, program._replace(limits=limits)
        return self._last_program[1]


def _nothing() -> None:
    """The answer that only confirms the commit."""
