"""Control: accepts commands and reports, commits what follows, and only then answers, dispatches and tells.

It is the single writer of the executions whose partitions it owns; the store refuses it when it is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.json import encode

from noetl.clock import Clock
from noetl.control.family import TOLD, Waiting, child_start, children, wake_of
from noetl.control.house import Outside, Programs, Settings
from noetl.control.items import fetch_items, hand_over, items_of, unstarted
from noetl.control.live import Asked, Item, Lease, Live, Look, is_due, touched
from noetl.engine import FACTS_PER_COMMIT_MAX, Event, Recorded, handle
from noetl.engine.commands import Command, Report, Start, StartLoop, Wake
from noetl.engine.facts import (
    Cancelled,
    ForChild,
    FrameParked,
    Paused,
    Processed,
    Requested,
    Resumed,
)
from noetl.engine.loops import ITEMS_LIMIT
from noetl.engine.state import State
from noetl.engine.work import due, due_of, work_of
from noetl.errors import Conflict, Fenced, NotFound, Rejected, Unavailable
from noetl.ids import frame_parts, partition_of
from noetl.net.program import Program
from noetl.output import failed
from noetl.ports import Answer, Append, Epoch, Grant, Link, Pointer

T = TypeVar("T")

BATCH_MAX = 100  # items of one execution that share a commit


class Control:
    """One server's part of all executions."""

    def __init__(self, outside: Outside, programs: Programs, clock: Clock, settings: Settings) -> None:
        self.store, self.queue, self.results = outside
        self.programs = programs
        self.clock = clock
        self.settings = settings
        self.link: Link | None = None  # to the owners of other executions: children and parents
        self.owned: dict[int, int] = {}  # partition → our epoch
        self.lives: dict[str, Live] = {}
        self._loading: dict[str, asyncio.Future[Live]] = {}
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

    async def start(self, execution_id: str, path: str, start: Start) -> None:
        try:
            live = await self.live(execution_id)
        except NotFound:
            live = self.lives.setdefault(execution_id, self._new(execution_id, self.programs.by_path(path)))
        try:
            await self._ask(live, start)
        except Rejected as error:
            if error.code != "already-started":
                raise

    async def command(self, execution_id: str, command: Command) -> None:
        await self._ask(await self.live(execution_id), command)

    async def begin(self, execution_id: str, frame: str, worker: str) -> Grant | None:
        try:
            live = await self.live(execution_id)
        except NotFound:
            return None
        grant = await self._look(live, lambda: self._grant(live, frame, worker))
        assert not isinstance(grant, Answer)
        return grant

    async def report(self, execution_id: str, report: Report) -> Answer:
        live = await self.live(execution_id)
        lease = live.leases.get(report.frame)
        if lease is not None and report.epoch < lease.epoch:
            return Answer("stop", "fenced")
        try:
            await self._ask(live, report)
        except Rejected as error:
            return Answer("stop", error.code)
        live = await self.live(execution_id)
        answer = await self._look(live, lambda: self._go_on(live, report))
        assert isinstance(answer, Answer)
        return answer

    async def beat(self, worker: str, holds: Sequence[tuple[str, str, Epoch]]) -> list[tuple[str, str]]:
        stop: list[tuple[str, str]] = []
        for execution_id, frame, epoch in holds:
            live = self.lives.get(execution_id)
            if live is None or live.busy:
                continue  # not ours, not loaded, or not on record yet: silence is no order to stop
            lease = live.leases.get(frame)
            if live.state.status in ("cancelling", "cancelled") or (lease and lease.epoch > epoch):
                stop.append((execution_id, frame))
            elif is_due(live.state, frame):
                live.leases[frame] = Lease(epoch, worker, self.clock.monotonic() + self.settings.lease_s)
        return stop

    # Grants

    def _grant(self, live: Live, frame: str, worker: str) -> Grant | None:
        now = self.clock.monotonic()
        lease = live.leases.get(frame)
        if lease is not None and lease.worker != worker and now < lease.until:
            return None
        if not is_due(live.state, frame):
            return None
        # Counted for all executions, and for as long as we live: what is loaded anew must not begin anew.
        self._granted += 1
        epoch = (live.owner, self._granted)
        live.leases[frame] = Lease(epoch, worker, now + self.settings.lease_s)
        return Grant(work_of(live.program, live.state, frame), epoch, self.settings.lease_s, self.now())

    def _go_on(self, live: Live, report: Report) -> Answer:
        """It is on record. Is the frame still the worker's to go on with?"""
        lease = live.leases.get(report.frame)
        if lease is not None and lease.epoch > report.epoch:
            return Answer("stop", "fenced")
        if not is_due(live.state, report.frame):
            live.leases.pop(report.frame, None)
            live.sent.pop(report.frame, None)
            return Answer("stop", "over")
        owner, index = frame_parts(report.frame)
        frame = live.state.runs[owner].frames[index]
        if frame.calls != report.position + len(report.facts):
            return Answer("stop", "elsewhere")
        worker = lease.worker if lease else ""
        live.leases[report.frame] = Lease(
            report.epoch, worker, self.clock.monotonic() + self.settings.lease_s
        )
        return Answer("go")

    # The one way to the log

    async def nudge(self, live: Live) -> None:
        """Decide what is left to decide: after a fold, or when a server died between two commits."""
        if live.agenda and live.state.live:
            await self._ask(live, None)

    async def _ask(self, live: Live, command: Command | None) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        live.inbox.append(Asked(command, answer))
        if not live.busy:
            live.busy = True
            # A task of its own: whoever asks may go away, the commit must not.
            self._spawn(self._drain(live))
        await answer

    async def _look(self, live: Live, ask: Callable[[], Grant | Answer | None]) -> Grant | Answer | None:
        """Asked of the state when no commit is out: nothing is shown that is not on record."""
        if not live.busy:
            return ask()
        answer: asyncio.Future[Grant | Answer | None] = asyncio.get_running_loop().create_future()
        live.inbox.append(Look(ask, answer))
        return await answer

    async def _drain(self, live: Live) -> None:
        """While a commit is out, further items gather for the next."""
        try:
            while live.inbox:
                batch = [live.inbox.popleft() for _ in range(min(len(live.inbox), BATCH_MAX))]
                asked = [item for item in batch if isinstance(item, Asked)]
                try:
                    events, refused = self._decide(live, asked)
                    await self._settle(live, events)
                except (Conflict, Fenced, Unavailable) as error:
                    self._abandon(live, batch, error)
                    return
                except BaseException as error:
                    self._abandon(live, batch, error)  # a bug of ours, or our end: nobody waits for ever
                    raise
                for item in batch:
                    if isinstance(item, Look):
                        _resolve(item.answer, item.ask())
                    elif item.answer not in refused:
                        _resolve(item.answer, None)
        finally:
            live.busy = False

    async def _settle(self, live: Live, events: list[Event]) -> None:
        """Commit, and go on as long as a commit was full (D70)."""
        while True:
            await self._commit(live, events)
            await self._after(live, events)
            if len(events) < FACTS_PER_COMMIT_MAX:
                return
            events = handle(live.program, live.state, None, self.now(), live.agenda)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _decide(self, live: Live, asked: list[Asked]) -> tuple[list[Event], set[asyncio.Future[None]]]:
        events: list[Event] = []
        refused: set[asyncio.Future[None]] = set()
        for item in asked:
            try:
                events += handle(live.program, live.state, item.command, self.now(), live.agenda)
                hand_over(live, item.command)
            except Recorded:
                continue
            except Rejected as error:
                refused.add(item.answer)
                if not item.answer.done():
                    item.answer.set_exception(error)
        return events, refused

    async def _commit(self, live: Live, events: list[Event]) -> None:
        if not events:
            return
        append = Append(
            execution_id=live.state.execution_id,
            first_seq=events[0].seq,
            at=events[0].at,
            facts=tuple(event.fact for event in events),
            owner=live.owner,
            live=live.state.live,
        )
        refused = (await self.store.append([append]))[0]
        if refused is not None:
            raise refused

    def _abandon(self, live: Live, batch: list[Item], error: BaseException) -> None:
        """What we hold is not, or may not be, what is on record: forget it. Whoever asked asks again."""
        execution_id = live.state.execution_id
        if self.lives.get(execution_id) is live:
            del self.lives[execution_id]
        partition = partition_of(execution_id, self.settings.partitions)
        if isinstance(error, Fenced) and self.owned.get(partition) == live.owner:
            del self.owned[partition]
        for item in (*batch, *live.inbox):
            if not item.answer.done():
                item.answer.set_exception(Unavailable(f"the commit did not succeed: {error}"))
        live.inbox.clear()

    # After the commit

    async def _after(self, live: Live, events: list[Event]) -> None:
        runs = touched(events)
        await self.dispatch(live, runs)
        for run in unstarted(live, runs):
            self._spawn(self.store_items(live, run))
        for event in events:
            match event.fact:
                case FrameParked(until=ForChild() as child, frame=frame, call=call):
                    self._spawn(self._start_child(live.state, Waiting(child, frame, call)))
                case Processed() if live.state.parent:
                    self._spawn(self._wake_parent(live.state))
                case Paused() | Resumed() | Cancelled() as fact:
                    self._spawn(self._tell_children(live.state, TOLD[type(fact)]))

    async def dispatch(self, live: Live, runs: Sequence[str] | None = None) -> None:
        """Put pointers for frames that are due and on nobody's way; None: all of the execution."""
        if live.state.status != "running":
            return
        now = self.clock.monotonic()
        limit = live.program.limits["in_flight"]
        found = due(live.state, at_most=limit) if runs is None else (
            frame for run in runs if run in live.state.runs for frame in due_of(live.state.runs[run])
        )  # fmt: skip
        pointers = []
        for frame in found:
            lease = live.leases.get(frame)
            if (lease is not None and now < lease.until) or now < live.sent.get(
                frame, -1e9
            ) + self.settings.resend_s:
                continue
            live.dispatched += 1
            live.sent[frame] = now
            pointers.append(Pointer(live.state.execution_id, frame, live.dispatched))
        if pointers:
            try:
                await self.queue.put(pointers)
            except Unavailable:
                return  # the sweeper puts them again

    async def _start_child(self, state: State, waiting: Waiting) -> None:
        child, frame, call = waiting
        try:
            assert self.link is not None
            await self.link.start(child.execution_id, child.path, child_start(state, waiting))
        except NotFound as error:
            wake = Wake(frame=frame, output=failed("playbook", str(error)), call=call)
            with suppress(Unavailable, Rejected):
                await self.command(state.execution_id, wake)
        except (Unavailable, Rejected):
            return  # the sweeper asks again

    async def _tell_children(self, state: State, command: Command) -> None:
        """Pausing, resuming and cancelling go down to children (D67, D68)."""
        assert self.link is not None
        for waiting in children(state):
            with suppress(Unavailable, NotFound, Rejected):
                await self.link.command(waiting.child.execution_id, command)

    async def _wake_parent(self, state: State) -> None:
        execution_id, wake = wake_of(state)
        try:
            assert self.link is not None
            await self.link.command(execution_id, wake)
        except (Unavailable, NotFound, Rejected):
            return  # the parent's sweeper asks after its children

    async def store_items(self, live: Live, run: str) -> None:
        """Items that are too many for the log are stored, and then the loop starts (D44)."""
        items = items_of(live, run, self.now())
        if items is None:
            return
        live.items[run] = items
        with suppress(Unavailable, Rejected):  # the sweeper tries again
            ref = await self.results.put(live.state.execution_id, encode(items), "application/json")
            await self._ask(live, StartLoop(run=run, ref=ref))

    # Loading

    def drop_if_behind(self, execution_id: str, head: int) -> None:
        """A commit that we were told had failed may have happened later: the log then knows more than we."""
        live = self.lives.get(execution_id)
        if live is not None and not live.busy and live.state.seq < head:
            del self.lives[execution_id]

    async def live(self, execution_id: str) -> Live:
        live = self.lives.get(execution_id)
        if live is not None:
            return live
        if execution_id in self._loading:
            return await asyncio.shield(self._loading[execution_id])
        loading = self._loading[execution_id] = asyncio.get_running_loop().create_future()
        try:
            live = await self._load(execution_id)
            _resolve(loading, live)
            return live
        except BaseException as error:
            loading.set_exception(error)
            loading.exception()  # seen: whoever waits gets it too, and nobody may be waiting
            raise
        finally:
            del self._loading[execution_id]

    async def _load(self, execution_id: str) -> Live:
        self._epoch(execution_id)  # ours, or Unavailable
        rows = await self.store.read(execution_id)
        if not rows:
            raise NotFound(f"no execution {execution_id}")
        requested = rows[0].facts[0]
        assert isinstance(requested, Requested)
        live = self._new(execution_id, self.programs.by_digest(requested.digest))
        live.fold(rows)
        await fetch_items(live.state, self.results)
        self.lives[execution_id] = live
        return live

    def _new(self, execution_id: str, program: Program) -> Live:
        limits = {**program.limits, ITEMS_LIMIT: self.settings.items_bytes}
        return Live(execution_id, program._replace(limits=limits), self._epoch(execution_id))

    def _epoch(self, execution_id: str) -> int:
        partition = partition_of(execution_id, self.settings.partitions)
        if partition not in self.owned:
            raise Unavailable(f"partition {partition} is not ours")
        return self.owned[partition]


def _resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
