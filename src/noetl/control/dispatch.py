"""Who gets what to do: frames that are due, as pointers in the queue or straight to a worker with room.

Fair between executions, for each pool of workers: pointers go out round robin, a window of them at most, and
a share of it for each execution, so that nobody stands behind a crowd. While others wait, a worker is handed
few frames of one execution in a row, and none of one with half of the slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf

from noetl.clock import Clock
from noetl.control.deps import ControlSettings
from noetl.control.live_execution import LiveExecution, Lost, Out, is_due, is_open, pool_of
from noetl.engine import Event, facts
from noetl.engine.state import Run
from noetl.engine.work import due, due_of
from noetl.errors import Unavailable
from noetl.ids import frame_id, frame_parts
from noetl.ports import Epoch, Pointer, WorkQueue

STREAK_MAX = 3  # frames that an execution hands on in a row while others wait
SHARES = 8  # of a window: no execution has more pointers before the others' than one of them


class _Pool:
    """Workers that can do the same, as seen from here."""

    def __init__(self) -> None:
        self.ring: dict[str, LiveExecution] = {}  # executions with frames to hand out; the first is next
        self.unbegun = 0  # pointers that nobody has followed yet


class Dispatch:
    """What is due of all executions here, what of it is on its way, and who has it."""

    def __init__(self, queue: WorkQueue, clock: Clock, settings: ControlSettings) -> None:
        self._queue = queue
        self._clock = clock
        self._settings = settings
        self._pools: dict[str, _Pool] = {}
        self._held: dict[str, tuple[int, float]] = {}  # worker → the most frames that it had lately, and when
        self.window: Callable[[str], int] | None = None  # pool → pointers at once; None: as the settings say

    # What there is to do

    def gather(self, live: LiveExecution, events: Sequence[Event]) -> None:
        """After a commit: what has become due by it. It costs what is new, and not what there is."""
        runs: dict[str, bool] = {}  # run → look at all of it
        for event in events:
            match event.fact:
                case facts.StepScheduled(run=run):
                    runs[run] = True
                case facts.LoopStarted(run=run):
                    runs[run] = True
                    if live.opening.pop(run, None) is not None:
                        self.returned(live, run)
                case facts.LoopDone(run=run) if run in live.closing:
                    live.closing.discard(run)
                    self.returned(live, run)
                case facts.IterationDone(run=run) | facts.IterationFailed(run=run):
                    runs.setdefault(run, False)
                case facts.FrameResumed(frame=frame):
                    self.add(live, [frame])
                case facts.StepFailed(run=str(run)):
                    self._give_up(live, run)
                case facts.Resumed() | facts.Retried():
                    self.gather_all(live)
        for name, whole in runs.items():
            run_ = live.state.runs.get(name)
            if run_ is not None and run_.output is None:
                self.add(live, due_of(run_) if whole else _newest(live, run_))

    def gather_all(self, live: LiveExecution) -> None:
        """Everything that is due: after a fold, and when something may have been lost."""
        self.add(live, due(live.state))

    def add(self, live: LiveExecution, frames: Iterable[str]) -> None:
        """Frames that are due: those are handed out that are on nobody's way."""
        now = self._clock.monotonic()
        if live.state.status != "running" or now < live.quiet_until:
            return
        for frame in frames:
            out = live.out.get(frame)
            if out is not None and out.until <= now:
                if out.worker:
                    lost, company = live.lost.get(frame, Lost()), self._held.get(out.worker, (1, now))[0]
                    live.lost[frame] = Lost(lost.workers + 1, lost.company + company)
                self.returned(live, frame)  # lost, however it was lost
            if frame not in live.out:
                pool = pool_of(live, frame)
                live.ready.setdefault(pool, {})[frame] = None
                self._pool(pool).ring[live.id] = live

    def _pool(self, name: str) -> _Pool:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = _Pool()
        return pool

    def _window(self, pool: str) -> int:
        """Twice the slots of its workers."""
        return self._settings.window if self.window is None else self.window(pool)

    def _give_up(self, live: LiveExecution, run: str) -> None:
        """Frames of a run that has ended without them."""
        for frame in [frame for frame in live.out if frame_parts(frame)[0] == run]:
            self.returned(live, frame)

    # Handing it out

    def next_for(self, live: LiveExecution, pool: str) -> str | None:
        """A frame that a worker with room may have at once; None: it should ask the queue like everyone."""
        ring, unbegun = self._pool(pool).ring, self._pool(pool).unbegun
        if unbegun > live.unbegun.get(pool, 0) or len(ring) > (live.id in ring):
            live.streak += 1
            held = len(live.out) - sum(live.unbegun.values())
            if live.streak > STREAK_MAX or held > self._window(pool) // 4:  # half of the slots
                live.streak = 0
                return None
        return next(self._next(live, pool), None)

    def _next(self, live: LiveExecution, pool: str) -> Iterator[str]:
        """Frames to hand out, as long as limits.in_flight allows (D45)."""
        most = live.program.limits["in_flight"]
        ready = live.ready.get(pool, {})
        while ready and len(live.out) < most:
            frame = next(iter(ready))
            del ready[frame]
            if is_due(live, frame):
                yield frame
        if not ready:
            live.ready.pop(pool, None)
            self._pool(pool).ring.pop(live.id, None)

    async def pump(self) -> None:
        """Put pointers, one execution after the other, until the windows are full."""
        pointers = [pointer for name, pool in self._pools.items() for pointer in self._fill(name, pool)]
        if pointers:
            try:
                await self._queue.put(pointers)
            except Unavailable:
                return  # the sweeper puts them again

    def _fill(self, name: str, pool: _Pool) -> Iterator[Pointer]:
        if not pool.ring:
            return
        window = self._window(name)
        share = max(1, window // SHARES)
        until = self._clock.monotonic() + self._settings.resend_s
        idle = 0  # executions in a row that may not have more out
        while pool.ring and pool.unbegun < window and idle <= len(pool.ring):
            live = pool.ring.pop(next(iter(pool.ring)))
            pool.ring[live.id] = live
            is_full = live.unbegun.get(name, 0) >= share
            frame = None if is_full else next(self._next(live, name), None)
            idle = idle + 1 if frame is None else 0
            if frame is not None:
                live.unbegun[name] = live.unbegun.get(name, 0) + 1
                pool.unbegun += 1
                live.dispatched += 1
                live.out[frame] = Out(until, name)
                yield Pointer(live.id, frame, live.dispatched, name)

    def granted(self, live: LiveExecution, frame: str, worker: str, epoch: Epoch) -> None:
        """A worker has it, until its lease runs out."""
        before = live.out.get(frame)
        if before is not None and not before.worker:
            self._followed(live, before.pool)
        pool = before.pool if before is not None else pool_of(live, frame)
        if pool in live.ready:
            live.ready[pool].pop(frame, None)
        live.out[frame] = Out(self._clock.monotonic() + self._settings.lease_s, pool, worker, epoch)

    def returned(self, live: LiveExecution, frame: str) -> None:
        """Nobody has it any more."""
        before = live.out.pop(frame, None)
        if before is not None and not before.worker:
            self._followed(live, before.pool)

    def handed_back(self, live: LiveExecution, frame: str) -> None:
        """The worker has let go of it. What was parked and resumed in one commit is due again at once."""
        self.returned(live, frame)
        if is_due(live, frame):
            self.add(live, [frame])

    def _followed(self, live: LiveExecution, pool: str) -> None:
        live.unbegun[pool] -= 1
        self._pools[pool].unbegun -= 1

    def first_end(self, lives: Mapping[str, LiveExecution]) -> float:
        """When the first of all that is out counts as lost, if nobody is heard of."""
        running = (live for live in lives.values() if live.state.status == "running")
        return min((out.until for live in running for out in live.out.values()), default=inf)

    def take_lapsed(self, lives: Mapping[str, LiveExecution]) -> None:
        """What counts as lost by now is handed out again."""
        now = self._clock.monotonic()
        for live in lives.values():
            if not live.busy:
                lapsed = [frame for frame, out in live.out.items() if out.until <= now]
                self.add(live, [frame for frame in lapsed if is_due(live, frame)])

    def recount(self, lives: Mapping[str, LiveExecution]) -> None:
        """What is out and no longer due is over; executions that left us take their pointers with them."""
        for live in lives.values():
            if not live.busy:
                for frame, out in list(live.out.items()):
                    if not (is_open if out.worker else is_due)(live, frame):
                        self.returned(live, frame)
        for name, pool in self._pools.items():
            pool.ring = {id: live for id, live in pool.ring.items() if lives.get(id) is live}
            pool.unbegun = sum(live.unbegun.get(name, 0) for live in lives.values())
        self._count_held(lives)

    def _count_held(self, lives: Mapping[str, LiveExecution]) -> None:
        """What a worker that vanished had in hand counts as its own until all leases of it are over."""
        now = self._clock.monotonic()
        since = now - 2 * self._settings.lease_s
        held = Counter(out.worker for live in lives.values() for out in live.out.values() if out.worker)
        kept = {worker: each for worker, each in self._held.items() if each[1] > since}
        self._held = kept | {
            worker: (count, now) for worker, count in held.items() if count >= kept.get(worker, (0, now))[0]
        }


def _newest(live: LiveExecution, run: Run) -> list[str]:
    """Iterations that were handed out last, and that are not on their way: the lowest first."""
    found: list[str] = []
    if run.loop is None:
        return found
    for index in reversed(run.loop.flying):
        frame = frame_id(run.id, index)
        if frame in live.out or any(frame in ready for ready in live.ready.values()):
            break
        known = run.frames.get(index)
        if known is None or (known.parked is None and known.pc >= 0):
            found.append(frame)
    return found[::-1]
