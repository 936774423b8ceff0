"""A simulated cluster: servers and workers as processes that are killed and paused."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from noetl.adapters.memory import MemoryResults
from noetl.adapters.memory_limits import MemoryLimits
from noetl.control.deps import ControlHooks, ControlPorts, ControlSettings
from noetl.control.dispatch import Outbox
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.ownership import PartitionOwners
from noetl.control.sweeper import sweep
from noetl.engine.commands import Cancel, Command, Pause, Resume, Retry, Start
from noetl.engine.facts import ForkOrigin, Processed, Requested
from noetl.engine.moves import RunTask
from noetl.engine.state import State
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.fork.audit import ForkPrograms, fork_findings, origin_of
from noetl.output import Output, failed
from noetl.ports import LogRow
from noetl.testing.memory_runtime import MemoryPrograms
from noetl.testing.scenario import audit
from noetl.testing.simulator.liveness import Liveness
from noetl.testing.simulator.loop import SimLoop
from noetl.testing.simulator.network import Outage, SimNetwork, random_outages
from noetl.testing.simulator.ports import FaultRates, SimClock, SimLink, SimQueue, SimStore
from noetl.testing.simulator.signals import SimSignal, SimSignals
from noetl.views.log import events_of
from noetl.views.replay import differences
from noetl.worker.calls import CallContext
from noetl.worker.worker import Worker, WorkerPorts

_COMMANDS: tuple[tuple[Command, ...], ...] = (
    (Pause(), Resume()), (Cancel(),), (Cancel(), Retry(), Retry()),
    (Cancel(compensate=True),), (Cancel(compensate=True), Cancel(), Retry()),
)  # fmt: skip
PARTITIONS = 4
TTL_S = 5.0  # of a partition, and of a granted frame
FAULTS_S = (15.0, 30.0, 30.0, 60.0)  # the phase with faults lasts for one of these
FAULT_EVERY_S = 0.8  # on average
END_S = 300.0  # all executions end before
LATE_S = 5.0  # at most: until a request that the store has delayed takes effect
RECOVERY_S = TTL_S + 5.0  # after the end of all faults, all work that is due continues within this time
CHECK_S = 0.25  # between two checks of that
MACHINES = (("s", 0), ("s", 1), ("w", 0), ("w", 1), ("w", 2))


class SimComponents(NamedTuple):
    """The classes that a cluster consists of. Tests replace one to plant a bug."""

    control: type[Control] = Control
    worker: type[Worker] = Worker
    store: type[SimStore] = SimStore
    sweep: Callable[[Control], Awaitable[None]] = sweep
    outbox: type[Outbox] = Outbox


class SimFork(NamedTuple):
    """A fork that is started while the faults last."""

    of: str  # execution
    path: str  # of the edited playbook
    after_s: float  # virtual seconds after the start of the execution


class SimResult(NamedTuple):
    """The result of one simulation."""

    states: dict[str, State]  # by execution
    faults: int
    seconds: float  # of virtual time
    steps: int


class SimCluster:
    """Two servers and three workers; a seed determines everything that happens."""

    def __init__(
        self,
        seed: int,
        programs: MemoryPrograms,
        *,
        calm: bool = False,
        components: SimComponents | None = None,
        outages: Sequence[Outage] | None = None,
    ) -> None:
        """`outages`: None: at random. `calm`: there are no faults but these."""
        self.loop = SimLoop(seed)  # type: ignore[abstract]  # the missing methods must not be used
        self.components = components or SimComponents()
        self.rates = FaultRates() if calm else _swarm(self.loop)
        self.faults_s = 0.0 if calm else self.loop.random.choice(FAULTS_S)
        if outages is None:
            outages = () if calm else random_outages(self.loop, [f"{kind}{number}" for kind, number in MACHINES])
        if outages and self.loop.random.random() < 0.4:
            self.faults_s = 0.0  # no other faults: restarts after an outage would hide what it has damaged
        self.outages = outages
        self.network = SimNetwork(self.loop, [cut for outage in outages for cut in outage.cuts])
        self.store = self.components.store(self.loop, self.rates, PARTITIONS, self.network)
        self.queue = SimQueue(self.loop, self.rates, self.store, self.network)
        self.link = SimLink(self.loop, self.rates, self.store, self.network)
        self.signals = SimSignals(self.loop, self.link, self.store)
        self.results = MemoryResults()
        self.limits = MemoryLimits()
        self.programs = programs
        self.effects: dict[str, int] = {}
        self.tools: dict[str, Callable[[RunTask], Awaitable[Output]]] = {"http": self._tool, "noop": _noop}
        self.processes: dict[tuple[str, int], str] = {}  # server or worker → its current process
        self.workers: dict[str, Worker] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self.faults = 0
        self._quiet_at: float | None = None  # when the last fault has ended; None: they go on
        self._paused_until = 0.0  # the end of the last pause of a process
        self.liveness = Liveness(self.store.memory.rows, RECOVERY_S)

    def run(
        self,
        starts: dict[str, tuple[str, dict[str, object]]],
        commands: bool = False,
        forks: Mapping[str, SimFork] = MappingProxyType({}),
        signals: Sequence[SimSignal] = (),
    ) -> SimResult:
        """Start executions (id → path and workload) and forks, inject faults for a while, and wait for all ends.

        `signals`: those that the executions wait for.
        """
        for signal in signals:
            self.signals.send(signal)
        self.loop.run(self._main(starts, commands, forks))
        for crash in self.loop.crashes:
            raise AssertionError(f"a task crashed: {type(crash).__name__}: {crash}") from crash
        rows = self.store.memory.rows
        states = {execution_id: audit(execution_id, list(each)) for execution_id, each in rows.items()}
        for execution_id in rows:
            self._audit_fork(execution_id)
        assert not self.store.violations, self.store.violations[0]
        self.signals.check()
        for execution_id, live in self._settled():
            found = differences(states[execution_id], live.state)
            assert not found, f"{execution_id}: the state in memory differs from the log: {found[0]}"
        return SimResult(states, self.faults, self.loop.time(), self.loop.steps)

    def _audit_fork(self, execution_id: str) -> None:
        """A fork's log and the one that it refers to are valid together. Raises AssertionError."""
        rows = self.store.memory.rows
        if (fork := origin_of(events_of(rows[execution_id]))) is None:
            return
        origin = rows[fork.execution]
        old, new = (self.programs.programs[_digest(each)] for each in (origin, rows[execution_id]))
        found = fork_findings(execution_id, events_of(rows[execution_id]), events_of(origin), ForkPrograms(old, new))
        assert not found, f"{execution_id}: " + "; ".join(f"{each.seq} {each.code}: {each.message}" for each in found)

    def history(self) -> str:
        """A digest of all logs: the same seed gives the same digest."""
        return hashlib.sha256(repr(sorted(self.store.memory.rows.items())).encode()).hexdigest()

    def _settled(self) -> Iterator[tuple[str, LiveExecution]]:
        """The executions in the memory of servers whose state includes the whole log."""
        for _, control in self.link.servers.values():
            for execution_id, live in control.executions.items():
                head = self.store.memory.rows[execution_id][-1]
                if not live.busy and live.state.seq == head.first_seq + len(head.facts) - 1:
                    yield execution_id, live

    async def _main(
        self, starts: dict[str, tuple[str, dict[str, object]]], commands: bool, forks: Mapping[str, SimFork]
    ) -> None:
        clock = SimClock(self.loop)
        for kind, number in MACHINES:
            self._start_process(kind, number)
        for outage in self.outages:
            self.loop.spawn("main", self._crash(outage))
        for execution_id, (path, workload) in starts.items():
            self.loop.spawn("main", self._start(execution_id, path, workload))
        for execution_id, fork in forks.items():
            self.loop.spawn("main", self._start_fork(execution_id, fork))
        if commands:
            self.loop.spawn("main", self._send_commands(list(starts)))
        while not await self._all_over([*starts, *forks]):
            is_quiet = self._quiet_at is not None and self.loop.time() >= self._quiet_at
            await clock.sleep(CHECK_S if is_quiet else self.loop.random.random() * 2 * FAULT_EVERY_S)
            assert not self.store.violations, self.store.violations[0]
            assert self.loop.time() < END_S, f"liveness: executions have not ended after {END_S:.0f} virtual seconds"
            if is_quiet:
                self.liveness.check(self.loop.time(), clock.now())
            elif self.loop.time() < self.faults_s:
                self._fault()
            else:
                self._stop_faults()

    async def _crash(self, outage: Outage) -> None:
        if outage.crash:
            await SimClock(self.loop).sleep(outage.crash_s)
            self._kill((outage.crash[0], int(outage.crash[1:])))

    async def _start(self, execution_id: str, path: str, workload: dict[str, object]) -> None:
        clock = SimClock(self.loop)
        while execution_id not in self.store.memory.rows:
            try:
                await self.link.start(execution_id, path, Start(workload=workload))
            except Unavailable:
                await clock.sleep(0.5)

    async def _start_fork(self, execution_id: str, fork: SimFork) -> None:
        clock, rows = SimClock(self.loop), self.store.memory.rows
        while fork.of not in rows:
            await clock.sleep(0.1)
        await clock.sleep(fork.after_s)
        head = rows[fork.of][-1]
        start = Start(fork=ForkOrigin(execution=fork.of, seq=head.first_seq + len(head.facts) - 1))
        while execution_id not in rows:
            try:
                await self.link.start(execution_id, fork.path, start)
            except Unavailable:
                await clock.sleep(0.5)

    async def _send_commands(self, executions: list[str]) -> None:
        """Pause, resume, cancel and retry executions at random moments; a command may be rejected."""
        clock, random = SimClock(self.loop), self.loop.random
        for _ in range(6):
            await clock.sleep(random.random() * 8)
            execution_id = random.choice(executions)
            for command in random.choice(_COMMANDS):
                await self._send(execution_id, command)
                await clock.sleep(random.random() * 3)
        # A delayed pause may arrive after its resume, so that a last resume is necessary.
        await clock.sleep(self.faults_s)
        for execution_id in executions:
            await self._send(execution_id, Resume())

    async def _send(self, execution_id: str, command: Command) -> None:
        for _ in range(60):
            try:
                await self.link.command(execution_id, command)
                return
            except (Rejected, NotFound):
                return
            except Unavailable:
                await SimClock(self.loop).sleep(0.5)

    async def _all_over(self, starts: Iterable[str]) -> bool:
        """Everything has ended, and all notifications have started."""
        memory = self.store.memory
        if await memory.unnotified(datetime.max.replace(tzinfo=UTC), 1):
            return False
        return all(self._ended(execution_id) for execution_id in {*starts, *memory.rows})

    def _ended(self, execution_id: str) -> bool:
        rows = self.store.memory.rows.get(execution_id)
        return rows is not None and isinstance(rows[-1].facts[-1], Processed)

    def _start_process(self, kind: str, number: int) -> None:
        self._starts[kind, number] = self._starts.get((kind, number), 0) + 1
        process = f"{kind}{number}.{self._starts[kind, number]}"
        self.processes[kind, number] = process
        skew = (self.loop.random.random() * 2 - 1) * self.rates.skew_s
        self.loop.spawn(process, self._serve(process, skew) if kind == "s" else self._work(process, skew))

    async def _serve(self, process: str, skew: float) -> None:
        clock = SimClock(self.loop, skew)
        reach = ControlPorts(
            self.store, self.components.outbox(self.queue, clock), self.results, self.link, self.limits, self.store
        )
        settings = ControlSettings(
            lease_s=TTL_S, resend_s=3.0, items_bytes=4, snapshot_bytes=2_000, window=8, settle_s=0.5, idle_s=0.5,
            slot_reserve=0.25,
            lost_max=1_000,  # workers are lost at random here, never because of a call
        )  # fmt: skip
        owners = PartitionOwners(self.store, clock, process, ttl_s=TTL_S, count=PARTITIONS)
        hooks = ControlHooks(on_load=(self._poll_workers,), use_own_slot=self.queue.give)
        control = self.components.control(reach, self.programs, owners, clock, settings, hooks=hooks)
        self.link.servers[process] = (process, control)
        await owners.renew(control.set_time)
        self.loop.spawn(process, self._renew(owners, control))
        while True:
            await self.components.sweep(control)
            await clock.sleep(TTL_S / 3)

    async def _renew(self, owners: PartitionOwners, control: Control) -> None:
        """Beside the sweeps, which an outage may block for longer than a lease."""
        while True:
            await control.clock.sleep(TTL_S / 3)
            await owners.renew(control.set_time)

    async def _work(self, process: str, skew: float) -> None:
        clock = SimClock(self.loop, skew)
        outside = WorkerPorts(self.link, self.queue, self.results)
        worker = self.components.worker(process, outside, self._call, clock)
        self.workers[process] = worker
        for _ in range(3):
            self.loop.spawn(process, worker.serve())
        await worker.send_heartbeats(TTL_S / 3)

    async def _call(self, called: RunTask, _context: CallContext) -> Output:
        return await self.tools[called.task.kind](called)

    async def _tool(self, called: RunTask) -> Output:
        """A call with an effect: its output depends only on the key and the attempt."""
        await SimClock(self.loop).sleep(self.loop.random.random() * 2)
        self.effects[called.key] = self.effects.get(called.key, 0) + 1
        number = int(hashlib.sha256(f"{called.key}{called.attempt}".encode()).hexdigest()[:6], 16)
        if number % 5 == 0:
            return failed("http", "random failure", retryable=True)
        return Output(data=number % 100)

    def _poll_workers(self) -> None:
        """Every live worker reports the frames that it holds; some reports are lost."""
        here = self.network.here()
        for (kind, number), process in self.processes.items():
            worker = self.workers.get(process)
            if worker is not None and self.network.is_lost(here, f"{kind}{number}") is None:
                self.loop.spawn(process, worker.send_heartbeat())

    def _fault(self) -> None:
        random = self.loop.random
        role = list(self.processes)[random.randrange(len(self.processes))]
        kinds = self.fault_kinds
        fault = kinds[random.randrange(len(kinds))] if kinds else ""
        self.faults += 1
        if fault == "kill":
            self._kill(role)
        elif fault == "pause":
            pause_s = random.random() * 12
            self._paused_until = max(self._paused_until, self.loop.time() + pause_s)
            self.loop.pause(self.processes[role], pause_s)
        elif fault == "wipe":
            self.queue.wipe()

    def _kill(self, role: tuple[str, int]) -> None:
        """Like kill -9. A new process starts at once; the leases of the killed one have not expired."""
        self.loop.kill(self.processes[role])
        self.link.servers.pop(self.processes[role], None)
        self.queue.lose_takers()
        self._start_process(*role)

    @property
    def fault_kinds(self) -> list[str]:
        """The faults of this seed (swarm testing): with all of them, restarts would hide bugs."""
        if not hasattr(self, "_fault_kinds"):
            self._fault_kinds = [kind for kind in ("kill", "pause", "pause", "wipe") if self.loop.random.random() < 0.6]
        return self._fault_kinds

    def _stop_faults(self) -> None:
        rates = FaultRates(skew_s=self.rates.skew_s)
        self.store.rates = self.queue.rates = self.link.rates = rates
        if self._quiet_at is None:
            ends = [outage.end_s for outage in self.outages]
            self._quiet_at = max(self._paused_until, self.loop.time() + LATE_S, *ends)


def _digest(rows: Sequence[LogRow]) -> str:
    first = rows[0].facts[0]
    assert isinstance(first, Requested)
    return first.digest


async def _noop(called: RunTask) -> Output:
    return Output(data=called.input or None)


def _swarm(loop: SimLoop) -> FaultRates:
    """Each kind of fault is absent, rare or common."""
    pick: Callable[[float], float] = lambda most: loop.random.choice([0.0, 0.0, most / 4, most])  # noqa: E731
    return FaultRates(
        store_before=pick(0.1), store_after=pick(0.1), store_late=pick(0.1), queue_drop=pick(0.3),
        queue_twice=pick(0.4), queue_late=pick(0.3),
        link_before=pick(0.2), link_after=pick(0.2), skew_s=pick(300.0), direct=pick(1.0),
    )  # fmt: skip
