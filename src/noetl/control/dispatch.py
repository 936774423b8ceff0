"""Dispatch of due frames: through the queue, or directly to a worker with free slots."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from noetl.clock import Clock
from noetl.control.deps import ControlHooks, ControlSettings
from noetl.control.live_execution import (
    UNKNOWN_WORKER,
    DispatchedFrame,
    LiveExecution,
    LostWorkers,
    is_due,
    is_open,
    lost_workers,
    pool_of,
)
from noetl.engine import facts
from noetl.engine.commands import Lose
from noetl.engine.delegation import is_decision
from noetl.engine.moves import due, due_of
from noetl.engine.state import Run
from noetl.errors import Unavailable
from noetl.ids import frame_id, frame_parts
from noetl.ports import Claim, Epoch, Pointer, WorkQueue
from noetl.views.pools import ShareWait

REPEAT_S = 0.5  # from a failed write of pointers to the next one
POINTERS_MAX = 100_000  # in the outbox; more are dropped, and the sweeper sends them when slots are free


class Outbox:
    """Implements WorkQueue. Pointers that arrive while the queue writes are sent together; a failed write is repeated.

    The sweeper would be late: in a busy pool it cannot tell a lost pointer from one that waits for a free slot.
    """

    def __init__(self, queue: WorkQueue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._unsent: dict[tuple[str, str], Pointer] = {}  # execution and frame → the newest pointer
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = False

    async def put(self, pointers: Sequence[Pointer]) -> None:
        if len(self._unsent) < POINTERS_MAX:
            self._unsent |= {(pointer.execution_id, pointer.frame): pointer for pointer in pointers}
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        try:
            while self._unsent:
                sent, self._unsent = self._unsent, {}
                try:
                    await self._queue.put(list(sent.values()))
                except Unavailable:
                    if self._is_closing:
                        return  # the next owner sends its own
                    self._unsent = sent | self._unsent
                    await self._clock.sleep(REPEAT_S)
        finally:
            self._sending = None

    async def take(self, limit: int) -> list[Claim]:
        return await self._queue.take(limit)

    async def done(self, claim: Claim) -> None:
        await self._queue.done(claim)

    async def close(self) -> None:
        self._is_closing = True
        if self._sending is not None:
            await self._sending


OVERTAKEN_S = 1.0  # pointers that workers claim at about the same time may begin in any order
STREAK_MAX = 3  # frames of one execution that a worker receives directly in a row while others wait
WAITING_RUNS_MAX = 1_000  # of an execution that are listed because they wait for its share
SHARES = 8  # of a window: an execution has at most one share of pointers ahead of the others


# Facts after which frames may be due, or are no longer in flight. Most facts are none of them.
DISPATCHING = frozenset({
    facts.Requested, facts.IterationDone, facts.IterationFailed, facts.StepScheduled, facts.LoopStarted, facts.LoopDone,
    facts.FrameResumed, facts.StepFailed, facts.PermitGranted, facts.HoldReleased, facts.BreakpointSet,
    facts.Resumed, facts.Retried, facts.FrameLost,
})  # fmt: skip


class _Pool:
    """Workers with the same capabilities, as this process sees them."""

    def __init__(self) -> None:
        self.ring: dict[str, LiveExecution] = {}  # executions with frames to dispatch; the first is next
        self.unclaimed = 0  # pointers that no worker has claimed yet
        self.queued = 0  # those of them that are in the queue
        self.held = 0  # frames of executions here that workers hold
        self.peak = 0  # of `held` lately
        self.peak_at = -inf
        self.full_at = -inf  # when all its slots were seen to be busy
        self.claimed_at = -inf  # when the newest of the pointers that workers have claimed was put into the queue
        self.suspect: tuple[LiveExecution, str] | None = None  # the last suspect that was dispatched


class Dispatch:
    """The due frames of all executions here, the frames in flight, and the workers that hold them."""

    def __init__(
        self,
        queue: WorkQueue,
        clock: Clock,
        settings: ControlSettings,
        hooks: ControlHooks,
        *,
        on_lost: Callable[[LiveExecution, Lose], None],
    ) -> None:
        """`on_lost`: called when the lease of a worker has expired, before the frame is dispatched again."""
        self._queue = queue
        self._clock = clock
        self._settings = settings
        self._window_of = hooks.window
        self._is_full_of = hooks.is_full
        self._use_own_slot = hooks.use_own_slot
        self._on_lost = on_lost
        self._pools: defaultdict[str, _Pool] = defaultdict(_Pool)
        self._held: dict[str, tuple[int, float]] = {}  # worker → its recent maximum of frames, and when
        self.lost = 0  # frames whose pointer or worker was lost, since the start

    # Due frames

    def on_commit(self, live: LiveExecution, committed: Iterable[facts.Fact]) -> None:
        """Enqueue frames that became due. The cost depends on the facts, not on the execution.

        `committed`: the facts of the commit, at least those in `DISPATCHING`.
        """
        runs: dict[str, bool] = {}  # run → whether to examine all of it
        frames: list[str] = []
        everything = False
        failed: set[str] = set()
        for fact in committed:
            if type(fact) not in DISPATCHING:
                continue
            match fact:  # the most frequent first
                case facts.StepScheduled(run=run) | facts.PermitGranted(run=str(run)):
                    runs[run] = True
                case facts.IterationDone(run=run) | facts.IterationFailed(run=run):
                    runs.setdefault(run, False)
                case facts.Requested(fork=facts.ForkOrigin()):
                    self.enqueue_all(live)  # most of its frames have already ended
                    return
                case facts.LoopStarted(run=run):
                    runs[run] = True
                    if live.opening.pop(run, None) is not None:
                        self.release(live, run)
                case facts.LoopDone(run=run) if run in live.closing:
                    live.closing.discard(run)
                    self.release(live, run)
                case facts.FrameResumed(frame=frame):
                    frames.append(frame)
                case facts.StepFailed(run=str(run)):
                    failed.add(run)
                case facts.HoldReleased(at=at):
                    frames.append(at)
                    runs[at] = True
                case facts.BreakpointSet():
                    live.unaware |= live.in_flight.keys()
                case facts.FrameLost(frame=frame):
                    live.lost_frames.add(frame)
                case facts.Resumed() | facts.Retried() | facts.PermitGranted():
                    everything = True
        if failed:  # first: a frame in flight is not enqueued
            self._release_runs(live, failed)
        if everything:
            self.enqueue_all(live)
        elif frames:
            self.enqueue(live, frames)
        for name, whole in runs.items():
            run_ = live.state.runs.get(name)
            if run_ is not None and run_.output is None:
                self.enqueue(live, due_of(run_) if whole else _newest(live, run_))

    def enqueue_all(self, live: LiveExecution) -> None:
        """All due frames: after a load, and when something may be lost."""
        self.enqueue(live, due(live.state))

    def enqueue(self, live: LiveExecution, frames: Iterable[str]) -> None:
        """Enqueue those of the due frames that are not in flight."""
        now = self._clock.monotonic()
        if live.state.status != "running" or now < live.quiet_until:
            return
        for frame in frames:
            known = live.in_flight.get(frame)
            if known is not None and known.until <= now and not known.worker and self._waits_for_slot(known, now):
                live.in_flight[frame] = replace(known, until=now + self._settings.resend_s)
            elif known is not None and known.until <= now:
                self.lost += 1
                if known.worker:
                    lost, company = lost_workers(live, frame), self._held.get(known.worker, (1, now))[0]
                    live.lost[frame] = LostWorkers(lost.workers + 1, lost.company + company)
                    live.lost_frames.add(frame)
                    if not is_decision(frame):
                        worker = "" if known.worker == UNKNOWN_WORKER else known.worker
                        self._on_lost(live, Lose(frame=frame, worker=worker, epoch=known.epoch, held=company))
                else:
                    live.resent.add(frame)
                self.release(live, frame)  # the pointer or the worker is lost
            if frame not in live.in_flight:
                pool = pool_of(live, frame)
                ready = live.ready.get(pool)
                if ready is None:
                    ready = live.ready[pool] = OrderedDict()
                ready[frame] = None
                self._pools[pool].ring[live.id] = live

    def _window(self, pool: str) -> int:
        """Twice the slots of its workers."""
        return self._settings.window if self._window_of is None else self._window_of(pool)

    def _waits_for_slot(self, pointer: DispatchedFrame, now: float) -> bool:
        """Whether a pointer that no worker has claimed is probably not lost.

        Between two frames a slot is free for a moment, so that a pool under full load is not full at each moment. A
        pointer waits if all slots were busy within `resend_s`, unless workers have claimed a pointer that is newer by
        more than `OVERTAKEN_S`: they claim the pointers of a queue in order.
        """
        name, pool, recent_s = pointer.pool, self._pools[pointer.pool], self._settings.resend_s
        held = pool.peak if now - pool.peak_at < recent_s else pool.held
        if held >= self._window(name) // 2 if self._is_full_of is None else self._is_full_of(name, held):
            pool.full_at = now
        return now - pool.full_at < recent_s and pool.claimed_at - pointer.at <= OVERTAKEN_S

    def share_of(self, pool: str) -> int:
        """The frames of a pool that one execution may have in flight: it leaves the reserve to others."""
        if not self._settings.slot_reserve:
            return POINTERS_MAX
        slots = self._window(pool) // 2
        reserved = int(slots * self._settings.slot_reserve)
        return slots - reserved if reserved else POINTERS_MAX

    def share_waits(self, live: LiveExecution) -> list[ShareWait]:
        """The pools in which due frames of the execution wait only because workers hold its share of the slots.

        While one of its pointers waits for a worker, a frame waits for that worker and not for the share.
        """
        is_running = live.state.status == "running" and live.state.held is None
        if not is_running or len(live.in_flight) >= live.program.limits["in_flight"]:
            return []
        waits: list[ShareWait] = []
        for pool, ready in live.ready.items():
            held, share = live.in_pool.get(pool, 0) - live.unclaimed.get(pool, 0), self.share_of(pool)
            if held >= share and (runs := self._due_runs(live, ready)):
                waits.append(ShareWait(pool, held, share, tuple(runs)))
        return waits

    def _due_runs(self, live: LiveExecution, frames: Iterable[str]) -> list[str]:
        """The runs that have one of these frames, if it could begin now. At most `WAITING_RUNS_MAX`."""
        runs: dict[str, None] = {}
        for frame in frames:
            run = frame_parts(frame)[0]
            if run not in runs and is_due(live, frame) and not self._is_suspect(live, frame):
                runs[run] = None
                if len(runs) == WAITING_RUNS_MAX:
                    break
        return list(runs)

    def _release_runs(self, live: LiveExecution, runs: set[str]) -> None:
        """Release the frames of runs that ended without them."""
        for frame in [frame for frame in live.in_flight if frame_parts(frame)[0] in runs]:
            self.release(live, frame)

    # Frames in flight

    def next_for(self, live: LiveExecution, pool: str) -> str | None:
        """A frame for a worker with a free slot; None: the worker takes a pointer from the queue instead."""
        found = self._pools[pool]
        ring = found.ring
        if found.unclaimed > live.unclaimed.get(pool, 0) or len(ring) > (live.id in ring):
            live.streak += 1
            held = len(live.in_flight) - sum(live.unclaimed.values())
            if live.streak > STREAK_MAX or held > self._window(pool) // 4:  # half of the slots
                live.streak = 0
                return None
        return self._next(live, pool)

    def _next(self, live: LiveExecution, pool: str) -> str | None:
        """The next frame to dispatch, if limits.in_flight (D45) and the share of the pool permit one."""
        found = None
        ready = live.ready.get(pool) if live.state.status == "running" and live.state.held is None else None
        has_room = len(live.in_flight) < live.program.limits["in_flight"]
        if ready and has_room and live.in_pool.get(pool, 0) < self.share_of(pool):
            suspects: list[str] = []
            while found is None and ready:
                frame, _ = ready.popitem(last=False)
                if not is_due(live, frame):
                    continue
                if frame in live.lost_frames and not self._may_run(live, frame, pool):
                    suspects.append(frame)
                else:
                    found = frame
            for frame in reversed(suspects):
                ready[frame] = None
                ready.move_to_end(frame, last=False)
        if not ready:
            live.ready.pop(pool, None)
            self._pools[pool].ring.pop(live.id, None)
        return found

    def may_begin(self, live: LiveExecution, frame: str, now: float) -> bool:
        """Whether a worker may begin a due frame that was not dispatched here."""
        return now >= live.quiet_until and self._may_run(live, frame, pool_of(live, frame))

    def _may_run(self, live: LiveExecution, frame: str, pool: str) -> bool:
        """False for a suspect while another one runs in its pool.

        A frame that ends its process would otherwise take the same frames with it each time, and they would be blamed,
        too. One after the other, they complete or end their process alone.
        """
        if not self._is_suspect(live, frame):
            return True
        found = self._pools[pool]
        if found.suspect is not None and found.suspect != (live, frame):
            other, running = found.suspect
            if running in other.in_flight and not other.abandoned and self._is_suspect(other, running):
                return False
        found.suspect = live, frame
        return True

    def _is_suspect(self, live: LiveExecution, frame: str) -> bool:
        return frame in live.lost_frames and lost_workers(live, frame).makes_suspect(self._settings.lost_max)

    async def pump(self) -> None:
        """Send pointers, one execution after the other, until the windows are full."""
        pointers = [pointer for name, pool in self._pools.items() if pool.ring for pointer in self._fill(name, pool)]
        if pointers:
            try:
                await self._queue.put(pointers)
            except Unavailable:
                return  # the sweeper sends them again

    def _fill(self, name: str, pool: _Pool) -> Iterator[Pointer]:
        window = self._window(name)
        share = max(1, window // SHARES)
        now = self._clock.monotonic()
        until = now + self._settings.resend_s
        idle = 0  # executions in a row that may not have more in flight
        while pool.ring and pool.unclaimed < window and idle <= len(pool.ring):
            live = pool.ring.pop(next(iter(pool.ring)))
            pool.ring[live.id] = live
            is_full = live.unclaimed.get(name, 0) >= share
            frame = None if is_full else self._next(live, name)
            idle = idle + 1 if frame is None else 0
            if frame is not None:
                live.unclaimed[name] = live.unclaimed.get(name, 0) + 1
                pool.unclaimed += 1
                live.dispatched += 1
                live.in_pool[name] = live.in_pool.get(name, 0) + 1
                pointer = Pointer(live.id, frame, live.dispatched, name)
                # A pointer does not overtake those in the queue.
                direct = not pool.queued and self._use_own_slot is not None and self._use_own_slot(pointer)
                live.in_flight[frame] = DispatchedFrame(until, name, at=now, direct=direct)
                if not direct:
                    pool.queued += 1
                    yield pointer

    def mark_granted(self, live: LiveExecution, frame: str, worker: str, epoch: Epoch, pool: str | None = None) -> None:
        """The worker holds the frame until its lease expires. `pool`: of the frame, if it is known."""
        before, now = live.in_flight.get(frame), self._clock.monotonic()
        if before is not None:
            pool = before.pool
            if not before.worker:
                self._claimed(live, before)
        else:
            pool = pool or pool_of(live, frame)
            live.in_pool[pool] = live.in_pool.get(pool, 0) + 1
        if before is None or not before.worker:
            found = self._pools[pool]
            found.held += 1
            self._note_held(found, now)
            if before is not None and not before.direct and frame not in live.resent:
                found.claimed_at = max(found.claimed_at, before.at)
        live.resent.discard(frame)
        if pool in live.ready:
            live.ready[pool].pop(frame, None)
        same = before is not None and (before.worker, before.epoch) == (worker, epoch)
        since = before.at if before is not None and same else now
        live.in_flight[frame] = DispatchedFrame(now + self._settings.lease_s, pool, worker, epoch, since)

    def release(self, live: LiveExecution, frame: str) -> None:
        """The frame is no longer in flight."""
        before = live.in_flight.pop(frame, None)
        live.unaware.discard(frame)
        if before is None:
            return
        live.in_pool[before.pool] -= 1
        if before.worker:
            pool = self._pools[before.pool]
            self._note_held(pool, self._clock.monotonic())
            pool.held -= 1
        else:
            self._claimed(live, before)

    def _note_held(self, pool: _Pool, now: float) -> None:
        """Before and after each change of the number, so that its peak within `resend_s` is known."""
        if pool.held >= pool.peak or now - pool.peak_at >= self._settings.resend_s:
            pool.peak, pool.peak_at = pool.held, now

    def release_and_requeue(self, live: LiveExecution, frame: str) -> None:
        """The worker has released the frame. A frame resumed by the same commit is due at once."""
        self.release(live, frame)
        if is_due(live, frame):
            self.enqueue(live, [frame])

    def _claimed(self, live: LiveExecution, frame: DispatchedFrame) -> None:
        pool = self._pools[frame.pool]
        live.unclaimed[frame.pool] -= 1
        pool.unclaimed -= 1
        pool.queued -= not frame.direct

    # Lost frames

    def next_expiry(self, executions: Mapping[str, LiveExecution]) -> float:
        """When the first frame in flight counts as lost, unless a heartbeat arrives."""
        running = (live for live in executions.values() if live.state.status == "running")
        return min((each.until for live in running for each in live.in_flight.values()), default=inf)

    def requeue_expired(self, executions: Mapping[str, LiveExecution]) -> None:
        """Dispatch the frames again that count as lost by now."""
        now = self._clock.monotonic()
        for live in executions.values():
            if not live.busy:
                expired = [frame for frame, each in live.in_flight.items() if each.until <= now]
                self.enqueue(live, [frame for frame in expired if is_due(live, frame)])

    def reconcile(self, executions: Mapping[str, LiveExecution]) -> None:
        """Release frames in flight that are no longer due, and recount after executions left this server."""
        direct: Counter[str] = Counter()  # pointers of each pool
        for live in executions.values():
            for frame, each in list(live.in_flight.items()):
                if not live.busy and not (is_open if each.worker else is_due)(live, frame):
                    self.release(live, frame)
                elif each.direct and not each.worker:
                    direct[each.pool] += 1
        for name, pool in self._pools.items():
            if pool.suspect is not None and executions.get(pool.suspect[0].id) is not pool.suspect[0]:
                pool.suspect = None
            pool.ring = {id: live for id, live in pool.ring.items() if executions.get(id) is live}
            pool.unclaimed = sum(live.unclaimed.get(name, 0) for live in executions.values())
            pool.queued = pool.unclaimed - direct[name]
            all_here = sum(live.in_pool.get(name, 0) for live in executions.values())
            pool.held = all_here - pool.unclaimed
        self._count_held(executions)

    def _count_held(self, executions: Mapping[str, LiveExecution]) -> None:
        """Remember how many frames a worker held until all its leases have expired: it may have vanished."""
        now = self._clock.monotonic()
        since = now - 2 * self._settings.lease_s
        held = Counter(each.worker for live in executions.values() for each in live.in_flight.values() if each.worker)
        kept = {worker: each for worker, each in self._held.items() if each[1] > since}
        self._held = kept | {
            worker: (count, now) for worker, count in held.items() if count >= kept.get(worker, (0, now))[0]
        }


def _newest(live: LiveExecution, run: Run) -> list[str]:
    """The iterations that the last events started and that are not in flight, in ascending order."""
    found: list[str] = []
    if run.loop is None:
        return found
    for index in reversed(run.loop.flying):
        frame = frame_id(run.id, index)
        if frame in live.in_flight or any(frame in ready for ready in live.ready.values()):
            break
        known = run.frames.get(index)
        if known is None or (known.parked is None and known.pc >= 0):
            found.append(frame)
    return found[::-1]
