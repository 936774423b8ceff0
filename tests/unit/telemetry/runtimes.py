"""An in-memory runtime with measured ports and the installed tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar
from uuid import UUID

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from noetl.adapters.memory import MemoryQueue, MemoryStore
from noetl.clock import Clock, SystemClock
from noetl.control.deps import ControlHooks
from noetl.control.live_execution import LiveExecution
from noetl.engine import Event
from noetl.engine.facts import Processed
from noetl.net.program import Program
from noetl.output import JSON
from noetl.ports import Link
from noetl.telemetry.control_metrics import FactMetrics, read_control
from noetl.telemetry.measured import MeasuredLink, MeasuredQueue, MeasuredStore, PendingPointers
from noetl.telemetry.metrics import Metrics
from noetl.telemetry.spans import SpanData, Spans
from noetl.testing import runtime
from noetl.testing.memory_runtime import RuntimeParts
from noetl.views.log import events_of
from tests.playbooks import HEAD

T = TypeVar("T")
Watch = Callable[[LiveExecution, list[Event]], None]
ID = str(UUID(int=0x0199B3C2_0000_7000_8000_000000000001))


class MeasuredRuntime:
    """Playbooks by path. The meters see every commit first, and then the `watchers`."""

    def __init__(self, clock: Clock | None = None, **bodies: str) -> None:
        self.clock, self.metrics, self.pending = clock or SystemClock(), Metrics(), PendingPointers()
        memory = MemoryStore(self.clock, 1)
        self.store = MeasuredStore(memory, self.metrics, self.clock)
        self.fact_metrics = FactMetrics(self.metrics)
        self.watchers: list[Watch] = [self.fact_metrics]
        parts = RuntimeParts(
            store=memory,
            log=self.store,
            queue=MeasuredQueue(MemoryQueue(), self.metrics, self.clock, self.pending),
            link=self._measured,
            hooks=ControlHooks(on_commit=(self._see,)),
        )
        texts = {path: HEAD + body for path, body in bodies.items()}
        self.memory = runtime(texts, clock=self.clock, parts=parts, slots=0)
        self.control, self.link = self.memory.control, self.memory.link
        self.programs = self.memory.programs.programs
        read_control(self.metrics, self.control, self.clock, self.pending)
        self._ended: dict[str, asyncio.Event] = {}  # a retry ends an execution once more

    def _measured(self, link: Link) -> Link:
        return MeasuredLink(link, self.metrics, self.clock, self.pending)

    def _see(self, live: LiveExecution, events: list[Event]) -> None:
        for watcher in self.watchers:
            watcher(live, events)
        if any(isinstance(event.fact, Processed) for event in events):
            self._ended.setdefault(live.id, asyncio.Event()).set()

    async def start(self, path: str, workload: dict[str, JSON] | None = None) -> None:
        self._ended[ID] = asyncio.Event()
        await self.memory.start(path, workload, id=ID)

    async def end(self) -> None:
        await self._ended.setdefault(ID, asyncio.Event()).wait()
        self._ended[ID] = asyncio.Event()

    async def whole(self, path: str, workload: dict[str, JSON] | None = None) -> list[Event]:
        """Run a playbook to its end, and return its log."""
        await self.start(path, workload)
        await self.end()
        self.fact_metrics.flush()
        return await self.log()

    async def log(self, id: str = ID) -> list[Event]:
        return list(events_of(await self.memory.store.read(id)))


def run_in(measured: MeasuredRuntime, work: Callable[[MeasuredRuntime], Awaitable[T]], slots: int = 4) -> T:
    async def main() -> T:
        async with asyncio.timeout(60), measured.memory as memory:
            memory.add_slots(slots)
            return await work(measured)

    return asyncio.run(main())


def run_whole(body: str, workload: dict[str, JSON] | None = None) -> tuple[MeasuredRuntime, list[Event]]:
    """Run one playbook: the runtime afterwards, and the log."""
    measured = MeasuredRuntime(p=body)
    return measured, run_in(measured, lambda measured: measured.whole("p", workload))


def spans_of(execution_id: str, events: Iterable[Event], program: Program | None = None) -> list[SpanData]:
    """All ended spans of a log, in the order of their ends."""
    spans = Spans(execution_id, program)
    return [span for event in events for span in spans.feed(event)]


def rendered(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """The page and its content type, as the library serves it."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
