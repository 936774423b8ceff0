"""A house in memory, on the real loop, without a simulator around it: control, one worker, tools by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

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
from noetl.engine.facts import Fact, Processed
from noetl.engine.moves import RunTask
from noetl.output import JSON, Output
from noetl.ports import Link
from noetl.testing.simulator.cluster import Library
from noetl.worker.calls import CallContext, Toolbox
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.worker import Worker, WorkerPorts
from tests.playbooks import HEAD, kinds

T = TypeVar("T")
Answer = Callable[[RunTask], Awaitable[Output]]


async def echo(called: RunTask) -> Output:
    return Output(data=called.input or None)


class Told(NamedTuple):
    execution_id: str
    fact: Fact


class MemoryHouse:
    """What has been committed stands in `told`, of all executions, in the order of commits."""

    def __init__(
        self,
        bodies: dict[str, str],
        answer: Answer | Toolbox = echo,
        settings: ControlSettings | None = None,
        *,
        hooks: ControlHooks | None = None,
        keychain: Keychain | None = None,
        link: Callable[[Link], Link] = lambda link: link,
    ) -> None:
        """`link`: around the worker's link to control."""
        self.clock = SystemClock()
        self.store = MemoryStore(self.clock, 1)
        self.queue, self.results = MemoryQueue(), MemoryResults()
        library = Library({path: HEAD + body for path, body in bodies.items()}, kinds())
        self.owners = PartitionOwners(self.store, self.clock, "s", ttl_s=60.0, count=1)
        reach = ControlPorts(self.store, self.queue, self.results)
        hooks = (hooks or ControlHooks())._replace(on_commit=(self._see,))
        self.control = Control(
            reach, library, self.owners, self.clock, settings or ControlSettings(), hooks=hooks
        )
        self.lines: list[LogLine] = []
        ports = WorkerPorts(link(self.control), self.queue, self.results, keychain)
        self.worker = Worker("w", ports, self._call, self.clock, on_log_line=[self.lines.append])
        self._answer = answer
        self.told: list[Told] = []
        self._ended: dict[str, asyncio.Event] = {}

    async def _call(self, called: RunTask, context: CallContext) -> Output:
        answer = self._answer
        return await (answer(called, context) if isinstance(answer, Toolbox) else answer(called))

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        for event in events:
            self.told.append(Told(live.id, event.fact))
            if isinstance(event.fact, Processed):
                self._ended.setdefault(live.id, asyncio.Event()).set()

    async def start(self, execution_id: str, path: str, workload: dict[str, JSON] | None = None) -> None:
        await self.control.start(execution_id, path, Start(workload=workload or {}))

    def spawn_worker(self) -> None:
        """Another slot, while it lasts."""
        self.worker.spawn(self.worker.serve())

    async def end(self, execution_id: str) -> None:
        await self._ended.setdefault(execution_id, asyncio.Event()).wait()


def run_house(house: MemoryHouse, work: Callable[[MemoryHouse], Awaitable[T]], slots: int = 4) -> T:
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

    return asyncio.run(main())
