"""A worker takes pointers from the queue, begins frames with their owner, runs them and renews leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from noetl.background import BackgroundTasks
from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.defaults import LOG_CALL_BYTES
from noetl.errors import NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.output import JSON
from noetl.paging import PageReader
from noetl.ports import Claim, Grant, Link, LogSink, ResultStore, WorkQueue
from noetl.worker.call_logs import LogWriter
from noetl.worker.calls import ToolRun
from noetl.worker.fair_turns import FairTurns
from noetl.worker.frame_driver import LOOK_S, FrameDriver, LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Lineage, Refs
from noetl.worker.retry import RETRY_S
from noetl.worker.stored_values import CACHED_BYTES

LogLineHook: TypeAlias = Callable[[LogLine], None]
DRAIN_STEP_S = 0.05  # between two checks whether all calls have ended


class WorkerPorts(NamedTuple):
    """The ports that a worker uses."""

    link: Link
    queue: WorkQueue
    results: ResultStore
    keychain: Keychain | None = None  # None: tasks that need a credential fail
    logs: LogSink | None = None  # None: the lines that tasks print are not kept


class Worker:
    """Any number of slots that share one link."""

    def __init__(
        self,
        name: str,
        ports: WorkerPorts,
        tool: ToolRun,
        clock: Clock,
        *,
        on_log_line: Sequence[LogLineHook] = (),
        log_call_bytes: int = LOG_CALL_BYTES,
    ) -> None:
        """`on_log_line`: receive the lines and the progress that tools report."""
        self.name = name
        self.link, self.queue, self.results, self.keychain, logs = ports
        self.log_writer = None if logs is None else LogWriter(logs, clock, log_call_bytes)
        self.refs = Refs(self.results, self.link)
        self.lineage = Lineage(self.link)
        self.pages = PageReader(self.results)
        self.values: BoundedCache[str, tuple[int, JSON]] = BoundedCache(CACHED_BYTES, lambda entry: entry[0])
        self.tool = tool
        self.clock = clock
        self.on_log_line = on_log_line
        self.drivers: dict[tuple[str, str], FrameDriver] = {}
        self.turns = FairTurns(clock)
        self.draining = False  # whether it begins no more frames
        self._begins = 0  # requests for a frame that are not answered yet
        self._watch: asyncio.TimerHandle | None = None  # of the next look; None: there are no frames
        self._background = BackgroundTasks()

    async def serve(self) -> None:
        """One slot: claim a pointer, run its frame, repeat."""
        while not self.draining:
            try:
                claims = await self.queue.take(1)
            except Unavailable:
                await self.clock.sleep(RETRY_S)
                continue
            for claim in claims:
                await self._run_claim(claim)

    async def send_heartbeats(self, every_s: float) -> None:
        while True:
            await self.clock.sleep(every_s)
            await self.send_heartbeat()

    async def send_heartbeat(self) -> None:
        """Report the frames that we hold to their owners, and stop those that the owners name."""
        if holds := [(*held, driver.epoch) for held, driver in self.drivers.items()]:
            with suppress(Unavailable):
                self._stop(await self.link.beat(self.name, holds))

    def stop_claiming(self) -> None:
        """Begin no more frames."""
        self.draining = True

    async def drain(self, grace_s: float) -> None:
        """Begin no more frames, and wait for running calls. Calls that take longer are repeated elsewhere."""
        self.stop_claiming()
        await self.send_heartbeat()  # to stop calls whose step or execution has already ended
        for _ in range(int(grace_s / DRAIN_STEP_S)):
            # The owner has perhaps granted a frame whose answer is on its way.
            if not self.drivers and not self._begins:
                return
            await self.clock.sleep(DRAIN_STEP_S)

    async def close(self) -> None:
        """After `drain`: store the last lines that tasks have printed."""
        if self.log_writer is not None:
            await self.log_writer.close()

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run work in the background."""
        self._background.spawn(work)

    def _look(self) -> None:
        """One timer for all frames: a timer for each would be a noticeable part of the cost of a quick one."""
        for driver in list(self.drivers.values()):
            driver.look()
        self._watch = asyncio.get_running_loop().call_later(LOOK_S, self._look) if self.drivers else None

    def _stop(self, frames: Iterable[tuple[str, str]]) -> None:
        for held in frames:
            if held in self.drivers:
                self.drivers[held].stop()

    async def _run_claim(self, claim: Claim) -> None:
        execution_id, frame = claim.pointer.execution_id, claim.pointer.frame
        if self.draining or (execution_id, frame) in self.drivers:
            return  # another worker will claim it; or it is a second pointer to a frame that we run
        failpoint("worker.before-begin")
        self._begins += 1
        try:
            grant = await self.link.begin(execution_id, frame, self.name)
        except (Unavailable, NotFound, Rejected):
            return  # the pointer is lost; the sweeper sends another one
        finally:
            self._begins -= 1
        if grant is not None:
            committed, following = await self._run_frame(execution_id, grant)
            if not committed:
                return  # the queue may lag behind the log, but never be ahead of it
        else:
            following = ()
        failpoint("worker.before-ack")
        with suppress(Unavailable):
            await self.queue.done(claim)
        # A chain of steps does not pass through the queue: each answer brings the next frame for the slot.
        while following:
            _, following = await self._run_frame(execution_id, following[0])

    async def _run_frame(self, execution_id: str, grant: Grant) -> tuple[bool, tuple[Grant, ...]]:
        """Whether all results are committed, and the grants of the next frames."""
        held = (execution_id, grant.work.frame.id)
        self.turns.note(execution_id)
        driver = self.drivers[held] = FrameDriver(self, execution_id, grant)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        try:
            await driver.run()
        finally:
            if self.drivers.get(held) is driver:
                del self.drivers[held]
        return driver.committed, driver.following
