"""Whole houses in the simulator: servers and workers as processes that are killed and stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from noetl.adapters.memory.results import MemoryResults
from noetl.check.checker import check
from noetl.control.deps import ControlHooks, ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.ownership import PartitionOwners
from noetl.control.sweeper import sweep
from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, Start
from noetl.engine.facts import Processed
from noetl.engine.moves import RunTask
from noetl.engine.state import State
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.net.program import Program, compile_program
from noetl.output import Output, failed
from noetl.playbook.kinds import Kinds
from noetl.testing.audit import audit
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.world import Odds, SimClock, SimLink, SimQueue, SimStore
from noetl.views.replay import differences
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts

_BOTHER: tuple[tuple[Command, ...], ...] = ((Pause(), Resume()), (Cancel(),), (Cancel(), Retry(), Retry()))
PARTITIONS = 4
TTL_S = 5.0  # of a partition, and of a granted frame
FAULTS_S = (15.0, 30.0, 30.0, 60.0)  # how long there are faults: one of these
FAULT_EVERY_S = 0.8  # in the mean
END_S = 300.0


class Library:
    """The playbooks of a house, compiled."""

    def __init__(self, texts: dict[str, str], kinds: Kinds) -> None:
        self.programs: dict[str, Program] = {}
        for path, text in texts.items():
            checked = check(text, kinds, path)
            assert not checked.errors, [str(each) for each in checked.errors]
            assert checked.playbook is not None
            self.programs[path] = compile_program(checked.playbook, kinds, path)

    async def by_digest(self, digest: str) -> Program:
        return self.programs[await self.find(digest)]

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del near, version
        if path not in self.programs:
            raise NotFound(f"no playbook {path}")
        return path


class Build(NamedTuple):
    """What a house is made of. Tests plant bugs by putting something else here."""

    control: type[Control] = Control
    worker: type[Worker] = Worker
    store: type[SimStore] = SimStore
    sweep: Callable[[Control], Awaitable[None]] = sweep


class Told(NamedTuple):
    """What one run of the world came to."""

    states: dict[str, State]
    faults: int
    seconds: float
    steps: int


class Cluster:
    """Two servers, three workers, and a seed."""

    def __init__(
        self, seed: int, library: Library, *, calm: bool = False, build: Build | None = None
    ) -> None:
        self.loop = SimLoop(seed)  # type: ignore[abstract]  # what is not there must not be used
        self.build = build or Build()
        self.odds = Odds() if calm else _swarm(self.loop)
        self.faults_s = 0.0 if calm else self.loop.dice.choice(FAULTS_S)
        self.store = self.build.store(self.loop, self.odds, PARTITIONS)
        self.queue = SimQueue(self.loop, self.odds, self.store)
        self.link = SimLink(self.loop, self.odds, self.store)
        self.results = MemoryResults()
        self.library = library
        self.effects: dict[str, int] = {}
        self.tools: dict[str, Callable[[RunTask], Awaitable[Output]]] = {"http": self._tool, "noop": _noop}
        self.lives: dict[tuple[str, int], str] = {}
        self.workers: dict[str, Worker] = {}
        self._born: dict[tuple[str, int], int] = {}
        self.faults = 0

    def run(self, starts: dict[str, tuple[str, dict[str, object]]], commands: bool = False) -> Told:
        """`starts`: execution id → path and workload. Faults for a while, then all must come to an end."""
        self.loop.run(self._world(starts, commands))
        for crash in self.loop.crashes:
            raise AssertionError(f"a task crashed: {type(crash).__name__}: {crash}") from crash
        rows = self.store.truth.rows
        states = {execution_id: audit(execution_id, list(each)) for execution_id, each in rows.items()}
        for execution_id, live in self._at_rest():
            found = differences(states[execution_id], live.state)
            assert not found, f"{execution_id}: live is not what the log says: {found[0]}"
        return Told(states, self.faults, self.loop.time(), self.loop.steps)

    def history(self) -> str:
        """A digest of all logs: the same seed gives the same."""
        return hashlib.sha256(repr(sorted(self.store.truth.rows.items())).encode()).hexdigest()

    def _at_rest(self) -> Iterator[tuple[str, LiveExecution]]:
        """What servers hold of executions, as far as they have seen all of the log."""
        for _, control in self.link.servers.values():
            for execution_id, live in control.executions.items():
                head = self.store.truth.rows[execution_id][-1]
                if not live.busy and live.state.seq == head.first_seq + len(head.facts) - 1:
                    yield execution_id, live

    async def _world(self, starts: dict[str, tuple[str, dict[str, object]]], commands: bool) -> None:
        clock = SimClock(self.loop)
        for kind, number in (("s", 0), ("s", 1), ("w", 0), ("w", 1), ("w", 2)):
            self._bear(kind, number)
        for execution_id, (path, workload) in starts.items():
            self.loop.spawn("world", self._start(execution_id, path, workload))
        if commands:
            self.loop.spawn("world", self._bother(list(starts)))
        while not all(self._ended(execution_id) for execution_id in {**starts, **self.store.truth.rows}):
            await clock.sleep(self.loop.dice.random() * 2 * FAULT_EVERY_S)
            assert not self.store.violations, self.store.violations[0]
            assert self.loop.time() < END_S, f"liveness: not over after {END_S:.0f} virtual seconds"
            if self.loop.time() < self.faults_s:
                self._fault()
            else:
                self._calm_down()

    async def _start(self, execution_id: str, path: str, workload: dict[str, object]) -> None:
        clock = SimClock(self.loop)
        while execution_id not in self.store.truth.rows:
            try:
                await self.link.start(execution_id, path, Start(workload=workload))
            except Unavailable:
                await clock.sleep(0.5)

    async def _bother(self, executions: list[str]) -> None:
        """Pause, resume, cancel and retry at odd moments; what is refused is refused."""
        clock, dice = SimClock(self.loop), self.loop.dice
        for _ in range(6):
            await clock.sleep(dice.random() * 8)
            execution_id = dice.choice(executions)
            for command in dice.choice(_BOTHER):
                await self._insist(execution_id, command)
                await clock.sleep(dice.random() * 3)
        # A pause that was asked for may come late, after its resume: somebody looks after it in the end.
        await clock.sleep(self.faults_s)
        for execution_id in executions:
            await self._insist(execution_id, Resume())

    async def _insist(self, execution_id: str, command: Command) -> None:
        for _ in range(60):
            try:
                await self.link.command(execution_id, command)
                return
            except (Rejected, NotFound):
                return
            except Unavailable:
                await SimClock(self.loop).sleep(0.5)

    def _ended(self, execution_id: str) -> bool:
        rows = self.store.truth.rows.get(execution_id)
        return rows is not None and isinstance(rows[-1].facts[-1], Processed)

    def _bear(self, kind: str, number: int) -> None:
        self._born[kind, number] = self._born.get((kind, number), 0) + 1
        process = f"{kind}{number}.{self._born[kind, number]}"
        self.lives[kind, number] = process
        skew = (self.loop.dice.random() * 2 - 1) * self.odds.skew_s
        self.loop.spawn(process, self._serve(process, skew) if kind == "s" else self._work(process, skew))

    async def _serve(self, process: str, skew: float) -> None:
        clock = SimClock(self.loop, skew)
        reach = ControlPorts(self.store, self.queue, self.results, self.link)
        settings = ControlSettings(
            lease_s=TTL_S, resend_s=3.0, items_bytes=4, snapshot_bytes=2_000, window=6, settle_s=0.5,
            lost_max=1_000,  # here workers are lost by chance, and never by what they run
        )  # fmt: skip
        owners = PartitionOwners(self.store, clock, process, ttl_s=TTL_S, count=PARTITIONS)
        hooks = ControlHooks(on_load=(self._call_roll,))
        control = self.build.control(reach, self.library, owners, clock, settings, hooks=hooks)
        self.link.servers[process] = (process, control)
        while True:
            await owners.renew(control.set_time)
            await self.build.sweep(control)
            await clock.sleep(TTL_S / 3)

    async def _work(self, process: str, skew: float) -> None:
        clock = SimClock(self.loop, skew)
        outside = WorkerPorts(self.link, self.queue, self.results)
        worker = self.build.worker(process, outside, self._call, clock)
        self.workers[process] = worker
        for _ in range(3):
            self.loop.spawn(process, worker.serve())
        await worker.send_heartbeats(TTL_S / 3)

    async def _call(self, called: RunTask, _context: CallContext) -> Output:
        return await self.tools[called.task.kind](called)

    async def _tool(self, called: RunTask) -> Output:
        """An effect on the world: what comes back depends on the key and the attempt alone."""
        await SimClock(self.loop).sleep(self.loop.dice.random() * 2)
        self.effects[called.key] = self.effects.get(called.key, 0) + 1
        number = int(hashlib.sha256(f"{called.key}{called.attempt}".encode()).hexdigest()[:6], 16)
        if number % 5 == 0:
            return failed("http", "it did not work", retryable=True)
        return Output(data=number % 100)

    def _call_roll(self) -> None:
        """Every worker that lives tells what it has in hand; some of it is lost on the way."""
        for process, worker in self.workers.items():
            if process in self.lives.values():
                self.loop.spawn(process, worker.send_heartbeat())

    def _fault(self) -> None:
        dice = self.loop.dice
        place = list(self.lives)[dice.randrange(len(self.lives))]
        what = self.mix[dice.randrange(len(self.mix))] if self.mix else ""
        self.faults += 1
        if what == "kill":
            self.loop.kill(self.lives[place])
            self.link.servers.pop(self.lives[place], None)
            self.queue.lose_takers()
            self._bear(*place)
        elif what == "pause":
            self.loop.pause(self.lives[place], dice.random() * 12)
        elif what == "wipe":
            self.queue.wipe()

    @property
    def mix(self) -> list[str]:
        """Which faults exist at all in this world (swarm): mixes that restart everything hide bugs."""
        if not hasattr(self, "_mix"):
            self._mix = [kind for kind in ("kill", "pause", "pause", "wipe") if self.loop.dice.random() < 0.6]
        return self._mix

    def _calm_down(self) -> None:
        calm = Odds(skew_s=self.odds.skew_s)
        self.store.odds = self.queue.odds = self.link.odds = calm


async def _noop(called: RunTask) -> Output:
    return Output(data=called.input or None)


def _swarm(loop: SimLoop) -> Odds:
    """Each kind of fault is there or not, and rare or common."""
    pick: Callable[[float], float] = lambda most: loop.dice.choice([0.0, 0.0, most / 4, most])  # noqa: E731
    return Odds(
        store_before=pick(0.1), store_after=pick(0.1), store_late=pick(0.1), queue_drop=pick(0.3),
        queue_twice=pick(0.4), queue_late=pick(0.3),
        link_before=pick(0.2), link_after=pick(0.2), skew_s=pick(300.0),
    )  # fmt: skip
