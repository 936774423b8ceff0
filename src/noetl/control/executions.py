"""Control: accepts commands and reports, commits what follows, and only then answers, dispatches and tells.

It is the single writer of the executions that it owns; the store refuses it when it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from noetl.clock import Clock
from noetl.control.children import Children
from noetl.control.deps import ControlPorts, ControlSettings, OwnershipRegistry, ProgramSource
from noetl.control.dispatch import Dispatch
from noetl.control.heartbeats import take_back, take_beat
from noetl.control.live_execution import (
    Item,
    LiveExecution,
    Lost,
    Out,
    PendingCommand,
    PendingRead,
    answer_all,
    is_due,
    is_open,
    refuse_given_up,
    resolve,
    turn,
)
from noetl.control.loop_data import LoopData
from noetl.control.snapshots import fold, save, saved
from noetl.control.timers import Timers
from noetl.engine import Event, Recorded, agenda_of, handle
from noetl.engine.commands import Command, Report, Start
from noetl.engine.iterations import iteration_outputs
from noetl.engine.loops import ITEMS_LIMIT
from noetl.engine.state import State
from noetl.engine.work import work_of
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.ids import frame_parts
from noetl.net.program import Program
from noetl.output import Output
from noetl.ports import Append, Epoch, Grant, ReportAnswer, Snapshot

T = TypeVar("T")

BATCH_MAX = 256  # items of one execution that share a commit
SOMEONE = "?"  # a worker whose grant we have forgotten: another server gave it, or we before a reload
FACTS_PER_TURN = 100  # then other executions have their turn
FACTS_TOGETHER = 1_000  # then they are committed: what follows a commit is done in one go, and others wait


class Control:
    """One server's part of all executions. It keeps the contract of Link for those that are its own."""

    def __init__(
        self,
        outside: ControlPorts,
        programs: ProgramSource,
        owners: OwnershipRegistry,
        clock: Clock,
        settings: ControlSettings,
    ) -> None:
        self.store, self.queue, self.results = outside
        self.programs = programs
        self.owners = owners
        self.clock = clock
        self.settings = settings
        self.dispatch = Dispatch(self.queue, clock, settings)
        self.loops = LoopData(self)
        self.relatives = Children(self)
        self.timers = Timers(self)
        self.watch: Callable[[LiveExecution, list[Event]], None] | None = (
            None  # told of everything that is on record
        )
        self.trouble: Callable[[Unavailable], None] | None = None  # told when a commit did not succeed
        self.roll_call: Callable[[], None] | None = None  # asks all workers what they have in hand
        self.probe: Callable[[Program, Start], Awaitable[Start]] | None = None  # do its credentials resolve?
        self.lives: dict[str, LiveExecution] = {}
        self._loading: dict[str, asyncio.Future[LiveExecution]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._time = (clock.now(), clock.monotonic())
        self._granted = 0

    def set_time(self, at: datetime) -> None:
        """The store has said what time it is."""
        self._time = (at, self.clock.monotonic())

    def now(self) -> datetime:
        """The store's time, carried on by our own pulse: servers whose clocks disagree still agree on it."""
        at, then = self._time
        return at + timedelta(seconds=self.clock.monotonic() - then)

    # What workers and callers ask

    async def start(self, execution_id: str, digest: str, start: Start) -> None:
        if (live := await self._known(execution_id)) is None:
            program = await self.programs.by_digest(digest)
            if self.probe is not None:
                start = await self.probe(program, start)
            live = self.lives.setdefault(execution_id, await self._new(execution_id, program))
        try:
            await self.ask(live, start, _nothing)
        except Rejected as error:
            if error.code != "already-started":
                raise
            await self.look(live, _nothing)  # who started it may not be on record yet

    async def _known(self, execution_id: str) -> LiveExecution | None:
        """For one that is new a look at its head is enough."""
        if execution_id not in self.lives and await self.store.status(execution_id) is None:
            return None
        with suppress(NotFound):  # it was begun here, and did not get on record
            return await self.live(execution_id)
        return None

    async def command(self, execution_id: str, command: Command) -> None:
        await self.ask(await self.live(execution_id), command, _nothing)

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        try:
            live = await self.live(execution_id)
        except NotFound:
            return None
        grant: Grant | None = await self.look(live, lambda: self._grant(live, frame, worker))
        await self.dispatch.pump()
        return grant

    async def report(self, execution_id: str, report: Report, *, room: int = 0) -> ReportAnswer:
        live = await self.live(execution_id)
        out = live.out.get(report.frame)
        if out is not None and report.epoch < out.epoch:
            return ReportAnswer("stop", "fenced")
        if not report.facts and report.parked is None and report.started_at is None:
            return await take_back(self, live, report)
        try:
            answer: ReportAnswer = await self.ask(live, report, lambda: self._go_on(live, report, room))
        except Rejected as error:
            return ReportAnswer("stop", error.code)
        return answer

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        return await take_beat(self, worker, holds)

    def _grant(self, live: LiveExecution, frame: str, worker: str) -> Grant | None:
        out = live.out.get(frame)
        now = self.clock.monotonic()
        if out is not None and out.worker not in ("", worker) and now < out.until:
            return None
        if not is_due(live, frame) or (out is None and now < live.quiet_until):
            return None
        # Counted for all executions, and for as long as we live: what is loaded anew must not begin anew.
        self._granted += 1
        epoch = (live.owner, self._granted)
        self.dispatch.granted(live, frame, worker, epoch)
        work = work_of(live.program, live.state, frame)
        work = self.loops.ordered(live, frame, work)
        lost = live.lost.get(frame, Lost())
        count = lost.workers if lost.is_the_cause(self.settings.lost_max) else 0
        return Grant(work, epoch, self.settings.lease_s, self.now(), count)

    def _go_on(self, live: LiveExecution, report: Report, room: int) -> ReportAnswer:
        """It is on record. Is the frame still the worker's to go on with, and if it is over, what is next?"""
        out = live.out.get(report.frame)
        if out is not None and out.epoch > report.epoch:
            return ReportAnswer("stop", "fenced")
        if report.facts:
            live.lost.pop(report.frame, None)
        goes_on = is_due if report.facts else is_open  # a call that runs finishes, also while all is paused
        if report.parked is not None or not goes_on(live, report.frame):
            self.dispatch.handed_back(live, report.frame)
            return ReportAnswer("stop", "over", self._next(live, out, room) if out and out.worker else ())
        owner, index = frame_parts(report.frame)
        frame = live.state.runs[owner].frames.get(index)
        if (frame.calls if frame else 0) != report.position + len(report.facts):
            return ReportAnswer("stop", "elsewhere")
        worker = out.worker if out and out.worker else SOMEONE
        self.dispatch.granted(live, report.frame, worker, report.epoch)
        return ReportAnswer("go")

    def _next(self, live: LiveExecution, was: Out, room: int) -> tuple[Grant, ...]:
        """Frames that the worker goes on with: a chain does not pass through the queue."""
        grants: list[Grant] = []
        while len(grants) < room and (frame := self.dispatch.next_for(live, was.pool)) is not None:
            if (grant := self._grant(live, frame, was.worker)) is not None:
                grants.append(grant)
        return tuple(grants)

    # The one way to the log

    async def nudge(self, live: LiveExecution) -> None:
        """Decide what is left to decide: after a fold, or when a server died between two commits."""
        if live.agenda and live.state.live:
            await self.ask(live, None, _nothing)

    async def ask(self, live: LiveExecution, command: Command | None, then: Callable[[], T]) -> T:
        refuse_given_up(live)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        live.inbox.append(PendingCommand(command, answer, then))
        if not live.busy:
            await self._lead(live)
        return await answer

    async def look(self, live: LiveExecution, then: Callable[[], T]) -> T:
        """Asked of the state when no commit is out: nothing is shown that is not on record."""
        refuse_given_up(live)
        if not live.busy:
            return then()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        live.inbox.append(PendingRead(then, answer))
        return await answer

    async def _lead(self, live: LiveExecution) -> None:
        """Whoever comes first decides for all who come in the same turn; what comes later is another's."""
        live.busy = True
        try:
            await turn()
            await self._batch(live)
        except BaseException:
            self.spawn(self._drain(live))  # it is given up, and the others that wait are not
            raise
        if live.inbox:
            self.spawn(self._drain(live))
        else:
            live.busy = False

    async def _drain(self, live: LiveExecution) -> None:
        """While a commit is out, further items gather for the next."""
        while live.inbox:
            await self._batch(live)
        live.busy = False

    async def _batch(self, live: LiveExecution) -> None:
        batch = [live.inbox.popleft() for _ in range(min(len(live.inbox), BATCH_MAX))]
        asked = [item for item in batch if isinstance(item, PendingCommand)]
        try:
            events, refused = await self._decide(live, asked)
            await self._record(live, events)
        except (Conflict, Fenced, Unavailable) as error:
            self._abandon(live, batch, error)
            return
        except BaseException as error:
            self._abandon(live, batch, error)  # a bug of ours, or our end: nobody waits for ever
            raise
        await answer_all([item for item in batch if item.answer not in refused])
        failpoint("control.before-dispatch")
        await self.dispatch.pump()

    async def _decide(
        self, live: LiveExecution, asked: list[PendingCommand]
    ) -> tuple[list[Event], set[asyncio.Future[object]]]:
        """What is left to commit, and whose command was refused."""
        events: list[Event] = []
        refused: set[asyncio.Future[object]] = set()
        at = self.now()  # one instant for all that shares a commit: the log has one, and replay goes by it
        turned = 0  # facts when others had their turn last
        for item in asked:
            if len(events) >= FACTS_TOGETHER:
                await self._record(live, events)
                events, at, turned = [], self.now(), 0
            if len(events) - turned >= FACTS_PER_TURN:
                await turn()
                turned = len(events)
            try:
                made = self._handle(live, item.command, at)
            except Recorded:
                continue
            except Rejected as error:
                refused.add(item.answer)
                if not item.answer.done():
                    item.answer.set_exception(error)
                continue
            events += made
            while len(made) >= FACTS_PER_TURN:
                if len(events) >= FACTS_TOGETHER:  # the rest goes into the next one (D70)
                    await self._record(live, events)
                    events, at = [], self.now()
                await turn()
                turned = len(events)
                events += (made := self._handle(live, None, at))
        return events, refused

    def _handle(self, live: LiveExecution, command: Command | None, at: datetime) -> list[Event]:
        return handle(live.program, live.state, command, at, live.agenda, at_most=FACTS_PER_TURN)

    async def _record(self, live: LiveExecution, events: list[Event]) -> None:
        """Commit, and see to what follows of it."""
        if events:
            facts = tuple(event.fact for event in events)
            append = Append(live.id, events[0].seq, events[0].at, facts, live.owner, live.state.status)
            failpoint("control.before-commit")
            if (refused := (await self.store.append([append]))[0]) is not None:
                raise refused
            failpoint("control.after-commit")
        self._after(live, events)

    def _abandon(self, live: LiveExecution, batch: list[Item], error: BaseException) -> None:
        """What we hold is not, or may not be, what is on record: forget it. Whoever asked asks again."""
        live.given_up = True
        if self.lives.get(live.id) is live:
            del self.lives[live.id]
        if isinstance(error, Fenced):
            self.owners.lost(live.id)
        if isinstance(error, Unavailable) and self.trouble is not None:
            self.trouble(error)
        for item in (*batch, *live.inbox):
            if not item.answer.done():
                item.answer.set_exception(Unavailable(f"the commit did not succeed: {error}"))
                item.answer.exception()  # seen: whoever asked may be gone
        live.inbox.clear()
        live.busy = False

    def _after(self, live: LiveExecution, events: list[Event]) -> None:
        self.dispatch.gather(live, events)
        self.loops.see(live, events)
        if self.watch is not None:
            self.watch(live, events)
        if live.state.parent is not None and not live.state.live:
            failpoint("control.before-wake")
        for event in events:
            self.relatives.see(live.state, event.fact)
            self.timers.see(live.id, event.fact)
        if (snapshot := save(live, len(events), self.settings.snapshot_bytes)) is not None:
            self.spawn(self._keep(live.id, snapshot))

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, execution_id: str, snapshot: Snapshot) -> None:
        failpoint("control.before-snapshot")
        with suppress(Unavailable):  # the log has it all
            await self.store.keep(execution_id, snapshot)

    async def iterations(self, execution_id: str, run: str, only: range | None = None) -> list[Output | None]:
        """What the iterations of a loop gave back, from the log, whoever owns it (D30)."""
        log = [fact for row in await self.store.read(execution_id) for fact in row.facts]
        return [output for _, output in iteration_outputs(log, run, only)]

    # Loading

    def drop_if_behind(self, execution_id: str, head: int) -> None:
        """A commit that we were told had failed may have happened later: the log then knows more than we."""
        live = self.lives.get(execution_id)
        if live is not None and not live.busy and live.state.seq < head:
            del self.lives[execution_id]

    async def live(self, execution_id: str) -> LiveExecution:
        live = self.lives.get(execution_id)
        if live is not None:
            if self.owners.keeps(execution_id, live.owner):
                return live
            del self.lives[execution_id]
        if execution_id in self._loading:
            return await asyncio.shield(self._loading[execution_id])
        loading = self._loading[execution_id] = asyncio.get_running_loop().create_future()
        try:
            live = await self._load(execution_id)
            resolve(loading, live)
            return live
        except BaseException as error:
            loading.set_exception(error)
            loading.exception()  # seen: whoever waits gets it too, and nobody may be waiting
            raise
        finally:
            del self._loading[execution_id]

    async def _load(self, execution_id: str) -> LiveExecution:
        owner = await self.owners.number(execution_id)
        state, rows = await saved(self.store, execution_id)
        if state is None:
            if not rows:
                raise NotFound(f"no execution {execution_id}")
            state = State(execution_id=execution_id)
        fold(state, rows)
        live = await self._new(execution_id, await self.programs.by_digest(state.digest), owner)
        live.state, live.agenda = state, agenda_of(state)
        self.lives[execution_id] = live
        if self.settings.settle_s and state.live:
            live.quiet_until = self.clock.monotonic() + self.settings.settle_s
            if self.roll_call is not None:
                self.roll_call()
            self.spawn(self._settle(live))
        else:
            self.dispatch.gather_all(live)
        return live

    async def _settle(self, live: LiveExecution) -> None:
        """Workers may have frames of it that we know nothing of: what none of them names is handed out."""
        await self.clock.sleep(self.settings.settle_s)
        with suppress(Unavailable):  # it was given up meanwhile, and is read anew
            await self.look(live, lambda: self.dispatch.gather_all(live))
            await self.dispatch.pump()

    async def _new(self, execution_id: str, program: Program, owner: int | None = None) -> LiveExecution:
        limits = {**program.limits, ITEMS_LIMIT: self.settings.items_bytes}
        number = await self.owners.number(execution_id) if owner is None else owner
        return LiveExecution(execution_id, program._replace(limits=limits), number)


def _nothing() -> None:
    """An answer that says only that it is on record."""
