"""A house in memory with everything measured and watched, and the tools that are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from noetl.adapters.memory.queue import MemoryQueue
from noetl.adapters.memory.results import MemoryResults
from noetl.adapters.memory.store import MemoryStore
from noetl.clock import SystemClock
from noetl.control.deps import ControlHooks, ControlPorts, ControlSettings
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.ownership import PartitionOwners
from noetl.engine import Event
from noetl.engine.commands import Start
from noetl.engine.facts import Processed
from noetl.output import JSON
from noetl.telemetry.control_gauges import read_control
from noetl.telemetry.fact_metrics import FactMetrics
from noetl.telemetry.measured_ports import MeasuredLink, MeasuredQueue, MeasuredStore, PendingPointers
from noetl.telemetry.metrics import Metrics
from noetl.testing.simulator.cluster import Library
from noetl.tool import Tools
from noetl.views.log import events_of
from noetl.worker.calls import Toolbox
from noetl.worker.worker import Worker, WorkerPorts
from tests.playbooks import HEAD, kinds

T = TypeVar("T")
Watch = Callable[[LiveExecution, list[Event]], None]
ID = str(UUID(int=0x0199B3C2_0000_7000_8000_000000000001))


class WatchedHouse:
    """Playbooks are known by their paths; `watchers` are told of every commit after the meters."""

    def __init__(self, **bodies: str) -> None:
        self.clock, self.metrics, self.pending = SystemClock(), Metrics(), PendingPointers()
        self.truth = MemoryStore(self.clock, 1)
        self.store = MeasuredStore(self.truth, self.metrics, self.clock)
        self.queue = MeasuredQueue(MemoryQueue(), self.metrics, self.clock, self.pending)
        self.owners = PartitionOwners(self.truth, self.clock, "s", ttl_s=60.0, count=1)
        self.library = Library({path: HEAD + body for path, body in bodies.items()}, kinds())
        results = MemoryResults()
        reach = ControlPorts(self.store, self.queue, results)
        self.fact_metrics = FactMetrics(self.metrics)
        self.watchers: list[Watch] = [self.fact_metrics]
        hooks = ControlHooks(on_commit=(self._see,))
        self.control = Control(reach, self.library, self.owners, self.clock, ControlSettings(), hooks=hooks)
        self.link = MeasuredLink(self.control, self.metrics, self.clock, self.pending)
        read_control(self.metrics, self.control, self.clock, self.pending)
        self.toolbox = Toolbox(Tools.installed(), results)
        self.worker = Worker("w", WorkerPorts(self.link, self.queue, results), self.toolbox, self.clock)
        self._ended: dict[str, asyncio.Event] = {}

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        for watcher in self.watchers:
            watcher(live, events)
        if any(isinstance(event.fact, Processed) for event in events):
            self._ended.setdefault(live.id, asyncio.Event()).set()

    async def start(self, path: str, workload: dict[str, JSON] | None = None, id: str = ID) -> None:
        self._ended[id] = asyncio.Event()
        await self.link.start(id, path, Start(workload=workload or {}))

    async def end(self, id: str = ID) -> None:
        await self._ended.setdefault(id, asyncio.Event()).wait()
        self._ended[id] = asyncio.Event()

    async def whole(self, path: str, workload: dict[str, JSON] | None = None) -> list[Event]:
        """From its start to its end: its log."""
        await self.start(path, workload)
        await self.end()
        self.fact_metrics.flush()
        return await self.log()

    async def log(self, id: str = ID) -> list[Event]:
        return list(events_of(await self.truth.read(id)))


def run_house(house: WatchedHouse, work: Callable[[WatchedHouse], Awaitable[T]], slots: int = 4) -> T:
    async def main() -> T:
        await house.owners.renew(house.control.set_time)
        serving = [asyncio.ensure_future(house.worker.serve()) for _ in range(slots)]
        try:
            async with asyncio.timeout(30):
                return await work(house)
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            house.control.timers.close()
            await house.toolbox.close()

    return asyncio.run(main())


def whole(body: str, workload: dict[str, JSON] | None = None) -> tuple[WatchedHouse, list[Event]]:
    """One playbook, run: the house afterwards, and the log."""
    house = WatchedHouse(p=body)
    return house, run_house(house, lambda house: house.whole("p", workload))
